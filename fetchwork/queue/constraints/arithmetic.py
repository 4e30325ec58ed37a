"""Numeric comparisons of a constraint as SQL, with HTCondor's results.

HTCondor computes with integers of 64 bits, which wrap, and with C's doubles; PostgreSQL fails a statement on
overflow and on underflow. So expressions that could get there are not translated, and integers stay below
2**53, where a double is the same number. Columns have known types and bounds. For an attribute inside the ad
neither bounds nor type are known: if only HTCondor can tell, its value is NaN, which every operation
passes on and every comparison takes for "may be true".

Division of integers, and ``%``, round towards zero on both sides; division by zero is an error in HTCondor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from fetchwork.classad.expression import Attribute, Literal, Node, Operation
from fetchwork.queue.constraints.rails import Rails, Sql
from fetchwork.queue.constraints.source import Column, Source

__all__ = ["compared"]

_OPPOSITE = {"==": "<>", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SQL = {"==": "=", "!=": "<>"}
#: integers are computed below 2**53; a quotient of integers is rounded as in HTCondor below 2**52
_BITS = 52
#: the most digits before the point of an attribute's number, tried in turn until products stay small enough
_DIGITS = (15, 9, 6, 4)
#: the longest text of an attribute's number, and the most numbers: so no real overflows in PostgreSQL
_LENGTH, _LEAVES = 30, 6
_LEAST, _MOST = "1e-29", "1e15"
_NAN = "'NaN'::float8"
#: comparisons of two numbers by their difference, true also if it is NaN
_OF_DIFFERENCE = {
    "=": "- abs({}) >= 0",
    "<>": "abs({}) > 0",
    "<": "- {} > 0",
    "<=": "- {} >= 0",
    ">": "{} > 0",
    ">=": "{} >= 0",
}


class _Large(Exception):
    """An integer could have too many bits."""


@dataclass(frozen=True, slots=True)
class _Number:
    """A number in SQL, of type bigint (``whole``) or float8; NULL for undefined and for an error."""

    sql: Sql
    #: None: either type
    type: OneOf["integer", "real"] | None
    #: an integer is between -2**bits and 2**bits
    bits: int
    whole: bool
    #: NULL means undefined, and the number is never NaN
    sure: bool

    def real(self) -> Sql:
        """The number as SQL of type float8."""
        return _sql("({}::float8)", self.sql) if self.whole else self.sql


def compared(operator: str, left: Node, right: Node, source: Source) -> Rails | None:
    """The rails of a comparison of two numbers; None if it is not one, or can't be translated."""
    if operator not in _OPPOSITE or _leaves(left) + _leaves(right) > _LEAVES:
        return None
    names = [side.name for side in (left, right) if isinstance(side, Attribute)]
    if len(names) == 2 and None in map(source.column, names):
        # both might be texts
        return None
    for digits in _DIGITS:
        try:
            one, other = _Reader(source, digits).number(left), _Reader(source, digits).number(right)
        except _Large:
            continue
        return None if one is None or other is None else _rails(operator, one, other)
    return None


def _rails(operator: str, one: _Number, other: _Number) -> Rails:
    signs = _SQL.get(operator, operator), _OPPOSITE[operator]
    if one.whole and other.whole:
        true, false = (_sql(f"{{}} {sign} {{}}", one.sql, other.sql) for sign in signs)
    else:
        # PostgreSQL takes NaN for the greatest number, so each condition is true for it, with one computation
        difference = _sql("({} - {})", one.real(), other.real())
        true, false = (_sql(_OF_DIFFERENCE[sign], difference) for sign in signs)
    return Rails(true, false, one.sure and other.sure)


def _alike(one: _Number, other: _Number) -> tuple[Sql, Sql]:
    """The SQL of two numbers, both of one type."""
    return (one.sql, other.sql) if one.whole and other.whole else (one.real(), other.real())


def _leaves(node: Node) -> int:
    return sum(map(_leaves, node.operands)) if isinstance(node, Operation) else 1


def _sql(form: str, *parts: Sql) -> Sql:
    """SQL composed of a form, with the parts in the places of ``{}``."""
    return Sql(form.format(*(part.text for part in parts)), sum((part.params for part in parts), ()))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a tree as a number; attributes inside the ad have at most ``digits`` digits."""

    source: Source
    digits: int
    #: reals in attributes inside the ad are not taken
    of_integers: bool = False

    def number(self, node: Node) -> _Number | None:
        """The SQL of a number; None if the node is not a number, or not known here; raises _Large."""
        match node:
            case Literal(value):
                return _literal(value)
            case Attribute(name):
                column = self.source.column(name)
                return self._held(name) if column is None else _column(column)
            case Operation("-", (operand,)):
                inner = self.number(operand)
                if inner is None:
                    return None
                # the negation of a boolean is an error, for which NULL and NaN are right
                return _Number(_sql("(- {})", inner.sql), inner.type, inner.bits, inner.whole, inner.sure)
            case Operation("+" | "-" | "*" as sign, (left, right)):
                one, other = self.number(left), self.number(right)
                return None if one is None or other is None else _of_ring(sign, one, other)
            case Operation("/" | "%" as sign, (left, right)):
                return self._divided(sign, left, right)
        return None

    def _held(self, name: str) -> _Number:
        """The number of an attribute inside the ad; a text, a list or a record gives an error."""
        held, text = self.source.held(name), self.source.text(name)
        # most numbers are so short that the length alone decides
        short = _sql(f"length({{}}) <= {self.digits}", text) | (
            _sql(f"length({{}}) <= {_LENGTH}", text)
            & _sql(f"length(split_part({{}}, '.', 1)) <= {self.digits}", text)
        )
        if self.of_integers:
            short = short & _sql("strpos({}, '.') = 0", text)
        # CASE alone guarantees the order of evaluation: the cast must not meet another type
        sql = _sql(
            f"(CASE jsonb_typeof({{}}) WHEN 'number' THEN CASE WHEN {{}} THEN {{}}::float8 ELSE {_NAN} END"
            f" WHEN 'string' THEN CASE WHEN starts_with({{}}, '/Expr(') THEN {_NAN} END"
            f" WHEN 'boolean' THEN {_NAN} END)",
            held,
            short,
            text,
            text,
        )
        bits = (10**self.digits).bit_length()
        return _Number(sql, "integer" if self.of_integers else None, bits, whole=False, sure=False)

    def _divided(self, sign: str, left: Node, right: Node) -> _Number | None:
        one, other = self.number(left), self.number(right)
        if one is None or other is None:
            return None
        by_literal = isinstance(right, Literal) and bool(right.value)
        if "real" in (one.type, other.type):
            if sign == "%":
                return None
            # HTCondor's 0.0 / 0.0 is NaN too, and equal to nothing
            form = (
                "({0} / {1})" if by_literal else f"(CASE WHEN {{1}} = 0 THEN {_NAN} ELSE {{0}} / {{1}} END)"
            )
            sql = _sql_by_number(form, one.real(), other.real())
            return _Number(sql, "real", 0, whole=False, sure=by_literal and one.sure and other.sure)
        integers = _Reader(self.source, self.digits, of_integers=True)
        one, other = integers.number(left), integers.number(right)
        if one is None or other is None:
            return None
        whole = one.whole and other.whole
        divisor = "{1}" if by_literal else "nullif({1}, 0)"
        quotient = f"{{0}} / {divisor}" if whole else f"trunc({{0}} / {divisor})"
        if sign == "/":
            form = f"({quotient})"
        else:
            form = f"mod({{0}}, {divisor})" if whole else f"({{0}} - {{1}} * {quotient})"
        sql = _sql_by_number(form, *_alike(one, other))
        bits = one.bits if sign == "/" else min(one.bits, other.bits)
        return _Number(sql, "integer", bits, whole, sure=by_literal and one.sure and other.sure)


def _literal(value: object) -> _Number | None:
    if type(value) is int:
        bits = value.bit_length()
        if bits > _BITS:
            return None
        return _Number(Sql("%s::bigint", (value,)), "integer", bits, whole=True, sure=True)
    if type(value) is float and (value == 0 or float(_LEAST) <= abs(value) <= float(_MOST)):
        return _Number(Sql("%s::float8", (value,)), "real", 0, whole=False, sure=True)
    return None


def _column(column: Column) -> _Number | None:
    sql = Sql(f"({column.sql})")
    if column.type == "integer":
        if column.bits <= _BITS:
            return _Number(_sql("{}::bigint", sql), "integer", column.bits, whole=True, sure=True)
        bound = 1 << _BITS
        guarded = (
            f"(CASE WHEN {{}} BETWEEN -{bound} AND {bound} THEN {{}}::float8"
            f" WHEN {{}} IS NOT NULL THEN {_NAN} END)"
        )
        return _Number(_sql(guarded, sql, sql, sql), "integer", _BITS, whole=False, sure=False)
    if column.type == "real":
        guarded = (
            f"(CASE WHEN {{}} = 0 OR abs({{}}) BETWEEN {_LEAST} AND {_MOST} THEN {{}}::float8"
            f" WHEN {{}} IS NOT NULL THEN {_NAN} END)"
        )
        return _Number(_sql(guarded, sql, sql, sql, sql), "real", 0, whole=False, sure=False)
    return None


def _of_ring(sign: str, one: _Number, other: _Number) -> _Number:
    type_: OneOf["integer", "real"] | None
    if "real" in (one.type, other.type):
        type_, bits = "real", 0
    else:
        type_ = "integer" if one.type == other.type == "integer" else None
        bits = one.bits + other.bits if sign == "*" else max(one.bits, other.bits) + 1
        if bits > _BITS:
            raise _Large
    sql = _sql(f"({{}} {sign} {{}})", *_alike(one, other))
    return _Number(sql, type_, bits, one.whole and other.whole, one.sure and other.sure)


def _sql_by_number(form: str, *parts: Sql) -> Sql:
    """SQL composed of a form, with the parts in the places of ``{0}`` and ``{1}``, which may repeat."""
    params: tuple[object, ...] = ()
    for piece in form.split("{")[1:]:
        params += parts[int(piece[0])].params
    return Sql(form.format(*(part.text for part in parts)), params)
