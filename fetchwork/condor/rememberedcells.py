"""Remembers the cells of one column by their inputs: most jobs of a table have equal cells."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from fetchwork.condor.jobtable import JobTable
from fetchwork.condor.printedad import MISSING, PrintedAd, PrintedValue, is_plain

if TYPE_CHECKING:
    from fetchwork.classad.values import ClassAd

Made = TypeVar("Made")

#: cells of a column are not remembered if most of them differ
MOST = 256


class _ReadAd(PrintedAd):
    """An ad that notes in ``read`` which attributes are read."""

    __slots__ = ("_read", "whole")

    def __init__(self, json: Mapping[str, object], read: set[str]) -> None:
        super().__init__(json)
        self._read = read
        #: an expression was evaluated, which may read any
        self.whole = False

    def item(self, name: str) -> object:
        self._read.add(name)
        return super().item(name)

    def integer(self, name: str) -> int | None:
        self._read.add(name)
        return super().integer(name)

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
        return super().classad()


class _TableAd(_ReadAd):
    """The ad of one job of a table, read as it stands there."""

    __slots__ = ("_number", "_table")

    def __init__(self, table: JobTable, number: int, read: set[str]) -> None:
        super().__init__({}, read)
        self._table, self._number = table, number

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

    def classad(self) -> ClassAd:
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


class RememberedCells(Generic[Made]):
    """Makes the cells of a column with ``make``, each distinct one once.

    The attributes that ``make`` reads are noted: if all are equal to those of another cell, so is the cell.
    """

    def __init__(self, make: Callable[[PrintedAd], Made]) -> None:
        self._make = make
        #: the attributes that were read for a cell so far, as they were asked for and in lower case
        self._read: set[str] = set()
        self._names: frozenset[str] = frozenset()
        self._cells: dict[tuple[tuple[str, ...], str], Made] = {}
        #: the attributes of these that ads with the same names have
        self._keys: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._given_up = False

    def cells(self, table: JobTable) -> list[Made]:
        """The cells of a table's jobs."""
        while True:
            marks = table.marks(self._names)
            # the first job of each mark
            firsts = dict(zip(reversed(marks), range(table.jobs - 1, -1, -1), strict=True))
            made: dict[object, Made] = {}
            for mark, number in firsts.items():
                known = len(self._read)
                ad = _TableAd(table, number, self._read)
                made[mark] = self._make(ad)
                if ad.whole:
                    return [self._make(PrintedAd(table.json(number))) for number in range(table.jobs)]
                if len(self._read) != known and self._learns():
                    break
            else:
                return list(map(made.__getitem__, marks))

    def cell(self, ad: PrintedAd, shape: tuple[str, ...]) -> Made:
        """The cell of an ad; ``shape`` are the ad's names."""
        if self._given_up:
            return self._make(ad)
        keys = self._keys.get(shape)
        if keys is None:
            if len(self._keys) >= MOST:
                self._give_up()
                return self._make(ad)
            keys = self._keys[shape] = tuple(key for key in shape if key.lower() in self._names)
        json = ad.json
        # 1, 1.0 and True are equal, and printed differently
        mark = (keys, str([json[key] for key in keys]))
        found = self._cells.get(mark)
        if found is None:
            found = self._new(json, mark)
        return found

    def _new(self, json: Mapping[str, object], mark: tuple[tuple[str, ...], str]) -> Made:
        ad = _ReadAd(json, self._read)
        made = self._make(ad)
        learns = self._learns()
        if ad.whole or len(self._cells) >= MOST:
            self._give_up()
        elif not learns:
            self._cells[mark] = made
        return made

    def _learns(self) -> bool:
        """Note which names were read; return whether any is new."""
        names = frozenset(map(str.lower, self._read))
        if names == self._names:
            return False
        # remembered cells may differ in attributes that are read from now on
        self._names = names
        self._cells.clear()
        self._keys.clear()
        return True

    def _give_up(self) -> None:
        self._given_up = True
        self._cells.clear()
        self._keys.clear()
