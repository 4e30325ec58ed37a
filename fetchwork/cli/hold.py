"""``fetchwork hold``."""

from fetchwork.cli.acting import command

cli = command(
    "Hold",
    "held",
    "held already, or being removed",
    """Hold jobs.

A running job is ended at its next update. Held jobs wait for a slot again after `fetchwork release`.

\b
Example:
  fetchwork hold 42.0 -reason 'waiting for input'
  fetchwork hold -constraint 'RequestMemory > 8192'
    """,
)
