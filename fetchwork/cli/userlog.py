"""``fetchwork userlog``: HTCondor's job event logs, written from the events."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
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
    help="The event to begin with the first time.  [default: the oldest event that is kept]",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file that records how far it has come.  [default: one in ~/.local/state/fetchwork; root:"
    " /var/lib/fetchwork-userlog]",
)
@options.connected
def cli(
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
    their own jobs. Jobs that were submitted at an access point are left out: it writes their logs.

    \b
    Example:
      fetchwork userlog --follow
      fetchwork userlog 42 -o sleep.log
    """
    import asyncio

    from fetchwork.queue.events.reader import checked
    from fetchwork.queue.session import default_conninfo

    try:
        checked(after, list(jobs) or None)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    conninfo = default_conninfo(session.conninfo)
    output = output.absolute() if output else None
    state = state or default_state(conninfo, output, jobs)
    state.parent.mkdir(parents=True, exist_ok=True)
    seconds = timeout if timeout is not None else None if follow else 0.0
    entries, failed = asyncio.run(_keep(conninfo, jobs, output, after, state, seconds))
    if not follow:
        click.echo(f"{entries} entries written")
    if failed:
        click.get_current_context().exit(1)


async def _keep(
    conninfo: str,
    jobs: Sequence[str],
    output: Path | None,
    after: str | None,
    state: Path,
    seconds: float | None,
) -> tuple[int, bool]:
    """Write logs for so many seconds (None: for ever); return the entry count, and if a log failed."""
    import asyncio
    import pwd

    from fetchwork.accesspoint.children import Children
    from fetchwork.accesspoint.joblogs import JobLogs, Log
    from fetchwork.accesspoint.logfiles import OwnRights
    from fetchwork.accesspoint.logs import LogKeeper
    from fetchwork.db.pool import AsyncDatabase

    problems = []

    def report(level: int, name: str, owner: str | None, problem: object) -> None:
        problems.append(problem)
        echo(f"fetchwork: error: {problem}", err=True)

    uid = os.geteuid()
    me = pwd.getpwuid(uid).pw_name
    children = Children(1) if uid == 0 and output is None else None
    async with AsyncDatabase(conninfo, application_name="fetchwork userlog") as database:
        logs = JobLogs(
            database,
            None,
            owner=me if uid else None,
            jobs=jobs,
            output=Log(me, str(output)) if output else None,
        )
        keeper = LogKeeper(
            database,
            logs,
            children or OwnRights(),
            state,
            lambda _, owner: children is None or owner != 0,
            after=after,
            report=report,
        )
        sweeping = asyncio.ensure_future(children.sweep()) if children else None
        try:
            await keeper.keep_for(seconds)
        finally:
            if children is not None and sweeping is not None:
                sweeping.cancel()
                await children.stop()
        if keeper.owners_behind and not problems:
            report(0, "", None, f"event logs of {', '.join(keeper.owners_behind)} do not answer")
    return keeper.entries, bool(problems)


def default_state(conninfo: str, output: Path | None, jobs: Sequence[str]) -> Path:
    """The state file for one combination of database, file and jobs.

    Root's are in a directory of their own: /var/lib/fetchwork belongs to the agent, which is not root.
    """
    import hashlib

    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    directory = (
        Path("/var/lib/fetchwork-userlog") if os.geteuid() == 0 else Path(home).expanduser() / "fetchwork"
    )
    key = json.dumps([conninfo, str(output), sorted(jobs)])
    return directory / f"userlog-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
