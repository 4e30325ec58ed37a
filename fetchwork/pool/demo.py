"""The demonstration: real slots run 20 jobs, submitted by SQL and by submit description.

Each job has its expected exit code in an attribute of its own, so the demonstration can check itself.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeAlias

from rich import box
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from fetchwork.db.calls.call import Row
from fetchwork.db.database import Database
from fetchwork.errors import FetchworkError
from fetchwork.pool.personal import PersonalPool, Say

Show: TypeAlias = Callable[[Row, list[Row]], None]

TIMEOUT_S = 120
_POLL_S = 0.25

# SQL is an interface for everyone: any client can do this
SUBMIT_BY_SQL = """
SELECT fetchwork.submit(
    cmd => '/bin/sh',
    arguments => format($args$-c 'echo job %%s; sleep %%s; exit %%s'$args$, n, 1 + n %% 3, n %% 4),
    owner => (%s::text[])[1 + n %% cardinality(%s::text[])],
    iwd => '/tmp',
    output => format('demo-sql-%%s.out', n),
    request_cpus => 1,
    priority => n %% 5,
    batch_name => 'SQL',
    ad => jsonb_build_object('DemoExitCode', n %% 4)
)
FROM generate_series(1, 12) AS n
"""

SUBMIT_DESCRIPTION = """\
# {name}: two jobs for each of four exit codes
executable    = /bin/sh
arguments     = "-c 'echo $(Process) > demo-file-$(Process).out; sleep 1; exit $(code)'"
initialdir    = /tmp
request_cpus  = 1
batch_name    = submit file
My.DemoExitCode = $(code)
queue 2 code in (0, 1, 7, 42)
"""

COUNTS = """
SELECT
    count(*) FILTER (WHERE jobstatus = 1) AS idle,
    count(*) FILTER (WHERE jobstatus = 2) AS running,
    count(*) FILTER (WHERE jobstatus = 5) AS held,
    (SELECT count(*) FROM fetchwork.history) AS ended
FROM fetchwork.jobs
"""

RUNNING = """
SELECT remotehost AS slot, jobid, owner, jobbatchname AS batch
FROM fetchwork.jobs
WHERE jobstatus = 2
ORDER BY remotehost
"""

RESULTS = """
SELECT
    jobid, owner, batch, slot, exitcode, run_s, reason, expected, jobstatus = 4 AS completed,
    (ARRAY['Idle', 'Running', 'Removed', 'Completed', 'Held', '', 'Suspended'])[jobstatus] AS status
FROM (
    SELECT clusterid, procid, jobid, owner, jobstatus, jobbatchname AS batch, lastremotehost AS slot,
        exitcode, remotewallclocktime AS run_s, lastreason AS reason,
        (ad ->> 'DemoExitCode')::integer AS expected
    FROM fetchwork.history
    UNION ALL
    SELECT clusterid, procid, jobid, owner, jobstatus, jobbatchname, NULL, NULL,
        NULL, coalesce(holdreason, lastreason), NULL
    FROM fetchwork.jobs
) AS everything
ORDER BY clusterid, procid
"""

JOBS = 20
NEXT = "'fetchwork pool up' starts such a pool to work with, and prints the link to its page in a browser"


def run() -> int:
    """Run the demonstration; the exit status is 0 when all jobs completed with the right exit codes."""
    console = Console(highlight=False)
    _end_on_first_signal()
    begun = time.monotonic()

    def say(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - begun:6.1f} s[/dim]  {text}")

    with PersonalPool(slots=4, say=say) as pool, Database(pool.conninfo) as database:
        say(f"pool is up: {_parts(pool)}")
        if pool.page.installed():
            pool.page.start(pool.conninfo)
            say(f"its page, while it runs: {pool.page.link}")
        _submit(pool, database, say)
        _follow(console, database)
        good = _show(console, database.query(RESULTS))
        say("stopping the pool")
    say("the pool is gone" if not pool.directory.exists() else f"something is left in {pool.directory}")
    console.print(NEXT)
    return 0 if good else 1


def _end_on_first_signal() -> None:
    """Let the first signal end the demonstration, and the others not disturb the cleaning up."""

    def end(number: int, _: object) -> NoReturn:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, end)


def _parts(pool: PersonalPool) -> str:
    version = pool.run_command(["condor_version"]).stdout.split()
    return f"PostgreSQL {pool.postgres.version} and HTCondor {version[1]} with {pool.settings.slots} slots"


def _submit(pool: PersonalPool, database: Database, say: Say) -> None:
    owners = pool.machine.job_owners()
    by_sql = database.query(SUBMIT_BY_SQL, [owners, owners])
    say(f"{len(by_sql)} jobs by SQL: SELECT fetchwork.submit(cmd => '/bin/sh', ...)")
    description = pool.directory / "demo.sub"
    description.write_text(SUBMIT_DESCRIPTION.format(name=description.name))
    command = [str(Path(sys.prefix) / "bin/fetchwork"), "submit", "--owner", owners[0], str(description)]
    environment = {**os.environ, "FETCHWORK_DSN": pool.conninfo}
    submitted = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if submitted.returncode:
        raise FetchworkError(f"'fetchwork submit' failed: {submitted.stderr.strip()}")
    say(f"fetchwork submit demo.sub: {submitted.stdout.strip()}")


def _follow(console: Console, database: Database) -> None:
    """Show events until all jobs have ended."""
    deadline = time.monotonic() + TIMEOUT_S
    with _display(console) as show:
        while time.monotonic() < deadline:
            (counts,) = database.query(COUNTS)
            show(counts, database.query(RUNNING))
            if counts["ended"] + counts["held"] >= JOBS:
                return
            time.sleep(_POLL_S)


@contextmanager
def _display(console: Console) -> Iterator[Show]:
    """A live picture on a terminal, elsewhere a line for each change."""
    bar = Progress(
        TextColumn("jobs ended"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        console=console,
    )
    task = bar.add_task("", total=JOBS)
    last = ""

    def picture(counts: Row, running: list[Row]) -> None:
        words = f"{counts['running']} running, {counts['idle']} idle, {counts['held']} held"
        bar.update(task, completed=counts["ended"], description=words)
        table = Table.grid(padding=(0, 2))
        table.add_row(bar)
        for job in running:
            table.add_row(f"  {job['slot']}: job {job['jobid']} of {job['owner']}, by {job['batch']}")
        live.update(table)

    def line(counts: Row, running: list[Row]) -> None:
        nonlocal last
        words = f"{counts['ended']} ended, {counts['running']} running, {counts['idle']} idle"
        if words != last:
            console.print(f"          {words}")
            last = words

    if console.is_terminal:
        with Live(console=console, refresh_per_second=8) as live:
            yield picture
    else:
        yield line


def _show(console: Console, jobs: list[Row]) -> bool:
    """Print the results; return whether they are correct."""
    table = Table("job", "owner", "by", "slot", "exit", "ran", "status", box=box.SIMPLE, pad_edge=False)
    good = len(jobs) == JOBS
    for job in jobs:
        right = bool(job["completed"]) and job["exitcode"] == job["expected"]
        good = good and right
        status = (
            job["status"] if right else f"[red]{job['status']}: {job['reason'] or 'wrong exit code'}[/red]"
        )
        run_time = "" if job["run_s"] is None else f"{job['run_s']:.1f} s"
        code = "" if job["exitcode"] is None else str(job["exitcode"])
        table.add_row(job["jobid"], job["owner"], job["batch"], job["slot"], code, run_time, status)
    console.print(table)
    if good:
        console.print(f"all {JOBS} jobs completed with the expected exit codes")
    else:
        console.print(f"[red]not all of {JOBS} jobs completed with the expected exit codes[/red]")
    return good
