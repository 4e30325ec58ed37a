"""Blocks of the documents for people: commands that the command line takes, host files, and SQL that runs.

tests/condor/test_tutorial.py runs the tutorial as a whole, test_readme_host.py there README's host.
"""

import contextlib
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import psycopg
import pytest

from fetchwork.cli import main_group
from fetchwork.config import from_dict
from tests.house.source import ROOT, shown, tracked

DOCUMENTS = [path for path in tracked() if path.suffix == ".md"]
#: those for people who begin: all their blocks are tried
GUIDES = [path for path in DOCUMENTS if path == ROOT / "README.md" or ROOT / "docs" in path.parents]
#: the tables that a block of a host file leaves to the rest of the file
REST = {"database": {"main": {"conninfo": "host=db dbname=jobs"}}, "keyword": {"FETCHWORK": {}}}
#: the end of a command within a line
_END = re.compile(r"\|\|?|&&|;|\$\(|\)\"|\s{3,}")


def blocks(language: str, documents: Iterable[Path] = GUIDES) -> Iterator[tuple[Path, str]]:
    for path in documents:
        for text in re.findall(rf"(?s)```(?:{language})\n(.*?)```", path.read_text(encoding="utf-8")):
            yield path, text


def indented(path: Path) -> str:
    """The indented lines of a page, which are code."""
    text = re.sub(r"(?s)```.*?```", "", path.read_text(encoding="utf-8"))
    return "".join(re.findall(r"(?m)^    (.*\n)", text))


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        # the end of a quote is on another line, or behind the end of the command
        return re.sub(r"[\\\"']", "", command).split()


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Our command lines in blocks of code, with their words, without here-documents and what is piped."""
    code = [*blocks("sh|console", DOCUMENTS), *((path, indented(path)) for path in DOCUMENTS)]
    for path, text in code:
        for line in re.sub(r"(?s)\\\n|<<'?(\w+)'?\n.*?\n\1\n", "", text).splitlines():
            for part in _END.split(re.sub(r"^[$#] ", "", line).partition(" #")[0]):
                words = _words(part)
                while words and "=" in words[0]:
                    del words[0]
                if len(words) > 1 and words[0].rpartition("/")[2] == "fetchwork":
                    yield f"{shown(path)}: {line}", words[1:]


def parsed(words: list[str], group: click.Group, parent: click.Context | None = None) -> None:
    """Read a command line as click does, and do nothing of it; raises click.UsageError."""
    # a file of the example need not be here
    context = group.make_context("fetchwork", words, parent)
    # click before 8.2 has it without the underscore
    first = vars(context).get("_protected_args", vars(context).get("protected_args", []))
    left = [*first, *context.args]
    if not left:
        return
    name, command, rest = group.resolve_command(context, left)
    assert command is not None
    if isinstance(command, click.Group):
        parsed(rest, command, context)
    else:
        command.make_context(name, rest, context)


def test_an_unknown_option_or_command_is_noticed() -> None:
    for words in (["slots", "--no-such"], ["db", "no-such"], ["no-such"]):
        with pytest.raises(click.UsageError):
            parsed(words, main_group)


def test_each_command_line_is_one_that_the_command_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FETCHWORK_INVITATION", "-")
    lines = list(command_lines())
    assert len(lines) > 60
    wrong = []
    for where, words in lines:
        try:
            # --version ends the command line
            with contextlib.suppress(click.exceptions.Exit):
                parsed(words, main_group)
        except click.UsageError as error:
            if not re.search("does not exist|No such file", error.format_message()):
                wrong.append(f"{where}: {error.format_message()}")
    assert not wrong


@pytest.mark.parametrize("text", [text for _, text in blocks("toml")])
def test_each_part_of_a_host_file_is_one(text: str) -> None:
    tables = tomllib.loads(text)
    missing = {name: REST[name] for name in REST if name not in tables}
    for table in tables.get("database", {}).values():
        table.pop("replica", None)
    from_dict({**missing, **tables})


@pytest.mark.parametrize("text", [text for _, text in blocks("sql")])
def test_each_statement_runs(text: str, connection: psycopg.Connection) -> None:
    for statement in re.sub(r"--.*", "", text).split(";"):
        if not statement.strip():
            continue
        try:
            connection.execute(statement)
        except psycopg.Error as error:
            # the jobs of an example are not here
            assert error.sqlstate == "FWNOT", statement
