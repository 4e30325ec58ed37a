"""``fetchwork.PersonalPool`` with a real HTCondor: used as programs use HTCondor's own."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fetchwork
from fetchwork.errors import PoolError
from fetchwork.personal import PersonalPoolState
from fetchwork.pool.condorroot import CondorRoot
from fetchwork.process import Process
from tests.support.waiting import PATIENCE_S, until


@pytest.fixture(scope="module")
def directory(public_directory: Callable[[], Path]) -> Path:
    return public_directory() / "pool"


@pytest.fixture(scope="module")
def pool(root: CondorRoot, suite: str, directory: Path) -> Iterator[fetchwork.PersonalPool]:
    """A pool in its context."""
    with fetchwork.PersonalPool(
        local_dir=directory,
        config={"STARTER_UPDATE_INTERVAL": "2", "FETCHWORK_TEST": None},
        raw_config="""
            FETCHWORK_TEST_TEXT = a
            FETCHWORK_TEST_MORE = $(FETCHWORK_TEST_TEXT)b
        """,
        suite=suite,
        slots=1,
    ) as started:
        yield started
    assert started.state is PersonalPoolState.STOPPED
    assert len(started.who()) == 0


def test_a_pool_is_the_local_one_and_runs_jobs(pool: fetchwork.PersonalPool, directory: Path) -> None:
    assert (pool.state, pool.local_dir) == ("READY", directory)
    assert os.environ["CONDOR_CONFIG"] == str(pool.config_file)
    job = fetchwork.Submit(
        f"executable = /bin/sh\narguments = \"-c 'exit 3'\"\ninitialdir = /tmp\nlog = {directory}/job.log\n"
    )
    result = fetchwork.Queue().submit(job, owner="alice")
    events = fetchwork.JobEventLog(f"{directory}/job.log").events(stop_after=PATIENCE_S)
    ends = (fetchwork.JobEventType.JOB_TERMINATED, fetchwork.JobEventType.JOB_ABORTED)
    end = next(event for event in events if event.type in ends)
    assert (end.type, end["ReturnValue"]) == (fetchwork.JobEventType.JOB_TERMINATED, 3)
    (ad,) = pool.schedd.history(f"ClusterId == {result.cluster()}")
    assert ad["ExitCode"] == 3
    assert pool.schedd.query() == []


def test_a_pool_tells_of_itself(pool: fetchwork.PersonalPool) -> None:
    assert pool.get_config_val("FETCHWORK_TEST_MORE") == "ab"
    assert pool.get_config_val("FETCHWORK_TEST_NOT", "else") == "else"
    with pytest.raises(KeyError):
        pool.get_config_val("FETCHWORK_TEST_NOT")
    who = pool.who()
    assert (who["IsReady"], who["MASTER"]) == (True, "Alive")
    os.kill(who["MASTER_PID"], 0)
    version = pool.run_command(["condor_version"])
    assert version.returncode == 0
    assert version.stdout.startswith("$CondorVersion")
    assert not version.stdout.endswith("\n")
    schedd = pool.collector.locate(fetchwork.DaemonType.Schedd)
    assert fetchwork.Queue(schedd).query() == []
    # agents report their slots now and then
    until(lambda: pool.collector.query(fetchwork.AdType.Startd), "the report of the slot")
    (slot,) = pool.collector.query(fetchwork.AdType.Startd)
    assert slot["Name"].startswith("slot1@")


def test_a_pool_is_found_by_its_directory(pool: fetchwork.PersonalPool, directory: Path) -> None:
    attached = fetchwork.PersonalPool.attach(directory).detach()
    assert (attached.state, attached.conninfo) == (pool.state, pool.conninfo)
    assert attached.stop().state == "READY"
    assert pool.who()["IsReady"]
    with pytest.raises(PoolError, match="no pool in"):
        fetchwork.PersonalPool.attach(directory / "none")


PROGRAM = """
import os, sys
import fetchwork

pool = fetchwork.PersonalPool({directory!r}, detach={detach}, suite={suite!r}, slots=1).start()
if (child := os.fork()) == 0:
    sys.exit(0)
os.waitpid(child, 0)
assert pool.who()["IsReady"], "a child that forked ended the pool"
print(pool.who()["MASTER_PID"])
"""


def test_a_pool_ends_with_its_program_unless_it_is_detached(
    root: CondorRoot, suite: str, public_directory: Callable[[], Path]
) -> None:
    directory = str(public_directory() / "pool")

    def lives_on(detach: bool) -> bool:
        code = textwrap.dedent(PROGRAM).format(directory=directory, detach=detach, suite=suite)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        master = Process.find(int(done.stdout))
        # it may wait to be reaped
        return master is not None and master.alive

    assert not lives_on(detach=False)
    assert lives_on(detach=True)
    attached = fetchwork.PersonalPool.attach(directory)
    assert attached.who()["IsReady"]
    assert attached.stop().state == "STOPPED"
    assert len(attached.who()) == 0


def test_states_follow_each_other_and_two_pools_live_beside_each_other(
    root: CondorRoot, suite: str, public_directory: Callable[[], Path]
) -> None:
    pool = fetchwork.PersonalPool(public_directory() / "pool", use_config=False, suite=suite, slots=1)
    states = [pool.state]
    for step in (pool.initialize, pool.start, pool.start, pool.stop, pool.stop, pool.start):
        assert step() is pool
        states.append(pool.state)
    assert states == ["UNINITIALIZED", "INITIALIZED", "READY", "READY", "STOPPED", "STOPPED", "READY"]
    with fetchwork.PersonalPool(public_directory() / "pool", suite=suite, slots=1) as another:
        assert (another.state, pool.state) == ("READY", "READY")
        assert another.conninfo != pool.conninfo
        assert pool.who()["IsReady"]
    assert pool.stop().state == "STOPPED"


#: after HTCondor's tutorial on personal pools
TUTORIAL = """
import sys, time
from pathlib import Path
import htcondor2
from htcondor2.personal import PersonalPool

described = htcondor2.Submit({"executable": "/bin/sleep", "arguments": "0", "initialdir": "/tmp"})
with PersonalPool(local_dir=Path(sys.argv[1]), suite=sys.argv[2], slots=1) as pool:
    print(pool.state, pool.run_command(["condor_version"]).returncode, pool.who()["IsReady"])
    try:
        pool.schedd.submit(described)
    except htcondor2.HTCondorException as error:
        print("owner=" in str(error))
    cluster = pool.schedd.submit(described, owner="alice").cluster()
    while not pool.schedd.history(f"ClusterId == {cluster}"):
        time.sleep(0.1)
    print(pool.schedd.history(f"ClusterId == {cluster}")[0]["ExitCode"])
"""


def test_the_tutorial_of_personal_pools_runs_under_our_modules(
    root: CondorRoot, suite: str, public_directory: Callable[[], Path]
) -> None:
    words = ["env", "--", sys.executable, "-W", "ignore", "-c", TUTORIAL]
    told = subprocess.run(
        [f"{sys.prefix}/bin/fetchwork", *words, str(public_directory() / "pool"), suite],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
        env={**os.environ, "USER": "root", "LOGNAME": "root"},
    )
    assert told.stdout == "READY 0 True\nTrue\n0\n", told.stderr
