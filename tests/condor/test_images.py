"""The examples' container images: their steps are done in a root directory, their entrypoints run there.

A container has its own processes and mounts, and this machine's network: there is no container runtime here.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest

from fetchwork.db.database import Database
from fetchwork.errors import HTCondorUnavailable, PoolError
from fetchwork.pool.cache import cached
from fetchwork.pool.condorroot import DEFAULT_SUITE, require_debootstrap
from fetchwork.pool.ports import free_port
from tests.condor.conftest import without_htcondor
from tests.support.by_name import scalar
from tests.support.joining import invite
from tests.support.waiting import PATIENCE_S, until

CHECKOUT = Path(__file__).parents[2]
IMAGES = CHECKOUT / "config-examples/images"
CONTAINERFILE = (IMAGES / "Containerfile").read_text()
TARGETS = ("pilot", "access-point")
HOST = "container7"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a root directory")

# a container as a runtime starts it: process 1 is an ordinary account's, without a way to more rights
_CONTAINER = """
set -e
root=$1 user=$2 directory=$3 name=$4
shift 4
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
echo "$name" > /proc/sys/kernel/hostname
printf '127.0.0.1 localhost\\n127.0.1.1 %s\\n' "$name" > "$root/etc/hosts"
exec chroot "$root" setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups --no-new-privs \\
    env --chdir="$directory" -i "$@"
"""
_INSIDE = """
target=$1 user=$2
shift 2
exec nsenter --target "$target" --mount --uts --pid --root setpriv --reuid="${user%:*}" \\
    --regid="${user#*:}" --clear-groups env --chdir=/ -i "$@"
"""


def of_the_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("images_root", IMAGES / "root.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


script = of_the_script()


class Container:
    """An image's root directory, in which its entrypoint runs."""

    def __init__(self, root: Path, image: Any, log: Path) -> None:
        self.root = root
        self.image = image
        self.log = log
        self.env = [f"{name}={value}" for name, value in image.env.items()]

    def start(self, *words: str, **environment: str) -> None:
        env = [*self.env, *(f"{name}={value}" for name, value in environment.items())]
        place = [str(self.root), self.image.user, self.image.working_dir, HOST]
        apart = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c", _CONTAINER]
        with self.log.open("ab") as log:
            self.runtime = subprocess.Popen(
                [*apart, "sh", *place, *env, *self.image.entrypoint, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def first(self) -> int:
        """Process 1, as its number outside."""
        children = Path(f"/proc/{self.runtime.pid}/task/{self.runtime.pid}/children")
        return int(children.read_text())

    def run(self, command: str) -> tuple[int, str]:
        """The exit status and output of a command beside the entrypoint, as its account."""
        words = [str(self.first), self.image.user, *self.env, "sh", "-c", command]
        ended = subprocess.run(
            ["sh", "-c", _INSIDE, "sh", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return ended.returncode, ended.stdout

    def told(self) -> str:
        """All that it printed and logged."""
        logs = sorted(self.root.glob("srv/pilot/condor/log/*"))
        return "\n".join(f"{log.name}:\n{log.read_text()[-3000:]}" for log in [self.log, *logs])

    def ended(self) -> int:
        """The exit status of the container, once it has ended by itself."""
        return self.runtime.wait(PATIENCE_S)

    def kill(self) -> None:
        with contextlib.suppress(AttributeError):
            self.runtime.kill()
            self.runtime.wait()


def shared_steps() -> list[tuple[str, str]]:
    """The steps of both images up to the first copied file: they need a network, and nothing of fetchwork."""
    steps = [script.steps(CONTAINERFILE, target) for target in TARGETS]
    names = [name for name, _ in steps[0]]
    shared: list[tuple[str, str]] = steps[0][: names.index("COPY")]
    assert steps[1][: len(shared)] == shared
    return shared


@pytest.fixture(scope="module")
def base() -> Path:
    """A root directory after the shared steps, from the cache."""
    steps = shared_steps()

    def build(directory: Path) -> None:
        require_debootstrap()
        script.make(directory, steps, script.Image())

    digest = hashlib.sha256(json.dumps(steps).encode()).hexdigest()[:12]
    try:
        return cached(f"image-{digest}", build)
    except (subprocess.CalledProcessError, PoolError) as problem:
        without_htcondor(DEFAULT_SUITE, HTCondorUnavailable(str(problem)))


@pytest.fixture(scope="module")
def package() -> None:
    """The Debian package, where the Containerfile expects it."""
    subprocess.run(
        ["make", "--old-file=.venv/.installed", "deb", "DEB_PYTHON=3.13"], cwd=CHECKOUT, check=True
    )


@pytest.fixture
def container(
    request: pytest.FixtureRequest, base: Path, package: None, public_directory: Callable[[], Path]
) -> Iterator[Container]:
    """A container of the target that the test names, with all steps done, not started yet."""
    directory = public_directory()
    root = directory / "root"
    subprocess.run(["cp", "-a", base, root], check=True)
    image = script.Image()
    script.make(root, script.steps(CONTAINERFILE, request.param)[len(shared_steps()) :], image)
    made = Container(root, image, directory / "log")
    yield made
    made.kill()


@pytest.fixture
def invited(conninfo: str, connection: psycopg.Connection) -> Iterator[Callable[..., str]]:
    yield lambda *words: invite(conninfo, *words)
    connection.execute("SELECT fetchwork.uninvite(number) FROM fetchwork.invitations()")
    connection.execute("SELECT fetchwork.revoke_host(host) FROM fetchwork.identities()")


def test_the_script_knows_each_instruction_and_both_images_share_the_packages() -> None:
    assert [name for name, _ in shared_steps()] == ["FROM", "RUN"]
    known = set(re.findall(r'case "(\w+)"(?: \| "(\w+)")?', (IMAGES / "root.py").read_text()))
    names = {name for pair in known for name in pair if name}
    assert {name for name, _ in script.instructions(CONTAINERFILE)} == names
    with pytest.raises(SystemExit, match="does not know the instruction ADD"):
        script.make(Path("/nowhere"), [("ADD", "a b")], script.Image())


def test_an_image_has_an_account_that_is_not_root_and_no_variable_with_a_secret() -> None:
    for target in TARGETS:
        image = script.Image()
        todo = script.steps(CONTAINERFILE, target)
        script.make(
            Path("/nowhere"), [step for step in todo if step[0] not in ("FROM", "COPY", "RUN")], image
        )
        assert image.user == "10001:10001"
        assert set(image.env) <= {"PATH", "FETCHWORK_ACCESS_POINT"}


@pytest.mark.all
@pytest.mark.parametrize("container", ["pilot"], indirect=True)
def test_a_pilot_joins_runs_a_job_and_ends_by_itself(
    container: Container, invited: Callable[..., str], conninfo: str
) -> None:
    template = container.root / "etc/fetchwork/pilot.toml"
    template.write_text(template.read_text().replace("idle_shutdown_s = 1200", "idle_shutdown_s = 20"))
    limits = {"_CONDOR_NUM_CPUS": "1", "_CONDOR_MEMORY": "700"}
    # a process that the job leaves behind has process 1 as its parent
    words = "-c '(setsid sleep 0.1 &) ; sleep 2; exit 3'"
    with Database(conninfo) as database:
        job = scalar(database, "submit", cmd="/bin/sh", arguments=words, owner="pilot", iwd="/tmp")
        container.start(FETCHWORK_INVITATION=invited("--ephemeral"), **limits)
        ended = "SELECT exitcode FROM fetchwork.history WHERE jobid = %s"
        until(lambda: database.query(ended, [job]), container.told)
        assert database.query(ended, [job])[0]["exitcode"] == 3
        (run,) = database.query("SELECT host, outcome FROM fetchwork.runs WHERE jobid = %s", [job])
        slots = "SELECT ad FROM fetchwork.slots WHERE slottype = 'Partitionable'"
        until(lambda: database.query(slots), container.told)
        (slot,) = database.query(slots)
    assert run["outcome"] == "completed"
    assert str(run["host"]).startswith(f"pilot-srv-pilot.{HOST}")
    assert (slot["ad"]["TotalCpus"], slot["ad"]["TotalMemory"]) == (1, 700)
    assert container.run(container.image.healthcheck)[0] == 0
    hook = container.root / "srv/pilot/hooks/FETCHWORK/fetch_work"
    assert hook.read_bytes().startswith(b"\x7fELF")
    status, shown = container.run("cat /proc/1/comm; tr '\\0' '\\n' < /proc/1/environ")
    assert (status, shown.splitlines()[0]) == (0, "condor_master")
    assert "FETCHWORK_INVITATION" not in shown
    dead = "cat /proc/[0-9]*/stat 2>/dev/null | grep ') Z '"
    until(lambda: container.run(dead)[1] == "", lambda: container.run(dead))
    assert container.ended() == 0, container.told()


@pytest.mark.all
@pytest.mark.parametrize("container", ["pilot"], indirect=True)
def test_a_pilot_that_is_stopped_gives_its_job_back_and_may_be_started_again(
    container: Container, invited: Callable[..., str], conninfo: str
) -> None:
    container.start(FETCHWORK_INVITATION=invited("--ephemeral"))
    running = "SELECT 1 FROM fetchwork.runs WHERE jobid = %s AND jobpid IS NOT NULL AND outcome IS NULL"
    idle = "SELECT 1 FROM fetchwork.jobs WHERE jobid = %s AND jobstatus = 1"
    with Database(conninfo) as database:
        job = scalar(database, "submit", cmd="/bin/sleep", arguments="600", owner="pilot", iwd="/tmp")
        until(lambda: database.query(running, [job]), container.told)
        container.run("kill -TERM 1")
        assert container.ended() == 0, container.told()
        until(lambda: database.query(idle, [job]), container.told)
        # the same container, with the same environment: the invitation is used up
        container.start(FETCHWORK_INVITATION="fetchwork-invitation:used-up")
        until(lambda: database.query(running, [job]), container.told)
        container.run("kill -TERM 1")
        assert container.ended() == 0, container.told()


@pytest.mark.all
@pytest.mark.parametrize("container", ["access-point"], indirect=True)
def test_an_access_point_joins_serves_its_page_and_submits(
    container: Container, invited: Callable[..., str], conninfo: str
) -> None:
    port = free_port()
    health = container.image.healthcheck.replace("9080", str(port))
    assert health != container.image.healthcheck
    options = ["--write", "--listen", f"127.0.0.1:{port}"]
    container.start(*options, FETCHWORK_INVITATION=invited("--access-point", "--owners", "fetchwork"))

    def asked(path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
                return int(answer.status)
        except urllib.error.URLError:
            return 0

    until(lambda: asked("/readyz") == 200, container.told)
    until(lambda: container.run(health)[0] == 0, container.told)
    description = "executable = /bin/sleep\\narguments = 1\\nqueue 2\\n"
    status, shown = container.run(f"printf '{description}' > /tmp/job.sub; fetchwork submit /tmp/job.sub")
    assert (status, shown) == (0, "2 job(s) submitted to cluster 1.\n"), container.told()
    token = re.search(r"\?token=(\S+)", container.told())
    assert token is not None
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/jobs",
        data=json.dumps({"ad": {"Cmd": "/bin/true", "Owner": "fetchwork", "Iwd": "/"}}).encode(),
        headers={"Authorization": f"Bearer {token[1]}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["cluster"] == 2
    with Database(conninfo) as database:
        jobs = database.query("SELECT jobid, owner FROM fetchwork.jobs ORDER BY clusterid, procid")
    assert [(job["jobid"], job["owner"]) for job in jobs] == [
        (job, "fetchwork") for job in ("1.0", "1.1", "2.0")
    ]
    assert container.run("cat /proc/1/comm") == (0, "tini\n")
    container.run("kill -TERM 1")
    assert container.ended() == 0, container.told()
