"""The network: links and the flows that share them, nodes and racks, and which GPUs a replica lies on."""
