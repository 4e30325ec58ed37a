"""Hundreds of seeded fault runs, a long outage, a thousand agents: tests too long for ``make test``.

Usage: soak.py [--short] [--runs N] [--jobs N] [--faults N] [--first-seed N] [--workers N] [--agents N]
               [--outage-minutes N]

``--short`` runs a little of each part in a few minutes: enough to show that it works, and no figures.

Each run has its own database and two or three simulated hosts. N faults hit their agents, hooks, network and
PostgreSQL (tests/faults/seeded.py). A run that finds a defect is printed with its seed
and its plan, and can be repeated with ``--first-seed N --runs 1``. The exit status is 1 then.

Meanwhile a pool of its own goes without PostgreSQL for ten minutes, with all its slots busy at first. Last,
PostgreSQL is killed under 1 000 agents, and their return is measured (tests/faults/reconnect.py).

tests/faults/FAULTS.md has the figures.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fetchwork.db import schema
from fetchwork.pool.personal import DBNAME
from fetchwork.pool.postgres import PostgresServer
from fetchwork.simulate.hookcalls import allow_connections
from tests.faults.conftest import SETTINGS, new_database
from tests.faults.harness import Pool
from tests.faults.reconnect import lose_and_regain
from tests.faults.seeded import play

SHORT = ("--runs", "6", "--jobs", "100", "--agents", "50", "--outage-minutes", "0.5")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--short", action="store_true", help=f"the same as {' '.join(SHORT)}")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--faults", type=int, default=8)
    parser.add_argument("--chains", action="store_true", help="let jobs run in chains")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="runs at the same time")
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--outage-minutes", type=float, default=10.0)
    # a worker process's order: to play these seeds, with a line as the answer to each, or the outage
    parser.add_argument("--seeds", help=argparse.SUPPRESS)
    parser.add_argument("--outage", action="store_true", help=argparse.SUPPRESS)
    words = sys.argv[1:]
    # other options override those of --short
    return parser.parse_args([*SHORT, *words] if "--short" in words else words)


_T = TypeVar("_T")


def _end_as_by_control_c() -> None:
    """Let SIGTERM leave every context: servers and agents end with their users."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in an event loop; SIGTERM cancels it."""

    async def told() -> _T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(told())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        # the loop has restored the default handler
        _end_as_by_control_c()


@contextlib.contextmanager
def _server(**settings: str) -> Iterator[tuple[PostgresServer, Path]]:
    """A server of this process that has the template database, and a directory."""
    with tempfile.TemporaryDirectory(prefix="fetchwork-soak-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        server = PostgresServer(directory / "postgres", settings={**SETTINGS, **settings}, durable=False)
        server.start()
        try:
            server.create_database(DBNAME)
            schema.init(server.conninfo(DBNAME))
            yield server, directory
        finally:
            server.stop("immediate")


def _play_some(options: argparse.Namespace) -> None:
    """Play some seeds one after the other."""
    with _server() as (server, directory):
        for seed in range(*map(int, options.seeds.split(":"))):
            place = directory / f"run{seed}"
            place.mkdir(mode=0o755)
            conninfo = new_database(server)
            result = _run(
                play(server, conninfo, place, seed, options.jobs, options.faults, chains=options.chains)
            )
            print(json.dumps(vars(result)), flush=True)
            server.start()
            server.query(f"DROP DATABASE {conninfo.split('dbname=')[1].split()[0]} WITH (FORCE)")


async def _go_without(server: PostgresServer, directory: Path, minutes: float) -> dict[str, object]:
    """Stop PostgreSQL under busy slots for ``minutes``; return the final defects, and the recovery time."""
    async with Pool(server, new_database(server), directory) as pool:
        for _ in range(2):
            await pool.add_host(slots=8)
        pool.submit([3.0 + number % 20 for number in range(160)], SimulatedExitCode=5)
        await pool.until(lambda: pool.ledger.counts["job_exit exit"] >= 16, 120)
        server.stop("immediate")
        started = pool.ledger.counts["started"]
        reported = pool.ledger.counts["job_exit exit"]
        await asyncio.sleep(minutes * 60)
        in_the_dark = pool.ledger.counts["job_exit exit"] - reported
        accepted = pool.ledger.counts["started"] - started
        server.start()
        back_s = await pool.until(lambda: pool.ledger.counts["started"] > started + accepted, 60)
        await pool.until_done(300)
        await pool.until(lambda: not pool.left_in_spool(), 30)
        faults = [*pool.faults(), *pool.overlaps()]
        executions = Counter(execution.job for execution in pool.ledger.executions)
    return {
        "faults": faults,
        "outage_minutes": minutes,
        "outage_results_reported_in_the_dark": in_the_dark,
        "outage_jobs_executed_once": sum(times == 1 for times in executions.values()),
        "outage_jobs": len(executions),
        "outage_first_start_after_s": back_s,
    }


class _Workers:
    """The processes that play seeds; if told to end, they end all that they have started."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *options: object) -> "subprocess.Popen[str]":
        command = [sys.executable, __file__, *map(str, options)]
        self._started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return self._started[-1]

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.terminate()


def _outage(workers: _Workers, minutes: float) -> dict[str, Any]:
    """The answer of a process that plays the outage."""
    with workers.start("--outage", "--outage-minutes", minutes) as process:
        answer, _ = process.communicate()
    if process.returncode:
        return {"faults": [f"the outage ended with status {process.returncode}"]}
    return dict(json.loads(answer))


def _soak(options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str], dict[str, Any]]:
    """Every run's result, the errors of workers, and the outage's figures."""
    results: list[dict[str, Any]] = []
    broken: list[str] = []
    workers = _Workers()

    def work(number: int) -> None:
        # each takes every WORKERSth seed
        last = options.first_seed + options.runs
        seeds = f"{options.first_seed + number}:{last}:{options.workers}"
        words = ["--seeds", seeds, "--jobs", options.jobs, "--faults", options.faults]
        words += ["--chains"] if options.chains else []
        with workers.start(*words) as process:
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

    with ThreadPoolExecutor(options.workers + 1) as threads:
        try:
            outage = (
                threads.submit(_outage, workers, options.outage_minutes) if options.outage_minutes else None
            )
            list(threads.map(work, range(options.workers)))
        except KeyboardInterrupt:
            workers.end()
            raise
    return results, broken, outage.result() if outage else {"faults": []}


def _comeback(agents: int) -> dict[str, float]:
    with _server(max_connections=str(agents + 20)) as (server, _):
        comeback = _run(lose_and_regain(server, new_database(server), agents))
    return {
        "agents_back_first_s": min(comeback.answered_s),
        "agents_back_last_s": max(comeback.answered_s),
        "agents_back_in_the_busiest_second": comeback.busiest_second,
        "longest_wait_of_a_stranger_s": max(comeback.stranger_s),
    }


def main() -> int:
    """Run all; return 1 if a job was lost, run twice, or otherwise wrong."""
    options = _options()
    _end_as_by_control_c()
    if options.seeds:
        _play_some(options)
        return 0
    if options.outage:
        with _server() as (server, directory):
            print(json.dumps(_run(_go_without(server, directory, options.outage_minutes))))
        return 0
    allow_connections()
    began = time.monotonic()
    results, broken, outage = _soak(options)
    lasted = time.monotonic() - began
    figures: dict[str, Any] = _comeback(options.agents) if options.agents else {}
    counts: dict[str, int] = {}
    for result in results:
        for name, count in result["counts"].items():
            counts[name] = counts.get(name, 0) + count
    wrong = [result for result in results if result["faults"]]
    broken += outage.pop("faults")
    figures = {**outage, **figures}
    for line in broken:
        print(line)
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
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
