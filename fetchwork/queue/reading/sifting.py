"""Finds few rows in a long piece of a view: by cheap columns first; then the found rows are read whole.

A view hides other owners' rows, so PostgreSQL computes each requested column before it checks whether the row
is wanted; the ad of a job takes several times as long as all other columns. So first only keys are read. If
only HTCondor can decide, and many rows share the same values, it evaluates each combination of values once.
"""

from __future__ import annotations

from collections.abc import Sequence

from fetchwork.queue.ask import Ask, Steps
from fetchwork.queue.constraints.constraint import Constraint
from fetchwork.queue.reading.evaluating import Evaluation, key_of, rows_of
from fetchwork.queue.reading.paging import FEW
from fetchwork.queue.reading.views import Json, Key, Row, View


class Sieve:
    """Decides whether to sift a piece, by the results of the piece before it."""

    #: the fewest rows of a piece that is worth more than one statement
    LEAST = 5000

    def __init__(self, view: View, selection: Constraint, evaluation: Evaluation | None) -> None:
        self._view = view
        self._selection = selection
        self._evaluation = evaluation
        self._few_rows = self._few_found = False

    def learn(self, *, looked_at: int, rows: int, found: int) -> None:
        """Note how many of the read rows came from the database, and how many were selected."""
        self._few_rows = FEW * rows < looked_at
        self._few_found = FEW * found < looked_at

    def is_of_use(self, size: int) -> bool:
        """Whether a piece with so many rows is to be sifted."""
        if size < self.LEAST:
            return False
        combines = self._evaluation is not None and self._evaluation.combines
        return self._few_rows or (combines and self._few_found)

    def sift(
        self, condition: str, params: Sequence[object], order: str, size: int
    ) -> Steps[tuple[list[Row], list[tuple[Key, Json]]] | None]:
        """Up to ``size`` rows of a piece, with their keys only, and key and whole ad of the selected rows.

        None: reading the piece row by row is better.
        """
        evaluation = self._evaluation
        selected, values = f"{self._selection.sql} AND {condition}", [*self._selection.params, *params]
        if evaluation is not None and evaluation.combines:
            marks: Sequence[str] | None = yield from evaluation.combinations(selected, values)
            if marks is None and not self._few_rows:
                return None
            if marks is not None:
                if not marks:
                    return [], []
                marked, more = evaluation.marked(marks)
                selected, values = f"{selected} AND {marked}", [*values, *more]
        rows: list[Row] = yield Ask(
            f"""
            SELECT {", ".join(self._view.order)}
            FROM {self._view.source}
            WHERE {selected}
            ORDER BY {order}
            LIMIT {size}
            """,  # noqa: S608 - of this package's making
            values,
        )
        keys = [key_of(self._view, row) for row in rows]
        if evaluation is not None:
            return rows, (yield from evaluation.of_keys(keys))
        found: list[tuple[Key, Json]] = []
        # the rows may have changed in between
        for asked in rows_of(self._view, keys, self._selection.sql, self._selection.params):
            whole: list[Row] = yield asked
            found += [(key_of(self._view, row), self._view.ad(row)) for row in whole]
        return rows, found
