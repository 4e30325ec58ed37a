"""``fetchwork watch``: the queue, or a DAG, kept up to date on the screen."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict

import click

from fetchwork.cli import dagview, options, output
from fetchwork.codes import JobStatus
from fetchwork.condor.arguments import text_of
from fetchwork.dag import environment
from fetchwork.errors import NotFound

if TYPE_CHECKING:
    from rich.table import Table

    from fetchwork.condor.q.qrows import JobRow
    from fetchwork.queue.remote import AnySession


@click.command()
@click.argument("jobs", metavar="[DAG|JOB|OWNER]...", nargs=-1)
@options.constraint_option
@click.option(
    "-i",
    "--interval",
    type=click.FloatRange(0.05),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between updates.",
)
@click.option("--until-empty", is_flag=True, help="End when no job is left.")
@options.json_option
@options.performing
def cli(
    session: AnySession,
    jobs: tuple[str, ...],
    constraints: tuple[str, ...],
    interval: float,
    until_empty: bool,
    as_json: bool,
) -> None:
    """Show the queue and keep it up to date; Ctrl-C ends it.

    Without arguments, all jobs by owner, with DONE counted from now on; otherwise the selected jobs by batch.
    A DAG alone is shown by nodes, with the DAGs in it, until it has ended. Without a terminal, a line for
    every change; with --json, that line is a JSON object.

    \b
    Example:
      fetchwork watch
      fetchwork watch 42 --until-empty
      fetchwork watch 42 --json | jq .nodes.done
    """
    words = [*jobs, *(word for constraint in constraints for word in ("-constraint", constraint))]
    plain = not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb"
    try:
        if len(jobs) == 1 and not constraints and (dag := _dag(session, jobs[0])) is not None:
            dagview.follow(session, dag, interval, to_json=as_json)
        else:
            show = _json_lines if as_json else _lines if plain else _live
            show(_Watch(session, words).polls(interval, until_empty))
    except KeyboardInterrupt:
        # Ctrl-C ends the view
        return


def _dag(session: AnySession, word: str) -> int | None:
    """Return the DAG that a word names, if any."""
    number = word.removesuffix(".0")
    if not number.isdecimal():
        return None
    try:
        (dag, *_) = dagview.look(session, int(number))
    except NotFound:
        return None
    return int(number) if environment.is_dagman(str(dag["ad"].get("Cmd"))) else None


class Line(TypedDict):
    """The jobs of an owner or a batch; ``done`` are those that have completed."""

    name: str
    jobs: int
    idle: int
    running: int
    held: int
    done: int


def _of_batch(row: JobRow) -> Line:
    from fetchwork.condor.q import qrows

    owner, name, done = (row.row[column].value for column in (qrows.OWNER, qrows.BATCH_NAME, qrows.DONE))
    states = row.states
    return {
        "name": text_of(f"{owner} {name}"),
        "jobs": sum(states.values()) - states.get(JobStatus.COMPLETED, 0),
        "idle": states.get(JobStatus.IDLE, 0),
        "running": states.get(JobStatus.RUNNING, 0) + states.get(JobStatus.TRANSFERRING_OUTPUT, 0),
        "held": states.get(JobStatus.HELD, 0),
        "done": done if isinstance(done, int) else 0,
    }


class _Watch:
    """Polls the queue."""

    def __init__(self, session: AnySession, words: Sequence[str]) -> None:
        self._session = session
        self._words = words
        # completed jobs of each owner at the first poll; owners are shown once they have had jobs
        self._before: dict[str, int] | None = None
        self._seen: set[str] = set()

    def look(self) -> list[Line]:
        """A row for each owner, or for each batch of the selected jobs."""
        if self._words:
            return [_of_batch(row) for row in self._batches()]
        rows = self._session.perform("totals", by="owner", empty=True)
        if self._before is None:
            self._before = {row["owner"]: row["completed"] for row in rows}
        self._seen |= {row["owner"] for row in rows if row["jobs"]}
        return [
            {
                "name": row["owner"],
                "jobs": row["jobs"],
                "idle": row["idle"],
                "running": row["running"],
                "held": row["held"],
                "done": row["completed"] - self._before.get(row["owner"], 0),
            }
            for row in rows
            if row["owner"] in self._seen
        ]

    def _batches(self) -> list[JobRow]:
        from fetchwork.cli import face
        from fetchwork.condor.q import qoptions, qsource
        from fetchwork.condor.q.shown import Shown

        run = face.made("condor_q", ["-allusers", *self._words], self._session)
        asked = face.told(run, lambda: qoptions.parse(run.words()))
        shown = Shown(run, asked)
        shown.footer = False
        qsource.take(run, asked, shown)
        return shown.batch_rows()

    def polls(self, interval: float, until_empty: bool) -> Iterator[list[Line]]:
        """The rows of each poll, to the one without a job if ``until_empty``."""
        while True:
            rows = self.look()
            yield rows
            if until_empty and not any(row["jobs"] for row in rows):
                return
            time.sleep(interval)


def _lines(polls: Iterable[list[Line]]) -> None:
    before = None
    for rows in polls:
        counts = {
            name: sum(row[name] for row in rows) for name in ("jobs", "idle", "running", "held", "done")
        }
        if counts != before:
            before = counts
            by_state = ", ".join(f"{counts[name]} {name}" for name in ("idle", "running", "held", "done"))
            click.echo(f"{time.strftime('%H:%M:%S')} {counts['jobs']} jobs: {by_state}")
            sys.stdout.flush()


def _json_lines(polls: Iterable[list[Line]]) -> None:
    before = None
    for rows in polls:
        if rows != before:
            before = rows
            output.echo(output.to_json({"time": time.time(), "batches": rows}))
            sys.stdout.flush()


def _live(polls: Iterable[list[Line]]) -> None:
    from rich.live import Live

    with Live(auto_refresh=False, screen=False) as live:
        for rows in polls:
            live.update(_table(rows), refresh=True)


def _table(rows: list[Line]) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"queue at {time.strftime('%H:%M:%S')}", title_justify="left", box=None)
    table.add_column("WHOSE")
    table.add_column("", width=24)
    for heading in ("IDLE", "RUN", "HOLD", "DONE", "TOTAL"):
        table.add_column(heading, justify="right")
    for row in rows:
        total = row["jobs"] + row["done"]
        table.add_row(
            # rich would read a bare string as markup; it does not remove escape sequences, so visible() does
            Text(output.visible(row["name"])),
            ProgressBar(total=max(1, total), completed=row["done"], width=24),
            *(output.number(row[name], 0) for name in ("idle", "running", "held", "done")),
            str(total),
        )
    return table
