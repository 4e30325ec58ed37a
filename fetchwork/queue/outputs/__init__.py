"""Outputs: live, and their delivery to destinations."""
