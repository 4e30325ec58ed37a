"""FETCH_WORK: a slot asks for work, and gets the ad of a run that was claimed for it, or nothing.

Only a slot that can start a job now is offered one: Unclaimed, Owner, or Claimed/Idle by a fetched claim.
HTCondor accepts a better-ranked job on a busy slot and then drops it (startd-protocol, fact 3).

A fetch is prepared once, as a ``FetchAttempt``, which then looks for work: once in direct mode, and in the
agent until there is some or its time is over. However long it waited, the job is chosen at the last look, and
taken back if the answer cannot be delivered.

One look has three parts: the demand is read from the database, matching puts it against the slot and
orders it, and the first job of it that can be had is claimed and printed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from fetchwork.classad.ads import parse_old
from fetchwork.db import calls
from fetchwork.errors import ClassAdError
from fetchwork.handlers import accounts, offer
from fetchwork.handlers.context import Answer, FetchOutcome, Subject, Task
from fetchwork.handlers.session import HostSession
from fetchwork.matching.choose import Choice, Unrivalled, choose
from fetchwork.matching.fit import SlotView
from fetchwork.matching.slotstate import slot_resources, why_not

#: seconds for a call: a startd asks again soon enough
DATABASE_S = 5.0
#: autoclusters that one claim is asked to look for
AUTOCLUSTERS_A_CLAIM = 64
#: jobs that one fetch may hold or pass over before the slot has to ask again
TRIES = 20


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the queue came to: an offer, or nothing for now."""

    offer: Answer | None = None
    #: jobs that may run here prefer another of the waiting slots
    left_to_others: bool = False


class FetchAttempt:
    """One slot's fetch; ClassAdError if its ad can't be read."""

    def __init__(self, task: Task) -> None:
        ad = parse_old(task.request.body)
        name = ad.get("Name")
        if not isinstance(name, str) or not name:
            raise ClassAdError("the slot ad has no Name")
        self.task = task
        self.slot_name = name
        self.slot = SlotView(ad)
        #: why the slot can't be given a job now; "busy" if it can once its job has ended
        self.not_now = why_not(ad)

    @property
    def session(self) -> HostSession:
        """The session with the database of the fetch's keyword."""
        return self.task.context.session

    @property
    def partitionable(self) -> bool:
        """Whether the slot goes on asking while its dynamic slots run jobs."""
        return self.slot.ad.get("SlotType") == "Partitionable"

    @property
    def may_wait(self) -> bool:
        """Whether the slot loses nothing while its fetch waits.

        A claimed slot that gets nothing is given up by the startd, and a dynamic one deleted: that must not
        wait.
        """
        return self.slot.ad.get("State") in ("Unclaimed", "Owner")

    def answer(self, outcome: FetchOutcome) -> Answer:
        """An answer without a job."""
        return Subject(self.slot_name).answer(outcome)

    async def look(self, *, exclusive: bool, others: Sequence[SlotView] = ()) -> Look:
        """Claim a job for the slot and build its ad, if there is one.

        ``exclusive``: the slot has no other run. Jobs whose Rank prefers one of the ``others``, slots that
        wait beside this one, are left to those.
        """
        candidates = await self._read_demand()
        if not candidates:
            return Look()
        session = self.session
        choices = Unrivalled(
            choose(
                candidates,
                self.slot,
                autoclusters=session.autoclusters,
                positions=session.positions,
                shares=session.shares,
                queues=self.task.context.queues,
            ),
            self.slot,
            others,
        )
        answer = await self._take_first(choices, exclusive)
        return Look(answer, left_to_others=answer is None and choices.left_to_others > 0)

    async def _read_demand(self) -> list[calls.Candidate]:
        """What waits and is not too large for the slot, with all that matching wants to know of it."""
        task, session = self.task, self.session
        greeting = await session.hello(task.left(DATABASE_S))
        candidates = await session.database.run(
            calls.candidates(
                host_id=greeting.host_id,
                slot=self.slot_name,
                queues=task.context.queues,
                **slot_resources(self.slot.ad),
            ),
            timeout_s=task.left(DATABASE_S),
        )
        await session.read_autoclusters((row.autocluster_id for row in candidates), task.left(DATABASE_S))
        if len({row.submitter for row in candidates}) > 1:
            await session.read_shares(task.left(DATABASE_S))
        return candidates

    async def _take_first(self, choices: Unrivalled, exclusive: bool) -> Answer | None:
        """The offer of the first job of these choices that can be had and printed."""
        task = self.task
        without_account: list[Choice] = []
        tries = 0
        page = list(itertools.islice(choices, AUTOCLUSTERS_A_CLAIM))
        while page and tries < TRIES and task.left() > 0.5:
            tries += 1
            if task.context.check_accounts:
                known = await accounts.known({choice.autocluster.owner for choice in page})
                without_account += [
                    choice for choice in page if accounts.is_missing(choice.autocluster.owner)
                ]
                page = [choice for choice in page if choice.autocluster.owner in known]
            claimed = await offer.claim(self, page, exclusive) if page else None
            if claimed is None:
                page = list(itertools.islice(choices, AUTOCLUSTERS_A_CLAIM))
                continue
            answer = await offer.offer(self, claimed)
            if answer is not None:
                return answer
        if without_account and task.left() > 0.5:
            await offer.refuse_for_want_of_account(self, without_account, exclusive)
        return None
