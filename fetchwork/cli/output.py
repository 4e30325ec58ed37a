"""How commands print: tables in the manner of HTCondor's tools, ``-af``, JSON."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

Json = Mapping[str, Any]

STATUS = {1: "I", 2: "R", 3: "X", 4: "C", 5: "H", 6: ">", 7: "S"}


def print_json(value: Any) -> None:
    """Print one JSON value."""
    click.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def print_json_list(items: Iterable[Json]) -> None:
    """Print a list item by item, so that a million need no memory."""
    first = True
    for item in items:
        click.echo("[" if first else ",")
        click.echo(json.dumps(item, indent=2, default=str, ensure_ascii=False), nl=False)
        first = False
    click.echo("[]" if first else "\n]")


def print_attributes(ads: Iterable[Json], letters: str, attributes: Sequence[str]) -> None:
    """``-af``: the values of some attributes, evaluated in each ad."""
    from fetchwork import classads

    if "h" in letters:
        click.echo(" ".join((["ID"] if "j" in letters else []) + list(attributes)))
    separator = "\t" if "t" in letters else ", " if "," in letters else "\n" if "n" in letters else " "
    expressions = [classads.parse_expr(name) for name in attributes]
    for ad in ads:
        whole = classads.from_json(ad)
        values = []
        for name, expression in zip(attributes, expressions, strict=True):
            value = _shown(whole, expression, letters)
            values.append(f"{name} = {value}" if "l" in letters else value)
        start = f"{ad.get('ClusterId', '?')}.{ad.get('ProcId', '?')} " if "j" in letters else ""
        click.echo(start + separator.join(values))


def _shown(ad: Any, expression: Any, letters: str) -> str:
    from fetchwork import classads

    if "r" in letters:
        name = classads.format_expr(expression)
        return classads.format_expr(ad.lookup(name)) if name in ad else "undefined"
    value = classads.evaluate(ad, expression)
    if isinstance(value, str):
        return classads.quote(value) if "V" in letters or "l" in letters else value
    if value is classads.UNDEFINED:
        return "undefined"
    if value is classads.ERROR:
        return "error"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return str(value)


def wanted(attributes: Sequence[str]) -> list[str]:
    """The attributes to fetch for ``-af``: all, where an expression or an expression's value may need any."""
    return [] if attributes else ["ClusterId", "ProcId"]


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


def table(heading: Sequence[str], rows: Iterable[Sequence[Any]], right: Iterable[int] = ()) -> None:
    """Print rows under a heading, columns as wide as what is in them; ``right`` are aligned to the right."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    lines = [list(heading), *cells]
    widths = [max(len(line[n]) for line in lines) for n in range(len(heading))]
    to_right = set(right)
    for line in lines:
        text = "  ".join(
            cell.rjust(width) if n in to_right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        click.echo(text.rstrip())


def number(value: float | None, digits: int = 2) -> str:
    """A number without digits that say nothing."""
    if value is None:
        return ""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if value != int(value) else str(int(value))


def quoted(words: Sequence[str]) -> str:
    """Words as one could type them."""
    return shlex.join(words)
