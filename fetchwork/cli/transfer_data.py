"""``fetchwork transfer-data``: delivers the outputs of jobs to where they were submitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json
    from fetchwork.queue.remote import AnySession


@click.command("transfer-data", cls=options.HTCondorCommand)
@click.argument("jobs", metavar="[JOB]...", type=options.JOB_ID, nargs=-1)
@click.option("-all", "--all", "everything", is_flag=True, help="All your jobs with outputs in the queue.")
@options.json_option
@options.performing
@click.pass_context
def cli(
    context: click.Context, session: AnySession, jobs: tuple[str, ...], everything: bool, as_json: bool
) -> None:
    """Bring the output files of ended jobs to where the jobs were submitted.

    An access point does that by itself, and 'fetchwork wait' does it without one. The files of a job appear
    complete or not at all; what was brought is not in the queue any more. Files that can't be written stay
    there, and are tried again when you ask again.

    \b
    Example:
      fetchwork transfer-data 42
      fetchwork transfer-data -all
    """
    if bool(jobs) is everything:
        raise click.UsageError("no jobs named; allowed: job ids, or -all")
    brought = retrieved(session, None if everything else jobs)
    if as_json:
        output.print_json(brought)
    elif not brought:
        output.echo("there is nothing to bring back")
    else:
        say(brought)
    if any(one["problem"] for one in brought):
        context.exit(1)


def retrieved(session: AnySession, jobs: Sequence[str] | None) -> list[Json]:
    """Deliver the outputs of jobs, with progress on a terminal; return a report for each job."""
    from fetchwork.cli.progress import moving

    with moving("bringing files") as progress:
        return session.retrieve(jobs, progress=progress)


def say(brought: Sequence[Json]) -> None:
    """Print the number of delivered files, and a line for each job whose files were not delivered."""
    done = [one for one in brought if not one["problem"]]
    if done:
        files, size = (sum(one[what] for one in done) for what in ("files", "bytes"))
        output.echo(f"brought back {files} file(s) of {len(done)} job(s), {size} bytes")
    for one in brought:
        if one["problem"]:
            output.echo(f"fetchwork: error: job {one['job']}: {one['problem']}", err=True)
