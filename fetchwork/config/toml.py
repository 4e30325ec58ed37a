"""TOML: the line on which a key stands, which tomllib does not keep, numbers in keys, the text of settings.

Finding a line scans the text and is not a second parser: tomllib has already read it. A key that the scan
does not see (one in an inline table) gets the line of the nearest table around it.
"""

import json
import re
from collections.abc import Iterator, Mapping

Key = tuple[str | int, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(?P<open>\[\[?)\s*(?P<key>{_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_PAIR = re.compile(rf"\s*(?P<key>{_DOTTED})\s*=")
# a key of [slots.keyword]: a slot number, or a range of them
_SLOT_NUMBERS = re.compile(r"0*([1-9][0-9]{0,4})(?:-0*([1-9][0-9]{0,4}))?")
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


def to_toml(tables: Mapping[str, object]) -> str:
    """Return the text of a host file that holds ``tables``."""
    return "\n".join(_lines(tables, "")) + "\n"


def _lines(tables: Mapping[str, object], prefix: str) -> list[str]:
    plain: list[str] = []
    deeper: list[str] = []
    for key, value in tables.items():
        quoted = json.dumps(key)
        path = f"{prefix}.{quoted}" if prefix else quoted
        if isinstance(value, Mapping):
            deeper += ["", f"[{path}]", *_lines(value, path)]
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            for each in value:
                deeper += ["", f"[[{path}]]", *_lines(each, path)]
        else:
            # JSON's strings, numbers, booleans and lists are TOML's too
            plain.append(f"{quoted} = {json.dumps(value)}")
    return plain + deeper


def slot_numbers(key: str) -> range | None:
    """Return the slot numbers that a key names, none of them if its range runs backwards.

    Returns None if the key is neither a slot number nor a range.
    """
    match = _SLOT_NUMBERS.fullmatch(key)
    if match is None:
        return None
    first = int(match[1])
    return range(first, int(match[2] or first) + 1)


def keywords_by_number(table: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield (slot number, keyword) for each slot that ``[slots.keyword]`` names."""
    for key, keyword in table.items():
        for number in slot_numbers(key) or ():
            yield number, keyword
