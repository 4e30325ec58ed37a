"""The clauses of a Requirements expression: the parts that must all be true."""

from __future__ import annotations

import re

from fetchwork.classad.ads import parse_expr
from fetchwork.classad.expression import Unreadable, clauses, read
from fetchwork.classad.values import ClassAd, ExprTree, format_expr
from fetchwork.errors import ClassAdError

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def split(expression: ExprTree) -> list[ExprTree]:
    """Return the clauses of an expression, in order; the expression itself if it can't be split."""
    text = format_expr(expression)
    try:
        found = [text[slice(*clause.span)] for clause in clauses(read(text))]
        return [parse_expr(clause) for clause in found]
    except (Unreadable, ClassAdError):
        return [expression]


def explain(ad: ClassAd, clause: ExprTree, depth: int = 3) -> list[ExprTree]:
    """Return the clauses behind a clause that only names an expression of the same ad (``START``)."""
    text = format_expr(clause)
    name = text.removeprefix("MY.")
    if depth == 0 or not _WORD.match(name) or not isinstance(ad.get(name), ExprTree):
        return [clause]
    found = []
    for part in split(ad.lookup(name)):
        found += explain(ad, part, depth - 1)
    return found
