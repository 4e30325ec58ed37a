"""Fetches that wait, and the rounds of matching that they share."""
