"""The cluster: gateway, fleet, pools and replicas."""
