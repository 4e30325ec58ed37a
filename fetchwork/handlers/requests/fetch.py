"""FETCH_WORK: a slot asks for work, and gets the ad of a run that was claimed for it, or nothing.

Only a slot that can start a job now gets one: Unclaimed, Owner, or Claimed/Idle by a fetched claim.
HTCondor accepts a better-ranked job on a busy slot and then drops it (startd-protocol, fact 3).

A fetch is prepared once, as a ``FetchAttempt``, which then takes part in match rounds until it gets work or
its time is over. The job is chosen in the last round, however long the fetch waited, and is withdrawn if the
answer can't be delivered. All slots that want work at the same time share a round (``matchround``).
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
    """The result of a match round for one slot: an offer, or nothing for now."""

    offer: Answer | None = None
    #: jobs that may run here prefer another of the waiting slots
    left_to_others: bool = False
    #: seconds after which jobs may be tried that were postponed, or that a limit on starts keeps; None: none
    again_s: float | None = None


class Misfits:
    """Autoclusters that do not fit a slot; forgotten after a while, since fitting may depend on the time."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._until = float("-inf")

    def add(self, autoclusters: Iterable[int]) -> None:
        """Note that these autoclusters do not fit the slot now."""
        now = time.monotonic()
        if now >= self._until:
            self._numbers.clear()
            self._until = now + UNSURE_LIFE_S
        self._numbers.update(autoclusters)

    @property
    def numbers(self) -> Set[int]:
        """The autoclusters that do not fit, as far as is known now."""
        return self._numbers if time.monotonic() < self._until else frozenset()


class FetchAttempt:
    """A slot's fetch; raises ClassAdError if the slot's ad can't be read."""

    def __init__(self, task: Task) -> None:
        #: ``known``: earlier results for the slot, None if none can be remembered
        facts, self.known = task.context.session.slots.read(task.request.body)
        self.task = task
        self.slot_name = facts.name
        #: why the slot can't get a job now; "busy" if it can after its job's end
        self.not_now = facts.not_now
        self.resources = facts.resources
        #: the slot goes on fetching while its dynamic slots run jobs
        self.partitionable = facts.partitionable
        #: the slot prefers some jobs to others
        self.ranks = facts.ranks
        #: The slot loses nothing while its fetch waits. The startd gives up a claimed slot that gets nothing,
        #: and deletes a dynamic one: that must not wait.
        self.may_wait = facts.unclaimed
        #: autoclusters that were tried on the slot and do not fit
        self.misfits = Misfits()

    @property
    def session(self) -> HostSession:
        """The session with the database of the fetch's keyword."""
        return self.task.context.session

    def answer(self, outcome: FetchOutcome) -> Answer:
        """An answer without a job."""
        return Subject(self.slot_name).answer(outcome)
