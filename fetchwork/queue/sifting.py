"""Few rows of a long piece of a view: found by what is cheap to look at in every row, then read whole.

A view keeps other owners' rows back, so PostgreSQL computes each column that is asked for before it looks
whether the row is wanted at all; the ad of a job takes several times as long as everything else. So the keys
are asked for alone. Where only HTCondor can tell, and many rows have the same values, it is asked once for
each combination of these, not for each row.
"""

from __future__ import annotations

from collections.abc import Sequence

from fetchwork.queue.ask import Ask, Steps
from fetchwork.queue.constraints.constraint import Constraint
from fetchwork.queue.evaluating import Evaluation, key_of, rows_of
from fetchwork.queue.paging import FEW
from fetchwork.queue.views import Json, Key, Row, View


class Sieve:
    """Decides piece by piece whether it is to be sifted, by what the one before it held."""

    #: rows of a piece that is worth more than one statement
    LEAST = 5000

    def __init__(self, view: View, selection: Constraint, evaluation: Evaluation | None) -> None:
        self._view = view
        self._selection = selection
        self._evaluation = evaluation
        self._few_rows = self._few_found = False

    def learn(self, *, looked_at: int, rows: int, found: int) -> None:
        """Of the rows that were looked at so many came from the database, and so many were found."""
        self._few_rows = FEW * rows < looked_at
        self._few_found = FEW * found < looked_at

    def is_of_use(self, size: int) -> bool:
        """Is a piece of so many rows to be sifted?"""
        if size < self.LEAST:
            return False
        combines = self._evaluation is not None and self._evaluation.combines
        return self._few_rows or (combines and self._few_found)

    def sift(
        self, condition: str, params: Sequence[object], order: str, size: int
    ) -> Steps[tuple[list[Row], list[tuple[Key, Json]]] | None]:
        """Up to ``size`` rows of a piece, their keys alone, and key and whole ad of what is selected of them.

        None: the piece is better read row by row.
        """
        evaluation = self._evaluation
        where, values = f"{self._selection.sql} AND {condition}", [*self._selection.params, *params]
        if evaluation is not None and evaluation.combines:
            marks: Sequence[str] | None = yield from evaluation.combinations(where, values)
            if marks is None and not self._few_rows:
                return None
            if marks is not None:
                if not marks:
                    return [], []
                marked, more = evaluation.marked(marks)
                where, values = f"{where} AND {marked}", [*values, *more]
        rows: list[Row] = yield Ask(
            f"""
            SELECT {", ".join(self._view.order)}
            FROM {self._view.source}
            WHERE {where}
            ORDER BY {order}
            LIMIT {size}
            """,  # noqa: S608 - of this package's making
            values,
        )
        keys = [key_of(self._view, row) for row in rows]
        if evaluation is not None:
            return rows, (yield from evaluation.of_keys(keys))
        found: list[tuple[Key, Json]] = []
        # they may have changed in between
        for asked in rows_of(self._view, keys, self._selection.sql, self._selection.params):
            whole: list[Row] = yield asked
            found += [(key_of(self._view, row), self._view.ad(row)) for row in whole]
        return rows, found
