"""The same requests through several scenarios: what changes, what it costs, and how sure that is."""
