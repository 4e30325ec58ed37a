"""Which slots an agent goes on reporting."""

from types import SimpleNamespace
from typing import Any

import pytest

from fetchwork.agent import slots
from fetchwork.agent.slots import SlotReports


def test_slot_that_does_not_fetch_any_more_is_forgotten_unless_it_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(slots, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: now))
    session: Any = object()
    context: Any = SimpleNamespace(session=session, queues=("default",))
    reports = SlotReports()
    for name in ("slot1@h", "slot2@h", "slot3@h"):
        reports.fetched(context, name, b"", "nothing")
    now += slots.SLOT_LIFE_S + 1
    reports.fetched(context, "slot3@h", b"", "nothing")
    reports.forget(session, {"slot2@h"})
    assert len(reports) == 2
    reports.forget(session, set())
    assert len(reports) == 1
