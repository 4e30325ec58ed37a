"""HTCondor's JSON form of ads (``condor_q -json``), in which the database stores them.

Literals are JSON, ``undefined`` is null, any other expression is the string ``/Expr(new syntax)/``. condor_q
marks that string by an escaped slash, which no JSON store keeps. So a string that only looks like an
expression is stored as an expression, its own literal: ``/Expr("/Expr(x)/")/``.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from fetchwork.classad.ads import parse_expr, print_real, quote
from fetchwork.classad.bounds import MAX_DEPTH, shorten
from fetchwork.classad.exprform import expr_form, expr_text
from fetchwork.classad.values import ERROR, UNDEFINED, ClassAd, ExprTree
from fetchwork.errors import ClassAdError

__all__ = ["UNREADABLE", "from_json", "to_json"]

#: a name that jsonb can't have, for the reason why an ad could not be read from JSON (``fetchwork.db``)
UNREADABLE = "\0"


def to_json(ad: ClassAd) -> dict[str, Any]:
    """Return the ad in HTCondor's JSON form, ready for ``json.dumps`` and for jsonb.

    If jsonb would change a value (it writes 1E+22 as an integer, has no -0.0), the value is an expression.
    """
    return {name: _to_json(ad[name], ad.lookup(name)) for name in ad}


def _to_json(value: object, tree: ExprTree | None) -> object:
    if type(value) is str:
        return value if expr_text(value) is None else expr_form(quote(value))
    if type(value) is bool or type(value) is int:
        return value
    if value is UNDEFINED:
        return None
    if value is ERROR:
        return expr_form("error")
    if type(value) is ExprTree:
        return expr_form(repr(value))
    if tree is not None and type(value) in (float, list, datetime.datetime):
        # Python has no types for HTCondor's times: as expressions they stay times
        text = repr(tree)
        if type(value) is datetime.datetime or "relTime(" in text or "absTime(" in text:
            return expr_form(text)
    if type(value) is float:
        text = print_real(value)
        return expr_form(text) if "(" in text or "E+" in text or text == "-0.0" else value
    if type(value) is list:
        return [_to_json(item, None) for item in value]
    if type(value) is ClassAd:
        return to_json(value)
    raise ClassAdError(f"a value of type {type(value).__name__} has no JSON form")


def from_json(value: Mapping[str, object]) -> ClassAd:
    """Return the ad of HTCondor's JSON form; raises ClassAdError that names the attribute at fault."""
    return _ad_from_json(value, 0)


def _ad_from_json(value: Mapping[str, object], depth: int) -> ClassAd:
    if UNREADABLE in value:
        raise ClassAdError(str(value[UNREADABLE]))
    ad = ClassAd()
    # a lookup in the ad costs as much as a write; HTCondor may tell names apart that Python takes for equal
    may_repeat = len({name.lower() for name in value}) < len(value)
    is_plain = not may_repeat and depth < MAX_DEPTH
    for name, item in value.items():
        if not name or "\0" in name:
            raise ClassAdError(f"attribute name {shorten(name)} is empty or holds a NUL character")
        if is_plain and (
            (type(item) is int and -(2**63) <= item < 2**63)
            or (type(item) is str and item.isascii() and item[:1] != "/" and "\0" not in item)
        ):
            # most values are plain, and need no conversion
            ad[name] = item
            continue
        if may_repeat and name in ad:
            raise ClassAdError(f"attribute {shorten(name)} is given twice")
        try:
            ad[name] = _from_json(item, depth + 1)
        except ClassAdError as exc:
            raise ClassAdError(f"attribute {shorten(name)}: {exc}") from None
    return ad


def _from_json(value: object, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise ClassAdError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        if (text := expr_text(value)) is not None:
            return parse_expr(text)
        if "\0" in value:
            raise ClassAdError("a string can't hold a NUL character")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ClassAdError("a string holds half a surrogate pair") from None
        return value
    if value is None:
        return UNDEFINED
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            # Python refuses to print thousands of digits
            shown = value if value.bit_length() < 1000 else "of hundreds of digits"
            raise ClassAdError(f"integer {shown} does not fit in 64 bits")
        return value
    if isinstance(value, list):
        return [_from_json(item, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return _ad_from_json(value, depth)
    raise ClassAdError(f"a {type(value).__name__} has no ClassAd form")
