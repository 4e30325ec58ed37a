"""Real HTCondor reads each example, starts with it, and runs a job through each of its keywords."""

import contextlib
import itertools
import os
import socket
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork import config
from fetchwork.db.database import Database
from fetchwork.deploy import CONDOR_FILE, render
from fetchwork.deploy.check import check_condor
from fetchwork.deploy.condorconfig import CondorConfig, parse_settings
from fetchwork.pool import PersonalPool
from fetchwork.pool.condor import Condor
from fetchwork.pool.condorroot import CondorRoot
from fetchwork.pool.machine import RootMachine
from fetchwork.pool.postgres import PostgresServer
from tests.support.by_name import call, scalar
from tests.support.waiting import PATIENCE_S

EXAMPLES = Path(__file__).parents[2] / "config-examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.toml"))
HOST = "test-host.example"


ReadBy = Callable[[str], CondorConfig]


@pytest.fixture(scope="module")
def read_by_htcondor(root: CondorRoot, public_directory: Callable[[], Path]) -> ReadBy:
    """HTCondor's configuration with a text added to it, as its own condor_config_val reads it."""
    directory = public_directory()
    machine = RootMachine(directory, root, HOST)
    machine.prepare()
    numbers = itertools.count(1)

    def read(text: str) -> CondorConfig:
        condor = Condor(directory / f"condor{next(numbers)}", lambda: machine)
        condor.configure(text, domain=HOST)
        environment = f"CONDOR_CONFIG={condor.config_file}"
        return CondorConfig((*machine.inside(None), "env", environment, "condor_config_val"))

    return read


@pytest.mark.parametrize("name", NAMES)
def test_htcondor_reads_each_setting_of_the_example(name: str, read_by_htcondor: ReadBy) -> None:
    text = (EXAMPLES / f"{name}.conf").read_text()
    actual = read_by_htcondor(text).settings()
    for setting, value in parse_settings(text).items():
        if f"$({setting})" in value:
            own = value.replace(f"$({setting})", "").split()
            assert set(own) <= set(actual[setting].replace(",", " ").split())
        else:
            assert " ".join(actual[setting].split()) == " ".join(value.split()), setting


@pytest.mark.parametrize("name", NAMES)
def test_check_agrees_with_htcondor_that_reads_what_was_generated_for_it(
    name: str, read_by_htcondor: ReadBy
) -> None:
    host = config.load(EXAMPLES / f"{name}.toml")
    version = read_by_htcondor("").version()
    condor = read_by_htcondor(render(host, version)[CONDOR_FILE])
    assert list(check_condor(host, condor)) == []


def test_check_finds_a_setting_that_another_file_changes(read_by_htcondor: ReadBy) -> None:
    host = config.load(EXAMPLES / "one-slot-elsewhere.toml")
    version = read_by_htcondor("").version()
    text = (
        render(host, version)[CONDOR_FILE]
        + "SLOT4_JOB_HOOK_KEYWORD = FETCHWROK\nDAEMON_LIST = MASTER STARTD\n"
    )
    found = {
        finding.where.rsplit(":", 1)[1]: finding for finding in check_condor(host, read_by_htcondor(text))
    }
    assert set(found) == {"SLOT4_JOB_HOOK_KEYWORD", "DAEMON_LIST"}
    assert found["SLOT4_JOB_HOOK_KEYWORD"].where.rpartition(":")[0].partition("condor_config:")[2].isdigit()
    assert "uses 'FETCHWROK', the host file says 'SPECIAL'" in found["SLOT4_JOB_HOOK_KEYWORD"].wrong


# ---- started, a job through each keyword


class Started:
    """A pool made from an example, and the database of each of its keywords."""

    def __init__(self, pool: PersonalPool, host: config.HostConfig, databases: dict[str, Database]) -> None:
        self.pool = pool
        self.host = host
        self._databases = databases

    def database(self, keyword: str) -> Database:
        return self._databases[self.host.keywords[keyword].database or ""]

    def submit(
        self, keyword: str, queue: str, count: int = 1, seconds: float = 0.5, **more: Any
    ) -> list[str]:
        return [
            scalar(
                self.database(keyword),
                "submit",
                cmd="/bin/sleep",
                arguments=str(seconds),
                owner="alice",
                queue=queue,
                iwd="/tmp",
                **more,
            )
            for _ in range(count)
        ]

    def slots_of(self, keyword: str, jobs: list[str]) -> set[str]:
        """Wait until the jobs have ended; return the slots that they ran on."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            rows = self.database(keyword).query(
                "SELECT jobid, jobstatus, exitcode, lastremotehost FROM fetchwork.history"
                " WHERE jobid = ANY (%s)",
                [jobs],
            )
            if len(rows) == len(jobs):
                break
            assert time.monotonic() < deadline, (rows, self.queue(keyword))
            time.sleep(0.2)
        assert {(row["jobstatus"], row["exitcode"]) for row in rows} == {(4, 0)}
        return {row["lastremotehost"].partition("@")[0] for row in rows}

    def queue(self, keyword: str) -> list[dict[str, Any]]:
        return self.database(keyword).query(
            "SELECT jobid, jobstatus, holdreason, lastreason FROM fetchwork.jobs"
        )


Start = Callable[..., Started]


@pytest.fixture
def start(
    make_pool: Callable[..., PersonalPool], postgres: PostgresServer, new_database: Callable[[], str]
) -> Iterator[Start]:
    """Starts a pool with the slots, keywords and policy of an example; paths and names are the pool's own.

    ``changes`` are tables put before the example's, ``settings`` more HTCondor configuration.
    """
    opened: list[Database] = []
    pools: list[PersonalPool] = []

    def start_example(name: str, changes: dict[str, Any] | None = None, settings: str = "") -> Started:
        tables = tomllib.loads((EXAMPLES / f"{name}.toml").read_text())
        first, *others = tables.pop("database")
        for keyword in tables["keyword"].values():
            keyword.pop("hooks", None)
            keyword["fetch_delay_s"] = 1
            if keyword.get("database") == first:
                keyword["database"] = "main"
        tables.pop("agent", None)
        tables["host"] = {**tables.get("host", {}), "name": HOST}
        tables["host"].pop("file", None)
        tables["host"].pop("htcondor", None)
        for table, values in (changes or {}).items():
            tables[table] = {**tables.get(table, {}), **values}
        main = new_database()
        conninfos = {"main": main, **{other: new_database() for other in others}}
        tables["database"] = {other: {"conninfo": conninfos[other]} for other in others}
        databases = {which: Database(conninfo) for which, conninfo in conninfos.items()}
        opened.extend(databases.values())
        for keyword in tables["keyword"].values():
            for queue in keyword["queues"]:
                call(databases[keyword.get("database", "main")], "set_queue", name=queue)
        pool = make_pool(slots=_cores(tables), host=tables, config=settings, database=main)
        pools.append(pool)
        return Started(pool, config.load(pool.host_file), databases)

    yield start_example
    for pool in pools:
        pool.stop()
    for database in opened:
        database.close()


def _cores(tables: dict[str, Any]) -> int:
    types = tables.get("slots", {}).get("type", [])
    return max(4, sum(kind.get("count", 1) * kind.get("cpus", 1) for kind in types))


# test_readme_host.py tests most of it
@pytest.mark.all
def test_one_queue(start: Start, suite: str) -> None:
    started = start("one-queue")
    jobs = started.submit("FETCHWORK", "default", 6)
    assert started.slots_of("FETCHWORK", jobs) <= {"slot1", "slot2", "slot3", "slot4"}


def test_queue_of_slot_4_runs_there_and_nowhere_else(start: Start, suite: str) -> None:
    started = start("one-slot-elsewhere")
    common = started.submit("FETCHWORK", "default", 16)
    special = started.submit("SPECIAL", "special", 3)
    assert started.slots_of("SPECIAL", special) == {"slot4"}
    assert "slot4" not in started.slots_of("FETCHWORK", common)


# test_scheduling.py tests most of it
@pytest.mark.all
def test_dynamic_slots_of_a_partitionable_slot_fetch_for_its_keyword(start: Start, suite: str) -> None:
    started = start("partitionable")
    jobs = started.submit("FETCHWORK", "default", 8, request_cpus=1, request_memory=100, request_disk=1000)
    slots = started.slots_of("FETCHWORK", jobs)
    assert slots
    assert all(slot.startswith("slot1") for slot in slots)


def test_gpu_queue_runs_on_gpu_slots_only(start: Start, suite: str) -> None:
    # two GPUs that do not exist: condor_gpu_discovery would find real ones
    played = "MACHINE_RESOURCE_INVENTORY_GPUS =\nMACHINE_RESOURCE_GPUS = GPU-a, GPU-b\n"
    started = start("gpu-slots", {"agent": {"run": "master"}}, played)
    gpu = started.submit("GPU", "gpu", 3, request_gpus=1)
    common = started.submit("CPU", "default", 8)
    assert started.slots_of("GPU", gpu) <= {"slot1", "slot2"}
    assert started.slots_of("CPU", common)


def test_pilot_without_collector_runs_jobs_and_listens_on_loopback_only(start: Start, suite: str) -> None:
    started = start("pilot")
    jobs = started.submit("FETCHWORK", "default", 2, request_cpus=1, request_memory=100, request_disk=1000)
    assert started.slots_of("FETCHWORK", jobs)
    master = started.pool.condor.master
    assert master is not None
    family = started.pool.machine.family(master)
    names = {process.name for process in family}
    assert "condor_startd" in names
    assert not names & {"condor_collector", "condor_shared_port", "condor_negotiator", "condor_schedd"}
    addresses = listening({master.pid, *(process.pid for process in family)})
    assert addresses
    assert addresses == {"127.0.0.1"}


def listening(pids: set[int]) -> set[str]:
    """The addresses on which the processes listen."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(descriptor).removeprefix("socket:[").rstrip("]"))
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                words = bytes.fromhex(fields[1].partition(":")[0])
                address = b"".join(words[n : n + 4][::-1] for n in range(0, len(words), 4))
                found.add(socket.inet_ntop(family, address))
    return found


def test_each_databases_jobs_run_on_the_slots_of_its_keyword(start: Start, suite: str) -> None:
    started = start("two-databases")
    physics = started.submit("PHYSICS", "urgent", 8)
    biology = started.submit("BIOLOGY", "default", 4)
    assert started.slots_of("BIOLOGY", biology) <= {"slot5", "slot6"}
    assert started.slots_of("PHYSICS", physics) <= {"slot1", "slot2", "slot3", "slot4"}


def test_workstation_fetches_while_nobody_uses_it(start: Start, suite: str) -> None:
    started = start("workstation", {"workstation": {"idle_s": 1, "max_load": 4096.0}})
    jobs = started.submit("FETCHWORK", "short", 2)
    assert started.slots_of("FETCHWORK", jobs) <= {"slot1", "slot2"}


def test_workstation_in_use_fetches_nothing(start: Start, suite: str) -> None:
    started = start("workstation", settings="FETCHWORK_OTHER_LOAD = 4.0\n")
    started.submit("FETCHWORK", "short")
    deadline = time.monotonic() + PATIENCE_S
    while started.pool.run_command(["condor_status", "-af", "State"]).stdout.split() != ["Owner", "Owner"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(3)  # fetch_delay_s is 1: it would have fetched by now
    assert [row["jobstatus"] for row in started.queue("FETCHWORK")] == [1]


def test_doctor_finds_nothing_wrong_with_a_pool_that_runs_jobs(start: Start, suite: str) -> None:
    started = start("one-slot-elsewhere")
    started.slots_of("SPECIAL", started.submit("SPECIAL", "special"))
    command = [str(started.host.command), "doctor", "-c", str(started.pool.host_file)]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        told = started.pool.run_command(command)
        # the agent reports its slots now and then, not at each fetch
        if "8 slots fetch" in told.stdout or time.monotonic() > deadline:
            break
        time.sleep(1)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "ok    HTCondor" in told.stdout
    assert "ok    keywords   slot4: SPECIAL" in told.stdout
    assert "ok    agent" in told.stdout
    assert "8 slots fetch; time since the last fetch: slot" in told.stdout


def test_partitionable_slots_of_two_keywords_each_run_their_own_queue(start: Start, suite: str) -> None:
    types = [
        {"cpus": 2, "partitionable": True},
        {"cpus": 2, "partitionable": True, "keyword": "SPECIAL"},
    ]
    started = start("one-slot-elsewhere", {"slots": {"type": types, "keyword": {}}})
    small = {"request_cpus": 1, "request_memory": 100, "request_disk": 1000}
    # more jobs than fit at once: dynamic slots fetch again when their job has ended
    common = started.submit("FETCHWORK", "default", 6, **small)
    special = started.submit("SPECIAL", "special", 6, **small)
    assert {slot.partition("_")[0] for slot in started.slots_of("SPECIAL", special)} == {"slot2"}
    assert {slot.partition("_")[0] for slot in started.slots_of("FETCHWORK", common)} == {"slot1"}
