"""``fetchwork runs``: every run of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession

_PROJECTION = (
    "ClusterId", "ProcId", "RunId", "RemoteHost", "State", "Outcome", "Reason", "ExitCode", "ExitSignal",
    "FetchWorkChain", "JobCurrentStartDate", "JobCurrentStartExecutingDate", "EpochWriteDate",
)  # fmt: skip


@click.command(cls=options.HTCondorCommand)
@click.argument("jobs", metavar="JOB...", nargs=-1)
@options.constraint_option
@click.option(
    "-limit",
    "--limit",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Show at most this many runs.",
)
@options.json_option
@options.performing
def cli(
    session: AnySession, jobs: tuple[str, ...], constraints: tuple[str, ...], limit: int, as_json: bool
) -> None:
    """Show every run of a job, most recent first: where it ran, how it ended, and why.

    CHAIN is the first run of the chain of which it was part: such runs share a starter. Constraints refer to
    attributes of the run: Outcome, Host, RemoteHost, State, ExitCode, FetchWorkChain, Owner,
    ClusterId, ...

    \b
    Example:
      fetchwork runs 42.0
      fetchwork runs -constraint 'Outcome == "could_not_start"'
    """
    from fetchwork.queue.reading.selecting import parse_id

    constraint = options.jobs_constraint(jobs, constraints)
    for word in jobs:
        if (job := parse_id(word)) is not None:
            options.require_job(session, *job)
    if as_json:
        output.print_json_list(session.items("view", name="runs", constraint=constraint, limit=limit))
        return
    rows = []
    for ad in session.items("view", name="runs", constraint=constraint, projection=_PROJECTION, limit=limit):
        signal, code = ad.get("ExitSignal"), ad.get("ExitCode")
        started, ended = ad.get("JobCurrentStartExecutingDate"), ad.get("EpochWriteDate")
        rows.append(
            [
                f"{ad['ClusterId']}.{ad['ProcId']}",
                ad["RunId"],
                ad.get("RemoteHost"),
                output.moment(ad.get("JobCurrentStartDate")),
                output.run_time(ended - started) if started and ended else "",
                ad.get("Outcome") or ad.get("State"),
                f"-{signal}" if signal is not None else code,
                ad.get("FetchWorkChain"),
                " ".join(str(ad.get("Reason") or "").split()),
            ]
        )
    output.table(
        ("JOB", "RUN", "SLOT", "CLAIMED", "RUN_TIME", "OUTCOME", "EXIT", "CHAIN", "REASON"),
        rows,
        right=(1, 6, 7),
    )
