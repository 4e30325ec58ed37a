"""What waits for the slots of a host, as this process keeps it: read once, and then kept current.

Theory of operation
-------------------
``fetchwork.read_demand`` answers with all that waits, or with what was announced since an earlier answer.
Where notifications arrive (``live``), nothing is read for as long as they tell enough
(sql/functions/matching/tell_demand.sql): "+" adds what waits, "-" takes it away, "~" says that it was just
taken. They come in the order of commits, so applying them to what was read, and to what is read meanwhile,
gives what is true. Where none arrive, every look reads what is new.

A claimable job must never lie. What is kept may say too much: a claim that finds nothing lets that rest for
some seconds (``in_vain``), or until news of it comes. It must not say too little, so all is read again

- when the notifications begin or begin again, and when the host has said hello;
- when a notification says that something else has changed;
- every two minutes, whatever was heard.

Anybody who may connect to the database can send a notification. A forged "+" costs a look or a claim that
finds nothing. Forged "~" keep this process from what waits until it has not tried for so long (ten seconds,
three minutes where there are a thousand agents), and no slot that has just become free from anything. A
forged "-" hides a job until the next reading, which finds it out, and then none is believed for a while.

For one new job a thousand agents must not come. ``heard`` says in how many seconds a look is worth while:
spread over a time that grows with the agents and shrinks with the jobs, so that a few come at a time, and the
"~" of the one who got the last job keeps the others at home.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fetchwork.matching.slotstate import Resources

#: what no notification has corrected is read again after this
WHOLE_S = 120.0
#: rumours make this process read again no more often than this
REREAD_S = 2.0
#: what yields nothing is left for so long at first, and for twice as long each time, up to the second figure
IN_VAIN_S = 5.0
LONGEST_IN_VAIN_S = 10.0
#: what was just taken by others: meanwhile the sweep of the demand finds whether something is left
TAKEN_S = 8.0
#: "~" keeps this process from looking for so long for each agent that there is, within these bounds
RUMOUR_EACH_S = 0.18
SHORTEST_RUMOUR_S = 10.0
LONGEST_RUMOUR_S = 180.0
#: one job's news brings an agent each so many seconds, and every agent within the second figure
SPREAD_EACH_S = 0.004
LONGEST_SPREAD_S = 2.0
#: so long no "-" is believed once one was wrong
DISTRUST_S = 600.0
#: of a "-" that is younger, the "+" after it may still be on its way
BELATED_S = 1.0
#: (autocluster, priority) pairs that are kept
MAX_PAIRS = 200_000
#: lists that are kept of what slots may get by the numbers
MAX_ALLOWED = 64
#: characters of a notification that is read: the longest of fetchwork's own have about 200
MAX_NOTE = 500

#: autocluster and priority
Pair = tuple[int, int]
#: what a notification says, of which pair, and what comes with "+"
_Note = tuple[str, Pair, "Waiting | None"]


class DemandRow(Protocol):
    """An answer of ``fetchwork.read_demand``."""

    @property
    def seen(self) -> str: ...
    @property
    def whole(self) -> bool: ...
    @property
    def agents(self) -> int: ...
    @property
    def black_hole(self) -> bool: ...
    @property
    def autoclusters(self) -> Sequence[int]: ...
    @property
    def prios(self) -> Sequence[int]: ...
    @property
    def cpus(self) -> Sequence[float | None]: ...
    @property
    def memory_mib(self) -> Sequence[float | None]: ...
    @property
    def disk_kib(self) -> Sequence[float | None]: ...
    @property
    def gpus(self) -> Sequence[float | None]: ...
    @property
    def resting_slots(self) -> Sequence[str]: ...
    @property
    def resting_autoclusters(self) -> Sequence[int]: ...
    @property
    def resting_s(self) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """An autocluster and a priority at which jobs wait; a resource that is None rules out no slot."""

    autocluster_id: int
    job_prio: int
    cpus: float | None = None
    memory_mib: float | None = None
    disk_kib: float | None = None
    gpus: float | None = None
    #: the autocluster and the priority
    pair: Pair = field(init=False, repr=False, compare=False)
    #: the resources
    amounts: tuple[float | None, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pair", (self.autocluster_id, self.job_prio))
        object.__setattr__(self, "amounts", (self.cpus, self.memory_mib, self.disk_kib, self.gpus))

    def may_fit(self, left: Resources) -> bool:
        """Whether the numbers alone rule out a slot of which so much is left."""
        return (
            _enough(left["cpus"], self.cpus)
            and _enough(left["memory_mib"], self.memory_mib)
            and _enough(left["disk_kib"], self.disk_kib)
            and _enough(left["gpus"], self.gpus)
        )


class Reading:
    """One reading that is under way, and what was heard since it was asked for."""

    def __init__(self, asked_at: float) -> None:
        self.asked_at = asked_at
        self.notes: list[_Note] = []
        #: what was wanted meanwhile: all anew, or what is new
        self.forget = False
        self.outdate = False


class Demand:
    """What waits, by autocluster and priority; times are monotonic."""

    def __init__(self) -> None:
        #: notifications arrive
        self.live = False
        #: how many agents are alive, this one included
        self.agents = 1
        self._queues: set[str] = set()
        self._pairs: dict[Pair, Waiting] = {}
        #: what of them the numbers allow, by what is left of a slot, until they change
        self._allowed: dict[tuple[object, ...], list[Waiting]] = {}
        #: pairs that yielded nothing: until when they rest, and how long the last such rest was
        self._quiet: dict[Pair, tuple[float, float]] = {}
        #: until when a slot is not offered an autocluster that it refused
        self._rests: dict[tuple[str, int], float] = {}
        #: pairs of which a "~" was heard: since when this process has not tried them itself
        self._rumoured: dict[Pair, float] = {}
        #: pairs that a notification has ended, and when
        self._ended: dict[Pair, float] = {}
        self._distrusted_until = float("-inf")
        self._readings: list[Reading] = []
        self._black_hole = False
        self._seen = "0"
        self._read_at = float("-inf")
        self._whole_due = float("-inf")
        self._outdated = False

    def __len__(self) -> int:
        return len(self._pairs)

    # -- reading

    def forget(self) -> None:
        """Read all again at the next look."""
        self._whole_due = float("-inf")
        for reading in self._readings:
            reading.forget = True

    def outdate(self) -> None:
        """Read what is new, and the rests of the slots, at the next look."""
        self._outdated = True
        for reading in self._readings:
            reading.outdate = True

    @property
    def queues(self) -> list[str]:
        """The queues that are kept."""
        return sorted(self._queues)

    def since(self, queues: Iterable[str], now: float) -> str | None:
        """What to read from before a look for these queues: "0" for all, None for nothing."""
        if not self._queues.issuperset(queues):
            self._queues.update(queues)
            self.forget()
        # a probe may be due, or allowed since the last one ended
        if now >= self._whole_due or self._black_hole:
            return "0"
        return None if self.live and not self._outdated else self._seen

    def begin_reading(self, now: float) -> Reading:
        """What is heard from now on is newer than the answer that will be taken."""
        reading = Reading(now)
        self._readings.append(reading)
        return reading

    def end_reading(self, reading: Reading, row: DemandRow | None, now: float) -> None:
        """Take an answer; None: there was none."""
        self._readings.remove(reading)
        if row is None:
            return
        columns = (row.autoclusters, row.prios, row.cpus, row.memory_mib, row.disk_kib, row.gpus)
        pairs = {(values[0], values[1]): Waiting(*values) for values in zip(*columns, strict=True)}
        if row.whole:
            if any(
                ended < reading.asked_at - BELATED_S for pair, ended in self._ended.items() if pair in pairs
            ):
                self._distrusted_until = now + DISTRUST_S
            self._ended.clear()
            self._pairs = pairs
            self._quiet = {pair: rest for pair, rest in self._quiet.items() if pair in pairs}
            self._rumoured = {pair: since for pair, since in self._rumoured.items() if pair in pairs}
            self._whole_due = now + random.uniform(0.8, 1.0) * WHOLE_S  # noqa: S311
        else:
            self._pairs.update(pairs)
        self._allowed.clear()
        self._rests = {
            (slot, number): reading.asked_at + seconds
            for slot, number, seconds in zip(
                row.resting_slots, row.resting_autoclusters, row.resting_s, strict=True
            )
        }
        self._black_hole = row.black_hole
        self.agents = max(1, row.agents)
        self._seen, self._read_at, self._outdated = row.seen, now, reading.outdate
        if reading.forget:
            # what was read may be older than what it was to be read anew for
            self._whole_due = float("-inf")
        for note in reading.notes:
            self._apply(note, now)

    def drop(self, autoclusters: Collection[int]) -> None:
        """These autoclusters do not exist (any more)."""
        if not autoclusters:
            return
        for pair in [pair for pair in self._pairs if pair[0] in autoclusters]:
            del self._pairs[pair]
        self._allowed.clear()

    # -- news

    def heard(self, payload: str, now: float) -> float | None:
        """Take a notification; the seconds after which a look is worth while, None if none is."""
        told = _parse(payload)
        if told is None:
            self.forget()
            return max(self._spread(1), self._read_at + REREAD_S - now)
        note, jobs, queue = told
        what, pair, _ = note
        if what == "+":
            if queue not in self._queues:
                return None
            if len(self._pairs) >= MAX_PAIRS and pair not in self._pairs:
                return None
        for reading in self._readings:
            reading.notes.append(note)
        self._apply(note, now)
        return self._spread(jobs) if what == "+" else None

    def _apply(self, note: _Note, now: float) -> None:
        what, pair, waiting = note
        if waiting is not None:
            # the numbers that were read are as true as these, and nobody's invention
            if pair not in self._pairs:
                self._pairs[pair] = waiting
                self._allowed.clear()
            self._quiet.pop(pair, None)
            self._ended.pop(pair, None)
        elif pair not in self._pairs:
            pass
        elif what == "-" and now >= self._distrusted_until:
            del self._pairs[pair]
            self._allowed.clear()
            self._quiet.pop(pair, None)
            self._rumoured.pop(pair, None)
            self._ended[pair] = now
        else:
            longest = min(LONGEST_RUMOUR_S, max(SHORTEST_RUMOUR_S, self.agents * RUMOUR_EACH_S))
            until = min(now + TAKEN_S, self._rumoured.setdefault(pair, now) + longest)
            if until > max(now, self._quiet.get(pair, _NEVER)[0]):
                self._quiet[pair] = (until, 0.0)

    def _spread(self, jobs: int) -> float:
        longest = min(LONGEST_SPREAD_S, self.agents * SPREAD_EACH_S / max(1, jobs))
        return random.uniform(0.0, longest)  # noqa: S311

    # -- looking

    def may_have_more(self, now: float) -> bool:
        """Whether a slot that has looked before may find something now that it did not find then.

        False where all that was told of meanwhile has been taken by others.
        """
        if self.since(self._queues, now) is not None:
            return True
        return any(self._quiet.get(pair, _NEVER)[0] <= now for pair in self._pairs)

    def fitting(self, slot: str, left: Resources, *, fresh: bool, now: float) -> Sequence[Waiting]:
        """What a slot may get by the numbers, that it did not just refuse.

        A slot that is not ``fresh`` has looked before: what yielded nothing since then is left out. Where
        nothing is left out it is the same list until other jobs wait.
        """
        found = self._allow(left)
        if self.live and not fresh and self._quiet:
            quiet = self._quiet
            found = [one for one in found if quiet.get(one.pair, _NEVER)[0] <= now]
        if self._rests:
            rests = self._rests
            if resting := {number for name, number in rests if name == slot and rests[name, number] > now}:
                found = [one for one in found if one.autocluster_id not in resting]
        return found

    def _allow(self, left: Resources) -> list[Waiting]:
        """What the numbers allow a slot of which so much is left: many ask, with the same."""
        key = tuple(left.values())
        found = self._allowed.get(key)
        if found is None:
            # what waits asks for the same amounts, too
            enough: dict[tuple[float | None, ...], bool] = {}
            found = []
            for waiting in self._pairs.values():
                fits = enough.get(waiting.amounts)
                if fits is None:
                    fits = enough[waiting.amounts] = waiting.may_fit(left)
                if fits:
                    found.append(waiting)
            if len(self._allowed) >= MAX_ALLOWED:
                self._allowed.clear()
            self._allowed[key] = found
        return found

    def in_vain(self, pair: Pair, now: float) -> None:
        """A claim got nothing of this: it was taken, or a limit stands against it."""
        self._rumoured.pop(pair, None)
        if pair in self._pairs:
            until, before = self._quiet.get(pair, _NEVER)
            if until <= now:
                rest_s = min(LONGEST_IN_VAIN_S, max(IN_VAIN_S, 2 * before))
                self._quiet[pair] = (now + random.uniform(1.0, 1.3) * rest_s, rest_s)  # noqa: S311

    def got(self, pair: Pair) -> None:
        """A claim got a job of this: there may be more."""
        self._quiet.pop(pair, None)
        self._rumoured.pop(pair, None)


_NEVER = (float("-inf"), 0.0)


def _enough(there: float | None, asked: float | None) -> bool:
    return there is None or asked is None or asked <= there


def _parse(payload: str) -> tuple[_Note, int, str] | None:
    """What a notification says, with the jobs and the queue of a "+"; None if that is not known."""
    if not payload or len(payload) > MAX_NOTE:
        return None
    try:
        told: object = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, list) or len(told) < 3 or not _are_ids(told[1:3]):
        return None
    what, number, prio = told[:3]
    if what in ("-", "~") and len(told) == 3:
        return (what, (number, prio), None), 0, ""
    if what != "+" or len(told) != 9 or not isinstance(told[4], str) or type(told[3]) is not int:
        return None
    if not _are_amounts(told[5:]):
        return None
    return ("+", (number, prio), Waiting(number, prio, *told[5:])), told[3], told[4]


def _are_ids(values: list[object]) -> bool:
    # bool is a kind of int
    return all(type(value) is int and abs(value) < 2**31 for value in values)


def _are_amounts(values: list[object]) -> bool:
    return all(value is None or type(value) in (int, float) for value in values)
