"""Submitting: descriptions, ads, input files."""
