"""Plays and judges histories; as a program, those that are asked for on standard input, one by one.

A worker reads lines of JSON, each a seed and the number of a planted bug or null, and answers each with a
line: the anomalies, or null if the history could not be decided.
"""

import asyncio
import contextlib
import itertools
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue

import psycopg

from fetchwork.db import schema
from fetchwork.pool.postgres import PostgresServer
from tests.evidence import pools, workload
from tests.evidence.checker import anomalies
from tests.evidence.history import read
from tests.evidence.order import Undecided
from tests.evidence.planted import PLANTED, Planted

#: verdicts, and histories with an anomaly
KEPT = Path(".evidence")
#: commits reach the kernel, so that a killed server loses none; the machine itself stays up
SERVER = {
    "synchronous_commit": "on",
    "max_connections": "100",
    "timezone": "UTC",
    "max_wal_size": "128MB",
    # a commit that does not wait is lost with the server, as with a machine under load
    "wal_writer_delay": "10s",
}
#: no failure here is a job's own, so none may be held or back off for long
SETTINGS = {
    "max_lost": 1000,
    "max_not_started": 1000,
    "retry_delay": 0.1,
    "max_retry_delay": 0.5,
    "refusal_rest": 0.1,
    "black_hole_runs": 1000,
    # after a crash all offers live for so long anew
    "host_lease": 10,
}

#: a seed, and the number of a planted bug or None
Task = tuple[int, int | None]
#: anomalies; None if the history could not be decided
Verdict = list[str] | None


@contextlib.contextmanager
def server(programs: Path | None = None) -> Iterator[PostgresServer]:
    """A server with a template database; of these programs, or those of the wheel."""
    with tempfile.TemporaryDirectory(prefix="evidence-") as directory:
        Path(directory).chmod(0o755)
        place = Path(directory) / "postgres"
        postgres = PostgresServer(place, programs=programs, settings=SERVER, durable=False)
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


def seeds_for(planted: Planted) -> Iterator[int]:
    """The seeds of histories that may show a planted bug."""
    return (
        seed
        for seed in itertools.count(1)
        if is_of_pool(seed) == planted.of_agent and workload.is_restored(seed) == planted.after_restore
    )


def judge(postgres: PostgresServer, seed: int, planted: Planted | None = None) -> Verdict:
    """Play the history of a seed in a database of its own, and judge it. One that is not in order is kept."""
    postgres.start()
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS evidence WITH (FORCE)")
        connection.execute("CREATE DATABASE evidence TEMPLATE evidence_template")
    conninfo = postgres.conninfo("evidence")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for name, value in SETTINGS.items():
            connection.execute("SELECT fetchwork.set_setting(%s, %s::numeric)", [name, value])
    if planted is not None and not planted.of_agent:
        planted.plant(conninfo)
    with tempfile.TemporaryDirectory(prefix="evidence-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        if is_of_pool(seed):
            prelude = planted.prelude() if planted is not None and planted.of_agent else ""
            files = asyncio.run(pools.play(postgres, conninfo, directory, seed, prelude))
        else:
            files = [directory / "clients.jsonl"]
            asyncio.run(workload.play(postgres, conninfo, files[0], seed))
        verdict: Verdict = None
        with contextlib.suppress(Undecided):
            verdict = anomalies(read(*files))
        if verdict != [] and planted is None:
            kept = KEPT / f"history-{seed}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(directory, kept, ignore=shutil.ignore_patterns("*.sock"))
    return verdict


class Workers:
    """Processes that judge; each has a server of its own, which its faults kill."""

    def __init__(self, number: int, directory: Path, programs: Path | None) -> None:
        words = [str(directory), *([] if programs is None else [str(programs)])]
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", __name__, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(number)
        ]

    def judged(self, wanted: Iterable[Task]) -> Iterator[tuple[Task, Verdict]]:
        """The results of tasks, as they come."""
        tasks = iter(wanted)
        taking = threading.Lock()
        results: SimpleQueue[tuple[Task, Verdict] | Exception | None] = SimpleQueue()

        def ask(process: subprocess.Popen[str]) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                while True:
                    with taking:
                        task = next(tasks, None)
                    if task is None:
                        break
                    process.stdin.write(json.dumps(task) + "\n")
                    process.stdin.flush()
                    results.put((task, json.loads(process.stdout.readline())))
                results.put(None)
            except (OSError, ValueError) as error:
                results.put(error)

        for process in self._processes:
            threading.Thread(target=ask, args=[process], daemon=True).start()
        working = len(self._processes)
        while working:
            result = results.get()
            if isinstance(result, Exception):
                raise SystemExit("make evidence: a worker has ended; its message is above") from result
            if result is None:
                working -= 1
            else:
                yield result

    def close(self) -> None:
        """End them in good order."""
        for process in self._processes:
            process.communicate()


def _work(directory: str, programs: str | None = None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tempfile.tempdir = directory
    with server(None if programs is None else Path(programs)) as postgres:
        for line in sys.stdin:
            seed, planted = json.loads(line)
            verdict = judge(postgres, seed, None if planted is None else PLANTED[planted])
            print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    _work(*sys.argv[1:])
