"""The waiting jobs for the slots of a host, as this process keeps them: read once, then kept current.

Theory of operation ------------------- ``fetchwork.read_demand`` returns the whole demand, or the
announcements since an earlier answer. While notifications arrive (``live``), nothing is read as long as they
say enough (sql/functions/matching/tell_demand.sql): "+" adds a pair of autocluster and priority, "-" removes
it, "~" says that a job of it was just taken. They come in the order of commits, so applying them to an
earlier reading, or to a reading in flight, gives the current demand. Without notifications, every match round
reads the changes.

A claimable job must never lie unnoticed. This copy may list too much: after a claim that finds nothing, the
pair backs off for some seconds (``in_vain``), or until its next announcement. It must not list too little, so
the whole demand is read again

- when the notifications begin or begin again, and after the host's hello;
- when a notification says that something else has changed;
- every two minutes in any case.

Any role that may connect to the database can send a notification. A forged "+" costs a match round or a claim
that finds nothing. Forged "~" keep this process from the pair until it has not tried it for ten seconds
(three minutes with a thousand agents); a slot that has just become free tries all the same. A forged "-"
hides a job until the next reading; the reading shows the forgery, and for a while no "-" is believed.

A thousand agents must not come for one new job. ``heard`` returns the seconds after which a match round is
worth while: spread over a time that grows with the number of agents and shrinks with the number of jobs. So a
few come at a time, and the "~" of the agent that got the last job keeps the others away.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fetchwork.matching.slotstate import Resources

#: seconds after which the whole demand is read again
WHOLE_S = 120.0
#: least seconds between two readings that announcements cause
REREAD_S = 2.0
#: first and longest backoff of a pair for which claims find nothing, in seconds; it doubles each time
IN_VAIN_S = 5.0
LONGEST_IN_VAIN_S = 10.0
#: backoff after others took a job of a pair; meanwhile the sweep of the demand finds whether jobs are left
TAKEN_S = 8.0
#: "~" keep this process from a pair for the first figure times the number of agents, within the two bounds
RUMOUR_EACH_S = 0.18
SHORTEST_RUMOUR_S = 10.0
LONGEST_RUMOUR_S = 180.0
#: seconds between two agents that come for the announcement of one job, and seconds until all have come
SPREAD_EACH_S = 0.004
LONGEST_SPREAD_S = 2.0
#: seconds for which no "-" is believed after a wrong one
DISTRUST_S = 600.0
#: most seconds for which a limit on starts keeps this process from a pair without another claim
LONGEST_CLOSED_S = 120.0
#: age in seconds up to which the "+" that follows a "-" may still be on its way
BELATED_S = 1.0
#: most (autocluster, priority) pairs kept
MAX_PAIRS = 200_000
#: most cached lists of pairs that fit a slot by the amounts
MAX_ALLOWED = 64
#: most characters of a notification; fetchwork's longest have about 200
MAX_NOTE = 500

#: autocluster and priority
Pair = tuple[int, int]
#: a notification: "+", "-" or "~", the pair, and for "+" the waiting entry
_Note = tuple[str, Pair, "Waiting | None"]


class DemandRow(Protocol):
    """A row that ``fetchwork.read_demand`` returns."""

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
    """An autocluster and a priority at which jobs wait. A resource of None excludes no slot."""

    autocluster_id: int
    job_prio: int
    cpus: float | None = None
    memory_mib: float | None = None
    disk_kib: float | None = None
    gpus: float | None = None
    #: autocluster and priority
    pair: Pair = field(init=False, repr=False, compare=False)
    #: the four resources
    amounts: tuple[float | None, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pair", (self.autocluster_id, self.job_prio))
        object.__setattr__(self, "amounts", (self.cpus, self.memory_mib, self.disk_kib, self.gpus))

    def may_fit(self, left: Resources) -> bool:
        """Whether a slot with these free resources has enough, by the amounts alone."""
        return (
            _enough(left["cpus"], self.cpus)
            and _enough(left["memory_mib"], self.memory_mib)
            and _enough(left["disk_kib"], self.disk_kib)
            and _enough(left["gpus"], self.gpus)
        )


class Reading:
    """A reading in flight, with the notifications that came since it began."""

    def __init__(self, asked_at: float) -> None:
        self.asked_at = asked_at
        self.notes: list[_Note] = []
        #: requested meanwhile: reading the whole demand again, or the changes
        self.forget = False
        self.outdate = False


class Demand:
    """The waiting jobs by autocluster and priority. All times are monotonic."""

    def __init__(self) -> None:
        #: notifications arrive
        self.live = False
        #: counts the calls of forget: what a call answers that began before may be outdated
        self.forgotten = 0
        #: number of live agents, including this one
        self.agents = 1
        self._queues: set[str] = set()
        self._pairs: dict[Pair, Waiting] = {}
        #: the pairs that fit by the amounts, by a slot's free resources; cleared when the pairs change
        self._allowed: dict[tuple[object, ...], list[Waiting]] = {}
        #: pairs for which claims found nothing: end of their backoff, and its length in seconds
        self._quiet: dict[Pair, tuple[float, float]] = {}
        #: pairs that a limit on starts closes -> the time at which they open
        self._closed: dict[Pair, float] = {}
        #: (slot, autocluster that the slot refused) -> end of the backoff
        self._rests: dict[tuple[str, int], float] = {}
        #: pairs with a "~": the time since when this process has not tried them itself
        self._rumoured: dict[Pair, float] = {}
        #: pairs that a "-" removed, and the time
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
        """Have the next match round read the whole demand, and claim what limits on starts closed."""
        self._whole_due = float("-inf")
        self._closed.clear()
        self.forgotten += 1
        for reading in self._readings:
            reading.forget = True

    def outdate(self) -> None:
        """Have the next match round read the changes and the slots' backoffs."""
        self._outdated = True
        for reading in self._readings:
            reading.outdate = True

    @property
    def queues(self) -> list[str]:
        """The queues whose demand is kept."""
        return sorted(self._queues)

    def since(self, queues: Iterable[str], now: float) -> str | None:
        """Return where to read from before a match round for these queues: "0" for all, None for nothing."""
        if not self._queues.issuperset(queues):
            self._queues.update(queues)
            self.forget()
        # a black hole's probe may be due, or allowed since the last one ended
        if now >= self._whole_due or self._black_hole:
            return "0"
        return None if self.live and not self._outdated else self._seen

    def begin_reading(self, now: float) -> Reading:
        """Begin a reading: notifications from now on are newer than its answer."""
        reading = Reading(now)
        self._readings.append(reading)
        return reading

    def end_reading(self, reading: Reading, row: DemandRow | None, now: float) -> None:
        """Take the answer of a reading, or None if there was no answer."""
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
            self._closed = {pair: until for pair, until in self._closed.items() if pair in pairs}
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
            # this answer may be older than the reason for reading again
            self._whole_due = float("-inf")
        for note in reading.notes:
            self._apply(note, now)

    def drop(self, autoclusters: Collection[int]) -> None:
        """Remove autoclusters that do not exist (any more)."""
        if not autoclusters:
            return
        for pair in [pair for pair in self._pairs if pair[0] in autoclusters]:
            del self._pairs[pair]
        self._allowed.clear()

    # -- announcements

    def heard(self, payload: str, now: float) -> float | None:
        """Take a notification; return the seconds until a match round is worth while, None if it is not."""
        parsed = _parse(payload)
        if parsed is None:
            self.forget()
            return max(self._spread(1), self._read_at + REREAD_S - now)
        note, jobs, queue = parsed
        sign, pair, _ = note
        if sign == "+":
            if queue not in self._queues:
                return None
            if len(self._pairs) >= MAX_PAIRS and pair not in self._pairs:
                return None
        for reading in self._readings:
            reading.notes.append(note)
        self._apply(note, now)
        return self._spread(jobs) if sign == "+" else None

    def _apply(self, note: _Note, now: float) -> None:
        sign, pair, waiting = note
        if waiting is not None:
            # amounts read from the database are as current as these, and can't be forged
            if pair not in self._pairs:
                self._pairs[pair] = waiting
                self._allowed.clear()
            self._quiet.pop(pair, None)
            self._ended.pop(pair, None)
        elif pair not in self._pairs:
            pass
        elif sign == "-" and now >= self._distrusted_until:
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

    # -- match rounds

    def may_have_more(self, now: float) -> bool:
        """Whether a slot that found nothing in an earlier match round may find a job now.

        False if other agents have taken all jobs announced meanwhile.
        """
        if self.since(self._queues, now) is not None:
            return True
        return any(
            self._quiet.get(pair, _NEVER)[0] <= now and self._closed.get(pair, now) <= now
            for pair in self._pairs
        )

    def fitting(self, slot: str, left: Resources, *, fresh: bool, now: float) -> Sequence[Waiting]:
        """Return the pairs that fit a slot by the amounts, without those that the slot has just refused.

        A slot that is not ``fresh`` has had a match round before: pairs that back off are left out for it.
        Pairs that a limit on starts closes are left out for all slots. If nothing is left out, the same list
        is returned until other jobs wait.
        """
        fitting = self._allow(left)
        if self.live and self._closed:
            fitting = [waiting for waiting in fitting if self._closed.get(waiting.pair, now) <= now]
        if self.live and not fresh and self._quiet:
            quiet = self._quiet
            fitting = [waiting for waiting in fitting if quiet.get(waiting.pair, _NEVER)[0] <= now]
        if self._rests:
            rests = self._rests
            if resting := {number for name, number in rests if name == slot and rests[name, number] > now}:
                fitting = [waiting for waiting in fitting if waiting.autocluster_id not in resting]
        return fitting

    def _allow(self, left: Resources) -> list[Waiting]:
        """Return the pairs that fit these free resources; cached, because many slots ask with equal ones."""
        key = tuple(left.values())
        fitting = self._allowed.get(key)
        if fitting is None:
            # many pairs request equal amounts, too
            enough: dict[tuple[float | None, ...], bool] = {}
            fitting = []
            for waiting in self._pairs.values():
                fits = enough.get(waiting.amounts)
                if fits is None:
                    fits = enough[waiting.amounts] = waiting.may_fit(left)
                if fits:
                    fitting.append(waiting)
            if len(self._allowed) >= MAX_ALLOWED:
                self._allowed.clear()
            self._allowed[key] = fitting
        return fitting

    def in_vain(self, pair: Pair, now: float) -> None:
        """Back off from a pair of which a claim got no job: others took it, or a limit forbids it."""
        self._rumoured.pop(pair, None)
        if pair in self._pairs:
            until, before = self._quiet.get(pair, _NEVER)
            if until <= now:
                rest_s = min(LONGEST_IN_VAIN_S, max(IN_VAIN_S, 2 * before))
                self._quiet[pair] = (now + random.uniform(1.0, 1.3) * rest_s, rest_s)  # noqa: S311

    def close(self, pairs: Mapping[Pair, float], now: float) -> None:
        """Leave pairs alone for so many seconds: a limit on starts allows no start of them before.

        Agents then come one after the other, as for the announcement of one job.
        """
        for pair, seconds in pairs.items():
            self.got(pair)
            if pair in self._pairs:
                self._closed[pair] = now + min(LONGEST_CLOSED_S, seconds) + self._spread(1)

    def opens_s(self, left: Resources, now: float) -> float | None:
        """Return the seconds until a limit on starts opens a pair that fits a slot by the amounts, if any."""
        pairs, closed = self._pairs, self._closed
        opens = [closed[pair] for pair in closed if pair in pairs and pairs[pair].may_fit(left)]
        return min((at - now for at in opens if at > now), default=None)

    def got(self, pair: Pair) -> None:
        """End a pair's backoff: a claim got a job of it, and there may be more."""
        self._quiet.pop(pair, None)
        self._rumoured.pop(pair, None)


_NEVER = (float("-inf"), 0.0)


def _enough(there: float | None, asked: float | None) -> bool:
    return there is None or asked is None or asked <= there


def _parse(payload: str) -> tuple[_Note, int, str] | None:
    """Return a notification's content, with the jobs and the queue of a "+"; None if it can't be read."""
    if not payload or len(payload) > MAX_NOTE:
        return None
    try:
        values: object = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or len(values) < 3 or not _are_ids(values[1:3]):
        return None
    sign, number, prio = values[:3]
    if sign in ("-", "~") and len(values) == 3:
        return (sign, (number, prio), None), 0, ""
    if sign != "+" or len(values) != 9 or not isinstance(values[4], str) or type(values[3]) is not int:
        return None
    if not _are_amounts(values[5:]):
        return None
    return ("+", (number, prio), Waiting(number, prio, *values[5:])), values[3], values[4]


def _are_ids(values: list[object]) -> bool:
    # bool is a kind of int
    return all(type(value) is int and abs(value) < 2**31 for value in values)


def _are_amounts(values: list[object]) -> bool:
    return all(value is None or type(value) in (int, float) for value in values)
