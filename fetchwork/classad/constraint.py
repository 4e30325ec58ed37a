"""ClassAd constraints as SQL, as far as they translate; the rest is evaluated by HTCondor's own code.

Theory of operation
-------------------
A constraint selects an ad if it evaluates to true; ``undefined`` and ``error`` select nothing. Every part of
the expression is translated into *two* SQL conditions, one for "can be true" and one for "can be false":

- a comparison of a typed column with a literal of its kind is known exactly;
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
from typing import TYPE_CHECKING, Any, Literal

from fetchwork.errors import ClassAdError

if TYPE_CHECKING:
    from fetchwork.classad.values import ClassAd

ColumnType = Literal["integer", "real", "string", "boolean"]


@dataclass(frozen=True)
class Column:
    """A column of a view: ``sql`` is its name there; its values are of one kind, or NULL for undefined."""

    sql: str
    kind: ColumnType


@dataclass(frozen=True)
class Source:
    """What a constraint is asked of: a view with columns (keys in lower case) and, for other names, an ad.

    ``spellings`` are the attributes that an ad can hold in one spelling only, by their lower-case name.
    ``owners`` are all values of the column Owner: named in the condition, they make its index of use.
    """

    columns: Mapping[str, Column]
    ad: str = "ad"
    spellings: Mapping[str, str] = field(default_factory=dict)
    owners: Collection[str] | None = None


@dataclass(frozen=True)
class _Sql:
    text: str
    params: tuple[Any, ...] = ()

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
    params: tuple[Any, ...]
    exact: bool

    @functools.cached_property
    def _expression(self) -> Any:
        from fetchwork.classad.ads import parse_expr

        return parse_expr(self.text)

    def accepts(self, ad: ClassAd) -> bool:
        """Does the constraint select this ad?"""
        from fetchwork.classad.values import evaluate, truth

        return truth(evaluate(ad, self._expression)) is True


# of ids as commands write them: what is made of nothing else, and _Parser reads, is an expression
_OF_IDS = re.compile(r"(?:\(|\)| && | \|\| |true|(?:ClusterId|ProcId|JobStatus) == \d{1,9})+")


def text_of(constraint: Any) -> str:
    """The text of a constraint, which may be a ClassAd expression; None and '' select everything."""
    if constraint is None or isinstance(constraint, str):
        return (constraint or "").strip() or "true"
    from fetchwork.classad.values import ExprTree, format_expr

    is_expression = isinstance(constraint, ExprTree)
    return format_expr(constraint) if is_expression else str(constraint)


def names_in(text: str) -> frozenset[str]:
    """The attributes that a constraint refers to, in lower case; raises ClassAdError if it is none."""
    if _read_of_ids(text) is not None:
        return frozenset(name.lower() for name in re.findall(r"[A-Z]\w+", text))
    from fetchwork.classad.ads import parse_expr
    from fetchwork.classad.values import references

    return frozenset(name.lower() for name in references(parse_expr(text)))


def _read_of_ids(text: str) -> Any:
    """The tree of a constraint of ids; None for any other, and for none."""
    if not _OF_IDS.fullmatch(text):
        return None
    try:
        return _Parser(text).whole()
    except (_Unreadable, RecursionError):
        return None


def compile_constraint(text: str, source: Source) -> Constraint:
    """Translate a constraint; raises ClassAdError if it is none."""
    tree = _read_of_ids(text)
    if tree is None:
        from fetchwork.classad.ads import parse_expr
        from fetchwork.classad.values import format_expr

        text = format_expr(parse_expr(text))
    try:
        rails = _translate(tree or _Parser(text).whole(), source)
    except (_Unreadable, RecursionError):
        # the latter: longer, or in deeper brackets, than Python goes
        rails = _UNKNOWN
    return Constraint(text, rails.true.text, rails.true.params, rails.exact)


# -- reading -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Literal:
    value: Any  # str, int, float, bool, or None for undefined


@dataclass(frozen=True)
class _Attribute:
    name: str


@dataclass(frozen=True)
class _Operation:
    operator: str
    operands: tuple[Any, ...]


class _Opaque:
    """Something that is left to HTCondor."""


_OPAQUE = _Opaque()


class _Unreadable(Exception):
    """The expression has a form that this reader does not know."""


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>=\?=|=!=|\?:|>>>|<<|>>|&&|\|\||[=!<>]=|[-+*/%!<>&|^~?:.,(){}\[\]])
    )""",
    re.VERBOSE | re.DOTALL,
)
# binary operators, loosest first
_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!=", "is", "isnt", "=?=", "=!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>", ">>>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_MEANT = {"=?=": "is", "=!=": "isnt"}
_WORDS: dict[str, Any] = {"true": True, "false": False, "undefined": None}


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            found = _TOKEN.match(text, position)
            if found is None:
                raise _Unreadable
            kind = found.lastgroup or ""
            word = found[kind]
            if kind == "name" and word.lower() in ("is", "isnt"):
                kind, word = "sign", word.lower()
            self._tokens.append((kind, word))
            position = found.end()
        self._next = 0

    def whole(self) -> Any:
        tree = self._conditional()
        if self._next != len(self._tokens):
            raise _Unreadable
        return tree

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("", "")

    def _take(self, *signs: str) -> str | None:
        kind, word = self._peek()
        if kind == "sign" and word in signs:
            self._next += 1
            return word
        return None

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise _Unreadable

    def _conditional(self) -> Any:
        condition = self._binary(0)
        if self._take("?:"):
            self._conditional()
            return _OPAQUE
        if self._take("?"):
            self._conditional()
            self._expect(":")
            self._conditional()
            return _OPAQUE
        return condition

    def _binary(self, level: int) -> Any:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while sign := self._take(*_LEVELS[level]):
            left = _Operation(_MEANT.get(sign, sign), (left, self._binary(level + 1)))
        return left

    def _unary(self) -> Any:
        if self._take("!"):
            return _Operation("!", (self._unary(),))
        if sign := self._take("-", "+", "~"):
            operand = self._unary()
            if isinstance(operand, _Literal) and type(operand.value) in (int, float) and sign != "~":
                return _Literal(-operand.value if sign == "-" else operand.value)
            return _OPAQUE
        return self._postfix()

    def _postfix(self) -> Any:
        tree = self._primary()
        while sign := self._take(".", "["):
            if sign == "[":
                self._conditional()
                self._expect("]")
                tree = _OPAQUE
                continue
            kind, word = self._peek()
            if kind != "name":
                raise _Unreadable
            self._next += 1
            own = isinstance(tree, _Attribute) and tree.name.lower() == "my"
            tree = _Attribute(word) if own else _OPAQUE
        return tree

    def _primary(self) -> Any:
        kind, word = self._peek()
        self._next += 1
        if kind == "string":
            from fetchwork.classad.ads import parse_expr

            return _Literal(parse_expr(word).eval())
        if kind == "number":
            return _Literal(int(word) if word.isdigit() else float(word))
        if kind == "name":
            if self._take("("):
                self._items(")")
                return _OPAQUE
            if word.lower() == "error":
                return _OPAQUE
            return _Literal(_WORDS[word.lower()]) if word.lower() in _WORDS else _Attribute(word)
        if (kind, word) == ("sign", "("):
            tree = self._conditional()
            self._expect(")")
            return tree
        if (kind, word) == ("sign", "{"):
            self._items("}")
            return _OPAQUE
        raise _Unreadable

    def _items(self, end: str) -> None:
        if self._take(end):
            return
        self._conditional()
        while self._take(","):
            self._conditional()
        self._expect(end)


# -- translating
# -----------------------------------------------------------------------------------------------

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_SQL_OPERATORS = {"==": "=", "!=": "<>", "is": "=", "isnt": "<>"}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "is": "isnt", "isnt": "is"}


def _translate(tree: Any, source: Source) -> _Rails:
    if isinstance(tree, _Literal):
        return _constant(tree.value)
    if not isinstance(tree, _Operation):
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


def _constant(value: Any) -> _Rails:
    if value is None:
        return _Rails(_NEVER, _NEVER, True)
    if isinstance(value, str):
        # an error, beside which HTCondor's && and || may have no value at all
        return _UNKNOWN
    return _Rails(_ALWAYS, _NEVER, True) if value else _Rails(_NEVER, _ALWAYS, True)


def _comparison(operator: str, left: Any, right: Any, source: Source) -> _Rails:
    if isinstance(left, _Literal):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    if not isinstance(left, _Attribute) or not isinstance(right, _Literal):
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
        return _Rails(_NEVER, _NEVER, True)
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


def _column_comparison(operator: str, column: Column, value: Any, source: Source) -> _Rails:
    numeric = column.kind in ("integer", "real")
    if type(value) is bool or numeric == isinstance(value, str) or column.kind == "boolean":
        return _UNKNOWN
    if operator in ("is", "isnt"):
        if numeric and (type(value) is int) != (column.kind == "integer"):
            # 1 is not 1.0
            return _UNKNOWN
        same = _Sql(f"{column.sql} = %s", (value,))
        other = _Sql(f"{column.sql} IS DISTINCT FROM %s", (value,))
        return _Rails(same, other, True) if operator == "is" else _Rails(other, same, True)
    if numeric and not -(2**53) <= value <= 2**53:
        return _UNKNOWN
    if numeric:
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


def _ad_comparison(operator: str, name: str, value: Any, source: Source) -> _Rails:
    kind = "string" if isinstance(value, str) else "number"
    if type(value) is bool or operator in ("is", "isnt") or (kind == "number" and abs(value) > 2**53):
        return _UNKNOWN
    held = _lookup(name, source)
    if kind == "string":
        told, value = f"lower(({held.text} #>> '{{}}') COLLATE \"C\")", _folded(value)
    else:
        told = f"({held.text})::text::double precision"
    rails = []
    for sign in (operator, _OPPOSITE[operator]):
        # CASE, because only there is the order of evaluation promised: a cast must not meet another type
        text = (
            f"CASE fetchwork.value_type({held.text}) WHEN '{kind}' THEN {told}"
            f" {_SQL_OPERATORS.get(sign, sign)} %s"
            " WHEN 'unclear' THEN true ELSE false END"
        )
        rails.append(_Sql(text, (*held.params, *held.params, value)))
    return _Rails(rails[0], rails[1], False)


def _lookup(name: str, source: Source) -> _Sql:
    spelling = source.spellings.get(name.lower())
    if spelling is not None:
        return _Sql(f"({source.ad} -> %s)", (spelling,))
    return _Sql(f"fetchwork.attribute_of({source.ad}, %s)", (name.lower(),))


def _plain(sql: str, operator: str, value: Any) -> _Sql:
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
    "names_in",
    "text_of",
]
