"""A personal pool as a whole: made, started twice, attached to, stopped, and completely removed."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.db.database import Database
from fetchwork.errors import PoolError
from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import VENV, CondorRoot
from fetchwork.pool.machine import RootMachine
from fetchwork.process import Process, processes
from tests.support.by_name import scalar
from tests.support.living import content, directories, files
from tests.support.waiting import PATIENCE_S, until

FETCHWORK = Path(sys.prefix) / "bin/fetchwork"


@pytest.fixture(scope="module")
def up(root: CondorRoot, suite: str, public_directory: Callable[[], Path]) -> Iterator[PersonalPool]:
    """A pool that runs."""
    pool = PersonalPool(public_directory() / "pool", slots=1, suite=suite)
    pool.start()
    yield pool
    pool.stop()


def left_of(directory: Path) -> list[Process]:
    """Processes that work in the directory or have it mounted."""
    inside = list(directories(directory))
    return [
        process
        for process in processes()
        if process.alive and (str(directory) in process.mounts() or any(map(process.works_in, inside)))
    ]


def run(*words: str, **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([FETCHWORK, *words], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]


def test_started_twice_is_one_pool(up: PersonalPool) -> None:
    first = up.processes()
    up.start()
    PersonalPool.attach(up.directory).start()
    assert up.processes() == first
    assert up.running


def test_further_host_serves_the_queue_and_stops_alone(
    up: PersonalPool, suite: str, public_directory: Callable[[], Path]
) -> None:
    further = PersonalPool(public_directory() / "ep2", slots=1, suite=suite, host_of=str(up.directory))
    with further, Database(up.conninfo) as database:
        assert set(further.processes()) == {"condor", "agent"}
        assert further.running
        alive = "SELECT machine FROM fetchwork.hosts WHERE alive ORDER BY machine"
        hosts = [{"machine": name} for name in sorted([up.host_name, further.host_name])]
        until(lambda: database.query(alive) == hosts, "both hosts' agents")
        assert further.host_name.startswith("ep2.")
    assert left_of(further.directory) == []
    assert up.running


def test_further_host_needs_a_pool_that_runs(public_directory: Callable[[], Path]) -> None:
    directory = public_directory()
    with pytest.raises(PoolError, match=f"no pool runs in '{directory}': 'fetchwork pool up' starts one"):
        PersonalPool(directory / "ep2", host_of=str(directory)).start()


def test_context_of_an_attached_pool_does_not_stop_it(up: PersonalPool) -> None:
    with PersonalPool.attach(up.directory) as attached:
        assert attached.settings == up.settings
        assert attached.conninfo == up.conninfo
    assert up.running


def test_running_pool_is_not_started_with_other_settings(up: PersonalPool, suite: str) -> None:
    with pytest.raises(PoolError, match="runs with other settings: stop it first"):
        PersonalPool(up.directory, slots=2, suite=suite).start()
    assert up.running


def test_password_of_the_administrator_is_in_no_file_that_others_may_read(up: PersonalPool) -> None:
    password = up.postgres.password.encode()
    told = [
        path
        for path in files(up.directory)
        # a directory above may be closed
        if password in content(path) and all(parent.stat().st_mode & 0o001 for parent in path.parents)
        if path.stat().st_mode & 0o004
    ]
    assert told == []


def test_stopped_pool_leaves_nothing_running_and_starts_again_with_its_database(up: PersonalPool) -> None:
    with Database(up.conninfo) as database:
        job = scalar(database, "submit", cmd="/bin/true", owner="alice", requirements="false")
    assert left_of(up.directory)
    up.stop()
    assert left_of(up.directory) == []
    assert not up.running
    up.start()
    with Database(up.conninfo) as database:
        assert database.query("SELECT jobid FROM fetchwork.jobs") == [{"jobid": job}]


def test_pool_without_a_directory_is_gone_after_its_context(root: CondorRoot, suite: str) -> None:
    with PersonalPool(slots=1, suite=suite) as pool:
        assert pool.running
    assert not pool.directory.exists()
    assert left_of(pool.directory) == []


def test_commands_bring_a_pool_up_show_it_and_take_it_down(
    root: CondorRoot, suite: str, public_directory: Callable[[], Path]
) -> None:
    directory = public_directory() / "pool"
    up = run("pool", "-d", str(directory), "up", "--slots", "1", "--suite", suite, "--json")
    try:
        assert up.returncode == 0, up.stderr
        told = json.loads(up.stdout)
        assert told["running"]
        status = run("pool", "-d", str(directory), "status", "--json")
        assert (status.returncode, json.loads(status.stdout)) == (0, told)
        # the tests' environment has the packages that the page needs
        assert set(told["processes"]) == {"postgres", "condor", "agent", "access-point", "page"}
        assert told["page"].startswith("http://127.0.0.1:")
    finally:
        down = run("pool", "-d", str(directory), "down")
    assert down.returncode == 0, down.stderr
    assert run("pool", "-d", str(directory), "status").returncode == 1
    assert left_of(directory) == []


def test_commands_on_no_pool_say_how_to_make_one(tmp_path: Path) -> None:
    for word in ("status", "down"):
        ended = run("pool", "-d", str(tmp_path), word)
        assert ended.returncode == 1
        assert ended.stderr == f"fetchwork: error: no pool in '{tmp_path}': 'fetchwork pool up' makes one\n"


def test_interrupted_demonstration_leaves_nothing(
    root: CondorRoot, public_directory: Callable[[], Path]
) -> None:
    # other users may have pools in /tmp and /var/tmp
    home = public_directory()
    demo = subprocess.Popen(
        [FETCHWORK, "demo"],
        stdout=subprocess.PIPE,
        text=True,
        env={"TMPDIR": str(home), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
    )
    assert demo.stdout
    with demo.stdout:
        directories = set(home.glob("fetchwork-pool-*"))
        for line in demo.stdout:
            if "running" in line:
                directories = set(home.glob("fetchwork-pool-*"))
                demo.send_signal(signal.SIGTERM)
                break
        rest = demo.stdout.read()
    assert demo.wait(PATIENCE_S) == 128 + signal.SIGTERM, rest
    assert directories
    assert not any(directory.exists() for directory in directories)
    assert not any(left_of(directory) for directory in directories)


@pytest.mark.parametrize("user", ["alice", "root"])
def test_machine_with_htcondor_has_a_pool_of_any_user(
    root: CondorRoot, public_directory: Callable[[], Path], user: str
) -> None:
    """The root directory plays that machine."""
    machine = RootMachine(public_directory(), root, "machine.example")
    machine.prepare()

    def on_machine(*words: str) -> "subprocess.CompletedProcess[str]":
        environment = ["PATH=/usr/bin:/bin", "HOME=/home/alice", "FETCHWORK_POOL=/tmp/pool"]
        command = [*machine.inside(None, user), "env", "-i", *environment, f"{VENV}/bin/fetchwork", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    up = on_machine("pool", "up", "--slots", "1", "--json")
    try:
        assert up.returncode == 0, up.stderr
        owners = {
            part: Path(f"/proc/{pid}").stat().st_uid
            for part, pid in json.loads(up.stdout)["processes"].items()
        }
        if user == "root":
            condor, _ = root.account_ids("condor")
            assert owners == {
                "postgres": root.account_ids("nobody")[0],
                "condor": condor,
                "agent": condor,
                # it acts as each person for each file
                "access-point": 0,
            }
        else:
            assert set(owners.values()) == {root.account_ids(user)[0]}
        again = on_machine("pool", "up", "--json")
        assert again.stdout == up.stdout, again.stderr
    finally:
        down = on_machine("pool", "down")
    assert down.returncode == 0, down.stderr
    assert machine.family(None) == []
