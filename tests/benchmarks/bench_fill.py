"""The time in which a large host fills with jobs that wait for it.

    make bench-fill [ARGS="--suite sid --slots 8"]

A host of 64 cores, made only by the README's commands, with HTCondor's own default: one partitionable slot.
64 jobs of one core are submitted. HTCondor asks for one job a second for such a slot, so the host cannot be
full in less than 63 s; the goal is 77. With ``--slots N`` the host file divides it into N partitionable slots
(``[[slots.type]]``), which ask in parallel; the goal is 15 s with 8.

The last line is the time from the submission of the first job to the start of the last.
"""

import itertools
from pathlib import Path

from fetchwork.pool.condorroot import DEFAULT_SUITE, condor_root
from tests.benchmarks import frame
from tests.condor.readme_host import readme_host
from tests.condor.stock_fill import start_all

CORES = 64
STARTED = "SELECT extract(epoch FROM started_at)::float8 AS at FROM fetchwork.runs ORDER BY started_at"


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--suite", default=DEFAULT_SUITE, help="the Debian suite whose HTCondor is tried")
    parser.add_argument("--slots", type=int, default=1, help="partitionable slots that the host is cut into")
    parser.add_argument("--cores", type=int, default=CORES)
    parser.add_argument("--logs", type=Path, help="where to leave HTCondor's logs")
    arguments = parser.parse_args()
    root = condor_root(arguments.suite, print)
    more = ""
    if arguments.slots > 1:
        more = f"\n[[slots.type]]\ncount = {arguments.slots}\npartitionable = true\n"
    with frame.server() as (postgres, directory):
        host_directory = directory / "host"
        host_directory.mkdir()
        with readme_host(root, host_directory, postgres, cores=arguments.cores, more=more) as host:
            print(host.doctor()[1])
            filled = start_all(host, jobs=arguments.cores)
            times = [row["at"] for row in host.database.query(STARTED)]
            if arguments.logs:
                arguments.logs.write_text(host.debian.run("tail -n +1 /var/log/condor/*Log")[1])
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(times))
    print(f"between two starts: median {gaps[len(gaps) // 2]:.2f} s, longest {gaps[-1]:.2f} s")
    print(f"fill seconds: {filled:.1f}")


if __name__ == "__main__":
    main()
