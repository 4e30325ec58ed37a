"""For bench_files: jobs with files on the slots of a real startd, beside those without, and a schedd's."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fetchwork.agent.client import status
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue
from tests.benchmarks.bench_startd import CONFIG, HOST, SLOTS, TICKS, Bench, wait
from tests.clients.conftest import Clients

KIB = 1024
SMALL_BYTES = 10 * KIB
LARGE_BYTES = KIB * KIB
COPY = "executable = /bin/cp\ntransfer_executable = false\n"
WITH_FILES = COPY + "should_transfer_files = YES\nwhen_to_transfer_output = ON_EXIT\n"


def measure(jobs: int, rounds: int, suite: str | None) -> tuple[float, float]:
    """What files of 10 KiB cost a host, in milliseconds of CPU a job; jobs/s with 1 MiB over a schedd's."""
    with tempfile.TemporaryDirectory(prefix="fetchwork-bench-") as directory:
        Path(directory).chmod(0o755)
        pool = PersonalPool(Path(directory) / "pool", slots=SLOTS, config=CONFIG, host=HOST, suite=suite)
        with pool, Queue(pool.conninfo) as queue:
            bench = Bench(pool, python_hooks=False)
            bench.use("ours")
            clients = Clients(pool)
            try:
                sides = _Sides(bench, queue, clients)
                small = [sides.small(jobs, number) for number in range(rounds)]
                beside = [sides.beside(jobs, number) for number in range(rounds)]
            finally:
                clients.stop()
    return statistics.median(small), statistics.median(beside)


class _Sides:
    def __init__(self, bench: Bench, queue: Queue, clients: Clients) -> None:
        self._bench = bench
        self._queue = queue
        self._clients = clients
        self._socket = bench.pool.directory / "run/agent.sock"

    def small(self, jobs: int, number: int) -> float:
        """More milliseconds of the host's CPU for a job with an input and an output than without."""
        home = self._clients.tmp / f"small{number}"
        self._clients.folder(home.name)
        (home / "in").write_bytes(os.urandom(SMALL_BYTES))
        files = f"{WITH_FILES}arguments = in out\ntransfer_input_files = {home}/in\nqueue {jobs}\n"
        plain = f"{COPY}arguments = /tmp/{home.name}/in /dev/null\nshould_transfer_files = NO\n"
        spent = {}
        for name, text in (("plain", f"{plain}queue {jobs}\n"), ("files", files)):
            wait(self._ready, "the slots do not wait for work")
            before = self._host_cpu_s()
            result = self._queue.submit(f"initialdir = /tmp\n{text}", owner="alice")
            self._until_ended(result.cluster(), jobs)
            spent[name] = (self._host_cpu_s() - before) * 1000 / jobs
        print(f"host CPU a job: {spent['plain']:.1f} ms, with files {spent['files']:.1f} ms", flush=True)
        return spent["files"] - spent["plain"]

    def beside(self, jobs: int, number: int) -> float:
        """Jobs/s, from submit to the last file that is back, over a schedd's."""
        pool, clients = self._bench.pool, self._clients
        sides: dict[str, Callable[[str], subprocess.CompletedProcess[str]]] = {
            "fetchwork": lambda folder: clients.run(folder, "condor_submit", f"{folder}/job.sub"),
            "schedd": lambda folder: pool.run_command(["condor_submit", f"{folder}/job.sub"], user="bob"),
        }
        rate = {}
        for name in sides if number % 2 else reversed(sides):
            home = clients.tmp / f"{name}{number}"
            folder = clients.folder(home.name)
            for job in range(jobs):
                (home / f"in.{job}").write_bytes(os.urandom(LARGE_BYTES))
                (home / f"in.{job}").chmod(0o644)
            (home / "job.sub").write_text(
                f"initialdir = {folder}\n{WITH_FILES}arguments = in.$(Process) out.$(Process)\n"
                f"transfer_input_files = in.$(Process)\nqueue {jobs}\n"
            )
            (home / "job.sub").chmod(0o644)
            wait(self._ready, "the slots do not wait for work")
            began = time.monotonic()
            told = sides[name](folder)
            if told.returncode:
                raise SystemExit(f"condor_submit: {told.stderr.strip()}")
            wait(partial(_has_outputs, home, jobs), "outputs are not back")
            rate[name] = jobs / (time.monotonic() - began)
        print(", ".join(f"{name} {each:.2f} jobs/s" for name, each in rate.items()), flush=True)
        return rate["fetchwork"] / rate["schedd"]

    def _ready(self) -> bool:
        return bool(status(self._socket)["waiting_fetches"] == SLOTS)

    def _until_ended(self, cluster: int, jobs: int) -> None:
        def ended() -> bool:
            return len(self._queue.history(f"ClusterId == {cluster}", ["ProcId"])) == jobs

        wait(ended, f"{jobs} jobs have not ended")
        wait(self._ready, "the slots do not get free")

    def _host_cpu_s(self) -> float:
        """Of the pool's processes, and of those that have ended, without the database's."""
        spent = self._bench.cpu()
        return sum(ticks for name, ticks in spent.items() if "postgres" not in name) / TICKS


def _has_outputs(home: Path, jobs: int) -> bool:
    return len(list(home.glob("out.*"))) == jobs
