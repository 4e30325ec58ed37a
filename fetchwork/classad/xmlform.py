"""ClassAds as XML, as HTCondor writes it: ``condor_q -xml``, event logs with ``log_xml``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fetchwork.classad.exprform import expr_text

_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile("[\x00-\x1f\x7f-\xff\\\\]")
_REAL = re.compile(r"-?\d+(?:\.\d+)?(?:E[+-]\d+)?")


def xml_record(members: Iterable[tuple[str, object]], depth: int = 0) -> str:
    """Return an ad, given as items of HTCondor's JSON form, as XML without a line break at its end."""
    indent = "    " * (depth + 1)
    lines = [f'{indent}<a n="{_text(name)}">{_item(item, depth + 1)}</a>\n' for name, item in members]
    return "<c>\n" + "".join(lines) + "    " * depth + "</c>"


def real_in(text: str) -> float | None:
    """Return the real number if an expression, or a text, is the literal of one; else None."""
    if _REAL.fullmatch(text) and ("." in text or "E" in text):
        return float(text)
    return None


def escaped(text: str) -> str:
    """Return a text as ASCII, with the escapes of new ClassAds, but quotes unchanged."""
    octets = text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[0]) or f"\\{ord(found[0]):03o}", octets)


def _item(item: object, depth: int) -> str:
    if (text := expr_text(item)) is not None:
        if text == "error":
            return "<er/>"
        if found := re.fullmatch(r'absTime\("([^"]*)"\)', text):
            return f"<at>{found[1]}</at>"
        real = real_in(text)
        return f"<e>{_text(text)}</e>" if real is None else _real(real)
    if isinstance(item, str):
        return f"<s>{_text(escaped(item))}</s>"
    if item is None:
        return "<un/>"
    if isinstance(item, bool):
        return f'<b v="{"t" if item else "f"}"/>'
    if isinstance(item, int):
        return f"<i>{item}</i>"
    if isinstance(item, float):
        return _real(item)
    if isinstance(item, list):
        return "<l>" + "".join(_item(member, depth) for member in item) + "</l>"
    assert isinstance(item, Mapping)
    return xml_record(item.items(), depth)


def _real(value: float) -> str:
    return f"<r>{value:.15E}</r>" if value else "<r>0.0</r>"


def _text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
