"""``fetchwork submitters``: what condor_userprio shows."""

from __future__ import annotations

import click

from fetchwork.cli import options, output
from fetchwork.queue import Queue


@click.command()
@options.json_option
@options.connected
def cli(queue: Queue, as_json: bool) -> None:
    """Show who uses how much, and who is next: the smallest priority value is served first.

    \b
    Example:
      fetchwork submitters
    """
    rows = queue.database.query(
        "SELECT name, priority, realpriority, priorityfactor, runningjobs, maxrunning,"
        " weightedusage, accumulatedusage"
        " FROM fetchwork.submitters ORDER BY priority, name"
    )
    if as_json:
        output.print_json(rows)
        return
    lines = [
        [
            row["name"],
            output.number(row["priority"]),
            output.number(row["priorityfactor"]),
            row["runningjobs"],
            row["maxrunning"],
            output.number(row["accumulatedusage"] / 3600),
        ]
        for row in rows
    ]
    output.table(
        ("SUBMITTER", "PRIORITY", "FACTOR", "RUNNING", "LIMIT", "USAGE_HOURS"), lines, right=(1, 2, 3, 4, 5)
    )
