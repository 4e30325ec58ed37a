"""``fetchwork rm``."""

from fetchwork.cli.acting import command

cli = command(
    "Remove",
    "marked for removal",
    "being removed already",
    """Remove jobs.

A waiting job is removed at once. A running job is ended by its host, and leaves the
queue when its process is gone: until then its status is X. With -forcex it leaves at once.

\b
Example:
  fetchwork rm 42.0
  fetchwork rm 42 43
  fetchwork rm alice -reason 'wrong input'
  fetchwork rm -constraint 'NumJobStarts > 5'
  fetchwork rm 42.0 -forcex
    """,
)
