"""The thin client of an access point: what a command that is called a thousand times a minute may import."""
