"""ClassAd constraints as SQL, as far as they translate; the rest is evaluated by HTCondor's own code.

Theory of operation
-------------------
A constraint selects an ad if it evaluates to true; ``undefined`` and ``error`` select nothing. Every part of
the expression is translated into *two* SQL conditions, one for "can be true" and one for "can be false":

- a comparison of a typed column with a literal of its type is known exactly;
- a comparison with an attribute inside the ad is known where the ad holds a plain string or number; where it
  holds an expression both conditions are true, because only HTCondor knows;
- whatever this module does not know (a function, arithmetic) can be both.

``!`` swaps the two, ``&&`` and ``||`` combine them. So the condition "can be true" of the whole never loses
an ad that the constraint selects, and whatever it selects too much is sorted out by evaluating the
constraint on the ads that came. Where every part was exact (``exact``) nothing is left to sort out.

HTCondor compares strings without regard to case (but not with ``=?=``), for ASCII letters only, which is what
``lower`` does under the collation "C".

HTCondor's reader says whether a text is an expression. What commands make of job ids is one without asking
it, which spares them the import.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from typing import Literal as OneOf

from fetchwork.classad.expression import Attribute, Literal, Node, Operation, Unreadable, Value, read
from fetchwork.errors import ClassAdError

if TYPE_CHECKING:
    from fetchwork.classad.values import ClassAd, ExprTree

ColumnType: TypeAlias = OneOf["integer", "real", "string", "boolean"]


@dataclass(frozen=True)
class Column:
    """A column of a view: ``sql`` is its name there; its values are of one type, or NULL for undefined."""

    sql: str
    type: ColumnType


@dataclass(frozen=True)
class Source:
    """What a constraint is asked of: a view with columns (keys in lower case) and, for other names, an ad.

    ``layers`` are the columns that the ad is put together from, where it is: what a later one has counts.
    ``spellings`` are the attributes that an ad can hold in one spelling only, by their lower-case name.
    ``owners`` are all values of the column Owner: named in the condition, they make its index of use.
    """

    columns: Mapping[str, Column]
    ad: str = "ad"
    spellings: Mapping[str, str] = field(default_factory=dict)
    owners: Collection[str] | None = None
    layers: Sequence[str] = ()


@dataclass(frozen=True)
class _Sql:
    text: str
    params: tuple[object, ...] = ()

    def __and__(self, other: _Sql) -> _Sql:
        if _NEVER in (self, other):
            return _NEVER
        if self == _ALWAYS:
            return other
        if other == _ALWAYS:
            return self
        return _Sql(f"({self.text} AND {other.text})", self.params + other.params)

    def __or__(self, other: _Sql) -> _Sql:
        if _ALWAYS in (self, other):
            return _ALWAYS
        if self == _NEVER:
            return other
        if other == _NEVER:
            return self
        return _Sql(f"({self.text} OR {other.text})", self.params + other.params)


_ALWAYS = _Sql("true")
_NEVER = _Sql("false")


@dataclass(frozen=True)
class _Rails:
    """When a part can be true, when it can be false, and whether that is all there is to know."""

    true: _Sql
    false: _Sql
    exact: bool


_UNKNOWN = _Rails(_ALWAYS, _ALWAYS, False)


@dataclass(frozen=True)
class Constraint:
    """A constraint: its SQL condition (``%s`` for each of params), and the whole of it for ads."""

    text: str
    sql: str
    params: tuple[object, ...]
    exact: bool

    @functools.cached_property
    def _expression(self) -> ExprTree:
        from fetchwork.classad.ads import parse_expr

        return parse_expr(self.text)

    def accepts(self, ad: ClassAd) -> bool:
        """Does the constraint select this ad?"""
        from fetchwork.classad.values import evaluate, truth

        return truth(evaluate(ad, self._expression)) is True


# of ids as commands write them: what is made of nothing else, and ``read`` reads, is an expression
_OF_IDS = re.compile(r"(?:\(|\)| && | \|\| |true|(?:ClusterId|ProcId|JobStatus) == \d{1,10})+")


def text_of(constraint: object) -> str:
    """The text of a constraint, which may be a ClassAd expression; None and '' select everything."""
    if constraint is None or isinstance(constraint, str):
        return (constraint or "").strip() or "true"
    from fetchwork.classad.values import ExprTree, format_expr

    return format_expr(constraint) if isinstance(constraint, ExprTree) else str(constraint)


def names_in(text: str) -> frozenset[str]:
    """The lower-case names of attributes in a constraint; raises ClassAdError if the text is not one."""
    if _read_of_ids(text) is not None:
        return frozenset(name.lower() for name in re.findall(r"[A-Z]\w+", text))
    from fetchwork.classad.ads import parse_expr
    from fetchwork.classad.values import references

    return frozenset(name.lower() for name in references(parse_expr(text)))


def _read_of_ids(text: str) -> Node | None:
    """The tree of a constraint of ids; None for any other, and for none."""
    if not _OF_IDS.fullmatch(text):
        return None
    try:
        return read(text)
    except Unreadable:
        return None


def compile_constraint(text: str, source: Source) -> Constraint:
    """Translate a constraint; raises ClassAdError if the text is not one."""
    tree = _read_of_ids(text)
    if tree is None:
        from fetchwork.classad.ads import parse_expr
        from fetchwork.classad.values import format_expr

        text = format_expr(parse_expr(text))
    try:
        rails = _translate(tree or read(text), source)
    except (Unreadable, RecursionError):
        # the latter: longer, or in deeper brackets, than Python goes
        rails = _UNKNOWN
    return Constraint(text, rails.true.text, rails.true.params, rails.exact)


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_SQL_OPERATORS = {"==": "=", "!=": "<>", "is": "=", "isnt": "<>"}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "is": "isnt", "isnt": "is"}


def _translate(tree: Node, source: Source) -> _Rails:
    if isinstance(tree, Literal):
        return _constant(tree.value)
    if not isinstance(tree, Operation):
        return _UNKNOWN
    if tree.operator == "!":
        inner = _translate(tree.operands[0], source)
        return _Rails(inner.false, inner.true, inner.exact)
    if tree.operator in ("&&", "||"):
        one, other = (_translate(operand, source) for operand in tree.operands)
        exact = one.exact and other.exact
        if tree.operator == "&&":
            return _Rails(one.true & other.true, one.false | other.false, exact)
        return _Rails(one.true | other.true, one.false & other.false, exact)
    if tree.operator in _OPPOSITE:
        left, right = tree.operands
        return _comparison(tree.operator, left, right, source)
    return _UNKNOWN


def _constant(value: Value) -> _Rails:
    if value is None:
        return _Rails(_NEVER, _NEVER, True)
    if isinstance(value, str):
        # an error, beside which HTCondor's && and || may have no value at all
        return _UNKNOWN
    return _Rails(_ALWAYS, _NEVER, True) if value else _Rails(_NEVER, _ALWAYS, True)


def _comparison(operator: str, left: Node, right: Node, source: Source) -> _Rails:
    if isinstance(left, Literal):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    if not isinstance(left, Attribute) or not isinstance(right, Literal):
        return _UNKNOWN
    value = right.value
    column = source.columns.get(left.name.lower())
    if value is None:
        return _against_undefined(operator, left.name, column, source)
    if column is not None:
        return _column_comparison(operator, column, value, source)
    return _ad_comparison(operator, left.name, value, source)


def _against_undefined(operator: str, name: str, column: Column | None, source: Source) -> _Rails:
    if operator not in ("is", "isnt"):
        # an attribute inside the ad may be an error, and HTCondor's || ends at one
        return _Rails(_NEVER, _NEVER, column is not None)
    if column is not None:
        absent, present = _Sql(f"{column.sql} IS NULL"), _Sql(f"{column.sql} IS NOT NULL")
        exact = True
    else:
        value = _lookup(name, source)
        # what an expression comes to, HTCondor knows
        absent = _Sql(f"fetchwork.can_be_undefined({value.text})", value.params)
        present = _Sql(f"coalesce({value.text}, 'null') <> 'null'", value.params)
        exact = False
    return _Rails(absent, present, exact) if operator == "is" else _Rails(present, absent, exact)


def _column_comparison(operator: str, column: Column, value: Value, source: Source) -> _Rails:
    numeric = column.type in ("integer", "real")
    if type(value) is bool or numeric == isinstance(value, str) or column.type == "boolean":
        return _UNKNOWN
    if operator in ("is", "isnt"):
        if numeric and (type(value) is int) != (column.type == "integer"):
            # 1 is not 1.0
            return _UNKNOWN
        same = _Sql(f"{column.sql} = %s", (value,))
        other = _Sql(f"{column.sql} IS DISTINCT FROM %s", (value,))
        return _Rails(same, other, True) if operator == "is" else _Rails(other, same, True)
    if not isinstance(value, str):
        if not _is_exact(value):
            return _UNKNOWN
        return _Rails(
            _plain(column.sql, operator, value), _plain(column.sql, _OPPOSITE[operator], value), True
        )
    if column.sql == "owner" and operator in ("==", "!=") and source.owners is not None:
        alike = [owner for owner in source.owners if _folded(owner) == _folded(value)]
        same, other = _Sql("owner = ANY(%s)", (alike,)), _Sql("owner <> ALL(%s)", (alike,))
        return _Rails(same, other, True) if operator == "==" else _Rails(other, same, True)
    folded = f'lower({column.sql} COLLATE "C")'
    value = _folded(value)
    return _Rails(_plain(folded, operator, value), _plain(folded, _OPPOSITE[operator], value), True)


def _ad_comparison(operator: str, name: str, value: Value, source: Source) -> _Rails:
    if type(value) is bool or operator in ("is", "isnt"):
        return _UNKNOWN
    held = _lookup(name, source)
    # written out, as each row that is looked at pays for it; NULL is no attribute, 'null' is undefined
    text = f"({held.text} #>> '{{}}')"
    if isinstance(value, str):
        literal_type, value = "string", _folded(value)
        told = f'lower({text} COLLATE "C")'
    elif _is_exact(value):
        literal_type = "number"
        told = f"{text}::double precision"
    else:
        return _UNKNOWN
    rails = []
    for sign in (operator, _OPPOSITE[operator]):
        compared = f"{told} {_SQL_OPERATORS.get(sign, sign)} %s"
        # CASE, because only there is the order of evaluation promised: a cast must not meet another type
        cases = {
            literal_type: _Sql(compared, (*held.params, value)),
            # what an expression comes to, HTCondor knows
            "string": _Sql(f"starts_with({text}, '/Expr(')", held.params),
        }
        if literal_type == "string":
            cases["string"] = cases["string"] | _Sql(compared, (*held.params, value))
        whens = "".join(f" WHEN '{each}' THEN {sql.text}" for each, sql in cases.items())
        rails.append(
            _Sql(
                f"CASE coalesce(jsonb_typeof({held.text}), 'null'){whens}"
                " WHEN 'number' THEN false WHEN 'null' THEN false ELSE true END",
                (*held.params, *(each for sql in cases.values() for each in sql.params)),
            )
        )
    return _Rails(rails[0], rails[1], False)


def _is_exact(value: Value) -> bool:
    """Whether HTCondor and PostgreSQL compare with this number alike: both read it as a real."""
    return isinstance(value, int | float) and -(2**53) <= value <= 2**53


def lookup(name: str, source: Source) -> tuple[str, tuple[object, ...]]:
    """The SQL of an attribute that is no column, as jsonb, and its parameters."""
    found = _lookup(name, source)
    return found.text, found.params


def _lookup(name: str, source: Source) -> _Sql:
    spelling = source.spellings.get(name.lower())
    if spelling is not None:
        layers = [*reversed(source.layers)] or [source.ad]
        found = ", ".join(f"{layer} -> %s" for layer in layers)
        # cheaper than to put the ad together
        return _Sql(f"coalesce({found})" if len(layers) > 1 else f"({found})", (spelling,) * len(layers))
    return _Sql(f"fetchwork.attribute_of({source.ad}, %s)", (name.lower(),))


def _plain(sql: str, operator: str, value: object) -> _Sql:
    return _Sql(f"{sql} {_SQL_OPERATORS.get(operator, operator)} %s", (value,))


def _folded(text: str) -> str:
    # as the C library's strcasecmp: ASCII only
    return re.sub("[A-Z]+", lambda found: found[0].lower(), text)


def joined(texts: Sequence[str]) -> str:
    """One constraint that holds where all of them hold; each must be an expression by itself."""
    for text in texts:
        names_in(text)
    return " && ".join(f"({text})" for text in texts) or "true"


__all__ = [
    "ClassAdError",
    "Column",
    "Constraint",
    "Source",
    "compile_constraint",
    "joined",
    "lookup",
    "names_in",
    "text_of",
]
