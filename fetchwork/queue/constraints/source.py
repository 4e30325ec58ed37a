"""The source of a constraint's attributes: a view's columns, and the ads beside them, in SQL."""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fetchwork.queue.constraints.rails import Sql

ColumnType: TypeAlias = Literal["integer", "real", "string", "boolean"]
#: the composition of a text: pieces of text, each with the attribute after it ('' at the end)
Form: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Column:
    """A column of a view: ``sql`` is its name there; its values have one type, or are NULL for undefined.

    An integer is between -2**``bits`` and 2**``bits``.
    """

    sql: str
    type: ColumnType
    bits: int = 63


@dataclass(frozen=True)
class Source:
    """A view with columns (keys in lower case) and, for other names, an ad.

    ``layers`` are the columns that the ad is composed of, if it is; a later one overrides an earlier one.
    ``spellings`` are the attributes that an ad holds in one spelling only, by their lower-case name.
    ``owners`` are the values of the column Owner: a condition that names them can use its index.
    ``forms`` are those of the columns that are composed of others, which are never NULL.
    """

    columns: Mapping[str, Column]
    ad: str = "ad"
    spellings: Mapping[str, str] = field(default_factory=dict)
    owners: Collection[str] | None = None
    layers: Sequence[str] = ()
    forms: Mapping[str, Form] = field(default_factory=dict)

    def column(self, name: str) -> Column | None:
        """The column of an attribute, in any spelling; None for an attribute inside the ad."""
        return self.columns.get(name.lower())

    def held(self, name: str) -> Sql:
        """An attribute inside the ad, as jsonb."""
        spelling = self.spellings.get(name.lower())
        if spelling is None:
            return Sql(f"fetchwork.attribute_of({self.ad}, %s)", (name.lower(),))
        layers = self._layers()
        found = ", ".join(f"{layer} -> %s" for layer in layers)
        # cheaper than composing the ad
        return Sql(f"coalesce({found})" if len(layers) > 1 else f"({found})", (spelling,) * len(layers))

    def text(self, name: str) -> Sql:
        """The text of an attribute inside the ad, of any type; NULL if it is undefined.

        An attribute that is null in its layer gets a lower layer's text: HTCondor sorts such ads out.
        """
        spelling = self.spellings.get(name.lower())
        if spelling is None:
            return Sql(f"(fetchwork.attribute_of({self.ad}, %s) #>> '{{}}')", (name.lower(),))
        layers = self._layers()
        return Sql(f"coalesce({', '.join(f'{each} ->> %s' for each in layers)})", (spelling,) * len(layers))

    def _layers(self) -> Sequence[str]:
        return [*reversed(self.layers)] or [self.ad]


def form_of(composition: str, database: str) -> Form:
    """The pieces of a composition such as ``{Owner}@{database}``, in the database with this name."""
    pieces: list[tuple[str, str]] = []
    before = ""
    for text, name, *_ in string.Formatter().parse(composition):
        before += text
        if name == "database":
            before += database
        elif name is not None:
            pieces.append((before, name))
            before = ""
    return [*pieces, (before, "")] if before else pieces


def sql_of(composition: str) -> str:
    """The SQL of a composition whose attributes are columns."""
    parts = []
    for text, name, *_ in string.Formatter().parse(composition):
        parts += [f"'{text}'"] if text else []
        parts += ["current_database()" if name == "database" else name.lower()] if name else []
    return " || ".join(parts)
