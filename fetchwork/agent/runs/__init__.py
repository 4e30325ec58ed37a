"""Running jobs: their starters, updates, use, output and ends."""
