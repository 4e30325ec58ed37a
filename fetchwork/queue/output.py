"""The end of a job's output, which a run keeps where the job asks for that (FetchWorkTailBytes)."""

from __future__ import annotations

from dataclasses import dataclass

from fetchwork.queue.ask import Ask, Steps


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
