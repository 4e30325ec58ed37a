"""Translates comparisons of composed attributes into comparisons of their parts, which an index supports.

``GlobalJobId == "pool#42.0#1700000000"`` means ``ClusterId == 42 && ProcId == 0 && QDate == 1700000000``, and
every match of ``regexp("#42[.]", GlobalJobId)`` has ``ClusterId == 42``.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re

from fetchwork.classad.expression import Attribute, Call, Literal, Node, Operation, Span
from fetchwork.queue.constraints.patterns import runs_of
from fetchwork.queue.constraints.source import Form, Source

__all__ = ["taken_apart"]

_NEGATED = {"==": False, "is": False, "!=": True, "isnt": True}
#: digits of a number that is read from a pattern
_DIGITS = r"(\d{1,18})"


def taken_apart(node: Node, source: Source) -> Node:
    """The same expression, with comparisons of composed attributes replaced by comparisons of their parts."""
    match node:
        case Operation("&&" | "||" | "!", operands):
            return dataclasses.replace(node, operands=tuple(taken_apart(each, source) for each in operands))
        case Operation():
            return _compared(node, source) or node
        case Call("regexp", (Literal(str(pattern)), Attribute(name))):
            return _found(node, pattern, name, "", source)
        case Call("regexp", (Literal(str(pattern)), Attribute(name), Literal(str(options)))):
            return _found(node, pattern, name, options, source)
    return node


def _compared(node: Operation, source: Source) -> Node | None:
    """A comparison of a composed attribute with a text, by the parts of both; None for another operation."""
    if node.operator not in _NEGATED:
        return None
    cased, negated = node.operator in ("is", "isnt"), _NEGATED[node.operator]
    left, right = node.operands
    if isinstance(left, Literal):
        left, right = right, left
    if isinstance(left, Call) and isinstance(right, Literal) and type(right.value) is int and not right.value:
        # strcmp(..., ...) == 0
        if left.name not in ("strcmp", "stricmp") or len(left.arguments) != 2:
            return None
        cased = left.name == "strcmp"
        left, right = left.arguments
        if isinstance(left, Literal):
            left, right = right, left
    if not isinstance(left, Attribute) or not isinstance(right, Literal) or type(right.value) is not str:
        return None
    form = source.forms.get(left.name.lower())
    if form is None:
        return None
    same = _same(form, right.value, cased, source, node.span)
    return Operation("!", (same,), node.span) if negated else same


def _found(call: Call, pattern: str, name: str, options: str, source: Source) -> Node:
    """The pattern's match, and the comparisons of parts that it implies."""
    form = source.forms.get(name.lower())
    if form is None:
        return call
    return _all([*_implied(form, runs_of(pattern, options), source, call.span), call], call.span)


def _same(form: Form, text: str, cased: bool, source: Source, span: Span) -> Node:
    """The condition that an attribute equals this text: each of its parts equals the text's part."""
    numbers = {name for _, name in form if name and _is_number(name, source)}
    expression = "".join(
        re.escape(before) + ("" if not name else r"(-?\d+)" if name in numbers else "(.*)")
        for before, name in form
    )
    found = re.fullmatch(expression, text, re.DOTALL | re.ASCII | (0 if cased else re.IGNORECASE))
    if found is None:
        return Literal(False, span)
    parts: list[Node] = []
    for name, part in zip((name for _, name in form if name), found.groups(), strict=True):
        if name not in numbers:
            parts.append(
                Operation("is" if cased else "==", (Attribute(name, span), Literal(part, span)), span)
            )
            continue
        # a number has one decimal form, and 64 bits
        if len(part) > 20 or str(int(part)) != part:
            return Literal(False, span)
        parts.append(Operation("==", (Attribute(name, span), Literal(int(part), span)), span))
    return _all(parts, span)


def _implied(form: Form, runs: list[str], source: Source, span: Span) -> list[Node]:
    """The comparisons of numbers that follow if a composed text contains these pieces.

    A number is recognized by the characters on both sides of it, if the form has them in one place only.
    """
    if not all(_is_number(name, source) for _, name in form if name):
        return []
    sample = "".join(before + ("0" if name else "") for before, name in form)
    parts: list[Node] = []
    for (before, name), (behind, _) in itertools.pairwise([*form, ("", "")]):
        if not (name and before and behind):
            continue
        number = re.compile(f"(?={re.escape(before[-1])}{_DIGITS}{re.escape(behind[0])})", re.ASCII)
        if len(number.findall(sample)) != 1:
            continue
        for value in sorted({int(digits) for run in runs for digits in number.findall(run)}):
            parts.append(Operation("==", (Attribute(name, span), Literal(value, span)), span))
    return parts


def _is_number(name: str, source: Source) -> bool:
    column = source.column(name)
    return column is not None and column.type == "integer"


def _all(parts: list[Node], span: Span) -> Node:
    return functools.reduce(lambda one, other: Operation("&&", (one, other), span), parts)
