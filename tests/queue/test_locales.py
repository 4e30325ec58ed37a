"""The command line in locales of other languages and character sets."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import locales
from tests.support.direct_queue import DirectQueue

Command = Callable[..., tuple[int, bytes, bytes]]


@pytest.fixture(params=locales.NAMES)
def command(request: pytest.FixtureRequest, conninfo: str, tmp_path: Path) -> Command:
    """Runs the command line as a process in a locale; its status, stdout and stderr."""
    environment = {
        **locales.environment(request.param, tmp_path),
        "FETCHWORK_DSN": conninfo,
        "COLUMNS": "200",
    }

    def run(*words: str, given: bytes = b"") -> tuple[int, bytes, bytes]:
        program = [sys.executable, "-m", "fetchwork", *words]
        told = subprocess.run(
            program, env=environment, check=False, capture_output=True, cwd=tmp_path, input=given
        )
        return told.returncode, told.stdout, told.stderr

    return run


@pytest.mark.parametrize("constraint", ["IMAGESIZE >= 0", "JOBPRIO == 0", 'stringListIMember("I", "i")'])
def test_constraint_selects_as_ever(command: Command, slots: DirectQueue, constraint: str) -> None:
    job = slots.submit(ImageSize=1, JobPrio=0)
    assert command("q", "-constraint", constraint, "-af", "ClusterId")[:2] == (
        0,
        job.split(".")[0].encode() + b"\n",
    )


def test_names_that_a_terminal_lacks_are_replaced(command: Command, slots: DirectQueue) -> None:
    slots.submit(JobBatchName="日本 ığş", Args="日本", Cmd="/bin/日本")
    for words in (["q"], ["q", "-nobatch"], ["q", "-af", "Args"], ["q", "--json"], ["history"], ["events"]):
        status, _, told = command(*words)
        assert (status, told) == (0, b""), words


@pytest.mark.parametrize("source", ["a.sub", "-"])
def test_description_in_utf_8_is_submitted(
    command: Command, slots: DirectQueue, tmp_path: Path, source: str
) -> None:
    (tmp_path / "a.sub").write_bytes(
        'executable = /bin/true\narguments = ığş 日本\n+Name = "日本"\nqueue\n'.encode()
    )
    status, _, told = command("submit", "--owner", "alice", source, given=(tmp_path / "a.sub").read_bytes())
    assert (status, told) == (0, b"")
    assert slots.rows("SELECT ad ->> 'Name', ad ->> 'Args' FROM fetchwork.jobs") == [("日本", "ığş 日本")]
