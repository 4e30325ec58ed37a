"""The start of ``fetchwork``: an access point's commands go to the compiled program, before imports."""

import os
import sys
from pathlib import Path

import pytest

from fetchwork import __main__ as start
from fetchwork import cli
from fetchwork.client import link
from fetchwork.condor import commands


class Became(Exception):
    """The process would be another program."""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The compiled program, beside this Python; there are an access point and its account."""
    program = tmp_path / "libexec/fetchwork/condor/fetchwork"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    (tmp_path / "point.sock").touch()

    def become(path: str, words: list[str]) -> None:
        raise Became(path, *words)

    for name in link._OF_DATABASE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "execv", become)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("FETCHWORK_ACCESS_POINT", str(tmp_path / "point.sock"))
    monkeypatch.setattr(cli, "main", lambda: None)
    return program


def test_what_the_access_point_runs_is_left_to_the_program(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/fetchwork/bin/fetchwork", "q", "1.0"])
    with pytest.raises(Became) as became:
        start.main()
    assert became.value.args == (str(program), "fetchwork", "q", "1.0")


@pytest.mark.parametrize(
    ("words", "environment", "uid"),
    [
        (["wait", "1.0"], {}, 1000),
        ([], {}, 1000),
        (["q", "--dsn", "service=x"], {}, 1000),
        (["q"], {"FETCHWORK_ACCESS_POINT": "none"}, 1000),
        (["q"], {"FETCHWORK_ACCESS_POINT": "/no/such.sock"}, 1000),
        # the access point runs none of root's commands
        (["q"], {}, 0),
    ],
)
def test_everything_else_is_run_here(
    program: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], environment: dict[str, str], uid: int
) -> None:
    monkeypatch.setattr(sys, "argv", ["fetchwork", *words])
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    start.main()


def test_without_the_program_it_is_run_here(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.unlink()
    monkeypatch.setenv("XDG_DATA_HOME", str(program.parent))
    monkeypatch.setattr(sys, "argv", ["fetchwork", "q"])
    start.main()


def test_it_repeats_what_it_can_not_import() -> None:
    assert (start._SOCKET, start._SERVED) == (link.SOCKET, commands.SERVED)
    assert set(cli.COMMANDS["Jobs"]) > commands.SERVED
