"""``fetchwork runs``: every try at a job."""

from __future__ import annotations

import click

from fetchwork.cli import options, output
from fetchwork.queue import Queue


@click.command(cls=options.HTCondorCommand)
@click.argument("jobs", metavar="JOB...", nargs=-1)
@options.constraint_option
@click.option(
    "-limit", "--limit", type=click.IntRange(0), default=100, show_default=True, help="At most so many."
)
@options.json_option
@options.connected
def cli(queue: Queue, jobs: tuple[str, ...], constraints: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Show every run of a job, most recent first: where it ran, how it ended, and why.

    Constraints refer to attributes of the run: Outcome, Host, RemoteHost, State, ExitCode, Owner, ClusterId,
    ...

    \b
    Example:
      fetchwork runs 42.0
      fetchwork runs -constraint 'Outcome == "could_not_start"'
    """
    from fetchwork.queue import reading as steps
    from fetchwork.queue.views import RUNS

    found = list(
        queue.each(steps.ads(RUNS, options.jobs_constraint(jobs, constraints), queue.memory, limit=limit))
    )
    if as_json:
        output.print_json_list(found)
        return
    times = {
        row["runid"]: row
        for row in queue.database.query(
            "SELECT runid, extract(epoch FROM claimed_at)::float8 AS claimed,"
            " extract(epoch FROM started_at)::float8 AS started, extract(epoch FROM"
            " ended_at)::float8 AS ended"
            " FROM fetchwork.runs WHERE runid = ANY(%s)",
            [[ad["RunId"] for ad in found]],
        )
    }
    rows = []
    for ad in found:
        when = times.get(ad["RunId"], {"claimed": None, "started": None, "ended": None})
        signal, code = ad.get("ExitSignal"), ad.get("ExitCode")
        lasted = output.run_time(when["ended"] - when["started"]) if when["started"] and when["ended"] else ""
        rows.append(
            [
                f"{ad['ClusterId']}.{ad['ProcId']}",
                ad["RunId"],
                ad.get("RemoteHost"),
                output.moment(when["claimed"]),
                lasted,
                ad.get("Outcome") or ad.get("State"),
                f"-{signal}" if signal is not None else code,
                " ".join(str(ad.get("Reason") or "").split()),
            ]
        )
    output.table(
        ("JOB", "RUN", "SLOT", "CLAIMED", "RUN_TIME", "OUTCOME", "EXIT", "REASON"), rows, right=(1, 6)
    )
