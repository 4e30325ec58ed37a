"""Acting on many jobs: 100 000 jobs are held, released, edited and removed, by constraint and by ids.

    make bench-act
    python tests/benchmarks/bench_act.py --jobs 20000

Through ``Queue.act`` and ``Queue.edit``, as the command line does it. Meanwhile another submitter's jobs are
claimed, started and finished, one after the other; how many a second is printed beside each figure.

The last line is the slowest of the eight; the goal is 10 s.
"""

import threading
import time
from collections.abc import Iterator

import htcondor2
import psycopg

from fetchwork.queue import Queue
from tests.benchmarks import frame
from tests.support.many_jobs import unlimited

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}
ACTIONS = ("hold", "release", "edit", "remove")


class Others:
    """A slot that takes bob's jobs until it is stopped, on a connection of its own."""

    def __init__(self, conninfo: str, autocluster: int) -> None:
        self.ended = 0
        self.longest_s = 0.0
        self._stop = threading.Event()
        self._work = (conninfo, autocluster)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Others":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        conninfo, autocluster = self._work
        position = 0
        with psycopg.connect(conninfo, autocommit=True) as connection:
            while not self._stop.is_set():
                begin = time.perf_counter()
                row = connection.execute(
                    "SELECT run_id, token, position FROM fetchwork.claim("
                    "1, 'slot1@bench', ARRAY[%s::integer], ARRAY[0], ARRAY[%s::bigint])",
                    [autocluster, position],
                ).fetchone()
                if row is None:
                    raise RuntimeError("no job of the others is left")
                run_id, token, position = row
                connection.execute("SELECT fetchwork.start(%s, %s, %s)", [run_id, token, f"bench:{run_id}"])
                connection.execute(
                    "SELECT fetchwork.finish(%s, %s, 'exit', %s)",
                    [run_id, token, '{"ExitCode": 0, "JobPid": 1, "ExitBySignal": false, "JobDuration": 60}'],
                )
                self.longest_s = max(self.longest_s, time.perf_counter() - begin)
                self.ended += 1


def submitted(conninfo: str, owner: str, jobs: int) -> int:
    """Submit a cluster of this many jobs, each with arguments of its own; return its id."""
    with psycopg.connect(conninfo) as connection:
        return int(
            frame.value(
                connection,
                "SELECT fetchwork.submit_cluster(jsonb_build_object('Cmd', '/bin/true', 'Owner', %s::text),"
                " (SELECT array_agg(jsonb_build_object('Args', n::text)) FROM generate_series(1, %s) AS n))",
                [owner, jobs],
            )
        )


def seconds_of(queue: Queue, action: str, spec: object, jobs: int) -> float:
    begin = time.perf_counter()
    if action == "edit":
        changed = queue.edit(spec, "RequestMemory", "512")  # type: ignore[arg-type]
        count = int(getattr(changed, "count", changed))
    else:
        count = queue.act(htcondor2.JobAction[action.capitalize()], spec)["TotalSuccess"]  # type: ignore[arg-type]
    if count != jobs:
        raise RuntimeError(f"{action} changed {count} of {jobs} jobs")
    return time.perf_counter() - begin


def rounds(conninfo: str, jobs: int) -> Iterator[tuple[str, str, float]]:
    """Yield the eight figures: the action, the way the jobs were named, and seconds."""
    for way in ("constraint", "ids"):
        cluster = submitted(conninfo, "alice", jobs)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        spec = f"ClusterId == {cluster}" if way == "constraint" else [f"{cluster}.{n}" for n in range(jobs)]
        with Queue(conninfo) as queue:
            for action in ACTIONS:
                yield action, way, seconds_of(queue, action, spec, jobs)


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    options = parser.parse_args()
    with frame.server(SETTINGS) as (server, _):
        conninfo = frame.new_database(server)
        unlimited(conninfo)
        submitted(conninfo, "bob", 50_000)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("SELECT fetchwork.hello('bench', '1', gen_random_uuid())")
            connection.execute("VACUUM ANALYZE")
        slowest = 0.0
        with Others(conninfo, 1) as others:
            before, at = 0, time.perf_counter()
            for action, way, seconds in rounds(conninfo, options.jobs):
                rate = (others.ended - before) / (time.perf_counter() - at)
                print(
                    f"{action:8} by {way:10} {seconds:6.2f} s; meanwhile {rate:5.0f} jobs a second of"
                    f" another submitter, the slowest {others.longest_s * 1000:.0f} ms",
                    flush=True,
                )
                before, at = others.ended, time.perf_counter()
                others.longest_s = 0.0
                slowest = max(slowest, seconds)
    print(f"act seconds per 100000: {slowest * 100_000 / options.jobs:.1f}")


if __name__ == "__main__":
    main()
