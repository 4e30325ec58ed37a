"""Explains why a job does not run, and which jobs a slot may run."""
