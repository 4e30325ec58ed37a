"""Whole ads as text: HTCondor's -long, -xml, -json, JSON lines and new form, of one ad and of a list."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from fetchwork.classad.exprform import expr_text
from fetchwork.classad.xmlform import escaped, real_in, xml_record
from fetchwork.condor.arguments import octets
from fetchwork.condor.printing.printedad import PrintedAd, unparse, unparse_real

Form: TypeAlias = Literal["long", "xml", "json", "jsonl", "new"]

XML_HEADER = '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'
XML_FOOTER = "</classads>\n"


class AdList:
    """Writes ads of one form, with the header, separators and footer of a list."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.written = 0

    def ad(self, ad: PrintedAd, names: Iterable[str] | None = None) -> str:
        """Return an ad, or its attributes of these names; '' if it has none of them."""
        chosen = chosen_names(ad, names)
        if not chosen:
            return ""
        first = not self.written
        self.written += 1
        if self.form == "long":
            return "".join(f"{octets(name)} = {ad.unparsed(name)}\n" for name in chosen) + "\n"
        if self.form == "xml":
            return (XML_HEADER if first else "") + xml_ad(ad, chosen)
        if self.form == "json":
            return ("[\n" if first else ",\n") + json_ad(ad, chosen) + "\n"
        if self.form == "jsonl":
            return json_line(ad, chosen) + "\n"
        return ("{\n" if first else ",\n") + new_ad(ad, chosen) + "\n"

    def footer(self) -> str:
        """Return the footer of the list."""
        if self.form == "xml":
            return ("" if self.written else XML_HEADER) + XML_FOOTER
        if not self.written:
            return ""
        return {"json": "]\n", "new": "}\n"}.get(self.form, "")


def chosen_names(ad: PrintedAd, names: Iterable[str] | None) -> list[str]:
    """The names that are printed, in order: all, or those of ``names`` that the ad has."""
    if names is None:
        return list(ad.names())
    wanted = {name.lower() for name in names}
    return [name for name in ad.names() if name.lower() in wanted]


def is_expression(item: object) -> bool:
    """Whether an item of the JSON form is an expression rather than a literal."""
    return expr_text(item) is not None


# JSON


def json_ad(ad: PrintedAd, names: Iterable[str]) -> str:
    """An ad as ``condor_q -json`` prints it."""
    members = ((name, ad.item(name)) for name in names)
    return _json_record(members, 0, "\n")


def json_line(ad: PrintedAd, names: Iterable[str]) -> str:
    """An ad on one line."""
    members = ((name, ad.item(name)) for name in names)
    return _json_record(members, 0, "")


def _json_record(members: Iterable[tuple[str, object]], depth: int, line: str) -> str:
    indent = "  " * (depth + 1) if line else ""
    inner = f",{line}".join(
        f"{indent}{_json_string(name)}: {_json_item(item, depth + 1, line)}" for name, item in members
    )
    if not line:
        return f"{{{inner}}}"
    return f"{{{line}{inner}{line}{'  ' * depth}}}" if inner else f"{{{line}{'  ' * depth}}}"


def _json_item(item: object, depth: int, line: str) -> str:
    if (text := expr_text(item)) is not None:
        return _real_in(text) or f'"\\/Expr({_json_string(text)[1:-1]})\\/"'
    if isinstance(item, str):
        return _json_string(item)
    if item is None:
        return "null"
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int):
        return str(item)
    if isinstance(item, float):
        return unparse_real(item)
    if isinstance(item, list):
        if not line:
            return "[" + ",".join(_json_item(member, depth, line) for member in item) + "]"
        indent = "  " * (depth + 1)
        inner = f",{line}".join(indent + _json_item(member, depth + 1, line) for member in item)
        return f"[{line}{inner}{line if inner else ''}{'  ' * depth}]"
    assert isinstance(item, Mapping)
    return _json_record(item.items(), depth, line)


def _real_in(text: str) -> str:
    """Return the literal of an expression that is a real number, else ''."""
    real = real_in(text)
    return "" if real is None else unparse_real(real)


_JSON_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JSON_ESCAPED = re.compile('[\x00-\x1f"\\\\]')


def _json_string(text: str) -> str:
    return (
        '"'
        + _JSON_ESCAPED.sub(
            lambda found: _JSON_ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04x}", octets(text)
        )
        + '"'
    )


# XML


def xml_ad(ad: PrintedAd, names: Iterable[str]) -> str:
    """An ad as ``condor_q -xml`` prints it."""
    return octets(xml_record((name, ad.item(name)) for name in names)) + "\n"


# new


def new_ad(ad: PrintedAd, names: Iterable[str]) -> str:
    """An ad in the syntax of new ClassAds, on one line."""
    members = (f"{octets(name)} = {_new_item(ad.item(name))}" for name in names)
    return f"[ {'; '.join(members)} ]"


def _new_item(item: object) -> str:
    if isinstance(item, str):
        if (text := expr_text(item)) is not None:
            real = _real_in(text)
            return f"{float(real):.15E}" if real and float(real) else octets(text)
        return '"' + escaped(item).replace('"', '\\"') + '"'
    if isinstance(item, float) and item and math.isfinite(item):
        return f"{item:.15E}"
    if isinstance(item, list):
        return "{ " + ",".join(_new_item(member) for member in item) + " }"
    if isinstance(item, Mapping):
        members = (f"{octets(name)} = {_new_item(value)}" for name, value in item.items())
        return f"[ {'; '.join(members)} ]"
    return unparse(item)
