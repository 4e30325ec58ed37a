"""What attributes are composed of: texts such as ``{Owner}@{database}``, with the names of others in them."""

from __future__ import annotations

import string

from fetchwork.classad.source import Form

__all__ = ["form_of", "sql_of"]

_DATABASE = "database"


def form_of(composition: str, database: str) -> Form:
    """The pieces of a composition in a database of this name."""
    pieces: list[tuple[str, str]] = []
    before = ""
    for text, name, *_ in string.Formatter().parse(composition):
        before += text
        if name == _DATABASE:
            before += database
        elif name is not None:
            pieces.append((before, name))
            before = ""
    return [*pieces, (before, "")] if before else pieces


def sql_of(composition: str) -> str:
    """The SQL of a composition, whose attributes are columns."""
    parts = []
    for text, name, *_ in string.Formatter().parse(composition):
        parts += [f"'{text}'"] if text else []
        parts += ["current_database()" if name == _DATABASE else name.lower()] if name else []
    return " || ".join(parts)
