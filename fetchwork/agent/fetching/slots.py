"""The slots' last fetches, reported to the database periodically instead of each time."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NotRequired

from fetchwork.classad.ads import parse_old
from fetchwork.classad.jsonform import to_json
from fetchwork.classad.values import ClassAd
from fetchwork.db.calls import hosts
from fetchwork.db.calls.call import JsonObject
from fetchwork.errors import ClassAdError
from fetchwork.handlers.context import Answer
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.host.session import HostSession
from fetchwork.matching.shares import whole_weight
from fetchwork.matching.slotstate import Resources, slot_resources

#: most slots remembered; on a host with more slots some are left out
MAX_SLOTS = 4096
#: most slots in one report
MAX_REPORTED = 500
#: seconds after which an unchanged slot is reported again
REPEAT_S = 60.0
#: seconds without a fetch after which a slot without a job of ours is forgotten: a dynamic one, any other
DYNAMIC_LIFE_S = 120.0
SLOT_LIFE_S = 3600.0
#: seconds after which the ad itself is reported again; sooner only if the slot's size changes
AD_LIFE_S = 600.0
CALL_S = 10.0


class SlotRow(Resources):
    """A slot in the form that ``fetchwork.report_slots`` takes."""

    name: str
    state: str | None
    activity: str | None
    slot_type: str | None
    fetched_at: float
    last_answer: str
    queues: list[str] | None
    #: names of a partitionable slot's dynamic slots
    children: list[str] | None
    weight: float
    ad: NotRequired[JsonObject]


#: slot type, cpus, memory, gpus
_Size = tuple[str | None, float | None, float | None, float | None]
#: state, activity, last answer, dynamic slots
_Status = tuple[str | None, str | None, str | None, list[str] | None]


@dataclass(slots=True)
class _Fetch:
    """The last fetch of a slot, and the parts of it that the database knows."""

    body: bytes
    fetched_at: float
    answer: str
    queues: tuple[str, ...] = ()
    #: the monotonic time of the fetch
    asked_at: float = 0.0
    reported: _Status | None = None
    reported_at: float = 0.0
    #: dynamic slots by the ad; None until the slot is reported
    children: list[str] | None = None
    ad_size: _Size | None = None
    ad_at: float = 0.0


class SlotReports:
    """The last fetch of each slot."""

    def __init__(self) -> None:
        self._fetches: dict[tuple[HostSession, str], _Fetch] = {}

    def __len__(self) -> int:
        return len(self._fetches)

    def answered(self, context: KeywordContext, body: bytes, answer: Answer) -> None:
        """Note the answer to a slot; an answer that names no slot is ignored."""
        if answer.slot is not None:
            text = answer.outcome if answer.job is None else f"{answer.outcome} {answer.job}"
            self.fetched(context, answer.slot, body, text)

    def fetched(self, context: KeywordContext, slot: str, body: bytes, answer: str) -> None:
        """Note that a slot asked for a job of the keyword's queues and got this answer."""
        key = (context.session, slot)
        fetch = self._fetches.get(key)
        if fetch is None:
            if len(self._fetches) >= MAX_SLOTS:
                return
            fetch = self._fetches[key] = _Fetch(b"", 0.0, "")
        fetch.body, fetch.fetched_at, fetch.answer, fetch.queues = body, time.time(), answer, context.queues
        fetch.asked_at, fetch.children = time.monotonic(), None

    def forget(self, session: HostSession, busy: Collection[str]) -> None:
        """Forget slots that no longer fetch, except slots that are ``busy`` with jobs of ours."""
        now = time.monotonic()
        for (owner, slot), fetch in list(self._fetches.items()):
            life_s = DYNAMIC_LIFE_S if fetch.ad_size and fetch.ad_size[0] == "Dynamic" else SLOT_LIFE_S
            if owner is session and slot not in busy and now > fetch.asked_at + life_s:
                del self._fetches[owner, slot]
        for (owner, slot), parent in list(self._fetches.items()):
            if owner is session and parent.children is not None:
                self._forget_deleted(session, slot, parent, busy)

    def _forget_deleted(
        self, session: HostSession, partitionable: str, parent: _Fetch, busy: Collection[str]
    ) -> None:
        """Forget dynamic slots that a later fetch of their partitionable slot does not name."""
        name, _, host = partitionable.partition("@")
        for (owner, slot), fetch in list(self._fetches.items()):
            if (
                owner is session
                and slot.startswith(f"{name}_")
                and slot.partition("@")[2] == host
                and slot not in (parent.children or ())
                and slot not in busy
                and fetch.asked_at < parent.asked_at
            ):
                del self._fetches[owner, slot]

    async def report(self, session: HostSession) -> int:
        """Report the slots that the database does not know yet; return their number."""
        greeting = await session.hello(CALL_S)
        now = time.monotonic()
        due: list[tuple[_Fetch, SlotRow]] = []
        for (owner, slot), fetch in self._fetches.items():
            if owner is session and fetch.body and len(due) < MAX_REPORTED:
                row = self._row(slot, fetch, now)
                if row is not None:
                    due.append((fetch, row))
        if due:
            rows = [dict(row) for _, row in due]
            await session.database.run(
                hosts.report_slots(host_id=greeting.host_id, slots=rows), timeout_s=CALL_S
            )
        if any(owner is session for owner, _ in self._fetches):
            session.slots_are_known = True
        for fetch, row in due:
            fetch.reported, fetch.reported_at = _status(row), now
            if "ad" in row:
                fetch.ad_size, fetch.ad_at = _size(row), now
        return len(due)

    def _row(self, slot: str, fetch: _Fetch, now: float) -> SlotRow | None:
        """Return the row of a slot if it is due; None if it is not, or the ad can't be read."""
        try:
            ad = parse_old(fetch.body)
        except ClassAdError:
            return None
        left = slot_resources(ad)
        names = ad.get("ChildName")
        if isinstance(names, list):
            fetch.children = [name for name in names if isinstance(name, str)]
        row: SlotRow = {
            "name": slot,
            "state": _text(ad, "State"),
            "activity": _text(ad, "Activity"),
            "slot_type": _text(ad, "SlotType"),
            "fetched_at": fetch.fetched_at,
            "last_answer": fetch.answer,
            "queues": list(fetch.queues) or None,
            "children": fetch.children,
            "weight": whole_weight(ad),
            "cpus": left["cpus"],
            "memory_mib": left["memory_mib"],
            "disk_kib": left["disk_kib"],
            "gpus": left["gpus"],
        }
        size_changed = fetch.ad_size != _size(row)
        if _status(row) == fetch.reported and not size_changed and now - fetch.reported_at < REPEAT_S:
            return None
        if size_changed or now - fetch.ad_at > AD_LIFE_S:
            row["ad"] = to_json(ad)
        return row


def _status(row: SlotRow) -> _Status:
    return row["state"], row["activity"], row["last_answer"], row.get("children")


def _size(row: SlotRow) -> _Size:
    return row["slot_type"], row["cpus"], row["memory_mib"], row["gpus"]


def _text(ad: ClassAd, name: str) -> str | None:
    value = ad.get(name)
    return value if isinstance(value, str) else None
