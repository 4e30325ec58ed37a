"""What a host knows between requests: its keywords, sessions with databases, runs and their starters."""
