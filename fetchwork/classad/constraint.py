"""ClassAd constraints as SQL, as far as they translate; the rest is evaluated by HTCondor's own code.

Theory of operation
-------------------
A constraint selects an ad if it evaluates to true; ``undefined`` and ``error`` select nothing. Every part of
the expression is translated into *two* SQL conditions, one for "can be true" and one for "can be false":

- a comparison of a typed column with a literal of its type is known exactly;
- a comparison with an attribute inside the ad is known where the ad holds a plain string or number; where it
  holds an expression both conditions are true, because only HTCondor knows;
- what ``regexp`` finds has the plain text of its pattern; an attribute is compared with ``time()`` as it is
  when the constraint is compiled;
- whatever this module does not know (another function, arithmetic) can be both.

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
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from typing import Literal as OneOf

from fetchwork.classad.expression import Attribute, Call, Literal, Node, Operation, Unreadable, Value, read
from fetchwork.classad.patterns import like_of
from fetchwork.classad.rails import ALWAYS, NEVER, UNKNOWN, Rails, Sql
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
        rails = UNKNOWN
    return Constraint(text, rails.true.text, rails.true.params, rails.exact)


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_SQL_OPERATORS = {"==": "=", "!=": "<>", "is": "=", "isnt": "<>"}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "is": "isnt", "isnt": "is"}


def _translate(tree: Node, source: Source) -> Rails:
    if isinstance(tree, Literal):
        return _constant(tree.value)
    if isinstance(tree, Call):
        return _found(tree, source)
    if isinstance(tree, Attribute) and tree.name.lower() not in source.columns:
        return _ad_comparison("==", tree.name, True, source)
    if not isinstance(tree, Operation):
        return UNKNOWN
    if tree.operator == "!":
        inner = _translate(tree.operands[0], source)
        return Rails(inner.false, inner.true, inner.exact)
    if tree.operator in ("&&", "||"):
        one, other = (_translate(operand, source) for operand in tree.operands)
        exact = one.exact and other.exact
        if tree.operator == "&&":
            return Rails(one.true & other.true, one.false | other.false, exact)
        return Rails(one.true | other.true, one.false & other.false, exact)
    if tree.operator in _OPPOSITE:
        left, right = tree.operands
        return _comparison(tree.operator, left, right, source)
    return UNKNOWN


def _constant(value: Value) -> Rails:
    if value is None:
        return Rails(NEVER, NEVER, True)
    if isinstance(value, str):
        # an error, beside which HTCondor's && and || may have no value at all
        return UNKNOWN
    return Rails(ALWAYS, NEVER, True) if value else Rails(NEVER, ALWAYS, True)


def _found(call: Call, source: Source) -> Rails:
    """The function ``regexp``: what has not the plain text of the pattern can't be found."""
    match call:
        case Call("regexp", (Literal(str(pattern)), Attribute(name))):
            options = ""
        case Call("regexp", (Literal(str(pattern)), Attribute(name), Literal(str(options)))):
            pass
        case _:
            return UNKNOWN
    like = like_of(pattern, options)
    column = source.columns.get(name.lower())
    if like is None or (column is not None and column.type != "string"):
        return UNKNOWN
    text = _text(name, source) if column is None else Sql(f"({column.sql})")
    folded = f'lower({text.text} COLLATE "C")' if options else text.text
    found = Sql(f"{folded} LIKE %s", (*text.params, like))
    if column is None:
        found = found | Sql(f"starts_with({text.text}, '/Expr(')", text.params)
    return Rails(found, ALWAYS, False)


def _moment(node: Node) -> float | None:
    """The value of ``time()``, or of it and a number more or less; None of anything else."""
    match node:
        case Call("time", ()):
            return int(time.time())
        case Operation("+" | "-" as sign, (Call("time", ()), Literal(int() | float() as seconds))) if (
            type(seconds) is not bool
        ):
            return int(time.time()) + (seconds if sign == "+" else -seconds)
    return None


def _since(operator: str, left: Node, right: Node, source: Source) -> Rails | None:
    """The comparison of an attribute with a moment, or of how long it is ago; None: it is none."""
    if operator not in _MIRRORED:
        return None
    if _moment(left) is not None or isinstance(left, Literal):
        left, right, operator = right, left, _MIRRORED[operator]
    match left, right:
        case Operation("-", (began, Attribute() as attribute)), Literal(int() | float() as seconds) if (
            type(seconds) is not bool
        ):
            now = _moment(began)
            # the longer ago, the smaller
            operator, moment = _MIRRORED[operator], None if now is None else now - seconds
        case Attribute() as attribute, _:
            moment = _moment(right)
        case _:
            return None
    if moment is None:
        return None
    rails = _comparison(operator, attribute, Literal(moment, right.span), source)
    return Rails(rails.true, rails.false, False)


def _comparison(operator: str, left: Node, right: Node, source: Source) -> Rails:
    since = _since(operator, left, right, source)
    if since is not None:
        return since
    if isinstance(left, Literal):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    if not isinstance(left, Attribute) or not isinstance(right, Literal):
        return UNKNOWN
    value = right.value
    column = source.columns.get(left.name.lower())
    if value is None:
        return _against_undefined(operator, left.name, column, source)
    if column is not None:
        return _column_comparison(operator, column, value, source)
    return _ad_comparison(operator, left.name, value, source)


def _against_undefined(operator: str, name: str, column: Column | None, source: Source) -> Rails:
    if operator not in ("is", "isnt"):
        # an attribute inside the ad may be an error, and HTCondor's || ends at one
        return Rails(NEVER, NEVER, column is not None)
    if column is not None:
        absent, present = Sql(f"{column.sql} IS NULL"), Sql(f"{column.sql} IS NOT NULL")
        exact = True
    else:
        value = _lookup(name, source)
        # what an expression comes to, HTCondor knows
        absent = Sql(f"fetchwork.can_be_undefined({value.text})", value.params)
        present = Sql(f"coalesce({value.text}, 'null') <> 'null'", value.params)
        exact = False
    return Rails(absent, present, exact) if operator == "is" else Rails(present, absent, exact)


def _column_comparison(operator: str, column: Column, value: Value, source: Source) -> Rails:
    numeric = column.type in ("integer", "real")
    if type(value) is bool or numeric == isinstance(value, str) or column.type == "boolean":
        return UNKNOWN
    if operator in ("is", "isnt"):
        if numeric and (type(value) is int) != (column.type == "integer"):
            # 1 is not 1.0
            return UNKNOWN
        same = Sql(f"{column.sql} = %s", (value,))
        other = Sql(f"{column.sql} IS DISTINCT FROM %s", (value,))
        return Rails(same, other, True) if operator == "is" else Rails(other, same, True)
    if not isinstance(value, str):
        if not _is_exact(value):
            return UNKNOWN
        return Rails(
            _plain(column.sql, operator, value), _plain(column.sql, _OPPOSITE[operator], value), True
        )
    if column.sql == "owner" and operator in ("==", "!=") and source.owners is not None:
        alike = [owner for owner in source.owners if _folded(owner) == _folded(value)]
        same, other = Sql("owner = ANY(%s)", (alike,)), Sql("owner <> ALL(%s)", (alike,))
        return Rails(same, other, True) if operator == "==" else Rails(other, same, True)
    folded = f'lower({column.sql} COLLATE "C")'
    value = _folded(value)
    return Rails(_plain(folded, operator, value), _plain(folded, _OPPOSITE[operator], value), True)


def _ad_comparison(operator: str, name: str, value: Value, source: Source) -> Rails:
    if value is None or not (isinstance(value, str) or _is_exact(value)):
        return UNKNOWN
    if operator in ("is", "isnt"):
        # what is not the same may be of another type, or nothing at all
        same = _can_hold("==", name, value, source)
        return Rails(same, ALWAYS, False) if operator == "is" else Rails(ALWAYS, same, False)
    holds, fails = (_can_hold(sign, name, value, source) for sign in (operator, _OPPOSITE[operator]))
    return Rails(holds, fails, False)


def _can_hold(operator: str, name: str, value: Value, source: Source) -> Sql:
    """When an attribute inside the ad may compare so with a value; written out, as each row pays for it."""
    held, text = _lookup(name, source), _text(name, source)
    # what an expression comes to, HTCondor knows
    expression = f"starts_with({text.text}, '/Expr(')"
    if isinstance(value, str):
        compared = f'lower({text.text} COLLATE "C") {_SQL_OPERATORS.get(operator, operator)} %s'
        return Sql(f"({compared} OR {expression})", (*text.params, _folded(value), *text.params))
    compared, params = "true", list[object]()
    if type(value) is not bool:
        compared = f"{text.text}::double precision {_SQL_OPERATORS.get(operator, operator)} %s"
        params = [*text.params, value]
    # CASE, because only there is the order of evaluation promised: a cast must not meet another type;
    # HTCondor compares a boolean with a number
    return Sql(
        f"CASE jsonb_typeof({held.text}) WHEN 'number' THEN {compared} WHEN 'string' THEN {expression}"
        " WHEN 'boolean' THEN true ELSE false END",
        (*held.params, *params, *text.params),
    )


def _is_exact(value: Value) -> bool:
    """Whether HTCondor and PostgreSQL compare with this number alike: both read it as a real."""
    return isinstance(value, int | float) and -(2**53) <= value <= 2**53


def lookup(name: str, source: Source) -> tuple[str, tuple[object, ...]]:
    """The SQL of an attribute that is no column, as jsonb, and its parameters."""
    found = _lookup(name, source)
    return found.text, found.params


def _lookup(name: str, source: Source) -> Sql:
    spelling = source.spellings.get(name.lower())
    if spelling is not None:
        layers = [*reversed(source.layers)] or [source.ad]
        found = ", ".join(f"{layer} -> %s" for layer in layers)
        # cheaper than to put the ad together
        return Sql(f"coalesce({found})" if len(layers) > 1 else f"({found})", (spelling,) * len(layers))
    return Sql(f"fetchwork.attribute_of({source.ad}, %s)", (name.lower(),))


def _text(name: str, source: Source) -> Sql:
    """The text of an attribute that is no column, whatever its type; NULL where it is undefined.

    One that is null in its layer has the text of a lower one: HTCondor sorts it out.
    """
    spelling = source.spellings.get(name.lower())
    if spelling is None:
        return Sql(f"(fetchwork.attribute_of({source.ad}, %s) #>> '{{}}')", (name.lower(),))
    layers = [*reversed(source.layers)] or [source.ad]
    return Sql(f"coalesce({', '.join(f'{each} ->> %s' for each in layers)})", (spelling,) * len(layers))


def _plain(sql: str, operator: str, value: object) -> Sql:
    return Sql(f"{sql} {_SQL_OPERATORS.get(operator, operator)} %s", (value,))


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
