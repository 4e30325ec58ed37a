"""A job's output: its end, which a run keeps where the job asks for that (FetchWorkTailBytes), and live."""

from __future__ import annotations

from dataclasses import dataclass

from fetchwork.db.calls import reading
from fetchwork.queue.ask import Ask, Steps
from fetchwork.queue.views import Json


@dataclass(frozen=True)
class KeptOutput:
    """The end of what a run wrote; None where nothing is kept of a stream."""

    run_id: int
    stdout: str | None
    stderr: str | None


_LAST = """
SELECT runid, ad -> 'Output' AS output
FROM fetchwork.runs
WHERE clusterid = %s AND procid = %s
    AND (%s::bigint IS NULL OR runid = %s)
    AND ad ? 'Output'
ORDER BY runid DESC
LIMIT 1
"""


def kept_output(cluster: int, proc: int, run_id: int | None = None) -> Steps[KeptOutput | None]:
    """The output of one run of a job, or of the last run that has some."""
    rows = yield Ask(_LAST, [cluster, proc, run_id, run_id])
    if not rows:
        return None
    output = rows[0]["output"]
    return KeptOutput(rows[0]["runid"], output.get("stdout"), output.get("stderr"))


def live_output(
    cluster: int,
    proc: int,
    run_id: int | None = None,
    stdout_at: int | None = None,
    stderr_at: int | None = None,
) -> Steps[Json | None]:
    """What a running job has written behind two positions; it is watched for some seconds then.

    ``run``: to be named the next time, as are the positions ``stdout_at`` and ``stderr_at``. ``running``:
    more may come; ``problem``: why nothing does. ``pieces``: the stream (1: stdout, 2: stderr), how many
    bytes were left out before it, and the text. None: the job does not run, and nothing is kept.
    """
    rows: list[reading.OutputChunk] = yield reading.watch_output(
        cluster=cluster, proc=proc, run_id=run_id, stdout_at=stdout_at, stderr_at=stderr_at
    )
    if not rows:
        return None
    last = rows[-1]
    # of another run the positions say nothing
    at: dict[int, int | None] = {1: None, 2: None}
    if run_id == last.run_id:
        at = {1: stdout_at, 2: stderr_at}
    pieces = []
    for row in rows:
        if row.stream is not None and row.at is not None and row.content is not None:
            before = at[row.stream]
            text = row.content.decode("utf-8", "replace").replace("\0", "\ufffd")
            pieces.append([row.stream, row.at - (before or 0), text])
            at[row.stream] = row.at + len(row.content)
    return {
        "run": last.run_id,
        "running": last.running,
        "problem": last.problem,
        "stdout_at": at[1],
        "stderr_at": at[2],
        "pieces": pieces,
    }
