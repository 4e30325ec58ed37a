"""``fetchwork group``, and quotas of groups in Python and in the reasons why a job waits."""

import asyncio
import os
from pathlib import Path

import pytest

from fetchwork.explain.job import analyze
from fetchwork.explain.slot import match
from fetchwork.queue import AsyncQueue
from tests.queue.conftest import Queue, Run
from tests.support.direct_queue import DirectQueue
from tests.support.sessions import session_of
from tests.support.told_hosts import Hosts

CONFIG = """
GROUP_NAMES = physics.atlas, physics, bio, plain
GROUP_QUOTA_physics = 300
GROUP_QUOTA_DYNAMIC_physics.ATLAS = 0.4
GROUP_QUOTA_DYNAMIC_bio = 0.25
GROUP_ACCEPT_SURPLUS = True
GROUP_ACCEPT_SURPLUS_bio = False
GROUP_AUTOREGROUP = True
GROUP_AUTOREGROUP_physics = False
GROUP_AUTOREGROUP_physics.atlas = False
GROUP_AUTOREGROUP_plain = False
GROUP_PRIO_FACTOR_bio = 50
GROUP_SORT_EXPR = 3
NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION = true
"""


@pytest.fixture
def condor_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A condor_config_val that prints a file as -dump does."""
    dump = tmp_path / "dump"
    program = tmp_path / "bin/condor_config_val"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\n[ \"$1\" = -dump ] || exit 1\necho '# Configuration from somewhere'\ncat {dump}\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    dump.write_text(CONFIG)
    return dump


def test_groups_are_set_shown_and_removed(fetchwork: Run) -> None:
    told = fetchwork("group", "set", "physics", "--quota", "300")
    assert told.status == 0 and told.out.splitlines()[0].split() == [
        *("GROUP", "SET", "SHARE", "SURPLUS", "AUTOREGROUP", "QUOTA", "IN_USE", "REQUESTED", "MAX_IDLE"),
        "MAX_AUTOCLUSTERS",
    ]
    fetchwork("group", "set", "physics.atlas", "--share", "0.4", "--accept-surplus", "--factor", "20")
    lines = [line.split() for line in fetchwork("group", "list").out.splitlines()[1:]]
    assert [line[0] for line in lines] == ["<none>", "physics", "physics.atlas"]
    assert lines[2][1:3] == ["0.4", "yes"] and float(lines[2][3]) == 120
    assert '"DynamicQuota": 0.4' in fetchwork("group", "list", "--json").out
    assert fetchwork("group", "remove", "physics").status == 0
    assert fetchwork("group", "list").out.splitlines()[1:] == []


def test_ceilings_of_a_group_are_set_shown_met_and_removed(fetchwork: Run, tmp_path: Path) -> None:
    fetchwork("group", "set", "physics", "--quota", "3", "--max-idle", "2", "--max-autoclusters", "1")
    line = fetchwork("group", "list").out.splitlines()[-1]
    assert line.split()[-2:] == ["2", "1"]
    file = tmp_path / "a.sub"
    file.write_text("executable = /bin/true\naccounting_group = physics\nqueue 3\n")
    told = fetchwork("submit", str(file), "--owner", "alice")
    assert (told.status, told.out) == (1, "")
    assert told.err == (
        "fetchwork: error: group 'physics' would have 3 idle jobs in the queue; allowed: 2 (max_idle of this"
        " group; an administrator may raise it)\n"
    )
    fetchwork("group", "set", "physics", "--max-idle", "none", "--max-autoclusters", "none")
    assert "MaxIdle" not in fetchwork("group", "list", "--json").out
    assert fetchwork("submit", str(file), "--owner", "alice").status == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("set", "a"), "nothing to set for 'a'; allowed: --quota"),
        (("set", "a", "--quota", "1", "--share", "0.1"), "a group has --quota or --share, not both"),
        (("set", "a", "--share", "1.1"), "1.1 is not in the range"),
        (("set", "a.b", "--quota", "1"), "group 'a' does not exist; make it before 'a.b'"),
        (("set", "a", "--accept-surplus"), "group 'a' is new, so it needs a quota"),
        (("remove", "a"), "group 'a' does not exist"),
    ],
)
def test_what_can_not_be_set_is_refused_in_a_line(fetchwork: Run, words: tuple[str, ...], told: str) -> None:
    answer = fetchwork("group", *words)
    assert answer.status != 0 and told in answer.err
    assert answer.err.strip().count("\n") <= 3


def test_groups_of_a_condor_config_are_imported(fetchwork: Run, queue: Queue, condor_config: Path) -> None:
    told = fetchwork("group", "import", "--dry-run")
    assert told.out.splitlines() == [
        "fetchwork group set bio --share 0.25 --no-surplus --autoregroup --factor 50",
        "fetchwork group set physics --quota 300 --accept-surplus",
        "fetchwork group set plain --quota 0 --accept-surplus",
        "fetchwork group set physics.atlas --share 0.4 --accept-surplus",
    ]
    assert told.err.splitlines() == [
        "not honoured: GROUP_SORT_EXPR = 3: the group furthest below what is due to it is next"
    ]
    assert queue.groups() == []
    fetchwork("group", "set", "other", "--quota", "3")
    assert fetchwork("group", "import").status == 0
    groups = {ad["Name"]: ad for ad in queue.groups()}
    assert set(groups) == {"<none>", "bio", "other", "physics", "physics.atlas", "plain"}
    assert groups["bio"]["AutoRegroup"] and groups["bio"]["PriorityFactor"] == 50
    assert groups["physics"]["AcceptSurplus"] and not groups["bio"]["AcceptSurplus"]


def test_an_import_without_groups_or_with_a_bad_number_is_refused(
    fetchwork: Run, condor_config: Path
) -> None:
    condor_config.write_text("GROUP_NAMES = a\nGROUP_QUOTA_a = many\n")
    assert "GROUP_QUOTA_a is 'many'; allowed: a number" in fetchwork("group", "import").err
    condor_config.write_text("")
    assert "the HTCondor configuration has no GROUP_NAMES" in fetchwork("group", "import").err


def test_without_the_global_setting_no_group_is_regrouped(
    fetchwork: Run, queue: Queue, condor_config: Path
) -> None:
    """As the negotiator: GROUP_AUTOREGROUP of a group says nothing without the global one."""
    condor_config.write_text("GROUP_NAMES = a\nGROUP_QUOTA_a = 5\nGROUP_AUTOREGROUP_a = True\n")
    fetchwork("group", "import")
    assert [ad["AutoRegroup"] for ad in queue.groups()] == [False, False]


def test_groups_in_python(queue: Queue, conninfo: str) -> None:
    queue.set_group("physics", quota=7, accept_surplus=True)
    queue.set_group("physics", quota=8, max_idle=5, max_autoclusters=4)
    (none, physics) = queue.groups()
    assert (physics["MaxIdle"], physics["MaxAutoclusters"]) == (5, 4)
    (none, physics) = queue.groups(projection=["Name", "ConfigQuota", "AcceptSurplus"])
    assert (none["Name"], physics["ConfigQuota"], physics["AcceptSurplus"]) == ("<none>", 8, True)

    async def further() -> int:
        async with AsyncQueue(conninfo) as asked:
            await asked.remove_group("physics")
            return len(await asked.groups())

    assert asyncio.run(further()) == 0


def test_the_reason_of_a_quota_and_the_group_ahead_are_told(queue: Queue, slots: DirectQueue) -> None:
    hosts = Hosts(slots)
    for number in range(4):
        hosts.tell(f"slot{number}@h1")
    slots.call("set_group", name="full", changes={"quota": 1})
    slots.call("set_group", name="low", changes={"quota": 2, "accept_surplus": True})
    full = [{"AccountingGroup": "full.alice"}] * 2
    (_, blocked) = slots.submit_many(full)
    assert slots.claim("slot9@h1") is not None
    job, first = slots.submit(), slots.submit(AccountingGroup="low.bob")
    cluster, proc = map(int, blocked.split("."))
    assert (
        'Group "full" has its quota of 1 in use: 1, a job takes 1.'
        in analyze(session_of(queue), cluster, proc).reasons
    )
    found = analyze(session_of(queue), int(job.split(".")[0]), 0)
    assert [(one.submitter, one.why) for one in found.ahead] == [
        ("low.bob", "group low has 0 of the 2 slots that are due to it")
    ]
    shown = match(session_of(queue), "slot0@h1")
    assert [(one.job, one.group, one.decided_by) for one in shown.candidates] == [
        (first, "low", ""),
        (job, "<none>", "quota of groups"),
    ]
    assert shown.passed_over == {"blocked": 1}
