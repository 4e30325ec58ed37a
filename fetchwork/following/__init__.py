"""Following jobs: event logs, live output, progress."""
