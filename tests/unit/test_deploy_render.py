"""The files generated from a host file, without a running HTCondor."""

import re
from pathlib import Path
from typing import Any

import pytest

from fetchwork import config
from fetchwork.classad.ads import parse_expr, parse_old
from fetchwork.classad.values import evaluate
from fetchwork.cli import run
from fetchwork.deploy import CONDOR_FILE, UNIT_FILE, render
from fetchwork.deploy.condorconfig import parse_settings

EXAMPLES = Path(__file__).parents[2] / "config-examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.toml"))

BASE = """\
[database.main]
service = "main"
[keyword.A]
max_fetch_wait_s = 0
[keyword.B]
max_fetch_wait_s = 0
fetch_delay_s = 60
[slots]
default = "A"
"""


def settings(text: str, version: tuple[int, ...] | None = None) -> dict[str, str]:
    return parse_settings(render(config.parse(text), version)[CONDOR_FILE])


def keywords(text: str) -> dict[str, str]:
    return {
        name: value
        for name, value in settings(text).items()
        if name.endswith("_JOB_HOOK_KEYWORD") and not name.startswith("STARTER")
    }


def test_the_seven_examples_are_there() -> None:
    assert NAMES == [
        "gpu-slots",
        "one-queue",
        "one-slot-elsewhere",
        "partitionable",
        "pilot",
        "two-databases",
        "workstation",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_example_is_what_is_generated_from_its_host_file(name: str) -> None:
    made = render(config.load(EXAMPLES / f"{name}.toml"))
    assert made[CONDOR_FILE] == (EXAMPLES / f"{name}.conf").read_text()
    unit = EXAMPLES / f"{name}.service"
    assert made.get(UNIT_FILE) == (unit.read_text() if unit.exists() else None)


@pytest.mark.parametrize("name", NAMES)
def test_example_has_a_paragraph_in_the_readme(name: str) -> None:
    assert f"**[{name}]({name}.toml)**:" in (EXAMPLES / "README.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_generated_file_reads_well(name: str) -> None:
    text = (EXAMPLES / f"{name}.conf").read_text()
    assert not re.search(r"[ \t]$", text, re.M)
    assert "\n\n\n" not in text
    names = re.findall(r"(?m)^([A-Za-z][\w.]*)\s*=", text)
    twice = {name for name in names if names.count(name) > 1}
    assert twice <= {"DAEMON_LIST"}  # a pilot sets it, then prepends the agent


def test_slot_types_keyword_and_slots_own_keyword_become_slot_settings() -> None:
    text = BASE + '[[slots.type]]\ncount = 3\n[[slots.type]]\nkeyword = "B"\n[slots.keyword]\n2 = "none"\n'
    assert keywords(text) == {
        "STARTD_JOB_HOOK_KEYWORD": "A",
        "SLOT2_JOB_HOOK_KEYWORD": "FETCHES_NOTHING",
        "SLOT4_JOB_HOOK_KEYWORD": "B",
    }


def test_startd_has_the_keyword_of_the_partitionable_slot_because_dynamic_slots_look_there() -> None:
    text = BASE + '[[slots.type]]\ncount = 3\n[[slots.type]]\npartitionable = true\nkeyword = "B"\n'
    assert keywords(text) == {
        "STARTD_JOB_HOOK_KEYWORD": "B",
        "SLOT1_JOB_HOOK_KEYWORD": "A",
        "SLOT2_JOB_HOOK_KEYWORD": "A",
        "SLOT3_JOB_HOOK_KEYWORD": "A",
    }


def test_dynamic_slots_are_named_where_partitionable_slots_differ() -> None:
    text = (
        BASE
        + "[[slots.type]]\npartitionable = true\ncpus = 4\n"
        + '[[slots.type]]\npartitionable = true\ncpus = 1\nkeyword = "B"\n'
    )
    assert keywords(text) == {
        "STARTD_JOB_HOOK_KEYWORD": "A",
        "SLOT2_JOB_HOOK_KEYWORD": "B",
        "SLOT2_1_JOB_HOOK_KEYWORD": "B",
        "SLOT2_2_JOB_HOOK_KEYWORD": "B",
    }


def test_partitionable_slot_that_fetches_nothing_leaves_the_startd_without_keyword() -> None:
    text = BASE + '[[slots.type]]\ncount = 1\n[[slots.type]]\npartitionable = true\nkeyword = "none"\n'
    assert keywords(text) == {"SLOT1_JOB_HOOK_KEYWORD": "A"}


def test_busy_slots_never_fetch_where_nothing_waits_in_the_agent() -> None:
    delay = settings(BASE)["FetchWorkDelay"]
    assert delay == (
        'ifThenElse(State == "Unclaimed" || State == "Owner",'
        " ifThenElse(PartitionableSlot =?= true && Cpus > 0 && Memory > 0, 1, 10),"
        ' ifThenElse(State != "Claimed" || ClientMachine isnt undefined, 2147483647,'
        ' ifThenElse(Activity == "Idle", 0, 2147483647)))'
    )


ONE_KEYWORD = '[database.main]\nservice = "main"\n[keyword.A]\n'
SLOT = 'State = "Unclaimed"\nActivity = "Idle"\nSlotID = 1\nMemory = 100\nCpus = '


NOW = 1_700_000_000


def delay(text: str, slot: str) -> object:
    """FetchWorkDelay of a slot, as HTCondor evaluates it at NOW."""
    expression = settings(text)["FetchWorkDelay"].replace("time()", str(NOW))
    return evaluate(parse_old(slot), parse_expr(expression))


def test_partitionable_slot_fetches_again_at_once_while_it_has_room() -> None:
    partitionable = "\nPartitionableSlot = true\n"
    assert delay(ONE_KEYWORD, SLOT + "1" + partitionable) == 1
    # a remainder too small for any job does not ask for one each second
    assert delay(ONE_KEYWORD, SLOT + "0" + partitionable) == 10
    assert delay(ONE_KEYWORD, SLOT + "1\n") == 10


def test_delay_that_the_host_file_names_is_that_of_each_slot() -> None:
    slot = SLOT + "1\nPartitionableSlot = true\n"
    assert delay(ONE_KEYWORD + "fetch_delay_s = 10\n", slot) == 10


def test_slots_of_another_keyword_have_its_delay() -> None:
    text = BASE + '[[slots.type]]\ncount = 6\n[slots.keyword]\n2-3 = "B"\n5 = "B"\n'
    assert (
        "ifThenElse((SlotID >= 2 && SlotID <= 3) || SlotID == 5, 60, 10)" in settings(text)["FetchWorkDelay"]
    )


def test_busy_slots_fetch_where_the_agent_holds_fetches_and_htcondor_waits_for_a_timer() -> None:
    text = BASE.replace("max_fetch_wait_s = 0\n", "")
    assert "time() - EnteredCurrentActivity < 60, 1, 5)" in settings(text, (25, 14, 1))["FetchWorkDelay"]
    assert "EnteredCurrentActivity" not in settings(text, (23, 9, 6))["FetchWorkDelay"]


@pytest.mark.parametrize(
    ("text", "by_agent"),
    [
        (ONE_KEYWORD, True),
        (ONE_KEYWORD + "[pilot]\n", True),
        (ONE_KEYWORD + '[agent]\nuser = ""\nroot_part = false\n', True),
        (ONE_KEYWORD + '[agent]\nuser = "nobody"\n', True),
        (ONE_KEYWORD + "[agent]\nroot_part = false\n", False),
    ],
)
def test_no_hook_updates_jobs_where_the_agent_may_signal_them(text: str, by_agent: bool) -> None:
    made = settings(text)
    assert ("A_HOOK_UPDATE_JOB_INFO" in made) is not by_agent
    assert "A_HOOK_JOB_EXIT" in made


STATIC_SLOTS = "[[slots.type]]\ncount = 2\ncpus = 1\n"
DIVIDED_SLOT = "[[slots.type]]\ncount = 1\ncpus = 4\npartitionable = true\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ONE_KEYWORD, True),
        (ONE_KEYWORD + STATIC_SLOTS, False),
        (ONE_KEYWORD + DIVIDED_SLOT, True),
        (ONE_KEYWORD + STATIC_SLOTS + DIVIDED_SLOT, True),
        (ONE_KEYWORD + STATIC_SLOTS + "[agent]\nroot_part = false\n", True),
    ],
)
def test_replies_are_told_where_the_next_fetch_would_not_tell_them(text: str, told: bool) -> None:
    assert ("A_HOOK_REPLY_FETCH" in settings(text)) is told
    # the agent reads the same host file
    assert config.parse(text).is_told_replies("A") is told


def test_each_keyword_has_the_hooks_of_its_own_slots() -> None:
    made = settings(BASE + STATIC_SLOTS + DIVIDED_SLOT + 'keyword = "B"\n')
    assert "A_HOOK_REPLY_FETCH" not in made
    assert "B_HOOK_REPLY_FETCH" in made


@pytest.mark.parametrize(
    ("age_s", "kind", "expected"),
    [(0, "Static", 0), (1, "Static", 0), (3, "Static", 1), (0, "Dynamic", 1), (61, "Dynamic", 5)],
)
def test_slot_whose_job_ends_before_its_next_fetch_has_begun_need_not_wait(
    age_s: int, kind: str, expected: int
) -> None:
    slot = f'State = "Claimed"\nActivity = "Busy"\nSlotID = 1\nSlotType = "{kind}"\n'
    slot += f"EnteredCurrentActivity = {NOW - age_s}\n"
    slot += "DynamicSlot = true\n" if kind == "Dynamic" else ""
    assert delay(ONE_KEYWORD, slot) == expected


def test_only_newer_htcondors_need_update_and_polling_intervals() -> None:
    old, new = settings(BASE, (23, 9, 6)), settings(BASE, (25, 14, 1))
    assert "UPDATE_INTERVAL" not in old
    assert "POLLING_INTERVAL" not in old
    assert new["UPDATE_INTERVAL"] == "30"
    assert new["POLLING_INTERVAL"] == "1"
    assert settings(BASE) == new


def test_version_in_the_host_file_goes_before_the_one_found() -> None:
    assert "UPDATE_INTERVAL" not in settings(BASE + '[host]\nhtcondor = "23.9.6"\n', (25, 0))


NO_RIGHTS = "[agent]\nroot_part = false\n"
TWO_IN_USE = '[[slots.type]]\n[[slots.type]]\nkeyword = "B"\n'


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        (BASE, None),
        (BASE + "fetched_only = true\n" + NO_RIGHTS, "A"),
        (BASE + "fetched_only = true\n" + TWO_IN_USE + NO_RIGHTS, None),
        (BASE + "fetched_only = true\n", None),
        (BASE + "[pilot]\n", None),
        (BASE + TWO_IN_USE + "[pilot]\n", None),
    ],
    ids=["schedd too", "fetched only", "two keywords", "agent", "pilot", "pilot with two keywords"],
)
def test_starter_keyword_is_set_only_where_no_ad_chooses_among_keywords(text: Any, guard: str | None) -> None:
    assert settings(text).get("STARTER_JOB_HOOK_KEYWORD") == guard


def test_keywords_without_job_exit_are_there_where_an_agent_reports_in_its_place() -> None:
    made = settings(BASE)
    # so a site's own hook is theirs, too
    assert made["A_PLAIN_HOOK_PREPARE_JOB"] == "$(A_HOOK_PREPARE_JOB)"
    assert [name for name in made if name.startswith("A_PLAIN_")] == ["A_PLAIN_HOOK_PREPARE_JOB"]
    assert made["FetchWorkPlain"] == "True"
    assert made["STARTD_ATTRS"].split() == ["$(STARTD_ATTRS)", "FetchWorkQueues", "FetchWorkPlain"]
    assert not [name for name in settings(BASE + NO_RIGHTS) if "plain" in name.lower()]


@pytest.mark.parametrize(
    ("text", "limited"),
    [
        (ONE_KEYWORD, False),
        (ONE_KEYWORD + "[slots]\nfetched_only = true\n", True),
        (ONE_KEYWORD + "[slots]\nlimit_memory = true\n", True),
        (ONE_KEYWORD + "[slots]\nfetched_only = true\nlimit_memory = false\n", False),
        (ONE_KEYWORD + "[pilot]\n", True),
    ],
)
def test_a_schedds_jobs_are_left_as_they_are_unless_the_host_file_says_otherwise(
    text: str, limited: bool
) -> None:
    made = settings(text)
    for name in ("CGROUP_MEMORY_LIMIT_POLICY", "CGROUP_HARD_MEMORY_LIMIT_EXPR"):
        assert (name in made) is limited
    assert ("LOCAL_UNIVERSE_CGROUP_ENFORCEMENT" in made) is limited
    assert "STARTER_HIDE_GPU_DEVICES" not in made


@pytest.mark.parametrize(
    ("slots", "hidden"),
    [
        ("", True),
        ("fetched_only = true", False),
        ("fetched_only = true\nlimit_memory = false", False),
        ("limit_memory = true", False),
        ("limit_memory = true\nhide_gpus = true", True),
        ("hide_gpus = false", False),
        ("fetched_only = true\nhide_gpus = true", True),
    ],
)
def test_gpus_are_shown_to_fetched_jobs_where_that_changes_nothing_for_a_schedds(
    slots: str, hidden: bool
) -> None:
    made = settings(f"{ONE_KEYWORD}[slots]\n{slots}\n[[slots.type]]\ngpus = 1\n")
    assert made.get("STARTER_HIDE_GPU_DEVICES") == (None if hidden else "False")


def test_agent_starts_before_the_startd_and_not_as_root() -> None:
    made = settings(BASE)
    assert made["DAEMON_LIST"] == "FETCHWORK_AGENT $(DAEMON_LIST)"
    assert " --user condor " in f"{made['FETCHWORK_AGENT_ARGS']} "
    assert "FETCHWORK_AGENT_USERID" not in made
    without = settings(BASE + "[agent]\nroot_part = false\n")
    assert "--user" not in without["FETCHWORK_AGENT_ARGS"]
    assert without["FETCHWORK_AGENT_USERID"] == "condor"
    pilot = settings(BASE + "[pilot]\n")
    assert "FETCHWORK_AGENT_USERID" not in pilot
    assert "--user" not in pilot["FETCHWORK_AGENT_ARGS"]


def test_agent_under_systemd_has_a_unit_and_no_place_in_daemon_list() -> None:
    made = render(config.parse(BASE + '[agent]\nrun = "systemd"\n'))
    assert "DAEMON_LIST =" not in made[CONDOR_FILE]
    start = "ExecStart=!/opt/fetchwork/bin/fetchwork agent --config /etc/fetchwork/host.toml --user condor\n"
    assert start in made[UNIT_FILE]
    assert "RuntimeDirectory=fetchwork\n" in made[UNIT_FILE]


def test_comment_after_a_backslash_is_no_part_of_a_setting() -> None:
    assert parse_settings("A = 1, \\\n# why\n   2\n# B = 3\nC=4\n") == {"A": "1, 2", "C": "4"}


def test_generate_writes_whole_files_that_everyone_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = tmp_path / "host.toml"
    host.write_text(BASE + f'[agent]\nrun = "systemd"\n[host]\nfile = "{host}"\nhtcondor = "25.0"\n')
    target = tmp_path / "config.d"
    target.mkdir()
    assert run(["config", "generate", "-c", str(host), "-o", str(target), "--unit-output", str(target)]) == 0
    assert sorted(path.name for path in target.iterdir()) == [CONDOR_FILE, UNIT_FILE]
    assert (target / CONDOR_FILE).stat().st_mode & 0o777 == 0o644
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"fetchwork: wrote {target / CONDOR_FILE}\nfetchwork: wrote {target / UNIT_FILE}\n"


def test_generate_prints_and_says_where_the_agent_will_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = tmp_path / "host.toml"
    host.write_text(BASE)
    assert run(["config", "generate", "-c", str(host)]) == 0
    out, err = capsys.readouterr()
    assert out == render(config.load(host))[CONDOR_FILE]
    assert f"the agent will read '/etc/fetchwork/host.toml', not '{host}': put it there" in err


def test_generate_refuses_a_unit_for_a_host_that_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = tmp_path / "host.toml"
    host.write_text(BASE)
    assert run(["config", "generate", "-c", str(host), "--unit-output", str(tmp_path)]) == 1
    assert "has no agent run by systemd" in capsys.readouterr().err
