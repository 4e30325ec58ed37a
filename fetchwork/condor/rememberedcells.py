"""The cells of one column, remembered by what they were made of: most jobs of a table have equal ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from fetchwork.condor.printedad import PrintedAd

if TYPE_CHECKING:
    from fetchwork.classad.values import ClassAd

Made = TypeVar("Made")

#: of a column whose cells are mostly different, none is remembered
MOST = 256


class _ReadAd(PrintedAd):
    """An ad that notes which attributes are read."""

    __slots__ = ("read", "whole")

    def __init__(self, json: Mapping[str, object]) -> None:
        super().__init__(json)
        self.read: set[str] = set()
        #: an expression was evaluated, which may read any
        self.whole = False

    def item(self, name: str) -> object:
        self.read.add(name.lower())
        return super().item(name)

    def integer(self, name: str) -> int | None:
        self.read.add(name.lower())
        return super().integer(name)

    def classad(self) -> ClassAd:
        self.whole = True
        return super().classad()


class RememberedCells(Generic[Made]):
    """Makes the cells of a column with ``make``, but for those that it has made.

    What ``make`` reads of an ad is noted: where all of that is as it was for another cell, so is the cell.
    """

    def __init__(self, make: Callable[[PrintedAd], Made]) -> None:
        self._make = make
        #: lower-case names of all attributes that were read for a cell so far
        self._names: frozenset[str] = frozenset()
        self._cells: dict[tuple[tuple[str, ...], str], Made] = {}
        #: what there is of these names in ads with the same names
        self._keys: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._given_up = False

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
        ad = _ReadAd(json)
        made = self._make(ad)
        if ad.whole or len(self._cells) >= MOST:
            self._give_up()
        elif ad.read <= self._names:
            self._cells[mark] = made
        else:
            # what was remembered may differ in what is read from now on
            self._names |= ad.read
            self._cells.clear()
            self._keys.clear()
        return made

    def _give_up(self) -> None:
        self._given_up = True
        self._cells.clear()
        self._keys.clear()
