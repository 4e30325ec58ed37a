"""Every command has help with an example; errors are one line, exit statuses are as documented."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from fetchwork import cli
from fetchwork.errors import DatabaseUnavailable
from tests.support.there import there


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that has an action, with its full name."""
    context = click.Context(cli.main_group)
    for name in cli.main_group.list_commands(context):
        command = there(cli.main_group.get_command(context, name))
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = there(command.get_command(context, inner))
                yield f"{name} {inner}", found
        else:
            yield name, command


EVERY = dict(commands())


@pytest.mark.parametrize("name", EVERY)
def test_every_command_has_help_and_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^Usage: fetchwork " + name, text)
    assert re.search(
        rf"Example:.*\n( +.*\n)*? +.*fetchwork (--\S+ \S+ )?{name.split(maxsplit=1)[0]}\b", text
    ), text


@pytest.mark.parametrize("name", EVERY)
def test_every_option_is_explained(name: str) -> None:
    for parameter in EVERY[name].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name}: {parameter.opts}"


def parameters(name: str) -> dict[str, set[str]]:
    """The spellings of a command's options, by the name of their value."""
    return {each.name or "": set(each.opts) for each in EVERY[name].params if isinstance(each, click.Option)}


@pytest.mark.parametrize("name", EVERY)
def test_an_option_is_spelt_alike_in_every_command(name: str) -> None:
    spellings = {
        "as_json": {"-json", "--json"},
        "constraints": {"-constraint", "--constraint"},
        "file": {"-c", "--config"},
        "keyword": {"-k", "--keyword"},
        "limit": {"-limit", "--limit"},
    }
    for option, spelt in parameters(name).items():
        assert spelt >= spellings.get(option, set())
        for shared in spellings.values():
            assert spellings.get(option) == shared or not spelt & shared, option


def test_the_list_of_commands_says_what_each_command_says_of_itself() -> None:
    context = click.Context(cli.main_group)
    for section in cli.COMMANDS.values():
        for name, text in section.items():
            command = there(cli.main_group.get_command(context, name))
            first = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
            assert first.startswith(text.rstrip(".")), f"{name}: {first!r}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["runs", "--nonsense"], "no such option '--nonsense'; allowed: "),
        (["runs", "a b"], "'a b' is not a job"),
        (["q", "--nonsense"], "unrecognized argument --nonsense"),
        (["q", "-af"], "-autoformat requires at least one attribute parameter"),
        (["rm"], "You did not specify any jobs"),
        (["rm", "-all", "42"], "the arguments can't be combined"),
        (["edit", "42", "JobPrio"], "expression required after attribute JobPrio"),
        (["wait", "alice"], "'alice' is not a job"),
        (["events", "--after", "nonsense"], "'nonsense' is not a cursor"),
        (["prio", "alice"], "nothing to set for 'alice'"),
        (["queues", "a", "--max-running", "x"], "--max-running is 'x'"),
        (["prio", "alice", "--max-idle", "1.5"], "--max-idle is '1.5'"),
        (["prio", "alice", "--max-autoclusters", "few"], "--max-autoclusters is 'few'"),
        (["prio", "--max-idle", "1"], "no submitter named"),
        (["limit", "license", "many"], "N is 'many'"),
        (["limit", "license", "--starts", "10"], "--starts is '10'"),
        (["limit", "license", "--starts", "ten/1s"], "--starts is 'ten/1s'"),
        (["limit", "license", "--starts", "10/1w"], "--starts is '10/1w'"),
        (["limit", "--starts", "10/1s"], "no limit named"),
        (["limit", "default", "5", "--queue", "--starts", "10/1s"], "--queue needs --starts"),
        (["limit", "alice", "--owner"], "--owner needs --starts"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    first, hint = shown.err.splitlines()
    assert first.startswith("fetchwork: error: ")
    assert told in first
    assert re.fullmatch(r"  help: fetchwork( \w+)? --help", hint)


@pytest.mark.parametrize("words", [["q"], ["tail"], ["dag", "status"]])
def test_help_has_htcondors_spelling_too_and_names_an_option_once(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*words, "-help"]) == 0
    text = capsys.readouterr().out
    assert "\n  -json " in text and "--json" not in text


def test_no_database_is_one_line_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--dsn", "host=/nonexistent", "q"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("fetchwork: error: database does not answer")


def test_an_empty_dsn_names_no_database(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("it is away")

    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FETCHWORK_DSN", "")
    monkeypatch.setattr("fetchwork.queue.remote.opened", away)
    assert cli.run(["q"]) == 1
    assert "no database is named" in capsys.readouterr().err


def test_debug_shows_where_it_came_from() -> None:
    with pytest.raises(Exception, match="does not answer"):
        cli.run(["q", "--dsn", "host=/nonexistent", "--debug"])


def test_a_wrong_constraint_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["q", "--dsn", "host=/nonexistent", "-constraint", "((("]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "fetchwork: error: not a ClassAd expression: '((('"


@pytest.mark.parametrize("command", ["rm", "hold", "release", "vacate"])
def test_an_empty_constraint_means_no_job(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([command, "--dsn", "host=/nonexistent", "-constraint", ""]) == 1
    assert capsys.readouterr().err == "fetchwork: error: not a ClassAd expression: ''\n"


@pytest.mark.parametrize(
    ("option", "needed"), [("--help", set[str]()), ("--version", {"fetchwork.db", "fetchwork.db.schema"})]
)
def test_the_help_and_the_version_need_no_command(option: str, needed: set[str]) -> None:
    """And so cost no more than click does."""
    program = (
        f"import sys; from fetchwork import cli; status = cli.run(['{option}']);"
        "assert status == 0; print([m for m in sys.modules if m.startswith(('fetchwork.', 'psycopg'))],"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(eval(done.stderr)) == {"fetchwork.cli", "fetchwork.errors", "fetchwork.hookerrors"} | needed


def test_a_closed_pipe_is_no_traceback() -> None:
    script = f"{sys.executable} -m fetchwork --help | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
