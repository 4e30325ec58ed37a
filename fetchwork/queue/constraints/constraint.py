"""Translates ClassAd constraints to SQL as far as possible; HTCondor's own code evaluates the rest.

Theory of operation
-------------------
A constraint selects an ad if it evaluates to true; ``undefined`` and ``error`` select nothing. Every part of
the expression is translated into *two* SQL conditions, one for "can be true" and one for "can be false":

- a comparison of a typed column with a literal of its type is known exactly;
- a comparison with an attribute inside the ad is known if the ad holds a plain string or number; if it holds
  an expression, both conditions are true, because only HTCondor knows its value;
- numbers are computed as far as HTCondor and PostgreSQL agree (``arithmetic``); ``time()`` is the moment at
  which the constraint was compiled, for HTCondor too (``folding``);
- an attribute that is composed of others is compared part by part (``composed``);
- a text that ``regexp`` matches contains the plain text of its pattern, and matches its translation for
  PostgreSQL (``regexes``); an item of a list is a part of the list's text;
- any expression that this module does not know (another function, a choice) can be both.

``!`` swaps the two, ``&&`` and ``||`` combine them. So the condition "can be true" of the whole never loses
an ad that the constraint selects. Ads that it selects in addition are sorted out by evaluating the constraint
on them. If every part was exact (``exact``), no ad has to be evaluated.

HTCondor compares strings without regard to case (except with ``=?=``), for ASCII letters only. ``lower`` with
the collation "C" does the same.

HTCondor's parser decides whether a text is an expression. The constraints that commands make of job ids are
known to be expressions; not asking the parser spares these commands its import.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fetchwork.classad.expression import Attribute, Call, Literal, Node, Operation, Unreadable, Value, read
from fetchwork.errors import ClassAdError
from fetchwork.queue.constraints.arithmetic import compared
from fetchwork.queue.constraints.composed import taken_apart
from fetchwork.queue.constraints.folding import MIRRORED, fold, pinned
from fetchwork.queue.constraints.patterns import like_of, runs_of
from fetchwork.queue.constraints.rails import ALWAYS, NEVER, UNKNOWN, Rails, Sql
from fetchwork.queue.constraints.regexes import regex_of
from fetchwork.queue.constraints.source import Column, Source

if TYPE_CHECKING:
    from fetchwork.classad.values import ClassAd, ExprTree


@dataclass(frozen=True)
class Constraint:
    """A constraint: its SQL condition (with ``%s`` for each of params), and its whole text for ads."""

    text: str
    sql: str
    params: tuple[object, ...]
    exact: bool

    @functools.cached_property
    def _expression(self) -> ExprTree:
        from fetchwork.classad.ads import parse_expr

        return parse_expr(self.text, only_here=True)

    def accepts(self, ad: ClassAd) -> bool:
        """Whether the constraint selects this ad."""
        from fetchwork.classad.values import evaluate, truth

        return truth(evaluate(ad, self._expression)) is True


# constraints of ids as commands write them: such a text is an expression if ``read`` can read it
_OF_IDS = re.compile(r"(?:\(|\)| |&&|\|\||true|(?:ClusterId|ProcId|JobStatus) == \d{1,10})+")


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

    return frozenset(name.lower() for name in references(parse_expr(text, only_here=True)))


def _read_of_ids(text: str) -> Node | None:
    """The tree of a constraint of ids; None for any other text."""
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

        text = format_expr(parse_expr(text, only_here=True))
    try:
        tree = tree or read(text)
        now = int(time.time())
        text = pinned(text, tree, now)
        rails = _translate(taken_apart(fold(tree, now, source), source), source)
    except (Unreadable, RecursionError):
        # RecursionError: the text is longer, or nested deeper, than Python can handle
        rails = UNKNOWN
    return Constraint(text, rails.true.text, rails.true.params, rails.exact)


_SQL_OPERATORS = {"==": "=", "!=": "<>", "is": "=", "isnt": "<>"}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "is": "isnt", "isnt": "is"}


def _translate(tree: Node, source: Source) -> Rails:
    if isinstance(tree, Literal):
        return _constant(tree.value)
    if isinstance(tree, Call):
        return _called(tree, source)
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
        # an error: HTCondor's && and || with an error may have no value at all
        return UNKNOWN
    return Rails(ALWAYS, NEVER, True) if value else Rails(NEVER, ALWAYS, True)


def _called(call: Call, source: Source) -> Rails:
    """A function of an attribute: a necessary condition of its truth, as far as one is known."""
    match call:
        case Call("isundefined", (Attribute(name),)):
            return _against_undefined("is", name, source.column(name), source)
        case Call("stringlistmember" | "stringlistimember", (Literal(str(item)), Attribute(name), *_)):
            # an item is a part of the list
            form, params, folds = "strpos({}, %s) > 0", (item,), "imember" in call.name
        case Call("stringlistmember" | "stringlistimember", (Attribute(name), Literal(str(items)), *_)):
            form, params, folds = "strpos(%s, {}) > 0", (items,), "imember" in call.name
        case Call("regexp", (Literal(str(pattern)), Attribute(name))):
            return _found(pattern, name, "", source)
        case Call("regexp", (Literal(str(pattern)), Attribute(name), Literal(str(options)))):
            return _found(pattern, name, options, source)
        case _:
            return UNKNOWN
    return _of_text(name, form, tuple(map(_folded, params)) if folds else params, folds, source)


def _found(pattern: str, name: str, options: str, source: Source) -> Rails:
    """``regexp``: by the plain text of its pattern, which is searched fast, and by the whole pattern."""
    like, regex = like_of(pattern, options), regex_of(pattern, options)
    constant = [before for before, _ in source.forms.get(name.lower(), ())]
    if regex and constant and all(any(run in text for text in constant) for run in runs_of(pattern, options)):
        # every composed text contains the plain text; composing it once is enough
        like = None
    conditions = {"{} LIKE %s": like, "{} ~ %s": regex}
    forms = [form for form, value in conditions.items() if value]
    params = tuple(value for value in conditions.values() if value)
    return _of_text(name, " AND ".join(forms), params, bool(options), source) if forms else UNKNOWN


def _of_text(name: str, form: str, params: tuple[object, ...], folds: bool, source: Source) -> Rails:
    """A condition on texts: SQL with ``{}`` for the text, folded or not, and ``%s`` for each of params."""
    column = source.column(name)
    if column is not None and column.type != "string":
        return UNKNOWN
    text = source.text(name) if column is None else Sql(f"({column.sql})")
    folded = f'lower({text.text} COLLATE "C")' if folds else f'({text.text} COLLATE "C")'
    values: list[object] = []
    # the text's own parameters repeat in each place of the text
    for number, piece in enumerate(form.split("{}")):
        values += [*(text.params if number else ()), *params[: piece.count("%s")]]
        params = params[piece.count("%s") :]
    found = Sql(f"({form.format(*[folded] * form.count('{}'))})", tuple(values))
    if column is None:
        found = found | Sql(f"starts_with({text.text}, '/Expr(')", text.params)
    return Rails(found, ALWAYS, False)


def _comparison(operator: str, left: Node, right: Node, source: Source) -> Rails:
    if isinstance(left, Literal):
        left, right, operator = right, left, MIRRORED.get(operator, operator)
    match operator, left:
        case (("==" | "!="), Call("int", (Call("[]", (Call("split", (Attribute(name), *_)), _)),))):
            # an error without the attribute
            present = _against_undefined("isnt", name, source.column(name), source).true
            return Rails(present, present, False)
    if not isinstance(left, Attribute) or not isinstance(right, Literal):
        return compared(operator, left, right, source) or UNKNOWN
    value = right.value
    column = source.column(left.name)
    if value is None:
        return _against_undefined(operator, left.name, column, source)
    if column is not None:
        return _column_comparison(operator, column, value, source)
    return _ad_comparison(operator, left.name, value, source)


def _against_undefined(operator: str, name: str, column: Column | None, source: Source) -> Rails:
    if operator not in ("is", "isnt"):
        # an attribute inside the ad may be an error, which ends HTCondor's ||
        return Rails(NEVER, NEVER, column is not None)
    if column is not None:
        absent, present = Sql(f"{column.sql} IS NULL"), Sql(f"{column.sql} IS NOT NULL")
        exact = True
    else:
        value = source.held(name)
        # only HTCondor knows an expression's value
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
            # for "is", 1 is not 1.0
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
        # the named owner may have no jobs yet and be missing from the known owners
        alike = sorted({value, *(owner for owner in source.owners if _folded(owner) == _folded(value))})
        same, other = Sql("owner = ANY(%s)", (alike,)), Sql("owner <> ALL(%s)", (alike,))
        return Rails(same, other, True) if operator == "==" else Rails(other, same, True)
    folded = f'lower({column.sql} COLLATE "C")'
    value = _folded(value)
    return Rails(_plain(folded, operator, value), _plain(folded, _OPPOSITE[operator], value), True)


def _ad_comparison(operator: str, name: str, value: Value, source: Source) -> Rails:
    if value is None or not (isinstance(value, str) or _is_exact(value)):
        return UNKNOWN
    if operator in ("is", "isnt"):
        # a value that differs may be of another type, or undefined
        same = _can_hold("==", name, value, source)
        return Rails(same, ALWAYS, False) if operator == "is" else Rails(ALWAYS, same, False)
    holds, fails = (_can_hold(sign, name, value, source) for sign in (operator, _OPPOSITE[operator]))
    return Rails(holds, fails, False)


def _can_hold(operator: str, name: str, value: Value, source: Source) -> Sql:
    """The condition that an attribute inside the ad may compare so; inlined, because each row pays for it."""
    held, text = source.held(name), source.text(name)
    # only HTCondor knows an expression's value
    expression = f"starts_with({text.text}, '/Expr(')"
    if isinstance(value, str):
        compared = f'lower({text.text} COLLATE "C") {_SQL_OPERATORS.get(operator, operator)} %s'
        return Sql(f"({compared} OR {expression})", (*text.params, _folded(value), *text.params))
    compared, params = "true", list[object]()
    if type(value) is not bool:
        compared = f"{text.text}::double precision {_SQL_OPERATORS.get(operator, operator)} %s"
        params = [*text.params, value]
    # CASE alone guarantees the order of evaluation: the cast must not meet another type.
    # HTCondor compares a boolean with a number
    return Sql(
        f"CASE jsonb_typeof({held.text}) WHEN 'number' THEN {compared} WHEN 'string' THEN {expression}"
        " WHEN 'boolean' THEN true ELSE false END",
        (*held.params, *params, *text.params),
    )


def _is_exact(value: Value) -> bool:
    """Whether HTCondor and PostgreSQL compare with this number alike: both read it as a double."""
    return isinstance(value, int | float) and -(2**53) <= value <= 2**53


def _plain(sql: str, operator: str, value: object) -> Sql:
    return Sql(f"{sql} {_SQL_OPERATORS.get(operator, operator)} %s", (value,))


def _folded(text: str) -> str:
    # like the C library's strcasecmp: ASCII only
    return re.sub("[A-Z]+", lambda found: found[0].lower(), text)


def joined(texts: Sequence[str]) -> str:
    """A constraint that holds if all of these hold; each must be an expression by itself."""
    for text in texts:
        names_in(text)
    return " && ".join(f"({text})" for text in texts) or "true"


__all__ = [
    "ClassAdError",
    "Constraint",
    "compile_constraint",
    "joined",
    "names_in",
    "text_of",
]
