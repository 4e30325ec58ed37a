"""Ads as a table: stored by attribute instead of by ad, because most jobs of a table have equal cells."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from fetchwork.condor.printing.printedad import MISSING, PrintedAd, PrintedValue, is_plain

if TYPE_CHECKING:
    from fetchwork.classad.values import ClassAd
    from fetchwork.queue.reading.views import Json

Made = TypeVar("Made")


class Cluster(NamedTuple):
    """The jobs of a cluster whose first job has a row: their number by JobStatus, and the largest ProcId."""

    states: dict[int, int]
    last: int


class JobTable:
    """A table as ``operations.job_tables`` makes it, in which None is an attribute that an ad lacks."""

    def __init__(self, table: Json, lacking: object = None) -> None:
        self.jobs: int = table["jobs"]
        self._same: Mapping[str, object] = table["same"]
        self._columns: Mapping[str, Sequence[object]] = table["columns"]
        self._lacking = lacking
        #: of a table with the first job of each cluster (``operations.clusters``)
        self.clusters: list[Cluster] | None = None
        #: by the names as they are asked for
        self._asked: dict[str, Sequence[object]] = {}
        self._marked: dict[str, Sequence[object]] = {}

    @classmethod
    def of_item(cls, item: Json) -> JobTable:
        """The table of an item of ``operations.job_tables`` or ``clusters``."""
        made = cls(item) if "jobs" in item else cls.of(map(PrintedAd, item["ads"]))
        if "clusters" in item:
            made.clusters = [Cluster(dict(states), last) for states, last in item["clusters"]]
        return made

    @classmethod
    def of(cls, ads: Iterable[PrintedAd]) -> JobTable:
        """A table of ads, which may have expressions."""
        rows = [ad.json for ad in ads]
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name, MISSING) for row in rows] for name in names}
        return cls({"jobs": len(rows), "same": {}, "columns": columns}, MISSING)

    def json(self, number: int) -> Json:
        """The ad of a job."""
        own = ((name, column[number]) for name, column in self._columns.items())
        return {**self._same, **{name: value for name, value in own if value is not self._lacking}}

    def ads(self) -> Iterator[Json]:
        """The ads of all jobs."""
        return map(self.json, range(self.jobs))

    def column(self, name: str) -> Sequence[object]:
        """Return each job's item of a name, in any case, in the JSON form, or MISSING."""
        found = self._asked.get(name)
        if found is None:
            found = self._asked[name] = self._looked_up(name)
        return found

    def _looked_up(self, name: str) -> Sequence[object]:
        key = name.lower()
        same = next((value for other, value in self._same.items() if other.lower() == key), MISSING)
        found = [same] * self.jobs
        for other, column in self._columns.items():
            # jobs may spell an attribute each in its own way
            if other.lower() == key:
                pairs = zip(found, column, strict=True)
                found = [now if value is self._lacking else value for now, value in pairs]
        return found

    def integers(self, name: str) -> Sequence[int] | None:
        """The values of an attribute that is an integer of each job; None where it is not."""
        column = self.column(name)
        return cast("Sequence[int]", column) if {*map(type, column)} <= {int} else None

    def marks(self, names: frozenset[str]) -> Sequence[object]:
        """Return a mark for each job; equal attributes of these lower-case names make equal marks."""
        columns = [self._marks_of(name) for name in self._columns if name.lower() in names]
        if not columns:
            return list(itertools.repeat(None, self.jobs))
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def _marks_of(self, name: str) -> Sequence[object]:
        marks = self._marked.get(name)
        if marks is None:
            column = self._columns[name]
            # 1, 1.0 and True are equal, 0.0 and -0.0 too, and printed differently
            plain = {*map(type, column)} - {type(self._lacking)} in ({int}, {str})
            marks = self._marked[name] = column if plain else list(map(repr, column))
        return marks


class _TableAd(PrintedAd):
    """The ad of one job of a table, read as it stands there; notes in ``read`` which attributes are read."""

    __slots__ = ("_number", "_read", "_table", "whole")

    def __init__(self, table: JobTable, number: int, read: set[str]) -> None:
        super().__init__({})
        self._table, self._number, self._read = table, number, read
        #: an expression was evaluated, which may read any
        self.whole = False

    def item(self, name: str) -> object:
        self._read.add(name)
        return self._table.column(name)[self._number]

    def integer(self, name: str) -> int | None:
        found = self.item(name)
        return found if type(found) is int else super().integer(name)

    def string(self, name: str) -> str | None:
        found = self.item(name)
        if found is MISSING:
            return None
        return found if type(found) is str and is_plain(found) else super().string(name)

    def evaluate(self, what: str) -> PrintedValue:
        names = _reads_alone(what)
        if names is None or self.item(what) is not MISSING:
            return super().evaluate(what)
        items = [self.item(name) for name in names]
        before = self.whole
        value = super().evaluate(what)
        if not any(map(_may_read_others, items)):
            self.whole = before
        return value

    def classad(self) -> ClassAd:
        self.whole = True
        self.json = self._table.json(self._number)
        return super().classad()


def _may_read_others(item: object) -> bool:
    """May a value be, or have in it, an expression?"""
    return isinstance(item, list | dict) or (type(item) is str and not is_plain(item))


#: functions whose result depends on their arguments alone
_PURE = frozenset(
    [
        "ifthenelse", "isundefined", "iserror", "isstring", "isinteger", "int", "real", "string",
        "strcat", "size", "tolower", "toupper", "substr", "floor", "ceiling", "round", "split",
    ]
)  # fmt: skip
_WORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*(\(?)")


@functools.lru_cache(maxsize=256)
def _reads_alone(what: str) -> frozenset[str] | None:
    """The names that an expression of literals reads at most; None for a name, and where it is not known."""
    words = _WORD.findall(what)
    calls = {name.lower() for name, call in words if call}
    # a quoted name has no such words
    if words == [(what, "")] or "'" in what or not calls <= _PURE:
        return None
    return frozenset(name for name, call in words if not call)


def cells_of(table: JobTable, make: Callable[[PrintedAd], Made]) -> list[Made]:
    """A cell for each job of a table: ``make`` makes each distinct one once.

    The attributes that ``make`` reads are noted: if all are equal to those of another job, so is the cell.
    """
    read: set[str] = set()
    while True:
        names = frozenset(map(str.lower, read))
        marks = table.marks(names)
        # the first job of each mark
        firsts = dict(zip(reversed(marks), range(table.jobs - 1, -1, -1), strict=True))
        made: dict[object, Made] = {}
        for mark, number in firsts.items():
            ad = _TableAd(table, number, read)
            made[mark] = make(ad)
            if ad.whole:
                return [make(PrintedAd(table.json(number))) for number in range(table.jobs)]
            if not names.issuperset(map(str.lower, read)):
                # cells may differ in attributes that are read from now on
                break
        else:
            return list(map(made.__getitem__, marks))
