"""A job's output: live, and its tail, which a run keeps if the job asks for it (FetchWorkTailBytes)."""

from __future__ import annotations

from dataclasses import dataclass

from fetchwork.db.calls import reading
from fetchwork.queue.ask import Ask, Steps
from fetchwork.queue.reading.views import Json


@dataclass(frozen=True)
class KeptOutput:
    """The tail of a run's output; None for a stream without one."""

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
    """The stored output of one run of a job, by default of the last run that has some."""
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
    """A running job's output after two positions; it is then watched for some seconds.

    ``run``, ``stdout_at`` and ``stderr_at`` are to be passed the next time. ``running``: more may come;
    ``problem``: the reason that nothing comes. ``pieces``: the stream (1: stdout, 2: stderr), the number of
    bytes left out before the text, and the text. None: the job does not run, and no output is stored.
    """
    rows: list[reading.OutputChunk] = yield reading.watch_output(
        cluster=cluster, proc=proc, run_id=run_id, stdout_at=stdout_at, stderr_at=stderr_at
    )
    if not rows:
        return None
    last = rows[-1]
    # positions of another run do not apply
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
