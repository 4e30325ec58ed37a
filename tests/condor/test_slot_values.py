"""$$(Attr), $$([expr]) and $$(Attr:default): the values in a schedd's job and in ours, and in their ads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import CondorRoot
from fetchwork.queue import Queue
from tests.condor.sides import CONFIG, HOST, Sides
from tests.condor.watching import Tail, on_page
from tests.support.waiting import PATIENCE_S, until

PROGRAM = Path(__file__).parent / "slot_values.py"
# arguments and two variables, each followed by a byte that occurs in none of them
SHOW = '#!/bin/sh\nprintf \'%s\\001\' "$@" "$SEEN" "$OTHER"\n'
# attributes that both slots have alike, some of them hard to put into a string
ATTRIBUTES = """
Quoted = "a \\"b\\" c"
Single = "it's"
Backslash = "C:\\dir"
Dollars = "$$(OpSys) $(x)"
Formula = (1 + 2) * 3
Truth = true
Real = 0.25
Blank = "two words"
STARTD_ATTRS = $(STARTD_ATTRS) Quoted Single Backslash Dollars Formula Truth Real Blank
"""
JOBS = {
    "values": "arguments = a $$(OpSys) $$(opsys) $$(OpSys)$$(Arch)-$$(OpSys) $$(Truth) $$(Real)",
    "quotes": "arguments = $$(Single) $$(Backslash) $$(Dollars) $$x $$(DOLLARDOLLAR)(OpSys) $$(a!b)",
    "words": 'arguments = "$$(Blank) \'$$(Blank)\' \'$$(Formula)\' $$([strcat(""ab"",TARGET.OpSys)])"',
    "defaults": "arguments = $$(Nope:turkey) $$(OpSys:turkey) x$$(Nope:)y $$(Nope:a,b/c.d:e)",
    "expressions": "+Width = 5\narguments = $$([1 + 1]) $$([TARGET.Truth]) $$([Formula]) $$([MY.Width * 2])",
    "strings": 'arguments = $$([strcat(\\"a\\", TARGET.OpSys, toLower(\\"B\\"))])',
    "environment": 'environment = "SEEN=$$(OpSys) OTHER=$$([Formula]),$$(Nope:none)"',
    "an own attribute": '+Mine = "of $$(OpSys)"\narguments = $$([MY.Mine])',
    "names of files": "output = OUTPUTS/out.$$(OpSys)\nexecutable = /tmp/show$$(Nope:)\narguments = x",
}
# one after the other: a schedd of 23.9.6 crashes when it would give a shadow such a job as its next one
UNDEFINED = {
    "nothing": "arguments = $$(OpSys) $$(Nope)",
    "nothing in environment": 'environment = "SEEN=$$(Nope)"',
    "an undefined expression": "arguments = $$([Nope])",
    "with a dot": "arguments = $$(TARGET.OpSys)",
}


@pytest.fixture(scope="module")
def sides(root: CondorRoot, make_pool: Callable[..., PersonalPool]) -> Sides:
    """A pool with both, and a program that prints its arguments and environment."""
    # as good without the agent's privileged part
    host = {**HOST, "agent": {"root_part": False}}
    pool = make_pool(slots=2, config=CONFIG + ATTRIBUTES, host=host)
    tmp = pool.directory / "tmp"
    (tmp / "show").write_text(SHOW)
    (tmp / "show").chmod(0o755)
    for side in ("schedd", "fetchwork"):
        directory = tmp / f"slot-values-{side}"
        directory.mkdir()
        directory.chmod(0o777)
    return Sides(pool, PROGRAM)


def test_job_sees_what_a_schedds_job_sees(sides: Sides) -> None:
    theirs, ours = sides.ask("expansions", [JOBS, *({name: text} for name, text in UNDEFINED.items())])
    assert theirs.keys() == {*JOBS, *UNDEFINED}
    assert {name for name, found in theirs.items() if "HoldReason" in found} == UNDEFINED.keys()
    assert {name: ours.get(name) for name in theirs} == {name: _ours(theirs[name]) for name in theirs}
    printed, expected = (
        {
            path.name: path.read_bytes()
            for path in (sides.pool.directory / f"tmp/slot-values-{side}").iterdir()
        }
        for side in ("fetchwork", "schedd")
    )
    assert printed == expected
    assert len(expected) == len(JOBS)


def test_who_follows_a_job_is_told_that_an_agent_without_rights_may_not_read_it(
    sides: Sides, tmp_path: Path
) -> None:
    end = sides.pool.directory / "tmp/nobody-follows"
    words = "echo begun; until test -e /tmp/nobody-follows; do sleep 0.1; done"
    ad = {"Cmd": "/bin/sh", "Arguments": f"-c '{words}'", "Owner": "alice", "Iwd": "/tmp", "Out": "/tmp/told"}
    with Queue(sides.pool.conninfo) as queue:
        job = f"{queue.submit(ad).cluster()}.0"
    tail = Tail(sides.pool, job, tmp_path)
    try:
        until(lambda: "can't be followed" in tail.said[1], tail.said)
        assert f"job {job} can't be followed: its host's agent, as 'condor', may not read" in tail.said[1]
        text, told = on_page(sides.pool, job)
        assert "may not read" in text and not told["pieces"]
        assert "files of 'alice'" in told["problem"]
    finally:
        end.touch()
        assert tail.process.wait(PATIENCE_S) == 0
        tail.end()
    assert tail.said[0] == ""


def _ours(found: Any) -> Any:
    """The common part of both sides' results: their directories differ."""
    return {
        name: value.replace("slot-values-schedd", "slot-values-fetchwork")
        if isinstance(value, str)
        else value
        for name, value in found.items()
    }
