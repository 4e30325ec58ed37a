"""A call of one SQL function: its name, its arguments, and how its rows become what the caller gets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from fetchwork.errors import SchemaMismatch

__all__ = [
    "Call",
    "JsonObject",
    "Record",
    "Row",
    "done",
    "first_of",
    "jsonb",
    "one_of",
    "records_of",
    "value_of",
]

#: what PostgreSQL answers, by column
Row: TypeAlias = dict[str, Any]
#: a jsonb value that is an object: an ad in HTCondor's JSON form, a report, a verdict
JsonObject: TypeAlias = Mapping[str, Any]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R", bound="Record")


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """``fetchwork.function(argument => value, ...)``, to be run by a Database or an AsyncDatabase."""

    function: str
    arguments: Mapping[str, object]
    #: makes the result of the rows
    read: Callable[[list[Row]], T_co]
    #: the class of its rows, where they are not single values
    record: type[Record] | None = None

    def statement(self) -> tuple[str, list[object]]:
        """The SQL of the call, and its parameters."""
        named = ", ".join(f"{name} => {_placeholder(value)}" for name, value in self.arguments.items())
        # names come from this package's own functions; values travel apart
        return f"SELECT * FROM fetchwork.{self.function}({named})", list(self.arguments.values())  # noqa: S608


def jsonb(value: object) -> object:
    """A value as PostgreSQL's jsonb."""
    # on use: the client of an access point runs no call, and may be in a Python without the driver
    from psycopg.types.json import Jsonb

    return Jsonb(value)


def _placeholder(value: object) -> str:
    # the driver would send a list of bytes as text, which costs several times what it holds
    return "%b" if isinstance(value, list) and value and isinstance(value[0], bytes) else "%s"


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a SQL function. A field is the column of its name, or of its metadata's ``column``.

    Columns that the class has no field for are left out: a later schema may have more.
    """

    #: SQL names that are not the field's own
    COLUMNS: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def columns(cls) -> list[str]:
        """The columns that the fields are read from, in the order of the fields."""
        return [cls.COLUMNS.get(one.name, one.name) for one in dataclasses.fields(cls)]

    @classmethod
    def from_row(cls, row: Row) -> Self:
        """The record that a row is."""
        try:
            return cls(*_reader(cls)(row))
        except KeyError as column:
            raise SchemaMismatch(f"database schema does not fit this fetchwork: no column {column}") from None


#: by class: what takes the values of its fields out of a row
_READERS: dict[type[Record], Callable[[Row], Sequence[object]]] = {}


def _reader(record: type[Record]) -> Callable[[Row], Sequence[object]]:
    found = _READERS.get(record)
    if found is None:
        columns = record.columns()
        # itemgetter of one name gives a value and not a tuple
        found = itemgetter(*columns) if len(columns) > 1 else lambda row: (row[columns[0]],)
        _READERS[record] = found
    return found


def records_of(
    record: type[R], function: str, arguments: Mapping[str, object] | None = None
) -> Call[list[R]]:
    """A call that answers with any number of rows."""
    return Call(function, arguments or {}, lambda rows: [record.from_row(row) for row in rows], record)


def first_of(record: type[R], function: str, arguments: Mapping[str, object] | None = None) -> Call[R | None]:
    """A call that answers with one row or none."""
    return Call(function, arguments or {}, lambda rows: record.from_row(rows[0]) if rows else None, record)


def one_of(record: type[R], function: str, arguments: Mapping[str, object] | None = None) -> Call[R]:
    """A call that always answers with one row."""
    return Call(function, arguments or {}, lambda rows: record.from_row(rows[0]), record)


def value_of(function: str, arguments: Mapping[str, object] | None = None) -> Call[Any]:
    """A call that answers with one value; the function that makes it tells its type."""
    return Call(function, arguments or {}, lambda rows: next(iter(rows[0].values())))


def done(function: str, arguments: Mapping[str, object] | None = None) -> Call[None]:
    """A call that answers nothing."""
    return Call(function, arguments or {}, lambda rows: None)
