"""The private HTCondor by itself, its hook a shell script: its life, and its complete end."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fetchwork.errors import PoolError
from fetchwork.pool.cache import manifest
from fetchwork.pool.condor import Condor
from fetchwork.pool.condorroot import ROOT_MOUNT, VENV, CondorRoot
from fetchwork.pool.machine import RootMachine
from fetchwork.process import Process
from tests.support.waiting import PATIENCE_S, until

HOST = "test-host.example"

# gives out one job that survives unless it is told to end
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
    with condor_on(RootMachine(public_directory(), root, HOST)) as condor:
        yield condor


@contextmanager
def condor_on(machine: RootMachine) -> Iterator[Condor]:
    directory, root = machine.pool, machine.root
    machine.prepare()
    condor = Condor(directory / "condor", lambda: machine)
    (directory / "handed-out").mkdir()
    fetch = directory / "fetch"
    fetch.write_text(FETCH.format(pool=directory))
    fetch.chmod(0o755)
    os.chown(directory / "handed-out", *root.account_ids("condor"))
    condor.configure(CONFIG.format(pool=directory), domain=HOST)
    try:
        yield condor
    finally:
        condor.stop()


def family_member(condor: Condor, program: str) -> Process | None:
    """The first process of the pool that runs the program."""
    master = condor._recorded()
    assert master
    return next((each for each in condor.machine.family(master) if each.name == program), None)


def sleeping_job(condor: Condor) -> Process | None:
    return family_member(condor, "sleep")


@pytest.fixture(scope="module")
def running(root: CondorRoot, public_directory: Callable[[], Path]) -> Iterator[Condor]:
    """A running HTCondor with its job, started by a process that ignores a background job's signals."""
    with condor_on(RootMachine(public_directory(), root, HOST)) as condor:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
        try:
            condor.start()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        until(lambda: sleeping_job(condor))
        yield condor


def test_started_twice_is_one_master(running: Condor) -> None:
    first = running.master
    running.start()
    assert running.master == first


def test_startd_runs_the_job_in_the_root_as_its_owner(running: Condor, root: CondorRoot) -> None:
    job = sleeping_job(running)
    assert job and job.mounts()["/"] == ROOT_MOUNT
    assert Path(f"/proc/{job.pid}").stat().st_uid == root.account_ids("alice")[0]


def test_daemons_and_jobs_ignore_no_signal(running: Condor) -> None:
    """A shell's background job ignores SIGINT and SIGQUIT, and so may the process that starts the pool."""
    for process in (running.master, sleeping_job(running)):
        assert process
        status = Path(f"/proc/{process.pid}/status").read_text()
        ignored = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")), 16)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            assert not ignored & 1 << (number - 1), process.name


def test_another_account_of_the_machine_cannot_order_the_pool_about(running: Condor) -> None:
    until(lambda: running.run(["condor_status", "-af", "MyAddress"]).stdout)
    startd = running.run(["condor_status", "-af", "MyAddress"])
    refused = running.run(["condor_vacate", "-addr", startd.stdout.strip()], user="bob")
    assert "DENIED" in refused.stderr
    job = sleeping_job(running)
    assert job and job.alive


@pytest.mark.parametrize("how", ["graceful", "fast"])
def test_stop_leaves_nothing_running(condor: Condor, how: str) -> None:
    condor.start()
    until(lambda: sleeping_job(condor))
    master = condor.master
    assert master
    condor.stop(how)  # type: ignore[arg-type]
    assert not condor.running
    assert condor.machine.family(master) == []


def test_job_that_outlived_a_killed_master_is_ended_by_stop(condor: Condor) -> None:
    condor.start()
    until(lambda: sleeping_job(condor))
    master, job = condor.master, sleeping_job(condor)
    assert master and job
    master.signal(signal.SIGKILL)
    assert master.wait(PATIENCE_S)
    assert job.alive

    condor.stop()

    assert not job.alive


def test_tools_know_the_pool_and_its_host_name(condor: Condor) -> None:
    condor.start()
    until(lambda: f"slot1@{HOST}" in condor.run(["condor_status", "-af", "Name"]).stdout)
    until(lambda: condor.run(["condor_vacate", HOST]).returncode == 0)


def test_start_that_fails_says_why_and_leaves_nothing(condor: Condor) -> None:
    with condor.config_file.open("a") as config:
        config.write("use role:nonsense\n")
    with pytest.raises(PoolError, match=r"cannot start HTCondor .*nonsense"):
        condor.start()
    assert not condor.running


# each of the root's own files and directories, changed in another way; a failure is accepted, too
SPOIL = """
mkdir -p /var/lib/fetchwork /run/fetchwork /made-by-root
for directory in / /etc /opt /root /run /srv /usr/bin /usr/lib /var/lib /var/log {venv} {venv}/bin; do
    echo spoiled > "$directory/spoiled"
done
echo spoiled >> /etc/passwd
echo spoiled >> /usr/bin/condor_version
echo spoiled >> {venv}/pyvenv.cfg
chown bob /etc/condor /usr/bin/condor_version {venv}
chmod 700 /etc /usr {venv}
rm -rf /usr/share/doc /var/lib/dpkg {venv}/lib
touch /tmp/mark
"""


@pytest.mark.parametrize("overlays", [True, False], ids=["overlay", "copies"])
def test_root_that_writes_everywhere_leaves_the_cached_root_as_it_was(
    root: CondorRoot, public_directory: Callable[[], Path], overlays: bool
) -> None:
    directory = public_directory()
    before = manifest(root.path), manifest(root.venv)
    machine = RootMachine(directory, root, HOST, overlays=overlays)
    machine.prepare()
    spoil = [*machine.inside(None), "sh", "-c", SPOIL.format(venv=VENV)]

    subprocess.run(spoil, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    assert (manifest(root.path), manifest(root.venv)) == before
    assert (directory / "tmp/mark").exists(), "it came to its end"


def test_pool_without_overlays_runs_jobs(root: CondorRoot, public_directory: Callable[[], Path]) -> None:
    with condor_on(RootMachine(public_directory(), root, HOST, overlays=False)) as condor:
        condor.start()
        until(lambda: sleeping_job(condor))
        job = sleeping_job(condor)
        assert job and Path(f"/proc/{job.pid}").stat().st_uid == root.account_ids("alice")[0]


def test_home_and_tmp_of_a_job_are_directories_of_the_pool(condor: Condor, root: CondorRoot) -> None:
    condor.run(["touch", "/tmp/mark", "/var/tmp/mark2", "/home/alice/mark3"], user="alice")
    assert not any((root.path / path).exists() for path in ("tmp/mark", "var/tmp/mark2", "home/alice"))
    pool = condor.directory.parent
    assert (pool / "tmp/mark").exists() and (pool / "home/alice/mark3").exists()
