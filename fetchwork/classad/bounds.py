"""Limits of an ad's text, checked before HTCondor's reader gets it: depth, length, numbers, strings.

The C++ reader recurses: deep nesting in older HTCondors, and long operator chains in all versions, overflow
the stack of the process. So this module bounds the depth and length of the reader's input.

One version of HTCondor reads an expression here, and perhaps another one on the host. So this module rewrites
or refuses the forms that older versions read otherwise than 25.13 does (tests/evidence/classads.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fetchwork.classad.expression import Unreadable, depth, read
from fetchwork.errors import ClassAdError, one_line

#: characters of one ad's text
MAX_TEXT = 16 * 1024 * 1024
#: lines of one ad: a slot's ad has 150, and reading takes a second for a hundred thousand
MAX_LINES = 20_000
#: nested brackets: HTCondor 25.13 counts four steps for "(-", and reads no more than 500
MAX_DEPTH = 120
#: the same in an expression that no startd gets
MAX_DEPTH_HERE = 200
#: operators in a row: HTCondor 25.13 evaluates no more than 400 within each other
MAX_CHAIN = 390
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


def check_expression(text: str, without_strings: Callable[[str], str], *, only_here: bool = False) -> None:
    """Refuse an expression that is too long or nested too deeply; ``without_strings`` empties its strings.

    ``only_here``: no startd gets it, whose limits are narrower.
    """
    most = MAX_DEPTH_HERE if only_here else MAX_DEPTH
    if len(text) <= MAX_EXPRESSION and _brackets(text) <= most:
        if not only_here:
            _check_chain(text)
        return
    text = without_strings(text)
    if len(text) > MAX_EXPRESSION:
        raise ClassAdError(
            f"expression of {len(text)} characters, its strings not counted, is longer than {MAX_EXPRESSION}"
        )
    if not only_here:
        _check_chain(text)
    level = 0
    for char in text:
        if char in "([{":
            level += 1
            if level > most:
                raise ClassAdError(f"expression is nested deeper than {most}")
        elif char in ")]}" and level:
            level -= 1


def _check_chain(text: str) -> None:
    # an operator needs an operand
    if len(text) < 2 * MAX_CHAIN:
        return
    try:
        chained = depth(read(text))
    except Unreadable:
        return
    if chained > MAX_CHAIN:
        raise ClassAdError(
            f"expression has {chained} operators in a row, and HTCondor 25 evaluates only {MAX_CHAIN}; "
            "allowed: brackets around parts of it, or stringListMember() or member() in place of ||"
        )


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


#: forms that older versions read otherwise than 25.13
_DIFFERENT = re.compile(r"\?\s+:")
_VERSIONS = re.compile(r"version(?:l[et]|g[et]|eq)\s*\(")
_PARTS = r"|\?%s:|\bversion(l[et]|g[et]|eq)(?=\s*\()"
_IN_NEW = re.compile(f"({NEW_STRING.pattern}|'(?:[^'\\\\]|\\\\.)*')" + _PARTS % r"\s+", re.I | re.DOTALL)
_IN_OLD = re.compile(f"({OLD_STRING.pattern}|'[^'\\n]*')" + _PARTS % r"[ \t]+", re.I)
_CONDITION = re.compile(r"\?(?![=:])")


def as_read_now(text: str, *, old: bool = False) -> str:
    """Return the text in words that each HTCondor reads as 25.13 does.

    Until 25.13 ``a ? : b`` bound more loosely than ``a ?: b``, though it is printed as that; and
    ``versionLE()`` and its kin were an error in another case.
    """
    # without re.I a pattern that begins with a letter is fast
    if not _DIFFERENT.search(text) and not _VERSIONS.search(text.lower()):
        return text
    return (_IN_OLD if old else _IN_NEW).sub(_written_now, text)


def _written_now(found: re.Match[str]) -> str:
    if found[1]:
        return found[1]
    return f"version{found[2].upper()}" if found[2] else "?:"


def check_conditions(text: str, printed: str) -> None:
    """Refuse ``a ? b : c`` whose ``b`` is no expression: older versions leave it out and read ``a ?: c``.

    ``text`` has empty strings; ``printed`` is what HTCondor prints for it.
    """
    if _CONDITION.search(text) and NEW_STRING.sub('""', printed).count("?:") > text.count("?:"):
        raise ClassAdError("the part between '?' and ':' is not an expression")
