"""The reader of expressions: their parts as a tree, with places in the text.

The bindings read an expression, but show it only as text. Code that needs its parts (the SQL of a constraint,
the clauses of Requirements, the cost of an expression) reads that text here. HTCondor's reader has already
decided whether it is an expression at all, and prints it in one form; parts that this reader does not know
are ``Opaque`` and left to HTCondor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

__all__ = [
    "Attribute",
    "Call",
    "Literal",
    "Node",
    "Opaque",
    "Operation",
    "Unreadable",
    "clauses",
    "depth",
    "names",
    "read",
]

Span: TypeAlias = tuple[int, int]
#: None stands for undefined
Value: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Literal:
    """A value: a string, an integer, a real, a boolean, or None for undefined."""

    value: Value
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A name, or ``MY.`` and a name."""

    name: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """A unary or binary operator; ``=?=`` and ``=!=`` are called ``is`` and ``isnt``."""

    operator: str
    operands: tuple[Node, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function, its name in lower case, and its arguments; ``[]`` is an item of its first argument."""

    name: str
    arguments: tuple[Node, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A part that is left to HTCondor: a list, a record, a choice, another ad's attribute."""

    span: Span = field(compare=False)


Node: TypeAlias = Literal | Attribute | Operation | Call | Opaque


class Unreadable(Exception):
    """The text has a form that this reader does not know, or is nested too deeply for Python."""


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<quoted>'(?:[^'\\]|\\.)*')
      | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>=\?=|=!=|\?:|>>>|<<|>>|&&|\|\||[=!<>]=|[-+*/%!<>&|^~?:.,;=(){}\[\]])
    )""",
    re.VERBOSE | re.DOTALL,
)
# binary operators, in order of precedence, lowest first
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
_LEVEL_OF = {sign: level for level, signs in enumerate(_LEVELS) for sign in signs}
_MEANT = {"=?=": "is", "=!=": "isnt"}
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "undefined": None}
_BRACKETS = {"(": ")", "[": "]", "{": "}"}


def read(text: str) -> Node:
    """Return the tree of an expression; raises Unreadable."""
    try:
        return _Reader(text).whole()
    except (RecursionError, ValueError):
        # Python reads no integer of thousands of digits
        raise Unreadable from None


def clauses(tree: Node) -> list[Node]:
    """Return the parts of an expression that ``&&`` joins, in order: all must be true."""
    found: list[Node] = []
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, Operation) and node.operator == "&&":
            left += reversed(node.operands)
        else:
            found.append(node)
    return found


def depth(tree: Node) -> int:
    """Return how many operators and functions are within each other; parts that are Opaque count once."""
    deepest = 0
    left = [(tree, 1)]
    while left:
        node, level = left.pop()
        deepest = max(deepest, level)
        if isinstance(node, Operation | Call):
            parts = node.operands if isinstance(node, Operation) else node.arguments
            left += [(part, level + 1) for part in parts]
    return deepest - 1


def names(text: str) -> Iterator[str]:
    """Yield the words of an expression outside its strings: attributes, functions, and the few key words."""
    # by a pattern, since ``read`` does not know all expressions
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|([A-Za-z_][A-Za-z0-9_]*)', text):
        if found[1]:
            yield found[1]


class _Token(NamedTuple):
    form: str
    word: str
    start: int
    end: int


_END = _Token("", "", 0, 0)


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens: list[_Token] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            found = _TOKEN.match(text, position)
            if found is None:
                raise Unreadable
            form = found.lastgroup or ""
            word = found[form]
            if form == "name" and word.lower() in ("is", "isnt"):
                form, word = "sign", word.lower()
            position = found.end()
            self._tokens.append(_Token(form, word, found.start(found.lastgroup or 0), position))
        self._next = 0

    def whole(self) -> Node:
        tree = self._conditional()
        if self._next != len(self._tokens):
            raise Unreadable
        return tree

    def _peek(self) -> _Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def _take(self, *signs: str) -> str | None:
        token = self._peek()
        if token.form == "sign" and token.word in signs:
            self._next += 1
            return token.word
        return None

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise Unreadable

    def _span(self, first: int) -> Span:
        """The span from the token with this number to the last token that was read."""
        return self._tokens[first].start, self._tokens[self._next - 1].end

    def _conditional(self) -> Node:
        first = self._next
        condition = self._binary(0)
        if self._take("?:"):
            self._conditional()
            return Opaque(self._span(first))
        if self._take("?"):
            self._conditional()
            self._expect(":")
            self._conditional()
            return Opaque(self._span(first))
        return condition

    def _binary(self, loosest: int) -> Node:
        first = self._next
        left = self._unary()
        while True:
            token = self._peek()
            level = _LEVEL_OF.get(token.word, -1) if token.form == "sign" else -1
            if level < loosest:
                return left
            self._next += 1
            right = self._binary(level + 1)
            left = Operation(_MEANT.get(token.word, token.word), (left, right), self._span(first))

    def _unary(self) -> Node:
        first = self._next
        if self._take("!"):
            return Operation("!", (self._unary(),), self._span(first))
        if sign := self._take("-", "+", "~"):
            operand = self._unary()
            if isinstance(operand, Literal) and sign != "~":
                value = operand.value
                if type(value) is int or type(value) is float:
                    return Literal(-value if sign == "-" else value, self._span(first))
            if sign == "-":
                return Operation("-", (operand,), self._span(first))
            return Opaque(self._span(first))
        return self._postfix()

    def _postfix(self) -> Node:
        first = self._next
        tree = self._primary()
        while sign := self._take(".", "["):
            if sign == "[":
                index = self._conditional()
                self._expect("]")
                tree = Call("[]", (tree, index), self._span(first))
                continue
            token = self._peek()
            if token.form not in ("name", "quoted"):
                raise Unreadable
            self._next += 1
            own = token.form == "name" and isinstance(tree, Attribute) and tree.name.lower() == "my"
            tree = Attribute(token.word, self._span(first)) if own else Opaque(self._span(first))
        return tree

    def _primary(self) -> Node:
        token = self._peek()
        form, word = token.form, token.word
        first = self._next
        self._next += 1
        if form == "string":
            return Literal(_string(word), (token.start, token.end))
        if form == "number":
            return Literal(int(word) if word.isdigit() else float(word), (token.start, token.end))
        if form == "name":
            if self._take("("):
                arguments = self._items(")")
                return Call(word.lower(), arguments, self._span(first))
            if word.lower() == "error":
                return Opaque((token.start, token.end))
            if word.lower() in _WORDS:
                return Literal(_WORDS[word.lower()], (token.start, token.end))
            return Attribute(word, (token.start, token.end))
        if form == "quoted":
            return Opaque((token.start, token.end))
        if (form, word) == ("sign", "("):
            tree = self._conditional()
            self._expect(")")
            return tree
        if (form, word) == ("sign", "{"):
            self._items("}")
            return Opaque(self._span(first))
        if (form, word) == ("sign", "["):
            self._record()
            return Opaque(self._span(first))
        raise Unreadable

    def _items(self, end: str) -> tuple[Node, ...]:
        if self._take(end):
            return ()
        items = [self._conditional()]
        while self._take(","):
            items.append(self._conditional())
        self._expect(end)
        return tuple(items)

    def _record(self) -> None:
        """Skip a record after its opening bracket."""
        open_brackets = ["]"]
        while open_brackets:
            token = self._peek()
            if token is _END:
                raise Unreadable
            self._next += 1
            if token.form != "sign":
                continue
            if token.word in _BRACKETS:
                open_brackets.append(_BRACKETS[token.word])
            elif token.word in _BRACKETS.values() and token.word != open_brackets.pop():
                raise Unreadable


def _string(literal: str) -> str:
    if "\\" not in literal:
        return literal[1:-1]
    from fetchwork.classad.values import PROBLEMS, ExprTree

    try:
        return str(ExprTree(literal).eval())
    except (*PROBLEMS, UnicodeDecodeError):
        raise Unreadable from None
