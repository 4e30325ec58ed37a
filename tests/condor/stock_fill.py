"""Many short jobs on a host that the README's commands made: the time until it is full."""

from collections import Counter
from typing import NamedTuple

from fetchwork.db.calls.call import Row
from tests.condor.readme_host import ReadmeHost
from tests.support.by_name import scalar


class Filled(NamedTuple):
    """The jobs' runs: their number by outcome, the most at once, and first start to last end."""

    outcomes: dict[str, int]
    most_at_once: int
    span_s: float


def fill(host: ReadmeHost, *, jobs: int, seconds: float) -> Filled:
    """Run this many jobs of ``seconds`` and one core, all submitted at once."""
    database = host.database
    made = [
        scalar(
            database,
            "submit",
            cmd="/bin/sleep",
            arguments=str(seconds),
            owner="nobody",
            iwd="/tmp",
            request_cpus=1,
        )
        for _ in range(jobs)
    ]
    ended = "SELECT count(*) AS jobs FROM fetchwork.history WHERE jobid = ANY (%s)"
    host.wait_until(lambda: database.query(ended, [made])[0]["jobs"] == jobs, 600)
    return measured(
        database.query(
            "SELECT outcome, extract(epoch FROM started_at)::float8 AS started,"
            " extract(epoch FROM ended_at)::float8 AS ended FROM fetchwork.runs WHERE jobid = ANY (%s)",
            [made],
        )
    )


def start_all(host: ReadmeHost, *, jobs: int) -> float:
    """Seconds from the submission of this many long jobs of one core to the start of the last."""
    database = host.database
    for _ in range(jobs):
        scalar(
            database,
            "submit",
            cmd="/bin/sleep",
            arguments="1000",
            owner="nobody",
            iwd="/tmp",
            request_cpus=1,
            request_memory=1,
        )
    running = "SELECT count(*) AS jobs FROM fetchwork.jobs WHERE jobstatus = 2"
    host.wait_until(lambda: database.query(running)[0]["jobs"] == jobs, 600)
    (row,) = database.query("SELECT max(jobcurrentstartdate) - min(qdate) AS seconds FROM fetchwork.jobs")
    return float(row["seconds"])


def measured(runs: list[Row]) -> Filled:
    """Sum up ended runs."""
    began = [(run["started"], run["ended"]) for run in runs if run["started"] is not None]
    most = max(sum(start <= at < end for start, end in began) for at, _ in began)
    span_s = max(end for _, end in began) - min(start for start, _ in began)
    return Filled(dict(Counter(run["outcome"] for run in runs)), most, span_s)
