"""``fetchwork hold``."""

from fetchwork.cli.acting import command

cli = command(
    "Hold",
    "held",
    "held already, or being removed",
    """Hold jobs.

A job that runs is ended at its next update. Release lets held jobs wait for a slot again.

\b
Example:
  fetchwork hold 42.0 -reason 'waiting for input'
  fetchwork hold -constraint 'RequestMemory > 8192'
    """,
)
