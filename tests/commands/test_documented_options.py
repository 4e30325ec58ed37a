"""Every documented option of HTCondor's commands is known to ours: honoured, or refused by name."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.errors import DatabaseUnavailable, HTCondorUnavailable
from tests.commands.oracle import Answer, answers
from tests.conftest import NOT_TESTED

#: with arguments that each of their options takes
COMMANDS = (
    "condor_q", "condor_history", "condor_status", "condor_submit", "condor_wait", "condor_tail",
    "condor_rm", "condor_hold", "condor_release", "condor_suspend", "condor_continue", "condor_vacate_job",
    "condor_qedit", "condor_userprio", "condor_transfer_data",
)  # fmt: skip
#: 25.14 has this many options; fewer would be an error of the test
LEAST_OPTIONS = 300

_FIRST = re.compile(r"^\s*\[?(--?[A-Za-z][\w-]*)", re.MULTILINE)
_OTHER = re.compile(r"(?<=[\s|(\[])(-[a-z][\w-]+)(?=[\s:|<\]])")


def options(text: str) -> list[str]:
    """The options that a help names."""
    return sorted({*_FIRST.findall(text), *_OTHER.findall(text)} - {"-help"})


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["sid", "trixie"])
def test_no_documented_option_is_unknown(suite: str, run: Callable[..., Answer], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_TESTED} of {suite}: only root can enter its pool root")
    try:
        helps = answers(suite, tmp_path, [[command, "-help"] for command in COMMANDS])
    except HTCondorUnavailable as reason:
        pytest.skip(f"{NOT_TESTED} of {suite}: {reason}")
    unknown = []
    number = 0
    for command, help in zip(COMMANDS, helps, strict=True):
        named = options(help.out + help.err)
        number += len(named)
        bad = run(command, "-nosuchoption", directory=tmp_path)
        for option in named:
            try:
                answer = run(command, option, "1", "1", directory=tmp_path, stdin=b"queue\n")
            except (AssertionError, DatabaseUnavailable):
                # the command accepted the option, and then failed because there is no queue
                continue
            said = (answer.out, answer.err.replace(option, "-nosuchoption"))
            if said == (bad.out, bad.err):
                unknown.append(f"{command} {option}")
    print(f"{suite}: {number} options of {len(COMMANDS)} commands")
    assert unknown == []
    assert suite != "sid" or number >= LEAST_OPTIONS
