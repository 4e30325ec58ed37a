"""The agent: the one resident process of a host, which the hooks talk to."""
