"""Jobs of an answer that is a table: stored by attribute instead of by ad."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from fetchwork.condor.printedad import MISSING

if TYPE_CHECKING:
    from fetchwork.queue.views import Json


class JobTable:
    """A table as ``operations.job_tables`` makes it: each attribute is a literal."""

    def __init__(self, table: Json) -> None:
        self.jobs: int = table["jobs"]
        self._same: Mapping[str, object] = table["same"]
        self._columns: Mapping[str, Sequence[object]] = table["columns"]
        #: by the names as they are asked for
        self._asked: dict[str, Sequence[object]] = {}
        self._marked: dict[str, Sequence[object]] = {}

    def json(self, number: int) -> Json:
        """The ad of a job."""
        own = ((name, column[number]) for name, column in self._columns.items())
        return {**self._same, **{name: value for name, value in own if value is not None}}

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
                found = [now if value is None else value for now, value in zip(found, column, strict=True)]
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
            plain = {*map(type, column)} - {type(None)} in ({int}, {str})
            marks = self._marked[name] = column if plain else list(map(repr, column))
        return marks
