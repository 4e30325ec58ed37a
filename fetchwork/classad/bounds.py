"""Limits of an ad's text, checked before HTCondor's reader gets it: depth, length, numbers, strings.

The C++ reader recurses. This module bounds the depth and length of its input, because the reader's own bound
is new (older HTCondors, and long operator chains in all versions, overflow the stack of the process).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fetchwork.errors import ClassAdError, one_line

#: characters of one ad's text
MAX_TEXT = 16 * 1024 * 1024
#: lines of one ad: a slot's ad has 150, and reading takes a second for a hundred thousand
MAX_LINES = 20_000
#: nested brackets; HTCondor's own limit, in versions that have one, is 500
MAX_DEPTH = 200
#: characters of one expression without its strings: the reader recurses once per operator
MAX_EXPRESSION = 40_000

# a string literal of old syntax: a quote after a backslash does not end it
OLD_STRING = re.compile(r'"(?:[^"]|(?<=\\)")*"')
NEW_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
OCTAL = re.compile(r"\\[0-7]")
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|.)", re.DOTALL)
_LONG_NUMBER = re.compile(r"(?<![\w.])(-?)(\d{19,})(?![\w.])")


def check_bounds(lines: list[str], body: str) -> None:
    """Refuse an ad in old syntax that is too long or nested too deeply; raises ClassAdError with the line."""
    if len(lines) > MAX_LINES:
        raise ClassAdError(f"ad of {len(lines)} lines is longer than {MAX_LINES}")
    if len(body) <= MAX_EXPRESSION and _brackets(body) <= MAX_DEPTH:
        return
    for number, line in enumerate(lines, 1):
        name, _, value = line.partition("=")
        try:
            check_expression(value.strip(), without_old_strings)
        except ClassAdError as exc:
            raise ClassAdError(f"line {number} of the ad, attribute {shorten(name.strip())}: {exc}") from None


def check_expression(text: str, without_strings: Callable[[str], str]) -> None:
    """Refuse an expression that is too long or nested too deeply; ``without_strings`` empties its strings."""
    if len(text) <= MAX_EXPRESSION and _brackets(text) <= MAX_DEPTH:
        return
    text = without_strings(text)
    if len(text) > MAX_EXPRESSION:
        raise ClassAdError(
            f"expression of {len(text)} characters, its strings not counted, is longer than {MAX_EXPRESSION}"
        )
    if _brackets(text) <= MAX_DEPTH:
        return
    depth = 0
    for char in text:
        if char in "([{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ClassAdError(f"expression is nested deeper than {MAX_DEPTH}")
        elif char in ")]}" and depth:
            depth -= 1


def _brackets(text: str) -> int:
    return text.count("(") + text.count("[") + text.count("{")


def without_old_strings(text: str) -> str:
    """Return a text of old syntax with all strings emptied."""
    if OLD_STRING.fullmatch(text):
        return '""'
    # a quoted name or a comment may have a lone quote, after which anything could hide: then all counts
    if "'" in text or "/*" in text or "//" in text:
        return text
    return OLD_STRING.sub('""', text)


def without_new_strings(text: str) -> str:
    """Return a text of new syntax with all strings emptied."""
    if NEW_STRING.fullmatch(text):
        return '""'
    if "'" in text or "/*" in text or "//" in text:
        return text
    return NEW_STRING.sub('""', text)


def check_numbers(text: str) -> None:
    """Refuse integers that do not fit in 64 bits, which the reader makes 0; ``text`` has empty strings."""
    for sign, written in _LONG_NUMBER.findall(text):
        digits = written.lstrip("0") or "0"
        # Python itself refuses to read thousands of digits
        if len(digits) > 19 or int(digits) > 2**63 - (not sign):
            raise ClassAdError(f"integer {sign}{digits[:40]} does not fit in 64 bits")


def check_strings(text: str) -> None:
    """Refuse strings whose bytes (``"\\377"``) are not UTF-8, in an expression that HTCondor has printed."""
    for literal in NEW_STRING.findall(text):
        found = _ESCAPE.sub(
            lambda escape: bytes([int(escape[1], 8) & 255]) if escape[1] else b"", literal.encode()
        )
        try:
            found.decode()
        except UnicodeDecodeError:
            raise ClassAdError(f"string {shorten(literal)} is not UTF-8") from None


def shorten(text: str) -> str:
    """Return the text in quotes, on one line, cut if it is long."""
    return f"'{one_line(text, 63)}'"
