"""``fetchwork userlog``: HTCondor's job event logs, written from the events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options
from fetchwork.cli.output import echo

if TYPE_CHECKING:
    from fetchwork.queue.session import Session


@click.command()
@click.argument("jobs", metavar="[JOB]...", type=options.JOB_ID, nargs=-1)
@click.option("-f", "--follow", is_flag=True, help="Keep waiting for new events.")
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Wait this long for new events, then end.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write all events to this file, instead of each job's to its log.",
)
@click.option(
    "--after",
    metavar="CURSOR",
    help="Where to begin the first time.  [default: the oldest event that is kept]",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file that records how far it has come.  [default: one in ~/.local/state/fetchwork; root:"
    " /var/lib/fetchwork-userlog]",
)
@options.connected
@click.pass_context
def cli(
    context: click.Context,
    session: Session,
    jobs: tuple[str, ...],
    follow: bool,
    timeout: float | None,
    output: Path | None,
    after: str | None,
    state: Path | None,
) -> None:
    """Write HTCondor job event logs from the events.

    Each job's events go to the file that its submit description names with 'log', as a schedd would write
    it; real condor_wait, condor_watch_q and JobEventLog read it. When restarted, it continues where it
    stopped; every event is written once. Root writes each log as the job's owner; others write the logs of
    their own
    jobs.

    \b
    Example:
      fetchwork userlog --follow
      fetchwork userlog 42 -o sleep.log
    """
    from fetchwork.cli.options import conninfo_of
    from fetchwork.following.logfiles import LogWriter, default_state
    from fetchwork.queue.reader import Reader

    output = output.absolute() if output else None
    writer = LogWriter(session, state or default_state(conninfo_of(context), output, jobs), output=output)
    try:
        reader = Reader(after=writer.cursor or after, job=list(jobs) or None)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    entries = 0
    failed = False
    stop_after = timeout if timeout is not None else None if follow else 0
    for written in writer.follow(reader, stop_after):
        entries += written.entries
        for problem in written.problems:
            echo(f"fetchwork: error: {problem}", err=True)
            failed = True
    if not follow:
        click.echo(f"{entries} entries written")
    if failed:
        context.exit(1)
