"""Bad input: our commands end with the status and the words of HTCondor's own."""

import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.errors import HTCondorUnavailable
from tests.commands import options
from tests.commands.oracle import Answer, answers
from tests.conftest import NOT_TESTED

#: the help follows, whose text is our own
_HELP = re.compile(r"^(?:usage|use):.*", re.IGNORECASE | re.MULTILINE | re.DOTALL)
_NOW = re.compile(r" @ \d\d/\d\d/\d\d \d\d:\d\d:\d\d")

NO_EXECUTABLE = "queue\n"
#: because each line is a process of ours and one of HTCondor's
PARTS = 4


def command_lines() -> list[str]:
    return (options.DATA / "bad.commands").read_text().splitlines()[1:]


def bare(answer: Answer) -> Answer:
    """An answer without the text of a help, and without the time in a title."""
    return Answer(answer.status, _NOW.sub("", _HELP.sub("", answer.out)), _HELP.sub("", answer.err))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_status_and_words_are_htcondors(run: Callable[..., Answer], tmp_path: Path, part: int) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_TESTED} of sid: only root can enter its pool root")
    folder = tmp_path / "ads"
    shutil.copytree(options.DATA, folder)
    (folder / "noexe.sub").write_text(NO_EXECUTABLE)
    lines = command_lines()[part::PARTS]
    try:
        theirs = answers("sid", folder, [shlex.split(line) for line in lines])
    except HTCondorUnavailable as reason:
        pytest.skip(f"{NOT_TESTED} of sid: {reason}")
    print(f"{len(lines)} command lines compared")
    different = {
        line: (bare(ours), bare(expected))
        for line, expected in zip(lines, theirs, strict=True)
        if bare(ours := run(*shlex.split(line), directory=folder)) != bare(expected)
    }
    assert different == {}
    assert len(lines) * PARTS > 115
