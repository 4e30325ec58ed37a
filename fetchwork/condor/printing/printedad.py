"""An ad for printing: its values, and its expressions in old ClassAd syntax.

An ad is given in HTCondor's JSON form, which is what the database holds. Literals, which most attributes of a
job are, are read from that as they stand: the bindings are imported for the first expression only, because
a command that polls pays for an import at each start.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from fetchwork.classad.exprform import expr_text
from fetchwork.condor.arguments import octets

if TYPE_CHECKING:
    from fetchwork.classad.values import ClassAd, ExprTree


class _Named:
    """A value that is there once."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


MISSING: Final = _Named("missing")
UNDEFINED: Final = _Named("undefined")
ERROR: Final = _Named("error")


class Unparsed(str):
    """A value with no type of its own here (a list, an ad, a time): how HTCondor prints it, in octets."""

    __slots__ = ()


#: bool, int, float, text in octets, UNDEFINED, ERROR, or Unparsed
PrintedValue = object

_ATTRIBUTE = re.compile(r"(?!(?:error|false|is|isnt|parent|true|undefined)\Z)[A-Za-z_][A-Za-z0-9_]*\Z", re.I)


class NotAnExpression(ValueError):
    """The text is not a ClassAd expression."""


@functools.lru_cache(maxsize=64)
def _by_lower_case(names: tuple[str, ...]) -> Mapping[str, str]:
    """Names by their lower case: jobs of one answer mostly have the same attributes."""
    return {name.lower(): name for name in names}


def is_plain(text: str) -> bool:
    """Whether a text of the JSON form is a plain ASCII literal, as nearly all are."""
    return text.isascii() and text[:2] != "/E"


class PrintedAd:
    """An ad in HTCondor's JSON form, read as HTCondor's tools read one."""

    __slots__ = ("_ad", "_keys", "json")

    def __init__(self, json: Mapping[str, object]) -> None:
        self.json = json
        self._keys: Mapping[str, str] | None = None
        self._ad: ClassAd | None = None

    def item(self, name: str) -> object:
        """Return the item of a name, in any case, in the JSON form, or MISSING."""
        found = self.json.get(name, MISSING)
        if found is MISSING:
            if self._keys is None:
                self._keys = _by_lower_case(tuple(self.json))
            key = self._keys.get(name.lower())
            if key is not None:
                found = self.json[key]
        return found

    def __contains__(self, name: str) -> bool:
        return self.item(name) is not MISSING

    def names(self) -> Iterator[str]:
        """The names of its attributes, in HTCondor's order."""
        return iter(sorted(self.json, key=str.lower))

    def evaluate(self, what: str) -> PrintedValue:
        """The value of an attribute, else of an expression; raises NotAnExpression where it is neither."""
        found = self.item(what)
        if found is not MISSING:
            return self.value(found)
        if _ATTRIBUTE.match(what):
            return UNDEFINED
        if parts := choices(what):
            values = (int(part) if part.isdecimal() else self.evaluate(part) for part in parts)
            return next((value for value in values if value is not UNDEFINED), UNDEFINED)
        return self.value_of_expression(expression(what))

    def value(self, item: object) -> PrintedValue:
        """Return the value of an item of the JSON form."""
        if isinstance(item, str):
            if is_plain(item):
                return item
            text = expr_text(item)
            return octets(item) if text is None else self.value_of_expression(_json_expression(text))
        if item is None:
            return UNDEFINED
        if isinstance(item, bool | int | float):
            return item
        return Unparsed(unparse(item))

    def value_of_expression(self, tree: ExprTree) -> PrintedValue:
        """The value of an expression in this ad."""
        from fetchwork.classad import values

        value = values.evaluate(self.classad(), tree)
        if value is values.UNDEFINED:
            return UNDEFINED
        if value is values.ERROR:
            return ERROR
        if isinstance(value, str):
            return octets(value)
        if isinstance(value, bool | int | float):
            return value
        return Unparsed(_unparse_value(value, tree))

    def classad(self) -> ClassAd:
        """The ad as the bindings have it."""
        if self._ad is None:
            from fetchwork.classad.jsonform import from_json

            self._ad = from_json(self.json)
        return self._ad

    def is_true(self, tree: ExprTree) -> bool:
        """Is a constraint true in this ad?"""
        from fetchwork.classad import values

        return values.truth(values.evaluate(self.classad(), tree)) is True

    # the answers of HTCondor's LookupString and its kin

    def string(self, name: str) -> str | None:
        """The value, where it is a text."""
        value = self._value_of(name)
        return value if type(value) is str else None

    def integer(self, name: str) -> int | None:
        """The value as an integer, where it is a number or a truth."""
        if type(found := self.json.get(name)) is int:
            return found
        value = self._value_of(name)
        if isinstance(value, float):
            return truncated(value)
        return int(value) if isinstance(value, int) else None

    def real(self, name: str) -> float | None:
        """The value as a real, where it is a number or a truth."""
        value = self._value_of(name)
        return float(value) if isinstance(value, int | float) else None

    def truth(self, name: str) -> bool:
        """Is the value true, or a number other than 0?"""
        value = self._value_of(name)
        return bool(value) if isinstance(value, int | float) else False

    def _value_of(self, name: str) -> PrintedValue:
        found = self.item(name)
        if found is MISSING:
            return UNDEFINED
        return found if type(found) is int else self.value(found)

    def unparsed(self, name: str) -> str:
        """The expression of an attribute as old ClassAds have it, in octets."""
        return unparse(self.item(name))


@functools.lru_cache(maxsize=256)
def choices(text: str) -> tuple[str, ...]:
    """The names and numbers of an expression ``A ?: B ?: 0``, of which the first defined one counts."""
    parts = tuple(part.strip(" ()") for part in text.split("?:"))
    known = all(_ATTRIBUTE.match(part) or (part.isdecimal() and part.isascii()) for part in parts)
    return parts if known and len(parts) > 1 and text.count("(") == text.count(")") else ()


@functools.lru_cache(maxsize=256)
def expression(text: str) -> ExprTree:
    """An expression as HTCondor's tools read it from a command line: in old syntax.

    ``text`` is in octets. Raises NotAnExpression.
    """
    from fetchwork.classad.ads import parse_old
    from fetchwork.condor.arguments import text_of
    from fetchwork.errors import ClassAdError

    line = " ".join(text_of(text).split("\n"))
    try:
        ad = parse_old(f"x = {line}", strict=True)
    except ClassAdError:
        raise NotAnExpression(text) from None
    if "x" not in ad:
        raise NotAnExpression(text)
    return ad.lookup("x")


@functools.lru_cache(maxsize=256)
def _json_expression(text: str) -> ExprTree:
    from fetchwork.classad.ads import parse_expr

    return parse_expr(text)


def truncated(value: float) -> int:
    """Return the integer to which C converts a real."""
    if math.isnan(value) or math.isinf(value) or not -(2.0**63) <= value < 2.0**63:
        return -(2**63)
    return int(value)


def unparse(item: object) -> str:
    """Return an item of the JSON form as an old ClassAd's expression, in octets."""
    if isinstance(item, str):
        if (text := expr_text(item)) is not None:
            return octets(_unparse_tree(_json_expression(text)))
        return '"' + octets(item).replace('"', '\\"') + '"'
    if item is None:
        return "undefined"
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int):
        return str(item)
    if isinstance(item, float):
        return unparse_real(item)
    from fetchwork.classad.jsonform import from_json

    return octets(_unparse_tree(from_json({"x": item}).lookup("x")))


def unparse_value(value: PrintedValue) -> str:
    """A value as an old ClassAd's literal, in octets."""
    if type(value) is str:
        return '"' + value.replace('"', '\\"') + '"'
    if value is UNDEFINED or value is ERROR or isinstance(value, Unparsed):
        return str(value)
    return unparse(value)


def unparse_real(value: float) -> str:
    """A real as HTCondor prints it: to 16 digits."""
    if math.isnan(value):
        return 'real("NaN")'
    if math.isinf(value):
        return 'real("INF")' if value > 0 else 'real("-INF")'
    text = f"{value:.16G}"
    return text if "." in text or "E" in text else text + ".0"


def _unparse_value(value: object, tree: ExprTree) -> str:
    from fetchwork.classad import values

    holder = values.ClassAd()
    try:
        holder["x"] = value
    except TypeError:
        return octets(_unparse_tree(tree))
    return octets(_unparse_tree(holder.lookup("x")))


def _unparse_tree(tree: ExprTree) -> str:
    from fetchwork.classad.values import ClassAd

    holder = ClassAd()
    holder["x"] = tree
    return str(holder.printOld()).removeprefix("x = ").removesuffix("\n")


def accepting(constraint: str) -> Callable[[PrintedAd], bool]:
    """Whether a constraint, in octets, is true of an ad; raises NotAnExpression."""
    if not constraint:
        return lambda ad: True
    tree = expression(constraint)
    return functools.partial(PrintedAd.is_true, tree=tree)
