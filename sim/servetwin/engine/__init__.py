"""One engine: scheduler state, KV blocks, and the process that runs its steps."""
