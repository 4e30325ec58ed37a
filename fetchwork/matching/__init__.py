"""The jobs that a slot may get, and their order."""
