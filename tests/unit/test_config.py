"""The allowed contents of a host file, and the messages about others."""

import os
import pwd
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchwork import config
from fetchwork.cli import run
from fetchwork.config import conninfo, hostname, sections
from fetchwork.deploy import render
from fetchwork.errors import ConfigError

SMALLEST = """\
[database.main]
conninfo = "host=db.example.org dbname=fetchwork"

[keyword.FETCHWORK]
"""

TWO = """\
[database.main]
conninfo = "host=db.example.org dbname=fetchwork"
[keyword.A]
[keyword.B]
[slots]
default = "A"
"""

# tables of name -> (host file, place in host.toml, error, allowed values); each message is found by all three
BAD: dict[str, tuple[str, ...]] = {
    "no TOML": ("[host\n", "1: is not TOML", "expected ']'", "[table] headers"),
    "string not closed": ('[host]\nname = "a\n', "2: is not TOML", "illegal character", "key = value"),
    "no database": ("[keyword.FETCHWORK]\n", "database", "is missing", "[database.NAME]"),
    "no keyword": ('[database.main]\nservice = "x"\n', "keyword", "is missing", "[keyword.NAME]"),
    "section is no table": ("host = 3\n" + SMALLEST, "1:host", "3 is not a table", "the table [host]"),
    "database is no table": (
        SMALLEST.replace("[database.main]\nconninfo", "[database]\nmain"),
        "2:database.main",
        "is not a table",
        "conninfo or service",
    ),
    "keyword with bad characters": (
        SMALLEST.replace("FETCHWORK", '"FETCH-WORK"'),
        "4:keyword.FETCH-WORK",
        "has characters that an HTCondor keyword can't have",
        "a letter, then letters, digits and '_'",
    ),
    "reserved keyword": (
        SMALLEST.replace("FETCHWORK", "STARTD"),
        "4:keyword.STARTD",
        "a meaning of its own",
        "another name",
    ),
    "keyword twice by case": (
        TWO.replace("keyword.B", "keyword.a"),
        "4:keyword.a",
        "[keyword.A] again: HTCondor ignores case",
        "differ otherwise",
    ),
    "hooks shared": (
        TWO.replace("[keyword.B]", '[keyword.B]\nhooks = "/usr/local/libexec/fetchwork/A"'),
        "5:keyword.B.hooks",
        "also the directory of [keyword.A]",
        "a directory for each keyword",
    ),
    "conninfo and service": (
        SMALLEST.replace("[keyword", 'service = "x"\n[keyword'),
        "4:database.main.service",
        "together with conninfo",
        "one of the two",
    ),
    "neither conninfo nor service": (
        "[database.main]\n[keyword.FETCHWORK]\n",
        "1:database.main",
        "neither conninfo nor service",
        "one of the two",
    ),
    "misspelt conninfo": (
        SMALLEST.replace("dbname", "dbnme"),
        "2:database.main.conninfo",
        "'dbnme', which libpq does not know",
        "a libpq connection string",
    ),
    "broken conninfo": (
        SMALLEST.replace("host=db", "host db"),
        "2:database.main.conninfo",
        "not a key = value pair",
        "a libpq connection string",
    ),
    "URI of another kind": (
        SMALLEST.replace("host=db.example.org dbname=fetchwork", "mysql://db/x"),
        "2:database.main.conninfo",
        "a URI of 'mysql'",
        "or URI",
    ),
    "long socket": (
        SMALLEST + f'[agent]\nsocket = "/{"a" * 120}"\n',
        "6:agent.socket",
        "too long for a Unix socket",
        "at most 100 bytes",
    ),
    "which keyword": (
        TWO.replace('default = "A"', ""),
        "5:slots.default",
        "there are several keywords",
        "one of 'A', 'B', 'none'",
    ),
    "unknown default keyword": (
        TWO.replace('"A"', '"C"'),
        "6:slots.default",
        "there is no [keyword.C]",
        "one of 'A', 'B', 'none'",
    ),
    "nothing fetches": (TWO.replace('"A"', '"none"'), "5:slots", "no slot that fetches", "at least one slot"),
}
# these have what is added to SMALLEST, and to TWO
BAD_WITH_ONE_KEYWORD = {
    "key twice": ("[host]\nname = 'a'\nname = 'b'", "7: is not TOML", "overwrite", "each key once"),
    "unknown section": ("[hots]", "5:hots", "did you mean 'host'?", "host, database, agent"),
    "unknown key": (
        "fetch_dealy_s = 3",
        "5:keyword.FETCHWORK.fetch_dealy_s",
        "did you mean 'fetch_delay_s'?",
        "database, queues, hooks, fetch_delay_s",
    ),
    "wrong type": (
        'fetch_delay_s = "10"',
        "5:keyword.FETCHWORK.fetch_delay_s",
        "'10' is not allowed here",
        "whole seconds between two fetches",
    ),
    "delay of 0": (
        "fetch_delay_s = 0",
        "5:keyword.FETCHWORK.fetch_delay_s",
        "0 is not allowed here",
        "1 to 86400",
    ),
    "hold for ever": (
        "max_fetch_wait_s = 86400",
        "5:keyword.FETCHWORK.max_fetch_wait_s",
        "86400 is not allowed here",
        "0 to 600",
    ),
    "first update after the second": (
        "[slots]\ninitial_update_interval_s = 90",
        "6:slots.initial_update_interval_s",
        "longer than update_interval_s",
        "at most update_interval_s",
    ),
    "held fetches but none at once": (
        "[agent]\nmax_waiting_fetches = 0",
        "6:agent.max_waiting_fetches",
        "lets fetches wait",
        "at least one per slot",
    ),
    "no queue": ("queues = []", "5:keyword.FETCHWORK.queues", "is empty", "one or more queue"),
    "queue twice": (
        'queues = ["a", "a"]',
        "5:keyword.FETCHWORK.queues",
        "names a queue twice",
        "each queue once",
    ),
    "queue name": (
        'queues = ["a", "b c"]',
        "5:keyword.FETCHWORK.queues[2]",
        "'b c' has characters",
        "queue names",
    ),
    "relative hooks": (
        'hooks = "hooks/FETCHWORK"',
        "5:keyword.FETCHWORK.hooks",
        "not an absolute path",
        "the absolute path of a directory",
    ),
    "path with a macro": (
        'hooks = "/opt/$(LOG)"',
        "5:keyword.FETCHWORK.hooks",
        "HTCondor or systemd would read as their own",
        "the absolute path",
    ),
    "unknown database": (
        'database = "man"',
        "5:keyword.FETCHWORK.database",
        "there is no [database.man]",
        "one of 'main'",
    ),
    "which database": (
        '[database.other]\nservice = "other"',
        "4:keyword.FETCHWORK.database",
        "there are several databases",
        "one of 'main', 'other'",
    ),
    "database without a use": (
        'database = "main"\n[database.other]\nservice = "other"',
        "6:database.other",
        "not used by any keyword",
        'database = "other"',
    ),
    "agent as root": ('[agent]\nuser = "root"', "6:agent.user", "is root", "'condor'"),
    "agent as root by systemd": (
        '[agent]\nrun = "systemd"\nuser = ""',
        "7:agent.user",
        "which systemd reads as root",
        "'condor'",
    ),
    "agent run by another": ('[agent]\nrun = "cron"', "6:agent.run", "'cron'", "'systemd'"),
    "no agent": ('[agent]\nrun = "none"', "6:agent.run", "'none'", "'master'"),
    "short lease": ("[agent]\nlease_s = 1", "6:agent.lease_s", "1 is not allowed", "5 to 3600"),
    "old HTCondor": ('[host]\nhtcondor = "9.0.1"', "6:host.htcondor", "older than", "23.0 or later"),
    "no HTCondor version": (
        '[host]\nhtcondor = "stable"',
        "6:host.htcondor",
        "not an HTCondor version",
        "'23.9.6'",
    ),
    "domain": ('[host]\nuid_domain = "a@b"', "6:host.uid_domain", "'a@b' has", "a domain such as"),
    "a limit of disk that nobody could keep": (
        "[slots]\nlimit_disk = true\n[agent]\nroot_part = false",
        "6:slots.limit_disk",
        "the agent has no right to end jobs",
        "false",
    ),
    "pilot and workstation": (
        "[pilot]\n[workstation]",
        "6:workstation",
        "together with [pilot]",
        "one of the two",
    ),
    "pilot under systemd": (
        '[pilot]\n[agent]\nrun = "systemd"',
        "7:agent.run",
        "a pilot, which has no root",
        "'master'",
    ),
    "load": (
        '[workstation]\nmax_load = "low"',
        "6:workstation.max_load",
        "'low' is not allowed",
        "load that is not HTCondor's",
    ),
}
BAD_WITH_TWO_KEYWORDS = {
    "unknown keyword of a type": (
        '[[slots.type]]\ncount = 2\n[[slots.type]]\nkeyword = "C"',
        "10:slots.type[2].keyword",
        "there is no [keyword.C]",
        "one of 'A'",
    ),
    "slot type twice": (
        "[[slots.type]]\nnumber = 1\n[[slots.type]]\nnumber = 1",
        "10:slots.type[2].number",
        "described twice",
        "each number once",
    ),
    "no such slot": (
        '[[slots.type]]\ncount = 4\n[slots.keyword]\n5 = "B"',
        "10:slots.keyword.5",
        "there is no slot 5",
        "1 to 4",
    ),
    "slot named twice": (
        '[[slots.type]]\ncount = 4\n[slots.keyword]\n1-3 = "B"\n3 = "A"',
        "11:slots.keyword.3",
        "slot 3 is named already by '1-3'",
        "each slot once",
    ),
    "slot range backwards": (
        '[[slots.type]]\ncount = 4\n[slots.keyword]\n3-1 = "B"',
        "10:slots.keyword.3-1",
        "runs backwards",
        "the smaller number first",
    ),
    "slot of another keyword": (
        '[[slots.type]]\ncount = 4\n[slots.keyword]\n4 = "b"',
        "10:slots.keyword.4",
        "there is no [keyword.b]",
        "one of 'A', 'B', 'none'",
    ),
    "no slot number": (
        '[[slots.type]]\ncount = 4\n[slots.keyword]\nslot4 = "B"',
        "10:slots.keyword.slot4",
        "'slot4' is not a slot number",
        "a number such as 4",
    ),
    "slots not described": (
        '[slots.keyword]\n4 = "B"',
        "8:slots.keyword.4",
        "no [[slots.type]] describes",
        "[[slots.type]]",
    ),
    "more cores than there are": (
        "[[slots.type]]\ncount = 4\ncpus = 4\n[host]\ncpus = 8",
        "7:slots.type",
        "asks for 16 cpus, the host has 8",
        "at most 8",
    ),
    "more disk than there is": (
        '[[slots.type]]\ncount = 4\ndisk = "50%"',
        "7:slots.type",
        "200% of the disk",
        "at most 100%",
    ),
    "disk in bytes": (
        '[[slots.type]]\ndisk = "5 GB"',
        "8:slots.type[1].disk",
        "not a share of the disk",
        "'1%' to '100%'",
    ),
    "partitionable slots of two keywords": (
        "[[slots.type]]\npartitionable = true\n[[slots.type]]\npartitionable = true\nkeyword = 'B'",
        "7:slots.type",
        "must be named one by one",
        "cpus = ...",
    ),
}
BAD |= {name: (f"{SMALLEST}{added}\n", *told) for name, (added, *told) in BAD_WITH_ONE_KEYWORD.items()}
BAD |= {name: (f"{TWO}{added}\n", *told) for name, (added, *told) in BAD_WITH_TWO_KEYWORDS.items()}


@pytest.mark.parametrize("name", BAD)
def test_bad_host_file_gets_one_message_with_place_reason_and_what_is_allowed(name: str) -> None:
    text, place, wrong, allowed = BAD[name]
    with pytest.raises(ConfigError) as raised:
        config.parse(text)
    assert len(raised.value.problems) == 1, raised.value.problems
    message = raised.value.problems[0]
    assert "\n" not in message
    _, _, rest = message.partition(": ")
    found_wrong, _, found_allowed = rest.partition("; allowed: ")
    assert message.startswith(f"host.toml:{place}" + (":" if "TOML" not in place else ""))
    assert wrong in found_wrong
    assert allowed in found_allowed


def test_no_two_bad_host_files_get_the_same_message() -> None:
    messages = set()
    for text, *_ in BAD.values():
        with pytest.raises(ConfigError) as raised:
            config.parse(text)
        messages.add(raised.value.problems[0].partition(": ")[2])
    assert len(BAD) >= 25
    assert len(messages) >= len(BAD) - 4  # pairs that differ only in the place


@pytest.mark.parametrize("name", BAD)
def test_bad_host_file_ends_config_check_with_status_1_and_no_traceback(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "host.toml"
    path.write_text(BAD[name][0])
    assert run(["config", "check", "--offline", "-c", str(path)]) == 1
    out, err = capsys.readouterr()
    assert BAD[name][2] in out
    assert err == f"fetchwork: error: 1 thing is wrong with '{path}'\n"


def test_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", "-c", str(tmp_path / "none.toml")]) == 1
    assert "cannot be read: No such file or directory" in capsys.readouterr().out


def test_file_that_one_may_not_read_says_who_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(
        ConfigError, match="Permission denied; allowed: root and the agent's account"
    ) as raised:
        config.load(tmp_path / "host.toml")
    assert "TOML" not in str(raised.value)


def test_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "host.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        config.load(path)


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = """\
[host]
cpus = "4"
[database.main]
conninfo = "nonsense"
[keyword.A]
fetch_delay_s = -1
[keyword.B]
queue = "x"
[slots]
default = "C"
[[slots.type]]
count = 2
[slots.keyword]
7 = "A"
"""
    with pytest.raises(ConfigError) as raised:
        config.parse(text)
    places = [problem.split(": ")[0] for problem in raised.value.problems]
    assert places == [
        "host.toml:2:host.cpus",
        "host.toml:4:database.main.conninfo",
        "host.toml:6:keyword.A.fetch_delay_s",
        "host.toml:8:keyword.B.queue",
        "host.toml:10:slots.default",
        "host.toml:14:slots.keyword.7",
    ]


def test_password_of_a_broken_conninfo_is_not_shown() -> None:
    with pytest.raises(ConfigError) as raised:
        config.parse(SMALLEST.replace("host=db", "password=hunter2 host db"))
    assert "hunter2" not in str(raised.value)


def test_smallest_file_has_a_default_for_everything() -> None:
    host = config.parse(SMALLEST)
    keyword = host.keywords["FETCHWORK"]
    assert keyword.database == "main"
    assert keyword.queues == ("default",)
    assert str(host.hooks("FETCHWORK")) == "/usr/local/libexec/fetchwork/FETCHWORK"
    assert host.slots.default == "FETCHWORK"
    assert host.keywords_in_use() == ("FETCHWORK",)
    assert host.agent.user == "condor"
    assert str(host.socket) == "/var/lib/fetchwork/agent.sock"
    assert host.slot_list() == ()


def test_settings_are_frozen() -> None:
    host = config.parse(SMALLEST)
    with pytest.raises(ValueError, match="frozen"):
        host.agent.user = "root"  # type: ignore[misc]


def test_service_becomes_a_conninfo() -> None:
    host = config.parse('[database.main]\nservice = "fetchwork"\n[keyword.FETCHWORK]\n')
    assert host.databases["main"].conninfo == "service=fetchwork"


def test_slot_takes_its_own_keyword_then_its_types_then_the_default() -> None:
    host = config.parse(
        TWO
        + '[[slots.type]]\ncount = 2\n[[slots.type]]\ncount = 3\nkeyword = "B"\n'
        + '[slots.keyword]\n4-5 = "none"\n1 = "B"\n'
    )
    assert [slot.keyword for slot in host.slot_list()] == ["B", "A", "B", None, None]


def test_slot_types_are_numbered_as_htcondor_orders_them() -> None:
    host = config.parse(
        TWO + '[[slots.type]]\nnumber = 2\n[[slots.type]]\nnumber = 1\ncount = 2\nkeyword = "B"\n'
    )
    assert [slot.keyword for slot in host.slot_list()] == ["B", "B", "A"]


def test_pilots_agent_runs_as_the_account_of_its_master() -> None:
    assert config.parse(SMALLEST + "[pilot]\n").agent.user == ""


def test_default_file_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "host.toml"
    path.write_text(SMALLEST)
    monkeypatch.setenv("FETCHWORK_CONFIG", str(path))
    assert config.load() == config.parse(SMALLEST)


def test_settings_of_a_program_are_checked_like_a_file() -> None:
    with pytest.raises(ConfigError, match=r"^pool:keyword\.A\.fetch_delay_s: 0 is not allowed here"):
        config.from_dict(
            {"database": {"d": {"service": "s"}}, "keyword": {"A": {"fetch_delay_s": 0}}}, "pool"
        )


def test_reference_is_a_host_file_that_names_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "settings"]) == 0
    text = capsys.readouterr().out
    every = [sections.Host, sections.Database, sections.Keyword, sections.Slots, sections.SlotType]
    for section in (*every, sections.Agent, sections.Pilot, sections.Workstation):
        for name, field in section.model_fields.items():  # type: ignore[attr-defined]
            if (section, name) not in ((sections.Slots, "type"), (sections.Slots, "keyword")):
                assert f"# {name} = " in text
                assert field.description in text


def test_defaults_of_the_reference_are_allowed() -> None:
    text = config.reference()
    uncommented = "".join(
        line.removeprefix("# ") + "\n"
        for line in text.splitlines()
        if "= ..." not in line and (" = " in line or line.startswith("# ["))
    )
    tables = uncommented.replace("NAME", "A").partition("[pilot]")[0]
    assert config.parse(tables.replace("[database.A]", '[database.A]\nservice = "s"')).keywords["A"]


@given(st.integers(0, len(TWO)), st.integers(0, 8), st.text(max_size=8))
def test_no_change_of_a_file_gives_anything_but_a_message(start: int, length: int, inserted: str) -> None:
    text = TWO[:start] + inserted + TWO[start + length :]
    try:
        host = config.parse(text)
    except ConfigError as error:
        assert error.problems
        assert all("; allowed: " in problem and "\n" not in problem for problem in error.problems), error
    else:
        render(host)


VALUES = st.one_of(
    st.text(max_size=12),
    st.integers(-5, 100),
    st.booleans(),
    st.floats(allow_nan=False),
    st.lists(st.integers()),
    st.just({}),
    st.just("A"),
    st.just("none"),
)
SECTIONS = {
    "host": sections.Host,
    "agent": sections.Agent,
    "slots": sections.Slots,
    "pilot": sections.Pilot,
    "workstation": sections.Workstation,
}


@given(st.data())
def test_no_value_of_a_setting_gives_anything_but_a_message(data: Any) -> None:
    section = data.draw(st.sampled_from(sorted(SECTIONS)))
    name = data.draw(st.sampled_from(sorted(SECTIONS[section].model_fields)))  # type: ignore[attr-defined]
    tables = {
        "database": {"main": {"service": "s"}},
        "keyword": {"A": {}, "B": {"fetch_delay_s": 60}},
        "slots": {"default": "A", "type": [{"count": 3, "cpus": 1}], "keyword": {"2": "B"}},
    }
    tables.setdefault(section, {})[name] = data.draw(VALUES)  # type: ignore[index]
    try:
        render(config.from_dict(tables))
    except ConfigError as error:
        assert all("; allowed: " in problem and "\n" not in problem for problem in error.problems), error


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("host=a dbname = 'b c'", {"host": "a", "dbname": "b c"}),
        (r"password='a\'b\\c' user=x\ y", {"password": r"a'b\c", "user": "x y"}),
        (
            "postgresql://u:p%40x@a:5432,b:5433/d?sslmode=require",
            {
                "user": "u",
                "password": "p@x",
                "host": "a:5432,b:5433",
                "port": "5432,5433",
                "dbname": "d",
                "sslmode": "require",
            },
        ),
        ("postgres://[::1]/d", {"host": "[::1]", "dbname": "d"}),
        ("postgresql:///d?host=/run/postgresql", {"dbname": "d", "host": "/run/postgresql"}),
    ],
)
def test_connection_string_is_read_as_libpq_reads_it(text: str, settings: dict[str, Any]) -> None:
    assert conninfo.parse(text) == settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("host", "has a part that is not a key = value pair"),
        ("host='a", "balanced quotes"),
        ("postgresql://a:port/d", "a port that is not a number"),
        ("postgresql://a:99999/d", "a port that is not a number"),
        ("postgresql://a/d?sslmod=require", "'sslmod', which libpq does not know"),
    ],
)
def test_wrong_connection_string_is_told(text: str, problem: str) -> None:
    assert problem in (conninfo.problem(text) or "")


class TestHostName:
    """Without host.name the host has the name that HTCondor has for it."""

    @pytest.fixture
    def ask(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], str]]:
        """Make condor_config_val this script, and return the name."""

        def asked(script: str) -> str:
            program = tmp_path / "condor_config_val"
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
            hostname.full_hostname.cache_clear()
            return config.parse(SMALLEST).name

        yield asked
        hostname.full_hostname.cache_clear()

    def test_is_what_htcondor_says(self, ask: Callable[[str], str]) -> None:
        assert ask('[ "$1" = FULL_HOSTNAME ] && echo vm.example.org') == "vm.example.org"

    @pytest.mark.parametrize("script", ["exit 1", "echo Not defined", "echo", "kill -9 $$"])
    def test_is_the_machines_where_htcondor_does_not_say(
        self, ask: Callable[[str], str], script: str
    ) -> None:
        assert ask(script) == socket.getfqdn()


PILOT = """\
[host]
file = "{directory}/host.toml"
[database.d]
service = "s"
[keyword.A]
[pilot]
"""


def test_pilot_writes_into_the_directory_of_its_host_file(tmp_path: Path) -> None:
    host = config.parse(PILOT.format(directory=tmp_path))
    assert host.agent.spool == tmp_path / "run/spool"
    assert host.socket == tmp_path / "run/agent.sock"
    assert host.hooks("A") == tmp_path / "hooks/A"


def test_pilots_of_one_machine_have_names_of_their_own(tmp_path: Path) -> None:
    account = pwd.getpwuid(os.geteuid()).pw_name
    names = set()
    for name in ("a", "b", "a-b", "a/b", "a_b", "x" * 80, "x" * 81):
        directory = tmp_path / name
        directory.mkdir(parents=True)
        told = hostname.pilot_name(directory, "vm.example.org")
        assert re.fullmatch(rf"{account}-[A-Za-z0-9-]+\.vm\.example\.org", told)
        assert len(told) < 120
        names.add(told)
    assert len(names) == 7
    host = config.parse(PILOT.format(directory=tmp_path))
    assert host.name == hostname.pilot_name(tmp_path, hostname.full_hostname())
    assert config.parse(PILOT.format(directory=tmp_path).replace("[host]", '[host]\nname = "n"')).name == "n"


def test_name_of_two_lines_is_told_in_one() -> None:
    tables = {"database": {"main": {"service": "s"}}, "keyword": {"A": {}}, "slots": {"default": "B\nC"}}
    with pytest.raises(ConfigError) as raised:
        config.from_dict(tables)
    (problem,) = raised.value.problems
    assert "there is no [keyword.B C]; allowed: " in problem
