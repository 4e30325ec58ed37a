"""How soon a large host is full of jobs that wait for it.

    make bench-fill [ARGS="--suite sid --slots 8"]

A host of 64 cores, made by the README's commands alone, with HTCondor's own default: one partitionable slot.
64 jobs of one core wait for it when it comes up. HTCondor asks for one job a second for such a slot, so it
can't be full in less than 63 s; the goal is 77. With ``--slots N`` the host file cuts it into N partitionable
slots (``[[slots.type]]``), which ask side by side; the goal is 15 s with 8.

The last line is the time from the first job's start to the last one's, as the queue has them.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from fetchwork.pool.condorroot import DEFAULT_SUITE, condor_root
from fetchwork.pool.postgres import PostgresServer

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import itertools

from tests.by_name import scalar
from tests.condor.readme_host import ReadmeHost, readme_host

CORES = 64
#: the jobs outlast the filling
JOB_S = 900
RUNNING = (
    "SELECT count(*) AS jobs, extract(epoch FROM max(started_at) - min(started_at))::float8 AS span_s,"
    " array_agg(extract(epoch FROM started_at)::float8 ORDER BY started_at) AS times"
    " FROM fetchwork.runs WHERE started_at IS NOT NULL"
)


def fill(host: ReadmeHost, jobs: int) -> list[float]:
    """Let so many jobs wait, and return when each has started."""
    for _ in range(jobs):
        scalar(
            host.database,
            "submit",
            cmd="/bin/sleep",
            arguments=str(JOB_S),
            owner="nobody",
            iwd="/tmp",
            request_cpus=1,
            request_memory=1,
        )
    end = time.monotonic() + 600
    while (row := host.database.query(RUNNING)[0])["jobs"] < jobs:
        if time.monotonic() > end:
            raise SystemExit(f"bench_fill: {row['jobs']} of {jobs} jobs have started in 600 s")
        time.sleep(0.5)
    return list(row["times"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--suite", default=DEFAULT_SUITE, help="the Debian suite whose HTCondor is tried")
    parser.add_argument("--slots", type=int, default=1, help="partitionable slots that the host is cut into")
    parser.add_argument("--cores", type=int, default=CORES)
    parser.add_argument("--logs", type=Path, help="where to leave HTCondor's logs")
    arguments = parser.parse_args()
    root = condor_root(arguments.suite, print)
    more = ""
    if arguments.slots > 1:
        more = f"\n[[slots.type]]\ncount = {arguments.slots}\npartitionable = true\n"
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        host_directory = Path(directory, "host")
        host_directory.mkdir()
        postgres = PostgresServer(Path(directory) / "postgres")
        postgres.start()
        try:
            with readme_host(root, host_directory, postgres, cores=arguments.cores, more=more) as host:
                print(host.doctor()[1])
                times = fill(host, arguments.cores)
                if arguments.logs:
                    arguments.logs.write_text(host.debian.run("tail -n +1 /var/log/condor/*Log")[1])
        finally:
            postgres.stop()
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(times))
    print(f"between two starts: median {gaps[len(gaps) // 2]:.2f} s, longest {gaps[-1]:.2f} s")
    print(f"fill seconds: {times[-1] - times[0]:.1f}")


if __name__ == "__main__":
    main()
