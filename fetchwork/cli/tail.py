"""``fetchwork tail``: the end of a job's output, and its output while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.errors import NotFound

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession


@click.command()
@click.argument("job", metavar="JOB", type=options.JOB_ID)
@click.option("--follow", "-f", is_flag=True, help="Show the running job's output until it ends.")
@click.option("--stdout/--stderr", "only_stdout", default=None, help="Show only one of the two.")
@click.option(
    "--run", "run_id", type=int, metavar="RUN", help="The run to show.  [default: the last one with output]"
)
@options.json_option
@options.performing
def cli(
    session: AnySession, job: str, follow: bool, only_stdout: bool | None, run_id: int | None, as_json: bool
) -> None:
    """Show the end of a job's stdout and stderr, as it was when its run ended; with -f, as it comes.

    The end is kept only if the job asks for it: FetchWorkTailBytes is the number of bytes of each. A running
    job's host sends its output while a reader follows it, without an option at submit: the last bytes first,
    then at most 64 KiB of each a second.

    \b
    Example:
      fetchwork tail -f 42.0
      fetchwork submit sleep.sub -a '+FetchWorkTailBytes = 4096'
      fetchwork tail 42.0
    """
    from fetchwork.queue.reading.selecting import id_of

    cluster, proc = id_of(job)
    if follow:
        if as_json or run_id is not None:
            raise click.UsageError("--follow goes with neither --json nor --run")
        _follow(session, cluster, proc or 0, only_stdout)
        return
    kept = session.perform("kept_output", cluster=cluster, proc=proc or 0, run_id=run_id)
    if kept is None:
        options.require_job(session, cluster, proc or 0)
        raise NotFound(
            f"no output is kept for job {job}: the job did not ask for that (+FetchWorkTailBytes), or none"
            f" of its runs has ended; 'fetchwork tail -f {job}' shows what it writes while it runs"
        )
    if as_json:
        output.print_json({name: value for name, value in kept.items() if value is not None})
        return
    for text, err in ((kept["stdout"], False), (kept["stderr"], True)):
        wanted = only_stdout is None or only_stdout != err
        if wanted and text:
            output.echo(text, nl=not text.endswith("\n"), err=err)


def _follow(session: AnySession, cluster: int, proc: int, only_stdout: bool | None) -> None:
    import sys

    from fetchwork.following.liveoutput import follow_output

    for piece in follow_output(session, cluster, proc):
        if not piece.stream:
            output.echo(f"fetchwork: {piece.text}", err=True)
            continue
        err = piece.stream == 2
        if only_stdout is not None and only_stdout == err:
            continue
        if piece.skipped:
            output.echo(f"fetchwork: {piece.skipped} bytes are left out", err=True)
        output.echo(piece.text, nl=False, err=err)
        (sys.stderr if err else sys.stdout).flush()
