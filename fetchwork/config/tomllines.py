"""Finds the line of a TOML text on which a key stands; tomllib keeps no positions.

It scans lines and is not a second parser: tomllib has already read the text. A key that the scan does not
see (one in an inline table) gets the line of the nearest table around it.
"""

import re

Key = tuple[str | int, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(?P<open>\[\[?)\s*(?P<key>{_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_PAIR = re.compile(rf"\s*(?P<key>{_DOTTED})\s*=")
_LONG_QUOTE = re.compile(r'"""|\'\'\'')


def key_lines(text: str) -> dict[Key, int]:
    """Return the line (from 1) of each key and table; tables of an array are numbered from 0."""
    lines: dict[Key, int] = {}
    table: Key = ()
    arrays: dict[Key, int] = {}
    inside_quote: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if inside_quote is not None:
            if inside_quote in line:
                inside_quote = None
            continue
        if header := _HEADER.match(line):
            table = _number_arrays(_split(header["key"]), arrays, header["open"] == "[[")
            lines.setdefault(table, number)
            if isinstance(table[-1], int):
                lines.setdefault(table[:-1], number)
        elif pair := _PAIR.match(line):
            parts = _split(pair["key"])
            for end in range(1, len(parts) + 1):
                lines.setdefault((*table, *parts[:end]), number)
        quotes = _LONG_QUOTE.findall(line)
        if len(quotes) % 2:
            inside_quote = quotes[-1]
    return lines


def line_of(key: Key, lines: dict[Key, int]) -> int | None:
    """Return the line of ``key``, or of the nearest table around it, or None."""
    for end in range(len(key), 0, -1):
        if (line := lines.get(key[:end])) is not None:
            return line
    return None


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))


def _number_arrays(parts: tuple[str, ...], arrays: dict[Key, int], opens_element: bool) -> Key:
    if opens_element:
        arrays[parts] = arrays.get(parts, -1) + 1
    key: list[str | int] = []
    for end, part in enumerate(parts, start=1):
        key.append(part)
        if (index := arrays.get(parts[:end])) is not None:
            key.append(index)
    return tuple(key)
