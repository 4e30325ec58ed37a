"""``fetchwork tail``: the end of a job's output."""

from __future__ import annotations

import click

from fetchwork.cli import options, output
from fetchwork.errors import NotFound
from fetchwork.queue import Queue


@click.command()
@click.argument("job", metavar="JOB")
@click.option("--stdout/--stderr", "only_stdout", default=None, help="Show only one of the two.")
@click.option(
    "--run", "run_id", type=int, metavar="RUN", help="The run to show.  [default: the last one with output]"
)
@options.json_option
@options.connected
def cli(queue: Queue, job: str, only_stdout: bool | None, run_id: int | None, as_json: bool) -> None:
    """Show the end of a job's stdout and stderr, as it was when its run ended.

    It is kept only if the job asks for it: FetchWorkTailBytes says how many bytes of each.

    \b
    Example:
      fetchwork submit sleep.sub -a '+FetchWorkTailBytes = 4096'
      fetchwork tail 42.0
    """
    rows = queue.database.query(
        "SELECT runid, ad -> 'Output' AS output FROM fetchwork.runs"
        " WHERE clusterid = (fetchwork.parse_job_id(%s)).cluster_id AND procid ="
        " coalesce((fetchwork.parse_job_id(%s)).proc_id, 0)"
        " AND (%s::bigint IS NULL OR runid = %s) AND ad ? 'Output' ORDER BY runid DESC LIMIT 1",
        [job, job, run_id, run_id],
    )
    if not rows:
        raise NotFound(
            f"no output is kept for job {job}: it asked for none (+FetchWorkTailBytes), or no run of"
            " it has ended"
        )
    kept = rows[0]["output"]
    if as_json:
        output.print_json({"run_id": rows[0]["runid"], **kept})
        return
    for name, wanted in (("stdout", only_stdout is not False), ("stderr", only_stdout is not True)):
        text = kept.get(name)
        if wanted and text:
            output.echo(text, nl=not text.endswith("\n"), err=name == "stderr")
