"""Following jobs: event logs, log files, progress."""
