"""Reading the ads that starter hooks send: a few attributes, and only literal values.

These ads come from the jobs' accounts, which could send anything. So they are never parsed as ClassAds:
nothing is evaluated, and the time to read an ad is proportional to its size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TypeAlias

#: the value of an attribute; None if it is there, but no literal
Literal: TypeAlias = int | float | str | bool | None
#: attributes by name, in the spelling that the Reader was given
StarterAd: TypeAlias = dict[str, Literal]

_INTEGER = re.compile(rb"[+-]?[0-9]{1,19}")
_REAL = re.compile(rb"[+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,4})?")
# old syntax: a backslash stands for itself, except before a quote
_STRING = re.compile(rb'"(?:[^"]|(?<=\\)")*"')
# fetchwork prints a string with control characters like this, around a literal of new syntax, with escapes
_EVAL = re.compile(rb'eval\("((?:[^"]|(?<=\\)")*)"\)')
_NEW_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|(.))")
_MEANINGS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f", b"a": b"\a", b"v": b"\v"}


class Reader:
    """Reads the attributes with these names, in upper or lower case."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.lower().encode(): name for name in names}
        named = b"|".join(re.escape(name) for name in sorted(self._names))
        self._line = re.compile(rb"^[ \t]*(" + named + rb")[ \t]*=([^\n]*)$", re.MULTILINE | re.IGNORECASE)

    def read(self, body: bytes) -> StarterAd:
        """Return the attributes that are there; if a name comes twice, its last value."""
        return {self._names[line[1].lower()]: _value(line[2].strip()) for line in self._line.finditer(body)}


def _value(text: bytes) -> Literal:
    if _INTEGER.fullmatch(text):
        number = int(text)
        return number if -(2**63) <= number < 2**63 else None
    if _REAL.fullmatch(text):
        real = float(text)
        return real if math.isfinite(real) else None
    if text.lower() in (b"true", b"false"):
        return text.lower() == b"true"
    if _STRING.fullmatch(text):
        return _text(text[1:-1].replace(b'\\"', b'"'))
    printed = _EVAL.fullmatch(text)
    inner = _NEW_STRING.fullmatch(printed[1].replace(b'\\"', b'"')) if printed else None
    return _text(_ESCAPE.sub(_unescaped, inner[1])) if inner else None


def _unescaped(escape: re.Match[bytes]) -> bytes:
    if escape[1]:
        return bytes([int(escape[1], 8) & 255])
    return _MEANINGS.get(escape[2], escape[2])


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace").replace("\0", "\ufffd")
