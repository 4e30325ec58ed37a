"""``fetchwork vacate``."""

from fetchwork.cli.acting import command

cli = command(
    "Vacate",
    "told to end",
    "not running",
    """End the runs of running jobs, so that they run again.

Each job is ended at its next update, with its own kill signal and within its own vacate time, and then waits
again.

\b
Example:
  fetchwork vacate 42.0
  fetchwork vacate -constraint 'RemoteHost == "slot1@ep17"'
    """,
)
