"""``fetchwork tail``: the end of a job's output."""

from __future__ import annotations

import dataclasses

import click

from fetchwork.cli import options, output
from fetchwork.errors import NotFound
from fetchwork.queue.session import Session


@click.command()
@click.argument("job", metavar="JOB", type=options.JOB_ID)
@click.option("--stdout/--stderr", "only_stdout", default=None, help="Show only one of the two.")
@click.option(
    "--run", "run_id", type=int, metavar="RUN", help="The run to show.  [default: the last one with output]"
)
@options.json_option
@options.connected
def cli(session: Session, job: str, only_stdout: bool | None, run_id: int | None, as_json: bool) -> None:
    """Show the end of a job's stdout and stderr, as it was when its run ended.

    It is kept only if the job asks for it: FetchWorkTailBytes says how many bytes of each.

    \b
    Example:
      fetchwork submit sleep.sub -a '+FetchWorkTailBytes = 4096'
      fetchwork tail 42.0
    """
    from fetchwork.queue.output import kept_output
    from fetchwork.queue.selecting import id_of

    cluster, proc = id_of(job)
    kept = session.run(kept_output(cluster, proc or 0, run_id))
    if kept is None:
        raise NotFound(
            f"no output is kept for job {job}: the job did not ask for that (+FetchWorkTailBytes), or none"
            " of its runs has ended"
        )
    if as_json:
        output.print_json(
            {name: value for name, value in dataclasses.asdict(kept).items() if value is not None}
        )
        return
    for text, err in ((kept.stdout, False), (kept.stderr, True)):
        wanted = only_stdout is None or only_stdout != err
        if wanted and text:
            output.echo(text, nl=not text.endswith("\n"), err=err)
