"""The access point: the resident service of a host where people submit (ACCESSPOINT.md)."""
