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
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    pass

#: an ad in HTCondor's JSON form
Json: TypeAlias = Mapping[str, object]

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
