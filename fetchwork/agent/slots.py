"""What slots said at their fetches, told to the database now and then instead of each time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fetchwork.classad.ads import parse_old
from fetchwork.classad.jsonform import to_json
from fetchwork.classad.values import ClassAd
from fetchwork.db.database import Json
from fetchwork.errors import ClassAdError
from fetchwork.handlers.session import HostSession
from fetchwork.matching.slotstate import slot_resources

#: slots that are remembered; a host with more is told incompletely
MAX_SLOTS = 4096
#: what did not change is told again after this
REPEAT_S = 60.0
#: the ad itself is told again after this; between, only if the slot's size changed
AD_LIFE_S = 600.0
CALL_S = 10.0


@dataclass(slots=True)
class _Seen:
    body: bytes
    fetched_at: float
    answer: str
    queues: tuple[str, ...] = ()
    told: tuple[Any, ...] | None = None
    told_at: float = 0.0
    ad_size: tuple[Any, ...] | None = None
    ad_at: float = 0.0


class SlotReports:
    """The last fetch of each slot."""

    def __init__(self) -> None:
        self._seen: dict[tuple[HostSession, str], _Seen] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def answered(
        self, session: HostSession, body: bytes, fields: Mapping[str, Any], queues: tuple[str, ...]
    ) -> None:
        """A slot got an answer with these ``fields``."""
        job = f" {fields['job']}" if "job" in fields else ""
        self.fetched(session, fields["slot"], body, f"{fields['outcome']}{job}", queues)

    def fetched(
        self, session: HostSession, slot: str, body: bytes, answer: str, queues: tuple[str, ...]
    ) -> None:
        """A slot asked for a job of these queues, and was answered so."""
        seen = self._seen.get((session, slot))
        if seen is None:
            if len(self._seen) >= MAX_SLOTS:
                return
            seen = self._seen[session, slot] = _Seen(b"", 0.0, "")
        seen.body, seen.fetched_at, seen.answer, seen.queues = body, time.time(), answer, queues

    async def remember(self, session: HostSession, timeout_s: float) -> None:
        """Take for told what the database knows of these slots: for a process that asks once and ends."""
        rows = await session.database.query(
            "SELECT name, state, activity, last_answer,"
            " slottype AS slot_type, cpus, memory AS memory_mib, gpus,"
            " extract(epoch FROM now() - last_fetch_at)::float8 AS age_s"
            " FROM fetchwork.slots WHERE machine = %s AND name = ANY (%s)",
            [session.host, [slot for owner, slot in self._seen if owner is session]],
            timeout_s=timeout_s,
        )
        for row in rows:
            seen = self._seen[session, row["name"]]
            seen.told, seen.told_at = _state(row), time.monotonic() - row["age_s"]
            seen.ad_size = _size(row)

    async def tell(self, session: HostSession) -> int:
        """Tell the database what it does not know; returns how many slots that was."""
        greeting = await session.hello(CALL_S)
        now = time.monotonic()
        rows: list[dict[str, Any]] = []
        done: list[tuple[_Seen, dict[str, Any]]] = []
        for (owner, slot), seen in self._seen.items():
            if owner is session and seen.body and len(rows) < 500:
                row = self._row(slot, seen, now)
                if row is not None:
                    rows.append(row)
                    done.append((seen, row))
        if rows:
            await session.database.call(
                "report_slots", timeout_s=CALL_S, host_id=greeting.host_id, slots=Json(rows)
            )
        for seen, row in done:
            seen.told, seen.told_at = _state(row), now
            if "ad" in row:
                seen.ad_size, seen.ad_at = _size(row), now
        return len(rows)

    def _row(self, slot: str, seen: _Seen, now: float) -> dict[str, Any] | None:
        try:
            ad = parse_old(seen.body)
        except ClassAdError:
            return None
        row: dict[str, Any] = {
            "name": slot,
            "state": _text(ad, "State"),
            "activity": _text(ad, "Activity"),
            "slot_type": _text(ad, "SlotType"),
            "fetched_at": seen.fetched_at,
            "last_answer": seen.answer,
            "queues": list(seen.queues) or None,
            **slot_resources(ad),
        }
        size_changed = seen.ad_size != _size(row)
        if _state(row) == seen.told and not size_changed and now - seen.told_at < REPEAT_S:
            return None
        if size_changed or now - seen.ad_at > AD_LIFE_S:
            row["ad"] = to_json(ad)
        return row


def _state(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["state"], row["activity"], row["last_answer"]


def _size(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["slot_type"], row["cpus"], row["memory_mib"], row["gpus"]


def _text(ad: ClassAd, name: str) -> str | None:
    value = ad.get(name)
    return value if isinstance(value, str) else None
