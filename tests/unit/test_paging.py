"""Reading a long view to its end: the time that its first pieces took decides about the rest."""

from datetime import UTC, datetime

import pytest

from fetchwork.db.calls.call import Call
from fetchwork.db.calls.reading import HistoryEdge
from fetchwork.queue.reading import paging
from fetchwork.queue.reading.paging import Position
from fetchwork.queue.reading.views import HISTORY

EDGE = HistoryEdge(completed_at=datetime(2026, 1, 1, tzinfo=UTC), cluster_id=7, proc_id=7)


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("edge_s", "piece_s", "at_once"), [(0.0, 0.05, True), (3600.0, 0.05, True), (0.0, 0.07, False)]
)
def test_what_is_left_is_read_at_once_by_how_long_the_rows_of_a_piece_took(
    edge_s: float, piece_s: float, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time to find the end of a piece does not count, because the last piece needs no end."""
    clock = Clock()
    monkeypatch.setattr(paging, "time", clock)
    monkeypatch.setattr(Position, "REST_S", 6.0)
    position = Position(HISTORY, whole=False, wanted=None, after=None)
    position._size = Position.TELLING
    steps = position._next_piece()
    assert isinstance(next(steps), Call)
    clock.now += edge_s
    with pytest.raises(StopIteration):
        steps.send(EDGE)
    clock.now += piece_s
    going = position.advance([], 1000)
    next(going)
    try:
        # a hundred pieces more, and the next one's end if it exists
        going.send([{"number": 101 * Position.TELLING}])
        going.send(EDGE)
    except StopIteration as end:
        assert end.value is True
    assert position._is_rest is at_once
    assert position.condition()[0].count("%s") == (3 if at_once else 8)
