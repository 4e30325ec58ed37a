"""condor_q, condor_history, condor_status and condor_userprio print what HTCondor's own print, byte for byte.

The ads are those of real schedds, startds and negotiators (``tests/data/jobs``, of both versions), and made
ones: jobs of odd values, slots of many types, full, draining, for backfill, and without this or that
attribute, and users without groups.
"""

import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.errors import HTCondorUnavailable
from tests.commands import options
from tests.commands.options import ACCOUNTINGS, HISTORIES, QUEUES, SLOTS, cases
from tests.commands.oracle import Answer, answers
from tests.conftest import NOT_TESTED

#: at least this many command lines are compared; fewer would be an error of the test
LEAST_CASES = 1050

_NOW = re.compile(r" @ \d\d/\d\d/\d\d \d\d:\d\d:\d\d")


def test_hundreds_of_command_lines_are_compared() -> None:
    assert sum(len(cases(file)) for file in QUEUES + HISTORIES + SLOTS + ACCOUNTINGS) > LEAST_CASES


def _differs_in_23_9(line: str, command: str) -> bool:
    if command == "condor_status":
        # options that print another table or are new
        printed = ("-long", "-xml", "-json", "-af", "-format", "-attributes")
        own_form = any(word.startswith(printed) for word in line.split())
        compact = "-compact" in line and not any(word in options.COMPACT_OF_25_14 for word in line.split())
        new = any(option in line for option in ("-annex", "-print-format", "-gpus -af"))
        return new or not (own_form or compact)
    if command == "condor_q":
        return any(
            line == known or (known in line.split()) or line.startswith(known) for known in options.OF_25_14
        )
    words = line.split()
    if command == "condor_userprio":
        # options that choose columns, without those that choose the new one of floors
        chosen = any(word in options.COLUMNS_OF_USERPRIO | {"-long", "-l", "-af"} for word in words)
        return not chosen or "-all" in words or "-most" in words
    table = not any(
        word.startswith(("-af", "-format", "-print", "-l", "-attributes")) and word != "-limit"
        for word in words
    )
    return table or any(known in words for known in options.HISTORY_OF_25_14)


@pytest.mark.slow
@pytest.mark.parametrize("file", QUEUES + HISTORIES + SLOTS + ACCOUNTINGS)
@pytest.mark.parametrize("suite", ["trixie", pytest.param("sid", marks=pytest.mark.all)])
def test_options_and_ads_print_htcondors_bytes(
    suite: str, file: str, run: Callable[..., Answer], tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_TESTED} of {suite}: only root can enter its pool root")
    folder = tmp_path / "ads"
    shutil.copytree(options.DATA, folder)
    lines = cases(file)
    try:
        theirs = answers(suite, folder, [words for _, words in lines])
    except HTCondorUnavailable as reason:
        pytest.skip(f"{NOT_TESTED} of {suite}: {reason}")
    compared = 0
    different = []
    for (line, words), expected in zip(lines, theirs, strict=True):
        if (
            suite == "trixie" and _differs_in_23_9(line, words[0])
        ) or "Usage:" in expected.out + expected.err:
            continue
        answer = run(*words, directory=folder)
        compared += 1
        if _timeless(answer) != _timeless(expected):
            different.append(f"{shlex.join(words)}\n{_first_difference(answer, expected)}")
    print(f"{suite}, {file}: {compared} of {len(lines)} command lines compared")
    assert compared
    assert not different, f"{len(different)} of {compared} differ:\n" + "\n".join(different)


def _timeless(answer: Answer) -> Answer:
    """The answer without the time in its title, if the ads have none."""
    return Answer(answer.status, _NOW.sub(" @ now", answer.out), answer.err)


def _first_difference(ours: Answer, theirs: Answer) -> str:
    if ours.status != theirs.status or ours.err != theirs.err:
        return f"  ours {ours.status} {ours.err!r}\n  theirs {theirs.status} {theirs.err!r}"
    pairs = zip(_timeless(ours).out.split("\n"), _timeless(theirs).out.split("\n"), strict=False)
    for own, their in pairs:
        if own != their:
            return f"  ours   {own!r}\n  theirs {their!r}"
    return f"  ours has {len(ours.out)} bytes, theirs {len(theirs.out)}"
