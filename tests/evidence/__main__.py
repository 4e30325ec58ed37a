"""``make evidence``: histories of many seeds, each judged by the checker; then each planted bug.

    make evidence                          ten minutes: new histories, then the planted bugs
    make evidence ARGS="--seeds 1-200"     these histories, then the planted bugs
    make evidence ARGS=--planted-only

Every third history is of a pool with real agents, the others of clients that follow an agent's rules. The
counts of all runs are added up in ``.evidence/counts.json``; a history with an anomaly is kept beside it.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import queue
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psycopg

from fetchwork.db import schema
from fetchwork.pool.postgres import PostgresServer
from tests.evidence import pools, workload
from tests.evidence.checker import anomalies
from tests.evidence.history import read
from tests.evidence.planted import PLANTED, Planted

KEPT = Path(".evidence")
#: within so many histories a planted bug must be found
MOST = 20
#: commits reach the kernel, so that a killed server loses none; the machine itself stays up
SERVER = {"synchronous_commit": "on", "max_connections": "100", "timezone": "UTC", "max_wal_size": "128MB"}


_SETTINGS = {
    "max_lost": 1000,
    "max_not_started": 1000,
    "retry_delay": 0.1,
    "max_retry_delay": 0.5,
    "refusal_rest": 0.1,
    "black_hole_runs": 1000,
}


@contextlib.contextmanager
def server() -> Iterator[PostgresServer]:
    """A server with a template database."""
    with tempfile.TemporaryDirectory(prefix="fetchwork-evidence-") as directory:
        Path(directory).chmod(0o755)
        postgres = PostgresServer(Path(directory) / "postgres", settings=SERVER, durable=False)
        postgres.start()
        try:
            postgres.create_database("evidence_template")
            schema.init(postgres.conninfo("evidence_template"))
            yield postgres
        finally:
            postgres.stop("immediate")


def is_of_pool(seed: int) -> bool:
    """Whether the history of a seed is of a pool with agents."""
    return seed % 3 == 0


def judge(postgres: PostgresServer, seed: int, planted: Planted | None = None) -> list[str]:
    """Play the history of a seed in a database of its own; its anomalies. A history that has some is kept."""
    postgres.start()
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS evidence WITH (FORCE)")
        connection.execute("CREATE DATABASE evidence TEMPLATE evidence_template")
    conninfo = postgres.conninfo("evidence")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        # no failure here is a job's own, so none may be held or back off for long
        for name, value in _SETTINGS.items():
            connection.execute("SELECT fetchwork.set_setting(%s, %s::numeric)", [name, value])
    if planted is not None and not planted.of_agent:
        planted.plant(conninfo)
    with tempfile.TemporaryDirectory(prefix="fetchwork-evidence-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        if is_of_pool(seed):
            prelude = planted.prelude() if planted is not None and planted.of_agent else ""
            files = asyncio.run(pools.play(postgres, conninfo, directory, seed, prelude))
        else:
            files = [directory / "clients.jsonl"]
            asyncio.run(workload.play(postgres, conninfo, files[0], seed))
        problems = anomalies(read(*files))
        if problems and planted is None:
            kept = KEPT / f"history-{seed}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(directory, kept, ignore=shutil.ignore_patterns("*.sock"))
    return problems


#: a task of a worker: a seed, and the number of a planted bug or None
Task = tuple[int, int | None]


def _work(
    tasks: "multiprocessing.Queue[Task]", results: "multiprocessing.Queue[tuple[Task, list[str]]]"
) -> None:
    """Judge one history after the other: each worker has a server, which its faults kill."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with server() as postgres:
        while True:
            task = tasks.get()
            seed, planted = task
            results.put((task, judge(postgres, seed, None if planted is None else PLANTED[planted])))


@contextlib.contextmanager
def workers(number: int) -> Iterator[Callable[[Iterable[Task]], Iterator[tuple[Task, list[str]]]]]:
    """Processes that judge; yields a function that gives the results of tasks as they come."""
    tasks: multiprocessing.Queue[Task] = multiprocessing.Queue()
    results: multiprocessing.Queue[tuple[Task, list[str]]] = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=_work, args=(tasks, results)) for _ in range(number)]

    def judged(wanted: Iterable[Task]) -> Iterator[tuple[Task, list[str]]]:
        wanted = iter(wanted)
        under_way = 0
        for task in itertools.islice(wanted, number):
            tasks.put(task)
            under_way += 1
        while under_way:
            try:
                yield results.get(timeout=1.0)
            except queue.Empty:
                if not all(process.is_alive() for process in processes):
                    raise SystemExit("make evidence: a worker has ended; see its message above") from None
                continue
            under_way -= 1
            for task in itertools.islice(wanted, 1):
                tasks.put(task)
                under_way += 1

    for process in processes:
        process.start()
    try:
        yield judged
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def main() -> int:
    """Play and judge; 1 if there was an anomaly, or a planted bug was not found."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    KEPT.mkdir(exist_ok=True)
    found = bad = 0
    try:
        with workers(arguments.workers) as judged:
            if not arguments.planted_only:
                bad = _histories(judged, arguments)
            if not arguments.histories_only:
                found = _planted(judged)
    except KeyboardInterrupt:
        return 130
    counts = _kept_counts()
    print(f"histories checked: {counts['histories']}")
    print(f"anomalies: {counts['anomalies']}")
    if not arguments.histories_only:
        print(f"planted bugs found: {found} of {len(PLANTED)}")
    return 1 if bad or (not arguments.histories_only and found < len(PLANTED)) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make evidence", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", metavar="FIRST-LAST", help="play these histories (default: new ones)")
    parser.add_argument(
        "--minutes", type=float, default=6.0, help="begin no history after so long (default: 6)"
    )
    parser.add_argument("--workers", type=int, default=3, help="histories at a time (default: 3)")
    parser.add_argument("--planted-only", action="store_true", help="look for the planted bugs alone")
    parser.add_argument("--histories-only", action="store_true", help="leave out the planted bugs")
    return parser.parse_args()


_Judged = Callable[[Iterable[Task]], Iterator[tuple[Task, list[str]]]]


def _histories(judged: _Judged, arguments: argparse.Namespace) -> int:
    end = time.monotonic() + 60 * arguments.minutes
    bad = 0
    tasks = ((seed, None) for seed in _seeds(arguments.seeds) if time.monotonic() < end)
    # an endless sequence ends with the time
    limited = itertools.takewhile(lambda _: time.monotonic() < end, tasks)
    for (seed, _), problems in judged(limited):
        _add_to_counts(seed, bool(problems))
        print(f"seed {seed}: {'anomalies' if problems else 'ok'}", file=sys.stderr, flush=True)
        if problems:
            bad += 1
            print(f"seed {seed}: {len(problems)} anomalies; the history is in {KEPT / f'history-{seed}'}")
            for line in problems[:5]:
                print("   ", line[:300], flush=True)
    return bad


def _seeds(asked: str | None) -> Iterator[int]:
    if asked:
        first, _, last = asked.partition("-")
        return iter(range(int(first), int(last or first) + 1))
    # go on where the last run ended
    return itertools.count(_kept_counts()["next_seed"])


def _planted(judged: _Judged) -> int:
    """Look for each planted bug in one history after the other, until one shows it."""
    found: dict[int, int] = {}

    def tasks() -> Iterator[Task]:
        for tried in range(MOST):
            for number, planted in enumerate(PLANTED):
                if number not in found:
                    # a bug of the agent shows in pools alone, one of the database sooner among clients
                    yield 3 * tried + (3 if planted.of_agent else 1 + tried % 2), number

    for (seed, number), problems in judged(tasks()):
        assert number is not None
        if problems and number not in found:
            found[number] = seed
            print(
                f"planted: {PLANTED[number].name}: found in history {seed}: {problems[0][:160]}", flush=True
            )
    for number, planted in enumerate(PLANTED):
        if number not in found:
            print(f"planted: {planted.name}: not found in {MOST} histories")
    return len(found)


def _kept_counts() -> dict[str, int]:
    path = KEPT / "counts.json"
    empty = {"histories": 0, "anomalies": 0, "next_seed": 1}
    return {**empty, **json.loads(path.read_text())} if path.exists() else empty


def _add_to_counts(seed: int, is_bad: bool) -> None:
    counts = _kept_counts()
    counts["histories"] += 1
    counts["anomalies"] += is_bad
    counts["next_seed"] = max(counts["next_seed"], seed + 1)
    (KEPT / "counts.json").write_text(json.dumps(counts) + "\n")


if __name__ == "__main__":
    sys.exit(main())
