"""The private HTCondor by itself, its hook a shell script: its life, and that nothing is left of it."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.errors import PoolError
from fetchwork.pool.condor import Condor
from fetchwork.pool.condorroot import CondorRoot
from fetchwork.pool.place import InRoot
from fetchwork.process import Process

HOST = "test-host.example"

# gives out one job that outlives everything that is not told to end it
FETCH = """#!/bin/sh
mkdir {pool}/handed-out/one 2>/dev/null || exit 0
echo 'Cmd = "/bin/sleep"'
echo 'Arguments = "1000"'
echo 'Iwd = "/tmp"'
echo 'JobLeaseDuration = 86400'
for name in Owner User OsUser; do echo "$name = \\"alice\\""; done
"""

CONFIG = """
NUM_CPUS = 1
MEMORY = 512
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = cpus=1
UPDATE_INTERVAL = 1
STARTD_JOB_HOOK_KEYWORD = TEST
TEST_HOOK_FETCH_WORK = {pool}/fetch
FetchWorkDelay = 1
"""


@pytest.fixture
def condor(root: CondorRoot, public_directory: Callable[[], Path]) -> Iterator[Condor]:
    directory = public_directory()
    place = InRoot(directory, root, HOST)
    place.prepare()
    condor = Condor(directory / "condor", lambda: place)
    (directory / "handed-out").mkdir()
    fetch = directory / "fetch"
    fetch.write_text(FETCH.format(pool=directory))
    fetch.chmod(0o755)
    os.chown(directory / "handed-out", *root.account_ids("condor"))
    condor.configure(CONFIG.format(pool=directory), domain=HOST)
    yield condor
    condor.stop()


def until(found: Callable[[], object], timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not found():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def family_member(condor: Condor, program: str) -> Process | None:
    """The first process of the pool that runs the program."""
    master = condor._recorded()
    assert master
    return next((each for each in condor.place.family(master) if each.name == program), None)


def sleeping_job(condor: Condor) -> Process | None:
    return family_member(condor, "sleep")


def test_started_twice_is_one_master(condor: Condor) -> None:
    condor.start()
    first = condor.master
    condor.start()
    assert condor.master == first


def test_startd_runs_the_job_in_the_root_as_its_owner(condor: Condor, root: CondorRoot) -> None:
    condor.start()
    until(lambda: sleeping_job(condor))
    job = sleeping_job(condor)
    assert job and job.is_rooted_in(root.path)
    assert Path(f"/proc/{job.pid}").stat().st_uid == root.account_ids("alice")[0]


def test_daemons_and_jobs_ignore_no_signal(condor: Condor) -> None:
    """What a shell starts in the background ignores SIGINT and SIGQUIT: so may whoever starts the pool."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        condor.start()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    until(lambda: sleeping_job(condor))
    for process in (condor.master, sleeping_job(condor)):
        assert process
        status = Path(f"/proc/{process.pid}/status").read_text()
        ignored = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")), 16)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            assert not ignored & 1 << (number - 1), process.name


@pytest.mark.parametrize("how", ["graceful", "fast"])
def test_stop_leaves_nothing_running(condor: Condor, how: str) -> None:
    condor.start()
    until(lambda: sleeping_job(condor))
    master = condor.master
    assert master
    condor.stop(how)  # type: ignore[arg-type]
    assert not condor.running
    assert condor.place.family(master) == []


def test_job_that_outlived_a_killed_master_is_ended_by_stop(condor: Condor) -> None:
    condor.start()
    until(lambda: sleeping_job(condor))
    master, job = condor.master, sleeping_job(condor)
    assert master and job
    master.signal(signal.SIGKILL)
    assert master.wait(5)
    assert job.alive

    condor.stop()

    assert not job.alive


def test_tools_know_the_pool_and_its_host_name(condor: Condor) -> None:
    condor.start()
    until(lambda: f"slot1@{HOST}" in condor.run(["condor_status", "-af", "Name"]).stdout)
    until(lambda: condor.run(["condor_vacate", HOST]).returncode == 0)


def test_another_account_of_the_machine_cannot_order_the_pool_about(condor: Condor) -> None:
    condor.start()
    until(lambda: sleeping_job(condor))
    until(lambda: condor.run(["condor_status", "-af", "MyAddress"]).stdout)
    startd = condor.run(["condor_status", "-af", "MyAddress"])
    refused = condor.run(["condor_vacate", "-addr", startd.stdout.strip()], user="bob")
    assert "DENIED" in refused.stderr
    job = sleeping_job(condor)
    assert job and job.alive


def test_start_that_fails_says_why_and_leaves_nothing(condor: Condor) -> None:
    with condor.config_file.open("a") as config:
        config.write("use role:nonsense\n")
    with pytest.raises(PoolError, match=r"cannot start HTCondor .*nonsense"):
        condor.start()
    assert not condor.running


def test_root_directory_itself_is_not_written_to_by_a_job(condor: Condor, root: CondorRoot) -> None:
    condor.run(["touch", "/tmp/mark", "/var/tmp/mark2", "/home/alice/mark3"], user="alice")
    assert not any((root.path / path).exists() for path in ("tmp/mark", "var/tmp/mark2", "home/alice"))
    pool = condor.directory.parent
    assert (pool / "tmp/mark").exists() and (pool / "home/alice/mark3").exists()
