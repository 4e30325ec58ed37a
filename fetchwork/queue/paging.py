"""Where a reader is in a view, and how it goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fetchwork.classad.constraint import Constraint
from fetchwork.queue.ask import Ask, Steps
from fetchwork.queue.views import Key, Row, View


class Position:
    """A reader's position in a view, and the condition for the page behind it.

    A short answer is asked for as a whole, page by page. The views keep other owners' rows back, and
    PostgreSQL would read and sort all of such a view for each page of a long answer. So a long answer is
    read in pieces, which are ranges of an index: the view's edge function says where a piece ends. Pieces
    grow while little is found in them and shrink when there is much.
    """

    #: rows in one answer
    PAGE = 1000
    SHORT = 20 * PAGE
    SMALLEST, LARGEST = PAGE, 64 * PAGE

    def __init__(self, view: View, *, whole: bool) -> None:
        self._view = view
        self._whole = whole
        self._pages = 0
        self._size = self.SMALLEST
        self._after: Key | None = None
        self._from: Key = view.beginning
        self._until: Key | None = None
        self.order = ", ".join(f"{name} DESC" if view.descending else name for name in view.order)

    @classmethod
    def begin(cls, view: View, selection: Constraint) -> Steps[Position]:
        """At the beginning; the planner's guess of the answer's length decides how it is read."""
        if view.edge is None:
            return cls(view, whole=True)
        rows = yield Ask(
            f"EXPLAIN (FORMAT JSON) SELECT FROM {view.source} WHERE {selection.sql}",
            selection.params,
        )
        (plan,) = rows[0].values()
        position = cls(view, whole=plan[0]["Plan"]["Plan Rows"] <= cls.SHORT)
        if not position._whole:
            yield from position._next_piece()
        return position

    def condition(self) -> tuple[str, list[object]]:
        """The condition for the rows of the next page, and its parameters."""
        parts = ["true"]
        params: list[object] = []
        before, behind = ("<", ">=") if self._view.descending else (">", "<=")
        if self._after is not None:
            parts.append(_compared(self._view.order, before, self._after))
            params += self._after
        elif not self._whole:
            parts.append(_compared(self._view.order, before, self._from))
            params += self._from
        if self._until is not None:
            parts.append(_compared(self._view.order, behind, self._until))
            params += self._until
        return " AND ".join(parts), params

    def advance(self, rows: Sequence[Row], size: int) -> Steps[bool]:
        """Go on behind a page; the result says whether there can be more."""
        if len(rows) == size:
            self._after = tuple(rows[-1][name] for name in self._view.order)
            self._pages += 1
            self._size = max(self.SMALLEST, self._size // 2)
            if self._whole and self._view.edge is not None and self._pages * self.PAGE > self.SHORT:
                # the guess was wrong
                self._whole = False
                self._from = self._after[: len(self._view.beginning)]
                yield from self._next_piece()
            return True
        if self._whole or self._until is None:
            return False
        self._after, self._from = None, self._until
        self._size = min(self.LARGEST, self._size * 2)
        yield from self._next_piece()
        return True

    def _next_piece(self) -> Steps[None]:
        assert self._view.edge is not None
        edge = yield self._view.edge(self._from, self._size)
        self._until = dataclasses.astuple(edge) if edge is not None else None


def _compared(names: Sequence[str], sign: str, values: Sequence[object]) -> str:
    """A comparison of the first columns with as many values."""
    columns = names[: len(values)]
    if len(columns) == 1:
        return f"{columns[0]} {sign} %s"
    return f"({', '.join(columns)}) {sign} ({', '.join(['%s'] * len(columns))})"
