"""``fetchwork queue``: the queues of a database."""

from __future__ import annotations

from typing import Any

import click

from fetchwork.cli import options, output
from fetchwork.cli.prio import whole_or_none
from fetchwork.queue import Queue


@click.command()
@click.argument("name", required=False)
@click.option(
    "--pause/--resume", "paused", default=None, help="Stop offering its jobs to slots, or offer them again."
)
@click.option("--drain/--open", "draining", default=None, help="Refuse new jobs, or accept them again.")
@click.option(
    "--max-running", metavar="N", help="Run at most this many of its jobs at once; 'none' for no limit."
)
@click.option(
    "--preempt-ratio",
    metavar="X",
    help="A waiting job whose submitter's priority is X times better may end a running one; 'none'"
    " turns this off.",
)
@click.option(
    "--preempt-prio",
    metavar="N",
    help="A waiting job whose JobPrio is N higher may end a running one of its submitter; 'none'"
    " turns this off.",
)
@options.json_option
@options.connected
def cli(
    queue: Queue,
    name: str | None,
    paused: bool | None,
    draining: bool | None,
    max_running: str | None,
    preempt_ratio: str | None,
    preempt_prio: str | None,
    as_json: bool,
) -> None:
    """Show, make and change queues.

    A host's keyword says which queues its slots draw from. A queue NAME that does not exist yet is created.

    \b
    Example:
      fetchwork queue
      fetchwork queue urgent
      fetchwork queue default --pause
      fetchwork queue urgent --max-running 100
    """
    changes: dict[str, Any] = {}
    if paused is not None:
        changes["paused"] = paused
    if draining is not None:
        changes["draining"] = draining
    if max_running is not None:
        changes["max_running"] = whole_or_none("--max-running", max_running)
    if preempt_prio is not None:
        changes["preempt_prio"] = whole_or_none("--preempt-prio", preempt_prio)
    if preempt_ratio is not None:
        try:
            changes["preempt_ratio"] = None if preempt_ratio == "none" else float(preempt_ratio)
        except ValueError:
            raise click.UsageError(
                f"option '--preempt-ratio' is '{preempt_ratio}'; allowed: a number above 1, or 'none'"
            ) from None
    if changes and name is None:
        raise click.UsageError("no queue named")
    if name is not None:
        queue.database.call("set_queue", name=name, changes=changes)
    rows = queue.database.query(
        "SELECT q.name, q.paused, q.draining, q.maxrunning, q.preemptratio, q.preemptprio,"
        " coalesce(sum(t.idle), 0)::bigint AS idle, coalesce(sum(t.running), 0)::bigint AS running,"
        " coalesce(sum(t.held), 0)::bigint AS held FROM fetchwork.queues AS q"
        " LEFT JOIN fetchwork.totals AS t ON t.fetchworkqueue = q.name"
        " WHERE %s::text IS NULL OR q.name = %s GROUP BY q.name, q.paused, q.draining, q.maxrunning,"
        " q.preemptratio, q.preemptprio"
        " ORDER BY q.name",
        [name, name],
    )
    if as_json:
        output.print_json(rows)
        return
    cells = [
        [
            row["name"],
            " ".join(word for word, on in (("paused", row["paused"]), ("draining", row["draining"])) if on)
            or "open",
            row["idle"],
            row["running"],
            row["held"],
            row["maxrunning"],
            row["preemptratio"],
            row["preemptprio"],
        ]
        for row in rows
    ]
    heading = ("QUEUE", "STATE", "IDLE", "RUN", "HOLD", "MAX_RUN", "PREEMPT_RATIO", "PREEMPT_PRIO")
    output.table(heading, cells, right=(2, 3, 4, 5, 6, 7))
