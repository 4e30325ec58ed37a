"""``fetchwork watch``: the queue, kept up to date on the screen."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from fetchwork.cli import options, output
from fetchwork.queue import Queue

if TYPE_CHECKING:
    from rich.table import Table


@click.command()
@click.argument("jobs", metavar="[JOB|OWNER]...", nargs=-1)
@options.constraint_option
@click.option(
    "-i",
    "--interval",
    type=click.FloatRange(0.05),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks.",
)
@click.option("--until-empty", is_flag=True, help="End when no job is left.")
@options.connected
def cli(
    queue: Queue, jobs: tuple[str, ...], constraints: tuple[str, ...], interval: float, until_empty: bool
) -> None:
    """Show the queue, and go on showing it; Ctrl-C ends it.

    All jobs by owner, or with jobs, owners or a constraint these by batch. Where there is no terminal, a line for
    every change.

    \b
    Example:
      fetchwork watch
      fetchwork watch 42 --until-empty
    """
    constraint = options.jobs_constraint(jobs, constraints) if jobs or constraints else None
    plain = not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb"
    try:
        if plain:
            _lines(queue, constraint, interval, until_empty)
        else:
            _live(queue, constraint, interval, until_empty)
    except KeyboardInterrupt:
        # the way out
        return


def _look(queue: Queue, constraint: str | None) -> list[dict[str, Any]]:
    from fetchwork.queue import summaries

    if constraint is None:
        rows = queue.run(summaries.totals("owner"))
        return [{**row, "name": row["owner"], "done": row["completed"]} for row in rows]
    rows = queue.run(summaries.batches(constraint, queue.memory))
    return [{**row, "name": f"{row['owner']} {row['batch']}", "ending": row["removed"]} for row in rows]


def _lines(queue: Queue, constraint: str | None, interval: float, until_empty: bool) -> None:
    before = None
    while True:
        rows = _look(queue, constraint)
        counts = {
            name: sum(row[name] for row in rows) for name in ("jobs", "idle", "running", "held", "done")
        }
        if counts != before:
            before = counts
            told = ", ".join(f"{counts[name]} {name}" for name in ("idle", "running", "held", "done"))
            click.echo(f"{time.strftime('%H:%M:%S')} {counts['jobs']} jobs: {told}")
            sys.stdout.flush()
        if until_empty and not counts["jobs"]:
            return
        time.sleep(interval)


def _live(queue: Queue, constraint: str | None, interval: float, until_empty: bool) -> None:
    from rich.live import Live

    with Live(auto_refresh=False, screen=False) as live:
        while True:
            rows = _look(queue, constraint)
            live.update(_table(rows), refresh=True)
            if until_empty and not any(row["jobs"] for row in rows):
                return
            time.sleep(interval)


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table(title=f"queue at {time.strftime('%H:%M:%S')}", title_justify="left", box=None)
    table.add_column("WHOSE")
    table.add_column("", width=24)
    for heading in ("IDLE", "RUN", "HOLD", "DONE", "TOTAL"):
        table.add_column(heading, justify="right")
    for row in rows:
        total = row["jobs"] + row["done"]
        table.add_row(
            row["name"],
            ProgressBar(total=max(1, total), completed=row["done"], width=24),
            *(output.number(row[name], 0) for name in ("idle", "running", "held", "done")),
            str(total),
        )
    return table
