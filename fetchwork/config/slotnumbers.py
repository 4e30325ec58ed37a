"""The keys of ``[slots.keyword]``: a slot number, or a range of them."""

import re
from collections.abc import Iterator, Mapping

_RANGE = re.compile(r"0*([1-9][0-9]{0,4})(?:-0*([1-9][0-9]{0,4}))?")


def numbers(key: str) -> range | None:
    """Return the slot numbers that a key names, none of them if its range runs backwards.

    Returns None if the key is neither a slot number nor a range.
    """
    match = _RANGE.fullmatch(key)
    if match is None:
        return None
    first = int(match[1])
    return range(first, int(match[2] or first) + 1)


def keywords_by_number(table: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield (slot number, keyword) for each slot that ``[slots.keyword]`` names."""
    for key, keyword in table.items():
        for number in numbers(key) or ():
            yield number, keyword
