"""The parts of the reference that are made of the code, so that they are true: docs/conf.py calls this.

A line ``<!-- generated: NAME -->`` of a page becomes the part with that name in ``PARTS``.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import click
from pydantic import BaseModel

import fetchwork
from fetchwork.cli import COMMANDS, main_group
from fetchwork.codes import EventType
from fetchwork.config.reference import SECTIONS, plain_value
from fetchwork.queue.events.jobevents import MY_TYPES

ROOT = Path(__file__).parents[1]
SQL = ROOT / "sql"
GRANTS = (SQL / "grants.sql").read_text()
#: tables among the views of sql/grants.sql: the schema's version, and the rules for attributes
TABLES = {"migration", "attribute"}

#: as many characters as a block of code shows
_HELP_WIDTH = 88


def filled(text: str) -> str:
    """A page with its generated parts; raises KeyError if it names an unknown one."""
    return re.sub(r"(?m)^<!-- generated: ([\w-]+) -->$", lambda line: PARTS[line[1]](), text)


def _table(*rows: tuple[str, ...]) -> str:
    first, *others = (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    return "\n".join([first, "|" + "---|" * len(rows[0]), *others]) + "\n"


def _code(text: str | int) -> str:
    return f"`{text}`" if text != "" else ""


def _prose(text: str) -> str:
    """Text of a comment as Markdown: code stays code, and no other character has a meaning."""
    return "\n".join(
        line
        if line.startswith("    ")
        else re.sub(r"(`[^`]*`)|([\\*_<>\[\]$])", lambda found: found[1] or f"\\{found[2]}", line)
        for line in text.splitlines()
    )


# ---- commands


def commands() -> dict[str, click.Command]:
    """Each command and group by its words, in the order of the help."""
    found: dict[str, click.Command] = {}

    def walk(group: click.Group, words: str) -> None:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if not command.hidden:
                found[f"{words} {name}"] = command
                if isinstance(command, click.Group):
                    walk(command, f"{words} {name}")

    walk(main_group, "fetchwork")
    return found


def _help(words: str, command: click.Command) -> str:
    *before, name = words.split()
    # click keeps a command's option with the first names that it was asked with
    names = main_group.context_settings["help_option_names"]
    parent = click.Context(main_group, info_name=" ".join(before), help_option_names=names)
    return command.get_help(command.context_class(command, parent, name, terminal_width=_HELP_WIDTH))


def _commands() -> str:
    known = commands()
    lines = []
    for section, names in COMMANDS.items():
        lines += [f"## {section}", ""]
        for words, command in known.items():
            if words.split()[1] in names:
                level = "#" * (len(words.split()) + 1)
                lines += [f"{level} {words}", "", "```text", _help(words, command), "```", ""]
    return "\n".join(lines)


# ---- settings


def _host_file() -> str:
    lines = []
    for heading, section in SECTIONS:
        lines += [f"## {_code(heading)}", "", _prose(_about(section)), ""]
        rows = [("setting", "default", "meaning")]
        for name, field in section.model_fields.items():
            known = (
                not field.is_required() and field.default_factory is None and field.default not in (None, "")
            )
            default = json.dumps(plain_value(field.default)) if known else ""
            rows.append((_code(name), _code(default), _prose(field.description or "")))
        lines += [_table(*rows), ""]
    return "\n".join(lines)


def _about(section: type[BaseModel]) -> str:
    about = " ".join((section.__doc__ or "").replace("`", "").split()).partition(": ")[2]
    return f"{about[:1].upper()}{about[1:]}"


def database_settings() -> dict[str, tuple[str, str, str]]:
    """Value, unit and meaning of each database setting, from the migrations."""
    text = "\n".join(path.read_text() for path in sorted((SQL / "migrations").glob("*.sql")))
    rows = re.findall(
        r"(?s)INSERT INTO fetchwork\.setting \(name, value, unit, meaning\)\s+VALUES\s+(.*?);\n", text
    )
    row = re.compile(r"\('(\w+)', (-?[\d.]+), '([^']*)',\s+'((?:[^']|'')*)'\)")
    return {
        name: (value, unit, meaning.replace("''", "'"))
        for block in rows
        for name, value, unit, meaning in row.findall(block)
    }


def _database_settings() -> str:
    rows = [
        (_code(name), value, unit, _prose(text)) for name, (value, unit, text) in database_settings().items()
    ]
    return _table(("setting", "value at first", "unit", "meaning"), *rows)


# ---- views and SQL functions


def _header(comment: str) -> str:
    return _prose("\n".join(line.removeprefix("--").removeprefix(" ") for line in comment.splitlines()))


def granted(heading: str) -> list[str]:
    """The names in the statement of sql/grants.sql below the comment that begins so."""
    statement = re.search(rf"(?s)^-- {re.escape(heading)}.*?^(GRANT .*?);", GRANTS, re.M)
    assert statement, heading
    return list(dict.fromkeys(re.findall(r"^    fetchwork\.(\w+)", statement[1], re.M)))


def views() -> list[str]:
    """The views that people may read."""
    return [name for name in granted("Views, and two tables") if name not in TABLES]


def columns(view: str) -> list[str]:
    """The names of a view's columns, in order."""
    text = re.sub(r"--.*", "", (SQL / "views" / f"{view}.sql").read_text())
    return _selected(text[text.index(" AS\n") :])


def _selected(query: str) -> list[str]:
    # brackets and CASE ... END name no column
    flat, deeper = query, ""
    while flat != deeper:
        deeper, flat = flat, re.sub(r"(?s)\([^()]*\)|\bCASE\b(?:(?!\bCASE\b).)*?\bEND\b", "x", flat)
    listed = re.search(r"(?s)\bSELECT\b(?: DISTINCT(?: ON x)?)?(.*?)\bFROM\b", flat)
    assert listed, query
    names = []
    for column in listed[1].split(","):
        if column.strip().endswith(".*"):
            names += _selected(re.split(r"(?m)^FROM \(", query)[1])
        else:
            names.append(column.replace('"', "").split()[-1].rpartition(".")[2])
    return names


def _views() -> str:
    lines = []
    for name in views():
        text = (SQL / "views" / f"{name}.sql").read_text()
        comment = re.match(r"(?:--.*\n)+", text)
        assert comment, name
        lines += [f"## fetchwork.{name}", "", _header(comment[0]), ""]
        lines += ["Columns: " + ", ".join(map(_code, columns(name))) + ".", ""]
    return "\n".join(lines)


class Signature(NamedTuple):
    """A SQL function as it is called."""

    about: str
    call: str


def signatures(name: str) -> list[Signature]:
    """Each form of a function, with the comment above it in its file."""
    (path,) = (SQL / "functions").glob(f"*/{name}.sql")
    forms = re.findall(
        rf"((?:^--.*\n)+)CREATE OR REPLACE FUNCTION (fetchwork\.{name}\(.*?)\nLANGUAGE",
        path.read_text(),
        re.M | re.S,
    )
    return [Signature(_header(comment), call) for comment, call in forms]


def _functions(*headings: str) -> Callable[[], str]:
    def lines() -> Iterator[str]:
        for name in (name for heading in headings for name in granted(heading)):
            yield f"### fetchwork.{name}"
            for form in signatures(name):
                yield from ("", "```sql", form.call, "```", "", form.about, "")

    return lambda: "\n".join(lines())


# ---- Python and REST


def python_classes() -> dict[str, type]:
    """The public classes that are not HTCondor's own."""
    named = {name: getattr(fetchwork, name) for name in fetchwork.__all__}
    return {
        name: one for name, one in named.items() if getattr(one, "__module__", "").startswith("fetchwork.")
    }


def public_members(of: type) -> dict[str, Any]:
    """The methods and properties of a class, by name, without those of Python's own bases."""
    own = [each for each in of.__mro__ if each.__module__.startswith("fetchwork.")]
    members = {name: one for each in reversed(own) for name, one in vars(each).items()}
    return {
        name: one
        for name, one in members.items()
        if not name.startswith("_") and (inspect.isroutine(one) or isinstance(one, property))
    }


def _signature(name: str, of: Any) -> str:
    try:
        text = str(inspect.signature(of))
    except (TypeError, ValueError):
        text = "(...)"
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    # an enumeration's member, a class, a function at an address
    text = re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", text)
    text = re.sub(r"\*?<class '[\w.]*?(\w+)'>", r"\1", text)
    text = re.sub(r"<function .* at 0x\w+>", "...", text)
    return f"{name}{text}".replace("(self, ", "(").replace("(self)", "()")


def _docstring(of: Any) -> str:
    return _prose((inspect.getdoc(of) or "").replace("``", "`"))


def _python() -> str:
    lines = []
    for name, one in python_classes().items():
        lines += [f"## {name}", "", "```python", _signature(name, one), "```", "", _docstring(one), ""]
        # its methods are those of Queue
        members = {} if name == "AsyncQueue" else public_members(one)
        for called, member in members.items():
            lines += [f"### {name}.{called}", ""]
            if not isinstance(member, property):
                plain = getattr(member, "__func__", member)
                lines += ["```python", _signature(called, plain).replace("(cls, ", "("), "```", ""]
            lines += [_docstring(member), ""]
    return "\n".join(lines)


def rest() -> dict[str, dict[str, Any]]:
    """The description of each request, by method and path, from openapi.json."""
    from fetchwork.page.api import Api
    from fetchwork.page.signin import SignIn

    described = Api(cast(Any, None), SignIn()).application({}).openapi()
    return {
        f"{method.upper()} /api/v1{path}": request
        for path, requests in described["paths"].items()
        for method, request in requests.items()
    }


def _rest() -> str:
    lines = []
    for heading, request in rest().items():
        lines += [f"## {heading}", "", _prose(request["description"].replace("``", "`")), ""]
        rows = [
            (
                _code(one["name"]),
                one["in"],
                _code(str(one["schema"].get("default") or "")),
                _prose(one.get("description", "")),
            )
            for one in request.get("parameters", [])
        ]
        if rows:
            lines += [_table(("parameter", "in", "default", "meaning"), *rows), ""]
    return "\n".join(lines)


# ---- numbers


def hold_names() -> dict[int, str]:
    """HTCondor's name of each code that a job is held with, from the SQL function that counts them."""
    text = (SQL / "functions/jobs/hold_name.sql").read_text()
    return {int(code): name for code, name in re.findall(r"WHEN (\d+) THEN '(\w+)'", text)}


def faults() -> dict[int, str]:
    """The faults that lead to a hold code, from the table of STATES.md, which tests compare with a schedd."""
    page = (ROOT / "fetchwork/STATES.md").read_text(encoding="utf-8")
    rows = page[page.index("| HoldReasonCode |") :].partition("\n\n")[0].splitlines()[2:]
    found: dict[int, str] = {}
    for row in rows:
        codes, fault, _ = (cell.strip() for cell in row.strip("|").split(" | ", 2))
        for code in re.findall(r"\d+", codes.partition("/")[0]):
            found[int(code)] = f"{found[int(code)]}; {fault}" if int(code) in found else fault
    return found


def _hold_codes() -> str:
    names, causes = hold_names(), faults()
    rows = [
        (str(code), _code(names.get(code, "Unspecified")), causes.get(code, ""))
        for code in sorted({*names, *causes})
    ]
    return _table(("HoldReasonCode", "name", "fault"), *rows)


def events() -> dict[int, str]:
    """The name of each type of event, as HTCondor's headers write it."""
    return {number: name for name, number in vars(EventType).items() if name.isupper()}


def _events() -> str:
    rows = [(f"{number:03}", _code(name), _code(MY_TYPES[number])) for number, name in events().items()]
    return _table(("type", "name", "MyType"), *rows)


PARTS: dict[str, Callable[[], str]] = {
    "commands": _commands,
    "host-file": _host_file,
    "database-settings": _database_settings,
    "views": _views,
    "functions-of-people": _functions("Functions of people;", "Functions of people about tokens"),
    "functions-of-administrators": _functions("Functions of administrators"),
    "python": _python,
    "rest": _rest,
    "hold-codes": _hold_codes,
    "events": _events,
}
