"""``fetchwork wait``: waits until jobs have ended."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.cli.transfer_data import retrieved, say
from fetchwork.errors import InsufficientPrivilege

if TYPE_CHECKING:
    from fetchwork.following.progress import Progress
    from fetchwork.queue.remote import AnySession

TIME_IS_OVER = 124


@click.command()
@click.argument("jobs", metavar="JOB...", type=options.JOB_ID, nargs=-1, required=True)
@click.option(
    "-t",
    "--timeout",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Stop waiting after this time, with exit status 124.",
)
@click.option(
    "-n",
    "--num",
    "enough",
    type=click.IntRange(1),
    metavar="N",
    help="Wait until N of them have ended.  [default: all]",
)
@click.option("--held", is_flag=True, help="Count a held job as ended and failed.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@options.json_option
@options.performing
@click.pass_context
def cli(
    context: click.Context,
    session: AnySession,
    jobs: tuple[str, ...],
    timeout: float | None,
    enough: int | None,
    held: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Wait until jobs have ended, and bring their output files back.

    The exit status is 0 if all of them ended with exit code 0, 1 if one failed or was removed, or its files
    could not be written, 124 if the timeout came first.

    \b
    Example:
      fetchwork wait 42
      fetchwork wait 42.0 43.0 --timeout 3600 && echo done
    """
    from fetchwork.following.progress import Progress, follow

    words = [word for word in dict.fromkeys(jobs) if "." not in word or word.partition(".")[0] not in jobs]
    states = follow(session, words, timeout)
    shown = states if quiet or as_json else _bar(states) if sys.stderr.isatty() else _lines(states)
    progress = Progress()
    done = False
    for progress in shown:
        stuck = progress.counts()["held"] if held else 0
        done = progress.ended + stuck >= min(enough or progress.total, progress.total)
        if done:
            break
    brought = []
    if progress.ended:
        # people who may only read wait, and deliver nothing
        with contextlib.suppress(InsufficientPrivilege):
            brought = retrieved(session, words)
    counts = progress.counts()
    summary = {
        "jobs": progress.total,
        "succeeded": progress.succeeded,
        "failed": progress.failed,
        "removed": progress.removed,
        **counts,
    }
    if as_json:
        output.print_json(summary)
    elif not quiet:
        output.echo(", ".join(f"{number} {name}" for name, number in summary.items() if number))
    unwritten = [one for one in brought if one["problem"]]
    say(unwritten if quiet or as_json else brought)
    if not done:
        context.exit(TIME_IS_OVER)
    if progress.failed or progress.removed or unwritten or (held and counts["held"]):
        context.exit(1)


def _lines(states: Iterator[Progress]) -> Iterator[Progress]:
    """Print a line on stderr at the start and whenever a job ended."""
    before = -1
    stuck = 0
    for progress in states:
        held = progress.counts()["held"]
        if held > stuck:
            why = " ".join(progress.hold_reason.split())
            output.echo(
                f"{held} of {progress.total} jobs are held: {why}; 'fetchwork q -hold' shows all", err=True
            )
        stuck = held
        if progress.ended != before:
            before = progress.ended
            last = f": {progress.last}" if progress.last else ""
            output.echo(f"{progress.ended} of {progress.total} jobs have ended{last}", err=True)
        yield progress


def _bar(states: Iterator[Progress]) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        stuck = 0
        for progress in states:
            counts = ", ".join(f"{number} {name}" for name, number in progress.counts().items() if number)
            failed = f"[red]{progress.failed} failed[/red] " if progress.failed else ""
            bar.update(task, total=progress.total, completed=progress.ended, description=failed + counts)
            held = progress.counts()["held"]
            if held > stuck:
                # above the bar, where it stays
                why = output.visible(" ".join(progress.hold_reason.split()))
                bar.console.print(
                    f"{held} of {progress.total} jobs are held: {why}; 'fetchwork q -hold' shows all",
                    markup=False,
                    highlight=False,
                )
            stuck = held
            yield progress
