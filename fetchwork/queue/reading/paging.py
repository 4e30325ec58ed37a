"""A reader's position in a view, and the choice of its next page."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

from fetchwork.queue.ask import Ask, Steps
from fetchwork.queue.constraints.constraint import Constraint
from fetchwork.queue.reading.views import Key, Row, View

#: found rows are few if they are less than one twentieth of the read rows
FEW = 20


class Position:
    """A reader's position in a view, and the condition for the page after it.

    A short answer that an index supports is read as a whole, page by page. The views hide other owners' rows.
    For each page of a long answer, or for a few rows that no index supports, PostgreSQL would read and sort
    all of such a view. So these are read in pieces, which are ranges of an index; the view's edge function
    finds the end of a piece. Pieces grow while few rows are found in little time, and shrink when many are
    found. If only a few rows are wanted, the first piece has as many: a view's columns are computed for a
    whole piece.

    If hardly any rows are found and the rest will not take long, the rest is read at once: several server
    processes share the work, and finding the ends of pieces, a third of their time, is saved.
    """

    #: rows in one answer
    PAGE = 1000
    SHORT = 20 * PAGE
    SMALLEST, LARGEST = PAGE, 256 * PAGE
    #: the planner's cost up to which an answer is read as a whole: some 0.1 s
    CHEAP = 40_000.0
    #: the seconds that a piece should take at most, so that the caller's progress is reported
    SLOW_S = 0.2
    #: rows of a piece from which the time of the rest is estimated; and the longest such time, in seconds
    TELLING, REST_S = 50 * PAGE, 6.0

    def __init__(self, view: View, *, whole: bool, wanted: int | None, after: Key | None) -> None:
        self._view = view
        self._whole = whole
        #: rows of the view before the position, including rows that were not selected
        self.looked_at = 0
        #: of the present piece: rows found, all rows, its start time, the time at which its end was known
        self._of_piece = self._size_of_piece = 0
        self._piece_began = self._reading_began = 0.0
        self._pages = 0
        #: the view's approximate number of rows, None: not known yet; whether the rest is being read at once
        self._about: int | None = None
        self._is_rest = False
        self._size = self.SMALLEST if wanted is None else max(1, min(self.SMALLEST, wanted))
        self._guess = 0
        self._after = after
        self._from: Key = after or view.beginning
        self._until: Key | None = None
        self.order = ", ".join(f"{name} DESC" if view.descending else name for name in view.order)

    @classmethod
    def begin(
        cls, view: View, selection: Constraint, wanted: int | None = None, after: Key | None = None
    ) -> Steps[Position]:
        """A position at the beginning, or after a key; the planner's estimate decides how the answer is read.

        ``wanted`` is a sufficient number of rows, None for all.
        """
        if view.edge is None:
            return cls(view, whole=True, wanted=wanted, after=after)
        rows = yield Ask(
            f"EXPLAIN (FORMAT JSON) SELECT FROM {view.source} WHERE {selection.sql}",
            selection.params,
        )
        (plan,) = rows[0].values()
        guess = plan[0]["Plan"]["Plan Rows"]
        whole = guess <= cls.SHORT and plan[0]["Plan"]["Total Cost"] <= cls.CHEAP
        position = cls(view, whole=whole, wanted=wanted, after=after)
        position._guess = guess
        if not position._whole:
            position._after = None
            yield from position._next_piece()
        return position

    @property
    def piece(self) -> int:
        """The rows of the present piece; 0 if an index finds the selected rows."""
        return 0 if self._whole else self._size_of_piece

    @property
    def reached(self) -> Key:
        """The key up to which the view was read."""
        return self._after or self._from

    def condition(self) -> tuple[str, list[object]]:
        """The condition for the rows of the next page, and its parameters."""
        parts = ["true"]
        params: list[object] = []
        before, behind = ("<", ">=") if self._view.descending else (">", "<=")
        begin = self._after or (None if self._whole else self._from)
        if begin is not None:
            parts.append(_compared(self._view.order, before, begin))
            params += begin
        if self._until is not None:
            parts.append(_compared(self._view.order, behind, self._until))
            params += self._until
        if begin is not None and self._until is not None and len(self._view.order) > 1:
            # the planner does not take two row comparisons for a range, and joins as if for many rows
            ends = (self._until[0], begin[0]) if self._view.descending else (begin[0], self._until[0])
            parts.append(f"{self._view.order[0]} BETWEEN %s AND %s")
            params += ends
        return " AND ".join(parts), params

    def bound(self, selection: Constraint, size: int) -> Steps[None]:
        """Find the end of the next page, if the answer is longer and is read as a whole.

        A view's columns are computed for all sorted rows, so first the keys alone are sorted.
        """
        if not self._whole:
            return
        self._until = None
        if self._guess < 2 * size:
            return
        behind, params = self.condition()
        end = f"""
            SELECT {", ".join(self._view.order)}
            FROM {self._view.source}
            WHERE {selection.sql} AND {behind}
            ORDER BY {self.order}
            OFFSET {size - 1}
            LIMIT 1
        """  # noqa: S608 - of this package's making
        rows = yield Ask(end, [*selection.params, *params])
        if rows:
            self._until = tuple(rows[0].values())

    def advance(self, rows: Sequence[Row], size: int) -> Steps[bool]:
        """Move past a page; whether there can be more rows."""
        self.looked_at += len(rows)
        self._of_piece += len(rows)
        last = tuple(rows[-1][name] for name in self._view.order) if rows else None
        # rows inserted meanwhile may have lengthened the piece
        if last is not None and len(rows) == size and (self._whole or last != self._until):
            self._after = last
            self._pages += 1
            self._size = max(self.SMALLEST, self._size // 2)
            if self._whole and self._view.edge is not None and self._pages * self.PAGE > self.SHORT:
                # the estimate was wrong
                self._whole = False
                self._from = self._after
                yield from self._next_piece()
            elif self._is_rest:
                # the rest has more rows than it had
                self._is_rest, self._size = False, self.SMALLEST
                self._after, self._from = None, last
                yield from self._next_piece()
            return True
        if self._until is None:
            if self._is_rest:
                self.looked_at += max(0, self._size_of_piece - self._of_piece)
            return False
        if self._whole:
            # rows of the page were deleted after its end was found
            self._after = self._until
            return True
        self.looked_at += max(0, self._size_of_piece - self._of_piece)
        self._after, self._from = None, self._until
        now = time.monotonic()
        took_s = now - self._piece_began
        if took_s > self.SLOW_S:
            self._size = max(self.SMALLEST, self._size // 2)
        elif took_s < self.SLOW_S / 2 and 2 * self._of_piece < size:
            self._size = min(self.LARGEST, self._size * 4)
        if FEW * self._of_piece < self._size_of_piece >= self.TELLING:
            if self._about is None:
                self._about = yield from about(self._view)
            left = self._about - self.looked_at
            # a view with more rows than were counted has grown: the size of its rest is unknown
            if left > 0 and (now - self._reading_began) * left <= self.REST_S * self._size_of_piece:
                self._is_rest, self._until, self._of_piece, self._size_of_piece = True, None, 0, left
                return True
        yield from self._next_piece()
        return True

    def _next_piece(self) -> Steps[None]:
        assert self._view.edge is not None
        self._of_piece, self._size_of_piece, self._piece_began = 0, self._size, time.monotonic()
        edge = yield self._view.edge(self._from, self._size)
        self._until = dataclasses.astuple(edge) if edge is not None else None
        self._reading_began = time.monotonic()


# pg_partition_tree does not know tables without partitions
_ROWS = """
SELECT coalesce(sum(c.reltuples) FILTER (WHERE c.reltuples > 0), 0)::bigint AS number
FROM pg_class AS c
WHERE c.relkind = 'r'
    AND c.oid IN (
        SELECT t.name::regclass FROM unnest(%s::text[]) AS t (name)
        UNION ALL
        SELECT p.relid FROM unnest(%s::text[]) AS t (name) CROSS JOIN pg_partition_tree(t.name::regclass) AS p
    )
"""


def about(view: View) -> Steps[int]:
    """About the number of rows of a long view, including other owners' rows."""
    rows = yield Ask(_ROWS, [list(view.tables), list(view.tables)])
    return int(rows[0]["number"])


def _compared(names: Sequence[str], sign: str, values: Sequence[object]) -> str:
    """A comparison of the first columns with the same number of values."""
    columns = names[: len(values)]
    if len(columns) == 1:
        return f"{columns[0]} {sign} %s"
    return f"({', '.join(columns)}) {sign} ({', '.join(['%s'] * len(columns))})"
