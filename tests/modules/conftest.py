"""Programs for HTCondor's bindings, run with the directory of modules on PYTHONPATH."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fetchwork.modules
from tests.accesspoint.point import AccessPoint
from tests.support.nursery import forked_processes

__all__ = ["forked_processes"]

MODULES = Path(fetchwork.modules.__file__).parent


@pytest.fixture(params=["database", "access point"])
def environment(
    request: pytest.FixtureRequest, conninfo: str, public_directory: Callable[[], Path]
) -> Iterator[dict[str, str]]:
    """A program's environment: a connection string, or an access point's socket."""
    if request.param == "database":
        yield {"FETCHWORK_DSN": conninfo}
        return
    if os.geteuid() != 0:
        pytest.skip("an access point for everybody is root's")
    directory = public_directory()
    directory.chmod(0o777)
    point = AccessPoint(directory, conninfo, "--min-uid", "1").start()
    yield {"FETCHWORK_ACCESS_POINT": str(point.socket), "FETCHWORK_OWNER": "nobody"}
    assert point.stop() == 0


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Callable[..., str]:
    """Runs a program; returns its output, or raises its errors."""
    cleared = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "FETCHWORK_", "PYTHON"))
    }

    def run(text: str, *, fails: bool = False) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", text],
            cwd="/tmp",
            env={**cleared, **environment, "PYTHONPATH": str(MODULES)},
            capture_output=True,
            text=True,
        )
        assert (ran.returncode != 0) is fails, ran.stderr
        return ran.stderr if fails else ran.stdout

    return run
