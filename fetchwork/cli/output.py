"""The output of commands: tables in the manner of HTCondor's tools, ``-af``, JSON.

The text is often another user's: the name of a batch, a hold reason, a job's output. A terminal obeys its
control characters, so there they are shown and not sent; a file or a program gets them unchanged.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeAlias

from fetchwork.classad.exprform import expr_text

if TYPE_CHECKING:
    from fetchwork.classad.values import ExprTree

#: an ad in HTCondor's JSON form
Json: TypeAlias = Mapping[str, object]

#: the attributes that name the job of a line
IDS = ("ClusterId", "ProcId")


# all but tab and the ends of lines; with the marks that turn the direction of writing around
_CONTROL = re.compile(r"\r(?!\n)|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Return the text with visible control characters, as ``cat -v`` and ``less`` show them: ``^[``."""
    return _CONTROL.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"^{chr(code ^ 64)}" if code < 128 else f"<U+{code:04X}>"


def for_stream(text: str, *, err: bool = False) -> str:
    """Return the text for stdout or stderr: with visible control characters if that is a terminal."""
    return visible(text) if (sys.stderr if err else sys.stdout).isatty() else text


def echo(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Print a text that may have any character.

    Not by click, which strips escape sequences from output to a file, and flushes each line.
    """
    print(for_stream(text, err=err), end="\n" if nl else "", file=sys.stderr if err else sys.stdout)


def on_terminal() -> bool:
    """Whether a person reads the messages, and no program."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def to_json(value: object, indent: int | None = None) -> str:
    """Return a JSON value as text; all control characters are escaped, more than JSON requires."""
    text = json.dumps(value, indent=indent, default=str, ensure_ascii=False)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_json(value: object) -> None:
    """Print one JSON value."""
    echo(to_json(value, 2))


def print_json_list(items: Iterable[Json]) -> None:
    """Print a list item by item, in constant memory."""
    first = True
    for item in items:
        echo("[" if first else ",")
        echo(to_json(item, 2), nl=False)
        first = False
    echo("[]" if first else "\n]")


def print_long(ads: Iterable[Json]) -> None:
    """Print whole ads as HTCondor's ``-long`` does: sorted by name, with a blank line after each."""
    from fetchwork.classad.ads import print_old
    from fetchwork.classad.jsonform import from_json

    for ad in ads:
        lines = print_old(from_json(ad)).splitlines()
        echo("\n".join(sorted(lines, key=str.lower)) + "\n")


# words of the language, which name no attribute
_WORDS = frozenset(("true", "false", "undefined", "error", "is", "isnt", "my", "target", "parent"))


def projection(attributes: Sequence[str], known: Set[str]) -> Sequence[str]:
    """Return the attributes to ask for: ``attributes``, if their values can't refer to others, else all.

    ``known`` are the names, in lower case, of attributes that are never expressions.
    """
    return [*attributes, *IDS] if known >= {name.lower() for name in attributes} else ()


def print_attributes(ads: Iterable[Json], letters: str, attributes: Sequence[str]) -> None:
    """``-af``: the values of some attributes, evaluated in each ad."""
    if "h" in letters:
        echo(" ".join((["ID"] if "j" in letters else []) + list(attributes)))
    separator = "\t" if "t" in letters else ", " if "," in letters else "\n" if "n" in letters else " "
    names = [name.lower() for name in attributes]
    plain = "r" not in letters and all(re.fullmatch("[a-z_]\\w*", n, re.A) and n not in _WORDS for n in names)
    expressions: Sequence[ExprTree] = () if plain else _parsed(attributes)
    for ad in ads:
        values = _literals(ad, names) if plain else None
        if values is None:
            expressions = expressions or _parsed(attributes)
            shown = _evaluated(ad, expressions, letters)
        else:
            shown = [_printed(value, letters) for value in values]
        if "l" in letters:
            shown = [f"{name} = {value}" for name, value in zip(attributes, shown, strict=True)]
        start = f"{ad.get('ClusterId', '?')}.{ad.get('ProcId', '?')} " if "j" in letters else ""
        echo(start + separator.join(shown))


def _literals(ad: Json, names: Sequence[str]) -> list[object] | None:
    """Return the values of attributes, or None if any needs evaluation."""
    by_name = {name.lower(): value for name, value in ad.items()}
    values = [by_name.get(name) for name in names]
    for value in values:
        if value is not None and (
            not isinstance(value, bool | int | float | str) or expr_text(value) is not None
        ):
            return None
    return values


def _parsed(attributes: Sequence[str]) -> list[ExprTree]:
    from fetchwork.classad.ads import parse_expr

    return [parse_expr(attribute) for attribute in attributes]


def _evaluated(ad: Json, expressions: Sequence[ExprTree], letters: str) -> list[str]:
    from fetchwork.classad.jsonform import from_json
    from fetchwork.classad.values import ERROR, UNDEFINED, evaluate, format_expr

    whole = from_json(ad)
    shown = []
    for expression in expressions:
        if "r" in letters:
            name = format_expr(expression)
            shown.append(format_expr(whole.lookup(name)) if name in whole else "undefined")
            continue
        value = evaluate(whole, expression)
        if value is ERROR:
            shown.append("error")
        else:
            shown.append(_printed(None if value is UNDEFINED else value, letters))
    return shown


def _printed(value: object, letters: str) -> str:
    if isinstance(value, str):
        if "V" not in letters and "l" not in letters:
            return value
        from fetchwork.classad.ads import quote

        return quote(value)
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def run_time(seconds: float) -> str:
    """Seconds as HTCondor's tools write them: ``0+00:01:30``."""
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86400)
    return f"{days}+{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"


def moment(epoch: float | None) -> str:
    """A time as HTCondor's tools write it: ``11/21 01:50``."""
    if not epoch:
        return "???"
    t = time.localtime(epoch)
    return f"{t.tm_mon:2}/{t.tm_mday:<2} {t.tm_hour:02}:{t.tm_min:02}"


def command_line(ad: Json) -> str:
    """The executable's name and the arguments, on one line."""
    name = str(ad.get("Cmd", "")).rsplit("/", 1)[-1]
    arguments = ad.get("Args") or ad.get("Arguments") or ""
    return " ".join(f"{name} {arguments}".split())


_BREAK = re.compile(r"[\t\n\r]+")


def table(heading: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[int] = ()) -> None:
    """Print rows under a heading, columns as wide as their cells, those of ``right`` aligned to the right."""
    # a row is one line, even if a cell has line breaks; widths are those of the shown text
    cells = [["" if cell is None else for_stream(_BREAK.sub(" ", str(cell))) for cell in row] for row in rows]
    lines = [list(heading), *cells]
    widths = [max(len(line[n]) for line in lines) for n in range(len(heading))]
    to_right = set(right)
    for line in lines:
        text = "  ".join(
            cell.rjust(width) if n in to_right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        echo(text.rstrip())


def number(value: float | None, digits: int = 2) -> str:
    """Return a number without insignificant digits."""
    if value is None:
        return ""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if value != int(value) else str(int(value))


def quoted(words: Sequence[str]) -> str:
    """Return words quoted for a shell."""
    return shlex.join(words)
