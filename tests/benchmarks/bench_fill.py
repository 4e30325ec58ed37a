"""How soon a stock host, made by the README's commands alone, runs many short jobs.

    make bench-fill [--suite sid]

64 jobs of 5 seconds and one core, all submitted at once, on a host of 4 cores with HTCondor's own default,
one partitionable slot. The last line is the time from the first start to the last end; 80 s would be without
a gap, and the goal is 104 s, with each job in one run.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from fetchwork.pool.condorroot import DEFAULT_SUITE, condor_root
from fetchwork.pool.postgres import PostgresServer

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.condor.readme_host import CORES, readme_host
from tests.condor.stock_fill import fill

JOBS = 64
SECONDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--suite", default=DEFAULT_SUITE, help="the Debian suite whose HTCondor is tried")
    parser.add_argument("--jobs", type=int, default=JOBS)
    arguments = parser.parse_args()
    root = condor_root(arguments.suite, print)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        host_directory = Path(directory, "host")
        host_directory.mkdir()
        postgres = PostgresServer(Path(directory) / "postgres")
        postgres.start()
        try:
            with readme_host(root, host_directory, postgres) as host:
                print(host.doctor()[1])
                filled = fill(host, jobs=arguments.jobs, seconds=SECONDS)
        finally:
            postgres.stop()
    print(f"runs by outcome: {filled.outcomes}; at most {filled.most_at_once} at once")
    print(f"without a gap: {arguments.jobs * SECONDS / CORES:.1f} s")
    print(f"fill s: {filled.span_s:.1f}")


if __name__ == "__main__":
    main()
