"""C's ``printf`` with HTCondor's further letters, for one value: its parts, and the text that it prints.

Texts are octets (see the package). HTCondor's letters are v and V (a value; V quotes strings), r (the
expression as it stands), T (seconds as days+hours:minutes:seconds) and Y (a moment as month/day hour:minute).
"""

from __future__ import annotations

import functools
import math
import re
import time
from dataclasses import dataclass
from enum import Enum

_CONVERSION = re.compile(r"%([#0\- +']*)(\d+|\*)?(?:\.(\d+|\*)?)?([hlLqjzt]*)(.)", re.DOTALL)


class Letter(Enum):
    """The type of value that a conversion takes."""

    INTEGER = "diouxX"
    REAL = "eEfFgGaA"
    CHARACTER = "cC"
    STRING = "sS"
    POINTER = "p"
    VALUE = "vV"
    RAW = "rR"
    TIME = "T"
    DATE = "Y"


_LETTERS = {char: letter for letter in Letter for char in letter.value}


@dataclass(frozen=True)
class Conversion:
    """The first conversion of a format, between the texts ``before`` and ``after`` it."""

    before: str
    after: str
    flags: str
    width: int
    precision: int
    length: str
    char: str

    @functools.cached_property
    def letter(self) -> Letter:
        """Return the type of value that the conversion takes."""
        return _LETTERS[self.char]

    @functools.cached_property
    def left(self) -> bool:
        """Is the value aligned to the left?"""
        return "-" in self.flags

    @functools.cached_property
    def of_int(self) -> str | None:
        """The format of an integer that C takes as it is, in Python's words; None where it has odd flags."""
        if self.char not in "di" or self.length or self.precision >= 0 or self.flags not in ("", "-", "0"):
            return None
        before, after = self.before.replace("%", "%%"), self.after.replace("%", "%%")
        return f"{before}%{self.flags}{self.width or ''}d{after}"


def conversion(text: str) -> Conversion | None:
    """The conversion of a format, or None where it has none that can be used."""
    position = 0
    while found := _CONVERSION.search(text, position):
        flags, width, precision, length, char = found.groups()
        if char == "%":
            position = found.end()
            continue
        if char not in _LETTERS or width == "*" or precision == "*":
            return None
        has_point = "." in found[0]
        return Conversion(
            _plain(text[: found.start()]),
            _plain(text[found.end() :]),
            flags,
            int(width or 0),
            int(precision or 0) if has_point else -1,
            length,
            char,
        )
    return None


def _plain(text: str) -> str:
    return text.replace("%%", "%")


def format_integer(format: Conversion, value: int) -> str:
    """An integer by d, i, o, u, x, X, c or p; without ``l`` it is cut to the 32 bits that C takes."""
    if -(2**31) <= value < 2**31 and format.of_int is not None:
        return format.of_int % value
    if format.letter is Letter.CHARACTER:
        return _joined(format, _aligned(format, chr(value & 0xFF)))
    bits = 64 if any(char in "lqjzt" for char in format.length) or format.char == "p" else 32
    if format.length == "h":
        bits = 16
    elif format.length == "hh":
        bits = 8
    value &= 2**bits - 1
    char = format.char
    if char in "di" and value >= 2 ** (bits - 1):
        value -= 2**bits
    if char == "p":
        return _joined(format, _aligned(format, hex(value) if value else "(nil)"))
    flags = format.flags.replace("'", "")
    if format.precision >= 0 or char not in "di":
        flags = flags if char in "di" else flags.replace("+", "").replace(" ", "")
    if char == "o" and "#" in flags:
        # Python writes 0o17 where C writes 017
        flags, digits = flags.replace("#", ""), f"{value:o}"
        return _joined(format, _aligned(format, digits if digits.startswith("0") else "0" + digits))
    if char in "xX" and not value:
        flags = flags.replace("#", "")
    if format.precision >= 0:
        flags = flags.replace("0", "")
        if not value and not format.precision:
            return _joined(format, _aligned(format, ""))
    width = str(format.width) if format.width else ""
    precision = f".{format.precision}" if format.precision >= 0 else ""
    return _joined(format, f"%{flags}{width}{precision}{'d' if char in 'diu' else char}" % value)


def format_real(format: Conversion, value: float) -> str:
    """A real by e, E, f, F, g or G."""
    width = str(format.width) if format.width else ""
    precision = f".{format.precision}" if format.precision >= 0 else ""
    flags = format.flags.replace("'", "")
    if format.char in "aA":
        digits = _hexadecimal(value)
        return _joined(format, _aligned(format, digits.upper() if format.char == "A" else digits))
    if not math.isfinite(value):
        flags = flags.replace("0", "")
    return _joined(format, f"%{flags}{width}{precision}{format.char}" % value)


def _hexadecimal(value: float) -> str:
    mantissa, p, exponent = value.hex().partition("p")
    if not p:
        return mantissa
    return (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa) + p + exponent


def format_string(format: Conversion, value: str) -> str:
    """A text by s, or by a letter that stands for it."""
    if format.precision >= 0:
        value = value[: format.precision]
    return _joined(format, _aligned(format, value))


def _aligned(format: Conversion, text: str) -> str:
    return text.ljust(format.width) if format.left else text.rjust(format.width)


def _joined(format: Conversion, text: str) -> str:
    return format.before + text + format.after


@functools.lru_cache(maxsize=1024)
def format_time(seconds: int) -> str:
    """Seconds as ``  0+00:00:00``: days, hours, minutes, seconds."""
    sign = -1 if seconds < 0 else 1
    minutes, rest = divmod(abs(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{sign * days:3d}+{sign * hours:02d}:{sign * minutes:02d}:{sign * rest:02d}"


def format_date(seconds: int) -> str:
    """A moment as ``11/22 00:53`` of the local time."""
    if seconds < 0:
        return "    ???    "
    try:
        moment = time.localtime(seconds)
    except (OverflowError, ValueError, OSError):
        return "    ???    "
    return f"{moment.tm_mon:2d}/{moment.tm_mday:<2d} {moment.tm_hour:02d}:{moment.tm_min:02d}"


def metric_units(number: float) -> str:
    """Bytes as ``1.5 KB``."""
    power = 0
    while number > 1024.0 and power < 4:
        number /= 1024.0
        power += 1
    return f"{number:.1f} {('B ', 'KB', 'MB', 'GB', 'TB')[power]}"


_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:([abfnrtv])|([\\'\"?])|[xX]([0-9A-Fa-f]+)|([0-9]+))")


def collapse_escapes(text: str) -> str:
    r"""A text with C's escapes (``\n``, ``\t``, ``\x41``, ``\101``) as the characters that they mean."""

    def meant(found: re.Match[str]) -> str:
        letter, char, hexadecimal, octal = found.groups()
        if letter:
            return _ESCAPES[letter]
        if char:
            return char
        number = 0
        # HTCondor's own arithmetic, which counts each earlier digit once too often
        for digit in hexadecimal or octal:
            number = number * (17 if hexadecimal else 9) + int(digit, 16)
        return chr(number & 0xFF)

    return _ESCAPE.sub(meant, text) if "\\" in text else text
