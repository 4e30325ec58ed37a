"""``fetchwork env``: the lines of each shell, tried in that shell."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.modules.conftest import MODULES

FETCHWORK = Path(sys.prefix) / "bin/fetchwork"
SHELLS = {"sh": "sh", "csh": "tcsh", "fish": "fish"}


@pytest.mark.parametrize("before", [None, "/opt/mine"])
@pytest.mark.parametrize("shell", SHELLS)
def test_the_lines_put_commands_and_modules_first(shell: str, before: str | None) -> None:
    program = shutil.which(SHELLS[shell])
    if program is None:
        pytest.skip(f"no {SHELLS[shell]} here")
    lines = subprocess.run(
        [FETCHWORK, "env", f"--{shell}"], capture_output=True, text=True, check=True
    ).stdout
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if before is not None:
        environment["PYTHONPATH"] = before
    told = subprocess.run(
        [program, "-c", f"{lines}\nprintenv PATH; printenv PYTHONPATH"],
        env=environment,
        capture_output=True,
        text=True,
    )
    path, python = told.stdout.splitlines()
    assert Path(path.split(":")[0], "condor_submit").exists()
    assert path.endswith(os.environ["PATH"])
    assert python.split(":") == [str(MODULES), *([before] if before else [])]


def test_a_command_runs_with_them() -> None:
    words = ["env", "--", sys.executable, "-c", "import htcondor2; print(htcondor2.Schedd.__mro__[1])"]
    told = subprocess.run([FETCHWORK, *words], capture_output=True, text=True)
    assert "fetchwork.queue.synchronous.Queue" in told.stdout, told.stderr


@pytest.mark.parametrize(
    "first",
    [
        "htcondor2",
        "fetchwork",
        "fetchwork.classad.bindings",
        "fetchwork.queue.events.jobevents",
        "fetchwork.classad.values",
    ],
)
def test_a_program_may_import_fetchwork_before_or_after(first: str) -> None:
    program = f"import {first}, htcondor2, fetchwork\nprint(htcondor2.Schedd.__mro__[1], fetchwork.Queue)"
    words = ["env", "--", sys.executable, "-W", "ignore", "-c", program]
    told = subprocess.run([FETCHWORK, *words], capture_output=True, text=True)
    queue = "<class 'fetchwork.queue.synchronous.Queue'>"
    assert (told.stdout, told.stderr) == (f"{queue} {queue}\n", "")


@pytest.mark.parametrize("command", ["q", "wait", "submit", "events", "history"])
def test_our_own_command_goes_on_where_its_modules_are_first(command: str) -> None:
    told = subprocess.run(
        [FETCHWORK, "env", "--", FETCHWORK, command, "--help"], capture_output=True, text=True
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith(f"Usage: fetchwork {command}")
