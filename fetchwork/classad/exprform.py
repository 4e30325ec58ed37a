"""Expressions in HTCondor's JSON form, in which a string ``/Expr(TEXT)/`` stands for the expression TEXT."""

from __future__ import annotations

_BEGIN, _END = "/Expr(", ")/"


def expr_text(item: object) -> str | None:
    """Return an item's expression, in new syntax; None for an item of another type."""
    if isinstance(item, str) and item.startswith(_BEGIN) and item.endswith(_END):
        return item[len(_BEGIN) : -len(_END)]
    return None


def expr_form(text: str) -> str:
    """Return the item that stands for an expression."""
    return f"{_BEGIN}{text}{_END}"
