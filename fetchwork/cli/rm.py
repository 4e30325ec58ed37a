"""``fetchwork rm``."""

from fetchwork.cli.acting import command

cli = command(
    "Remove",
    "marked for removal",
    "being removed already",
    """Remove jobs.

A job that waits is gone at once; one that runs is ended at its next update, and leaves the queue then.

\b
Example:
  fetchwork rm 42.0
  fetchwork rm 42 43
  fetchwork rm alice -reason 'wrong input'
  fetchwork rm -constraint 'NumJobStarts > 5'
    """,
)
