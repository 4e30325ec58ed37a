"""``fetchwork rm``."""

from fetchwork.cli.acting import command

cli = command(
    "Remove",
    "marked for removal",
    "being removed already",
    """Remove jobs.

A waiting job is removed at once. A running job is ended at its next update, and then leaves the queue.

\b
Example:
  fetchwork rm 42.0
  fetchwork rm 42 43
  fetchwork rm alice -reason 'wrong input'
  fetchwork rm -constraint 'NumJobStarts > 5'
    """,
)
