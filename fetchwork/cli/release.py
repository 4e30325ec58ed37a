"""``fetchwork release``."""

from fetchwork.cli.acting import command

cli = command(
    "Release",
    "released",
    "not held",
    """Release held jobs.

\b
Example:
  fetchwork release 42.0
  fetchwork release -constraint 'HoldReasonCode == 6'
    """,
)
