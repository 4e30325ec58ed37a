"""Strangers' text reaches a terminal with its control characters shown; a pipe gets it unchanged."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fetchwork.cli import output
from tests.queue.conftest import Run
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S

# clears the screen, renames the window, reverses the direction of writing
HOSTILE = "a\x1b[2J\x1b]0;root\x07\x9b31m\u202eb"
SHOWN = "a^[[2J^[]0;root^G<U+009B>31m<U+202E>b"


@pytest.fixture
def on_terminal(conninfo: str) -> Callable[..., str]:
    """Runs the command line with stdout and stderr on a terminal; returns the bytes sent to it."""

    def run(*words: str) -> str:
        ours, its = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "fetchwork", *words],
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=its,
            env={**os.environ, "FETCHWORK_DSN": conninfo, "TERM": "xterm", "COLUMNS": "400"},
        )
        os.close(its)
        sent = b""
        try:
            while part := os.read(ours, 65536):
                sent += part
        except OSError:
            pass  # Linux's sign that the terminal is closed
        os.close(ours)
        process.wait(PATIENCE_S)
        return sent.decode()

    return run


@pytest.fixture
def hostile(slots: DirectQueue) -> None:
    """One job that ended with output, one that is held; all their strings are hostile."""
    ad: dict[str, Any] = {"Args": HOSTILE, "Note": HOSTILE, "JobBatchName": "a\x9b31m\u202eb"}
    slots.submit_many([{**ad, "FetchWorkTailBytes": 1000}])
    run = slots.started()
    kept = {"stdout": f"{HOSTILE}\ttab\r\nrow\rover\n", "stderr": HOSTILE}
    slots.finish(run, ExitCode=0, JobPid=7, FetchWorkOutput=kept)
    slots.submit_many([ad] * 2)
    slots.act("hold", "2.0", reason=HOSTILE)


@pytest.mark.parametrize(
    "command",
    [
        "q",
        "q -nobatch",
        "q -hold",
        "q -af Note",
        "q -af (Note)",
        "q --by autocluster",
        "history",
        "history -af Args Note",
        "events",
        "events --log-format",
        "tail 1.0",
        "tail 1.0 --json",
        "q --json",
        "history --json",
        "events --json",
    ],
)
@pytest.mark.usefixtures("hostile")
def test_a_terminal_is_sent_no_control_character_of_a_job(
    on_terminal: Callable[..., str], command: str
) -> None:
    sent = on_terminal(*command.split())
    assert "fetchwork: error" not in sent
    lines = sent.replace("\r\n", "\n")
    assert not output._CONTROL.search(lines), repr(lines)
    if command == "q":
        assert " a<U+009B>31m<U+202E>b " in lines
    elif not {"--json", "--by", "events"} & set(command.split()):
        assert SHOWN in lines


def test_after_submit_a_terminal_is_told_what_to_type_next(
    on_terminal: Callable[..., str], fetchwork: Run, tmp_path: Path
) -> None:
    description = tmp_path / "true.sub"
    description.write_text("executable = /bin/true\nqueue 2\n")
    sent = on_terminal("submit", "--owner", "alice", str(description))
    assert "2 job(s) submitted to cluster 1." in sent
    (line,) = [line for line in sent.splitlines() if line.startswith("next steps:")]
    # the suggested commands exist
    for words in line.removeprefix("next steps:").split("   "):
        told = fetchwork(*words.split()[1:], "--help")
        assert told.status == 0, words
    told = fetchwork("submit", "--owner", "alice", str(description))
    assert (told.out, told.err) == ("2 job(s) submitted to cluster 2.\n", "")
    assert "next steps" not in on_terminal("submit", "--owner", "alice", "--json", str(description))


@pytest.mark.usefixtures("hostile")
def test_the_live_queue_shows_them_too(on_terminal: Callable[..., str], fetchwork: Run) -> None:
    fetchwork("rm", "-all")
    assert "fetchwork" not in on_terminal("watch", "--until-empty")
    row = {"name": f"[red]{HOSTILE}", "jobs": 1, "idle": 1, "running": 0, "held": 0, "done": 0}
    from rich.console import Console

    from fetchwork.cli.watch import _table

    console = Console(width=200, force_terminal=True)
    with console.capture() as capture:
        console.print(_table([row]))  # type: ignore[list-item]
    assert f"[red]{SHOWN}" in capture.get()


@pytest.mark.usefixtures("hostile")
def test_a_pipe_gets_output_as_it_was(fetchwork: Run) -> None:
    told = fetchwork("tail", "1.0")
    assert told.out == f"{HOSTILE}\ttab\r\nrow\rover\n"
    assert told.err == f"{HOSTILE}\n"
    assert json.loads(fetchwork("tail", "1.0", "--json").out)["stderr"] == HOSTILE
    assert fetchwork("q", "2.1", "-af", "Note").out == f"{HOSTILE}\n"


def test_a_row_of_a_table_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("SLOT", "REASON"), [["slot1", "full\r\nslot2\tis free"], [None, 2]])
    assert capsys.readouterr().out == "SLOT   REASON\nslot1  full slot2 is free\n       2\n"


def test_tabs_line_ends_and_letters_of_all_languages_stay() -> None:
    assert output.visible("ä\t日本\r\n\r") == "ä\t日本\r\n^M"
    assert output.visible("\0\x7f\x85") == "^@^?<U+0085>"
