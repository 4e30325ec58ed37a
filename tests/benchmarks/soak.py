"""Seeded fault runs by the hundred, and a thousand agents that come back: too long for ``make test``.

Usage: soak.py [--runs N] [--jobs N] [--faults N] [--first-seed N] [--workers N] [--agents N]

Each run is a database of its own with two or three simulated hosts, on whose agents, hooks, network and
PostgreSQL come that many faults (tests/faults/seeded.py). A run that finds something is told with its seed
and its plan, and can be played again with ``--first-seed N --runs 1``. The exit status is 1 then.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fetchwork import schema
from fetchwork.pool.postgres import PostgresServer
from tests.faults.conftest import SETTINGS, TEMPLATE, new_database
from tests.faults.reconnect import lose_and_regain
from tests.faults.seeded import play


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--faults", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="runs at the same time")
    parser.add_argument("--agents", type=int, default=1000)
    # what a worker process is told: the seeds that it plays, each an answer of one line
    parser.add_argument("--seeds", help=argparse.SUPPRESS)
    return parser.parse_args()


def _play_some(options: argparse.Namespace) -> None:
    """Play some seeds one after the other, on a server of this process."""
    with tempfile.TemporaryDirectory(prefix="fetchwork-soak-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        server = PostgresServer(directory / "postgres", settings=SETTINGS, durable=False)
        server.start()
        try:
            server.create_database(TEMPLATE)
            schema.init(server.conninfo(TEMPLATE))
            for seed in range(*map(int, options.seeds.split(":"))):
                place = directory / f"run{seed}"
                place.mkdir(mode=0o755)
                conninfo = new_database(server)
                result = asyncio.run(play(server, conninfo, place, seed, options.jobs, options.faults))
                print(json.dumps(vars(result)), flush=True)
                server.start()
                server.query(f"DROP DATABASE {conninfo.split('dbname=')[1].split()[0]} WITH (FORCE)")
        finally:
            server.stop("immediate")


def _soak(options: argparse.Namespace) -> tuple[list[dict], list[str]]:
    """Every run's result, and what went wrong with workers."""
    results: list[dict] = []
    broken: list[str] = []

    def work(number: int) -> None:
        # each takes every WORKERSth seed
        last = options.first_seed + options.runs
        command = [
            sys.executable,
            __file__,
            "--seeds",
            f"{options.first_seed + number}:{last}:{options.workers}",
        ]
        command += ["--jobs", str(options.jobs), "--faults", str(options.faults)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                result = json.loads(line)
                results.append(result)
                if result["faults"]:
                    print(
                        f"seed {result['seed']}:", *result["plan"], *result["faults"], sep="\n  ", flush=True
                    )
                if len(results) % 10 == 0:
                    print(f"{len(results)} of {options.runs} runs", file=sys.stderr, flush=True)
        if process.returncode:
            broken.append(f"worker {number} ended with status {process.returncode}")

    with ThreadPoolExecutor(options.workers) as workers:
        list(workers.map(work, range(options.workers)))
    return results, broken


def _comeback(agents: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="fetchwork-soak-") as name:
        Path(name).chmod(0o755)
        settings = {**SETTINGS, "max_connections": str(agents + 20)}
        server = PostgresServer(Path(name) / "postgres", settings=settings, durable=False)
        server.start()
        try:
            server.create_database("queue")
            schema.init(server.conninfo("queue"))
            comeback = asyncio.run(lose_and_regain(server, server.conninfo("queue"), agents))
        finally:
            server.stop("immediate")
    return {
        "agents_back_first_s": min(comeback.answered_s),
        "agents_back_last_s": max(comeback.answered_s),
        "agents_back_in_the_busiest_second": comeback.busiest_second,
        "longest_wait_of_a_stranger_s": max(comeback.stranger_s),
    }


def main() -> int:
    """Run it all; 1 if anything was lost, run twice, or otherwise wrong."""
    options = _options()
    if options.seeds:
        _play_some(options)
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 16_384)), hard))
    began = time.monotonic()
    results, broken = _soak(options)
    lasted = time.monotonic() - began
    figures = _comeback(options.agents) if options.agents else {}
    counts: dict[str, int] = {}
    for result in results:
        for name, count in result["counts"].items():
            counts[name] = counts.get(name, 0) + count
    wrong = [result for result in results if result["faults"]]
    print(*broken, sep="\n")
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    print(f"runs: {len(results)}")
    print(f"runs_with_a_fault: {len(wrong)}")
    print(f"jobs: {sum(result['jobs'] for result in results)}")
    print(f"faults_injected: {sum(len(result['plan']) for result in results)}")
    print(f"executions: {counts.get('started', 0)}")
    print(f"minutes: {lasted / 60:.1f}")
    for name, figure in figures.items():
        print(f"{name}: {figure:.2f}")
    return 1 if wrong or broken or len(results) != options.runs else 0


if __name__ == "__main__":
    sys.exit(main())
