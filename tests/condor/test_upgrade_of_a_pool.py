"""The rehearsal of an upgrade: a pool of release 0.2.0 runs jobs while its parts become a later release's.

Both releases are installed wheels (tests/support/releases.py). At each step jobs run and end that an earlier
step began, and people submit with both releases' commands.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.db.database import Database
from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import VENV, CondorRoot
from tests.condor.conftest import RESTARTS
from tests.support.releases import LATER, Release
from tests.support.waiting import until

OWNER = "nobody"
#: a job that notes that it ran, and ends when there is a file for its cluster
_JOB = """
executable = /tmp/job
arguments = $(ClusterId) $(ProcId)
transfer_executable = false
queue {}
"""
_PROGRAM = """#!/bin/sh
echo $1.$2 >> /tmp/ran
until [ -e /tmp/go.$1 ]; do sleep 0.1; done
"""


class Upgraded:
    """A pool that begins as one of the old release, and its people."""

    def __init__(self, directory: Path, old: Release, suite: str) -> None:
        self.directory = directory
        settings = directory.with_suffix(".conf")
        settings.write_text(RESTARTS)
        old.run("pool", "-d", directory, "up", "--slots", "3", "--suite", suite, "--condor-config", settings)
        self.pool = PersonalPool.attach(directory)
        self.dsn = ("--dsn", self.pool.conninfo)
        self.clusters: dict[str, int] = {}
        job = directory / "tmp/job"
        job.write_text(_PROGRAM)
        job.chmod(0o755)

    def has(self, release: Release) -> Path:
        """The directory for PYTHONPATH with a release's package, for the people of the pool's machine."""
        directory = self.directory / "tmp" / release.environment.parent.name
        if not directory.exists():
            shutil.copytree(release.package, directory / "fetchwork")
        return Path("/tmp") / directory.name

    def person(self, release: Release, *words: str, given: str = "") -> str:
        """The output of a release's command, at the access point, by an account of the pool's machine."""
        path = f"PYTHONPATH={self.has(release)}"
        point = f"FETCHWORK_ACCESS_POINT={self.pool.access_point.socket}"
        command = ["env", "--chdir=/tmp", path, point, f"{VENV}/bin/python", "-m", "fetchwork", *words]
        ended = self.pool.run_command(command, user=OWNER, input=given)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return str(ended.stdout)

    def begin(self, release: Release, jobs: int) -> str:
        """Submit jobs that wait for ``let_end``; return their cluster."""
        cluster = self.person(release, "submit", "-", given=_JOB.format(jobs)).split()[-1].rstrip(".")
        self.clusters[cluster] = jobs
        return cluster

    def begun(self, release: Release, jobs: int) -> str:
        """As ``begin``, and wait until they run."""
        cluster = self.begin(release, jobs)
        until(lambda: self.ran().count(f"\n{cluster}.") == jobs, self.ran)
        return cluster

    def let_end(self, *clusters: str) -> None:
        for cluster in clusters:
            (self.directory / "tmp" / f"go.{cluster}").touch()

    def ran(self) -> str:
        """The jobs that ran, a line each."""
        file = self.directory / "tmp/ran"
        return f"\n{file.read_text()}" if file.exists() else ""

    def works(self, *releases: Release) -> None:
        """Both submit, wait and query; their jobs run and end."""
        for release in releases:
            cluster = self.begin(release, 2)
            self.let_end(cluster)
            assert "2 jobs, 2 succeeded" in self.person(release, "wait", cluster)
            assert '"ClusterId"' not in self.person(release, "q", cluster, "--json")

    def agents(self) -> list[str]:
        """The versions of the agents that live."""
        with Database(self.pool.conninfo) as database:
            rows = database.query("SELECT agent_version FROM fetchwork.hosts WHERE alive")
            return [row["agent_version"] for row in rows]


@pytest.fixture
def upgraded(
    root: CondorRoot, suite: str, old_release: Release, public_directory: Callable[[], Path]
) -> Iterator[Upgraded]:
    upgraded = Upgraded(public_directory() / "pool", old_release, suite)
    yield upgraded
    upgraded.pool.stop()


def test_jobs_run_once_while_database_access_point_and_host_are_upgraded(
    upgraded: Upgraded, old_release: Release, later_release: Release
) -> None:
    old, later = old_release, later_release
    pool, dsn = upgraded.pool, upgraded.dsn
    was, becomes = (int(release.run("--version").split()[-1]) for release in (old, later))
    to_do = ", ".join(str(version) for version in range(was + 1, becomes + 1))
    running = upgraded.begun(old, 2)

    # the later release on the schema of the old one
    submit = (*dsn, "submit", "--owner", OWNER, "-")
    told = later.run(*submit, given=_JOB.format(1), fails=True)
    assert "submit_ads_later" in told
    assert told.endswith("'fetchwork db status' says which of the two to upgrade")
    status = later.run(*dsn, "db", "status", fails=True)
    assert status.endswith(f"schema version {was}; to do: {to_do}; run `fetchwork db upgrade`")
    assert running in later.run(*dsn, "q", "--json")

    # first the database, while jobs run, begin and end
    waiting = upgraded.begin(old, 4)
    upgraded.let_end(waiting)
    assert f"migrations: {to_do}" in later.run(*dsn, "db", "upgrade", "--plan")
    later.run(*dsn, "db", "upgrade")
    upgraded.works(old, later)
    refusal = (
        f"has schema version {becomes}, this fetchwork speaks up to {was}: upgrade fetchwork on this host"
    )
    for words in (("db", "upgrade"), ("db", "init"), ("db", "upgrade", "--plan"), ("db", "status")):
        assert old.run(*dsn, *words, fails=True).endswith(refusal)

    # then the access point
    over_point = upgraded.begun(old, 1)
    upgraded.let_end(running)
    assert "2 succeeded" in upgraded.person(old, "wait", running)
    pool.access_point.stop()
    later.run("pool", "-d", pool.directory, "up")
    assert f"access point {LATER} " in upgraded.person(later, "access-point", "status")
    upgraded.works(old, later)

    # and the host: its agent before the hooks
    over_host = upgraded.begun(later, 1)
    installed = pool.directory / "src/fetchwork"
    shutil.rmtree(installed)
    shutil.copytree(later.package, installed)
    for command in ("condor_off", "condor_on"):
        assert pool.run_command([command, "-daemon", "FETCHWORK_AGENT"]).returncode == 0
    until(lambda: upgraded.agents() == [LATER], upgraded.agents)
    upgraded.let_end(over_point)
    assert "1 succeeded" in upgraded.person(old, "wait", over_point)
    upgraded.works(old, later)
    hooks = [f"{VENV}/bin/fetchwork", "hooks", "install", "--config", str(pool.host_file)]
    assert pool.run_command(hooks).returncode == 0
    upgraded.let_end(over_host)
    assert "1 succeeded" in upgraded.person(later, "wait", over_host)
    upgraded.works(old, later)

    jobs = sorted(f"{cluster}.{proc}" for cluster, n in upgraded.clusters.items() for proc in range(n))
    assert sorted(upgraded.ran().split()) == jobs
    with Database(pool.conninfo) as database:
        ended = database.query("SELECT jobid FROM fetchwork.history WHERE exitcode = 0 AND numjobstarts = 1")
    assert sorted(row["jobid"] for row in ended) == jobs
