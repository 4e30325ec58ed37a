"""For bench_files: jobs with files on the slots of a real startd, beside jobs without, and a schedd's."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fetchwork import JobAction
from fetchwork.agent.client import status
from fetchwork.db.database import Database
from fetchwork.queue import Queue
from tests.benchmarks import frame
from tests.benchmarks.bench_startd import CONFIG, HOST, PATIENCE_S, SLOTS, TICKS, Bench, wait
from tests.clients.conftest import Clients

KIB = 1024
SMALL_BYTES = 10 * KIB
LARGE_BYTES = KIB * KIB
#: jobs that share an input, and the number of them that run
SHARING, RUN = 1000, 3 * SLOTS
#: seconds for a large file there and back
LARGE_PATIENCE_S = 900
#: seconds after which a connection has reported its statistics
STATISTICS_S = 2.0
COPY = "executable = /bin/cp\ntransfer_executable = false\n"
WITH_FILES = COPY + "should_transfer_files = YES\nwhen_to_transfer_output = ON_EXIT\n"


class Measured(NamedTuple):
    """The costs of jobs with files on the slots of a startd."""

    #: milliseconds of the host's CPU that an input and an output of 10 KiB cost a job
    small_ms: float
    #: jobs/s with 1 MiB over a schedd's
    beside: float
    #: MiB of additional peak memory of the agent while the large file comes and leaves
    memory_mib: float
    #: the agent's reads of the input that many jobs share
    shared_reads: float


def measure(jobs: int, rounds: int, suite: str | None, mib: int) -> Measured:
    """Measure all; the large file has ``mib``, and the shared input a tenth of that."""
    a_pool = frame.pool(slots=SLOTS, config=CONFIG, host=HOST, suite=suite)
    with a_pool as pool, Queue(pool.conninfo) as queue:
        bench = Bench(pool, python_hooks=False)
        bench.use("ours")
        clients = Clients(pool)
        try:
            sides = _Sides(bench, queue, clients)
            small = [sides.small(jobs, number) for number in range(rounds)]
            beside = [sides.beside(jobs, number) for number in range(rounds)]
            memory = sides.memory(mib) if mib else math.nan
            reads = sides.shared(max(1, mib // 10)) if mib else math.nan
        finally:
            clients.stop()
    return Measured(statistics.median(small), statistics.median(beside), memory, reads)


class _Sides:
    def __init__(self, bench: Bench, queue: Queue, clients: Clients) -> None:
        self._bench = bench
        self._queue = queue
        self._clients = clients
        self._socket = bench.pool.directory / "run/agent.sock"

    def small(self, jobs: int, number: int) -> float:
        """The host's additional CPU in milliseconds for a job with an input and an output."""
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
        """Jobs/s, from submission to the return of the last file, over a schedd's."""
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

    def memory(self, mib: int) -> float:
        """The agent's additional peak memory while a job's file comes and leaves."""
        home = self._clients.tmp / "large"
        self._clients.folder(home.name)
        with (home / "in").open("wb") as file:
            for _ in range(mib):
                file.write(os.urandom(LARGE_BYTES))
        wait(self._ready, "the slots do not wait for work")
        agent = Path(f"/proc/{status(self._socket)['pid']}")
        # resets the peak
        (agent / "clear_refs").write_text("5")
        before = _most_memory(agent)
        began = time.monotonic()
        files = f"{WITH_FILES}arguments = in out\ntransfer_input_files = {home}/in\nqueue\n"
        result = self._queue.submit(f"initialdir = /tmp\n{files}", owner="alice")
        self._until_ended(result.cluster(), 1, LARGE_PATIENCE_S)
        more = (_most_memory(agent) - before) / KIB
        seconds = time.monotonic() - began
        print(f"{mib} MiB in and out by a job: {seconds:.0f} s, agent {more:.0f} MiB more", flush=True)
        (home / "in").unlink()
        return more

    def shared(self, mib: int) -> float:
        """The agent's reads of an input that many jobs share, of which some run."""
        home = self._clients.tmp / "shared"
        self._clients.folder(home.name)
        (home / "in").write_bytes(os.urandom(mib * LARGE_BYTES))
        run = f"executable = /bin/true\ntransfer_executable = false\nhold = true\nqueue {SHARING}\n"
        files = f"should_transfer_files = YES\ntransfer_input_files = {home}/in\n{run}"
        cluster = self._queue.submit(f"initialdir = /tmp\n{files}", owner="alice").cluster()
        with Database(self._bench.pool.conninfo) as database:
            # also for sessions that are already open
            database.query("ALTER SYSTEM SET track_functions = 'pl'")
            database.query("SELECT pg_reload_conf()")
            (stored,) = database.query(
                "SELECT count(*) AS contents, sum(c.size)::bigint AS bytes FROM fetchwork.content AS c"
                " WHERE c.size = %s AND c.run_id IS NULL",
                [mib * LARGE_BYTES],
            )
            wait(self._ready, "the slots do not wait for work")
            before = _chunks_read(database)
            self._queue.act(JobAction.Release, f"ClusterId == {cluster}")

            def some_ended() -> bool:
                return len(self._queue.history(f"ClusterId == {cluster}", ["ProcId"])) >= RUN

            wait(some_ended, f"{RUN} jobs have not ended", LARGE_PATIENCE_S)
            self._queue.act(JobAction.Remove, f"ClusterId == {cluster}")
            wait(self._ready, "the slots do not get free")
            reads = (_chunks_read(database) - before) / mib
        print(
            f"{SHARING} jobs share {mib} MiB: {stored['contents']} content of {stored['bytes'] >> 20} MiB"
            f" stored; the agent read it {reads:.2f} times for {RUN} jobs",
            flush=True,
        )
        return reads

    def _ready(self) -> bool:
        return bool(status(self._socket)["waiting_fetches"] == SLOTS)

    def _until_ended(self, cluster: int, jobs: int, patience_s: float = PATIENCE_S) -> None:
        def ended() -> bool:
            return len(self._queue.history(f"ClusterId == {cluster}", ["ProcId"])) == jobs

        wait(ended, f"{jobs} jobs have not ended", patience_s)
        wait(self._ready, "the slots do not get free")

    def _host_cpu_s(self) -> float:
        """CPU of the pool's processes, living and ended, without the database's."""
        spent = self._bench.cpu()
        return sum(ticks for name, ticks in spent.items() if "postgres" not in name) / TICKS


def _has_outputs(home: Path, jobs: int) -> bool:
    return len(list(home.glob("out.*"))) == jobs


def _most_memory(process: Path) -> int:
    """The peak memory of a process, in KiB."""
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def _chunks_read(database: Database) -> int:
    """The chunks that agents have asked for so far, read after each connection has reported."""
    count = -1
    while True:
        time.sleep(STATISTICS_S)
        database.query("SELECT pg_stat_clear_snapshot()")
        (row,) = database.query(
            "SELECT coalesce(sum(calls), 0)::bigint AS count FROM pg_stat_user_functions"
            " WHERE schemaname = 'fetchwork' AND funcname = 'read_chunk'"
        )
        if row["count"] == count:
            return count
        count = int(row["count"])
