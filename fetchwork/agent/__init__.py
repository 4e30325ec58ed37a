"""The agent: the one resident process of a host, which answers the hooks."""
