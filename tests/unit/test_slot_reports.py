"""The slots that an agent goes on reporting."""

from types import SimpleNamespace
from typing import Any

import pytest

from fetchwork.agent.fetching import slots
from fetchwork.agent.fetching.slots import SlotReports


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


async def test_dynamic_slot_that_its_partitionable_slot_does_not_name_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(slots, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: now))
    reported: list[Any] = []

    class Session:
        """A session that only counts its reports."""

        database = SimpleNamespace()

        async def hello(self, _timeout_s: float) -> Any:
            return SimpleNamespace(host_id=1)

    async def run(call: Any, timeout_s: float) -> None:
        reported.append(call)

    session: Any = Session()
    session.database.run = run
    context: Any = SimpleNamespace(session=session, queues=("default",))
    reports = SlotReports()
    for name in ("slot1_1@h", "slot1_2@h", "slot1_3@h", "slot2_1@h"):
        reports.fetched(context, name, f'Name = "{name}"\nSlotType = "Dynamic"\n'.encode(), "nothing")
    now += 1
    ad = b'SlotType = "Partitionable"\nChildName = { "slot1_1@h", undefined }\n'
    reports.fetched(context, "slot1@h", ad, "nothing")
    reports.forget(session, set())
    assert len(reports) == 5, "what the ad says is not known yet"
    assert await reports.report(session) == 5
    reports.forget(session, {"slot1_3@h"})
    assert len(reports) == 4
    reports.forget(session, set())
    assert len(reports) == 3
