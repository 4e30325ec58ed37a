"""``fetchwork history``: shows ended jobs as condor_history does, from the database."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from fetchwork.cli import dagview, options, output
from fetchwork.cli.progress import looking
from fetchwork.codes import STATUS_LETTERS
from fetchwork.dag import status
from fetchwork.errors import FetchworkError

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession
    from fetchwork.queue.views import Json

PROJECTION = [
    "ClusterId",
    "ProcId",
    "Owner",
    "QDate",
    "JobStatus",
    "CompletionDate",
    "EnteredCurrentStatus",
    "Cmd",
    "Args",
    "Arguments",
    "RemoteWallClockTime",
    "ExitCode",
    "ExitSignal",
    status.TOTAL,
    *status.ATTRIBUTES.values(),
]
#: clusters whose output files wait that are named below the table
SHOWN = 5


@click.command(cls=options.HTCondorCommand)
@click.argument("jobs", metavar="[JOB|OWNER]...", nargs=-1)
@options.constraint_option
@options.autoformat_note
@click.option("-limit", "-match", "--limit", type=click.IntRange(0), help="Show at most this many jobs.")
@click.option("-since", "--since", metavar="JOB|EXPR", help="Only jobs that ended after this one.")
@options.long_option
@options.json_option
@options.reading
@click.pass_context
def cli(
    context: click.Context,
    session: AnySession,
    jobs: tuple[str, ...],
    constraints: tuple[str, ...],
    limit: int | None,
    since: str | None,
    as_json: bool,
    as_long: bool,
) -> None:
    """Show jobs that have left the queue, most recent first.

    EXIT is the exit code or, with a minus sign, the signal that ended the job.

    \b
    Example:
      fetchwork history -limit 20
      fetchwork history 42
      fetchwork history -constraint 'ExitCode != 0' -af:j Owner ExitCode LastRemoteHost
    """
    from fetchwork.queue.views import HISTORY

    constraint = options.jobs_constraint(jobs, constraints)
    formatted = context.meta.get("fetchwork.autoformat")
    some: Sequence[str] = () if as_json or as_long else PROJECTION
    if formatted:
        some = output.projection(formatted[1], HISTORY.columns().keys())
    ended = looking(
        session,
        session.items(
            "view",
            name="history",
            constraint=constraint,
            projection=list(some),
            limit=-1 if limit is None else limit,
            since=since,
        ),
    )
    if formatted:
        output.print_attributes(ended, *formatted)
    elif as_long:
        output.print_long(ended)
    elif as_json:
        output.print_json_list(ended)
    else:
        with_outputs: set[int] = set()
        # a reader of all jobs, or of several databases, brings no files
        with contextlib.suppress(FetchworkError):
            with_outputs.update(session.perform("output_clusters"))
        _list(ended, with_outputs)


def _list(ads: Iterator[Json], with_outputs: set[int]) -> None:
    """Print a line for each job; ``with_outputs``: clusters of which the database still has output files."""
    kept: dict[int, None] = {}
    output.echo(f"{' ID':<9}{'OWNER':<14}{'SUBMITTED':<13}{'RUN_TIME':>11} ST EXIT {'COMPLETED':<12} CMD")
    for ad in ads:
        if ad["ClusterId"] in with_outputs:
            kept[ad["ClusterId"]] = None
        signal, code = ad.get("ExitSignal"), ad.get("ExitCode")
        ending = f"-{signal}" if signal is not None else "" if code is None else str(code)
        output.echo(
            f"{ad['ClusterId']:>4}.{ad['ProcId']:<3} {ad['Owner']:<14}{output.moment(ad['QDate']):<13}"
            f"{output.run_time(ad.get('RemoteWallClockTime', 0)):>11}"
            f" {STATUS_LETTERS[ad['JobStatus']]:<2} {ending:>4}"
            f" {output.moment(ad['EnteredCurrentStatus']):<12} {dagview.command_line(ad)}"
        )
    if kept:
        some = " ".join(map(str, [*kept][:SHOWN])) + (" ..." if len(kept) > SHOWN else "")
        output.echo(f"\nThe database has output files of {some}: 'fetchwork transfer-data JOB' brings them.")
