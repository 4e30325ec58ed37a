"""The messages about a host file's problems: ``FILE:LINE:KEY: what is wrong; what is allowed``."""

import difflib
import re

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from fetchwork.config.rules import Problem
from fetchwork.config.sections import (
    Agent,
    Database,
    Host,
    HostConfig,
    Keyword,
    Pilot,
    Slots,
    SlotType,
    Workstation,
)
from fetchwork.config.toml import Key, line_of
from fetchwork.errors import one_line

_SECTIONS: dict[str, type[BaseModel]] = {
    "host": Host,
    "agent": Agent,
    "slots": Slots,
    "pilot": Pilot,
    "workstation": Workstation,
}


def show(problem: Problem, source: str, lines: dict[Key, int]) -> str:
    """Return a problem as one line."""
    line = line_of(problem.key, lines)
    where = f"{source}:{line}" if line is not None else source
    return f"{where}:{_dotted(problem.key)}: {one_line(problem.wrong)}; allowed: {problem.allowed}"


def _dotted(key: Key) -> str:
    text = ""
    for part in key:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def toml_problem(message: str, source: str, text: str) -> str:
    """Return tomllib's message about a text that is not TOML as one line of our form."""
    match = re.fullmatch(r"(?s)(.*) \(at line (\d+), column (\d+)\)", message)
    if match:
        wrong, line = match[1], match[2]
    else:
        wrong, line = message.removesuffix(" (at end of document)"), str(max(1, len(text.splitlines())))
    wrong = wrong[:1].lower() + wrong[1:]
    allowed = "[table] headers and key = value lines, each key once"
    return f"{source}:{line}: is not TOML: {wrong}; allowed: {allowed}"


def shape_problem(detail: ErrorDetails) -> Problem:
    """Return pydantic's complaint about one value as a problem."""
    key = _clean_key(detail["loc"])
    section, field = _described(key)
    allowed = (field.description if field is not None else "") or ""
    value = detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            close = difflib.get_close_matches(str(key[-1]), section, n=1)
            hint = f", did you mean {close[0]!r}?" if close else ""
            return Problem(key, f"unknown key{hint}", ", ".join(section))
        case "missing":
            return Problem(key, "is missing", allowed)
        case "value_error":
            return Problem(key, str(detail["ctx"]["error"]), allowed)
        case "model_type" | "dict_type" | "mapping_type" | "model_attributes_type":
            return Problem(key, f"{_brief(value)} is not a table", allowed or "a table of key = value lines")
        case "too_short":
            return Problem(key, "is empty", allowed)
        case _:
            return Problem(key, f"{_brief(value)} is not allowed here", allowed or _plain(detail["msg"]))


def _clean_key(loc: tuple[int | str, ...]) -> Key:
    """The key of the file: pydantic adds the names of union members and of dictionary keys."""
    return tuple(
        part
        for part in loc
        if isinstance(part, int) or not re.match(r"\[key\]$|literal\[|function-|constrained-", part)
    )


def _brief(value: object) -> str:
    text = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
    text = text or repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _plain(message: str) -> str:
    return message[:1].lower() + message[1:]


def _described(key: Key) -> tuple[list[str], FieldInfo | None]:
    """The settings of the section that ``key`` stands in, and the field that it names, if there is one."""
    section, rest = _section(key)
    fields = {info.alias or name: info for name, info in section.model_fields.items()}
    return list(fields), fields.get(str(rest[0])) if rest else None


def _section(key: Key) -> tuple[type[BaseModel], Key]:
    match key:
        case ("database", _, _, *_):
            return Database, key[2:]
        case ("keyword", _, _, *_):
            return Keyword, key[2:]
        case ("slots", "type", int(), _, *_):
            return SlotType, key[3:]
        case (str(name), _, *_) if name in _SECTIONS:
            return _SECTIONS[name], key[1:]
        case _:
            return HostConfig, key
