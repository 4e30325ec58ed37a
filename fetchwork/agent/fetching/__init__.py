"""Fetches that wait, and the match rounds that they share."""
