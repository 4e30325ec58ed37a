"""Simplifies an expression by its known values: ``time()``, and arithmetic of numbers.

A whole answer refers to one moment: ``time()`` is the moment at which the constraint is compiled, for SQL and
for HTCondor, in each row and page. So is the attribute CurrentTime, which a schedd adds to each ad.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Final

from fetchwork.classad.expression import Attribute, Call, Literal, Node, Operation
from fetchwork.queue.constraints.source import Source

__all__ = ["MIRRORED", "fold", "pinned"]

#: each comparison's operator with exchanged sides
MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
#: in lower case
_MOMENT: Final = "currenttime"
#: integers up to this bound are exact as reals
_LARGEST = 2**53


def pinned(text: str, tree: Node, now: int) -> str:
    """The text of a tree, with the moment in place of each ``time()`` and CurrentTime."""
    for begin, end in sorted(_times(tree), reverse=True):
        text = f"{text[:begin]}{now}{text[end:]}"
    return text


def _times(node: Node) -> Iterator[tuple[int, int]]:
    match node:
        case Call("time", ()):
            yield node.span
        case Attribute(name) if name.lower() == _MOMENT:
            yield node.span
        case Call(_, parts) | Operation(_, parts):
            for part in parts:
                yield from _times(part)


def fold(node: Node, now: int, source: Source) -> Node:
    """A simpler equal expression: the moment becomes a number, and columns are compared with numbers."""
    match node:
        case Call("time", ()):
            return Literal(now, node.span)
        case Attribute(name) if name.lower() == _MOMENT:
            return Literal(now, node.span)
        case Operation(operator, operands):
            folded = dataclasses.replace(node, operands=tuple(fold(each, now, source) for each in operands))
            if operator in MIRRORED:
                return _moved(folded, source)
            return _computed(folded) or folded
    return node


def _computed(node: Operation) -> Literal | None:
    """The value of an operation on two numbers, if HTCondor has one and it is small enough to be exact."""
    match node.operands:
        case Literal(int() | float() as one), Literal(int() | float() as other):
            pass
        case _:
            return None
    compute = _ARITHMETIC.get(node.operator)
    if compute is None or isinstance(one, bool) or isinstance(other, bool):
        return None
    if max(abs(one), abs(other)) > _LARGEST or (node.operator in "/%" and other == 0):
        return None
    if node.operator == "%" and not (isinstance(one, int) and isinstance(other, int)):
        # an error
        return None
    value = compute(one, other)
    return Literal(value, node.span) if abs(value) <= _LARGEST else None


def _quotient(one: float, other: float) -> float:
    if isinstance(one, int) and isinstance(other, int):
        # rounds towards zero, as in C
        return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
    return one / other


_ARITHMETIC: Final[dict[str, Callable[[float, float], float]]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": _quotient,
    # the sign is the first operand's, as in C; both are integers
    "%": lambda one, other: int(math.fmod(one, other)),
}


def _moved(node: Operation, source: Source) -> Operation:
    """``ClusterId + 1 == 43`` as ``ClusterId == 42``, which an index supports; for integer columns only."""
    left, right = node.operands
    operator = node.operator
    if isinstance(left, Literal):
        left, right, operator = right, left, MIRRORED[operator]
    if not isinstance(left, Operation) or not isinstance(right, Literal):
        return node
    match left.operator, left.operands:
        case "+", (Attribute() as name, Literal(int(number))) | (Literal(int(number)), Attribute() as name):
            value = Operation("-", (right, Literal(number, right.span)), right.span)
        case "-", (Attribute() as name, Literal(int(number))):
            value = Operation("+", (right, Literal(number, right.span)), right.span)
        case "-", (Literal(int(number)), Attribute() as name):
            operator = MIRRORED[operator]
            value = Operation("-", (Literal(number, right.span), right), right.span)
        case _:
            return node
    column = source.column(name.name)
    computed = _computed(value)
    if column is None or column.type != "integer" or column.bits > 52 or computed is None:
        return node
    if type(computed.value) is not int:
        return node
    return Operation(operator, (name, computed), node.span)
