"""FETCH_WORK: a slot asks for work, and gets the ad of a run that was claimed for it, or nothing.

Only a slot that can start a job now is offered one: Unclaimed, Owner, or Claimed/Idle by a fetched claim.
HTCondor accepts a better-ranked job on a busy slot and then drops it (startd-protocol, fact 3).

A fetch is prepared once, as a ``FetchAttempt``, which then looks for work until there is some or its
time is over. However long it waited, the job is chosen at the last look, and taken back if the answer cannot
be delivered. All slots that look at one moment look together (``matchround``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Set
from dataclasses import dataclass

from fetchwork.handlers.context import Answer, FetchOutcome, Subject, Task
from fetchwork.handlers.host.session import HostSession
from fetchwork.matching.verdicts import UNSURE_LIFE_S


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the queue came to: an offer, or nothing for now."""

    offer: Answer | None = None
    #: jobs that may run here prefer another of the waiting slots
    left_to_others: bool = False
    #: seconds after which more may be looked at, None where all was
    again_s: float | None = None


class Misfits:
    """Autoclusters that do not fit a slot, for as long as that is believed: the time may decide."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._until = float("-inf")

    def add(self, autoclusters: Iterable[int]) -> None:
        """They were put against the slot now, and do not fit."""
        now = time.monotonic()
        if now >= self._until:
            self._numbers.clear()
            self._until = now + UNSURE_LIFE_S
        self._numbers.update(autoclusters)

    @property
    def numbers(self) -> Set[int]:
        """Those that do not fit, as far as is known now."""
        return self._numbers if time.monotonic() < self._until else frozenset()


class FetchAttempt:
    """One slot's fetch; ClassAdError if its ad can't be read."""

    def __init__(self, task: Task) -> None:
        #: ``known``: what is remembered of the slot, None where nothing can be
        facts, self.known = task.context.session.slots.read(task.request.body)
        self.task = task
        self.slot_name = facts.name
        #: why the slot can't be given a job now; "busy" if it can once its job has ended
        self.not_now = facts.not_now
        self.resources = facts.resources
        #: the slot goes on asking while its dynamic slots run jobs
        self.partitionable = facts.partitionable
        #: the slot likes some jobs better than others
        self.ranks = facts.ranks
        #: The slot loses nothing while its fetch waits. A claimed slot that gets nothing is given up by the
        #: startd, and a dynamic one deleted: that must not wait.
        self.may_wait = facts.unclaimed
        #: what was put against the slot for nothing
        self.misfits = Misfits()

    @property
    def session(self) -> HostSession:
        """The session with the database of the fetch's keyword."""
        return self.task.context.session

    def answer(self, outcome: FetchOutcome) -> Answer:
        """An answer without a job."""
        return Subject(self.slot_name).answer(outcome)
