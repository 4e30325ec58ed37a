"""Which jobs a slot may get, and in which order."""
