"""A host's state between requests: keywords, sessions with databases, runs and their starters."""
