"""The parts of a Requirements expression that all have to be true: what ``&&`` joins.

The bindings show an expression only as text. They print it in one form, with parentheses where they matter,
so that a scanner which knows strings and brackets finds the ``&&`` that stand outside of all of them.
"""

from __future__ import annotations

import re

from fetchwork.classad.ads import parse_expr
from fetchwork.classad.values import ClassAd, ExprTree, format_expr
from fetchwork.errors import ClassAdError

_SYMBOL = re.compile(
    r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|&&|\|\||[()\[\]{}?]|[^"\'&|()\[\]{}?]+|.', re.DOTALL
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def split(expression: ExprTree) -> list[ExprTree]:
    """The clauses of an expression, in order; the expression itself where nothing can be split off."""
    clauses = []
    for text in _split_text(format_expr(expression)):
        try:
            clauses.append(parse_expr(text))
        except ClassAdError:
            return [expression]
    return clauses


def explain(ad: ClassAd, clause: ExprTree, depth: int = 3) -> list[ExprTree]:
    """The clauses of a clause that is the mere name of an expression of the same ad (``START``)."""
    text = format_expr(clause)
    name = text.removeprefix("MY.")
    if depth == 0 or not _WORD.match(name) or not isinstance(ad.get(name), ExprTree):
        return [clause]
    found = []
    for part in split(ad.lookup(name)):
        found += explain(ad, part, depth - 1)
    return found


def _split_text(text: str) -> list[str]:
    text = _without_parentheses(text.strip())
    parts, depth, start, at = [], 0, 0, 0
    for symbol in _SYMBOL.findall(text):
        if symbol in ("(", "[", "{"):
            depth += 1
        elif symbol in (")", "]", "}"):
            depth -= 1
        elif depth == 0 and symbol in ("||", "?"):
            # binds looser than &&: what stands beside it is no clause of its own
            return [text]
        elif depth == 0 and symbol == "&&":
            parts.append(text[start:at])
            start = at + 2
        at += len(symbol)
    if not parts:
        return [text]
    parts.append(text[start:])
    return [clause for part in parts for clause in _split_text(part)]


def _without_parentheses(text: str) -> str:
    while text.startswith("(") and text.endswith(")"):
        depth = at = 0
        for symbol in _SYMBOL.findall(text):
            depth += (symbol == "(") - (symbol == ")")
            at += len(symbol)
            if depth == 0:
                break
        if at < len(text):
            return text
        text = text[1:-1].strip()
    return text
