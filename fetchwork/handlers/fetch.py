"""FETCH_WORK: a slot asks for work, and gets the ad of a run that was claimed for it, or nothing.

Only a slot that can start a job now is offered one: Unclaimed, Owner, or Claimed/Idle by a fetched claim.
HTCondor accepts a better-ranked job on a busy slot and then drops it (startd-protocol, fact 3).

A fetch is prepared once, as a ``FetchAttempt``, which then looks for work: once in direct mode, and in the
agent until there is some or its time is over. However long it waited, the job is chosen at the last look, and
taken back if the answer cannot be delivered.

One look has four parts: the demand is read from the database and put in order, the matchmaker puts it
against the slot, the first job of it that can be had is claimed, and the matchmaker prints its ad.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fetchwork.classad.ads import parse_old
from fetchwork.db import calls
from fetchwork.errors import ClassAdError
from fetchwork.handlers import accounts, offer
from fetchwork.handlers.context import Answer, FetchOutcome, Subject, Task
from fetchwork.handlers.offer import Weighed
from fetchwork.handlers.session import HostSession
from fetchwork.matching.choose import Choice, order
from fetchwork.matching.slotstate import slot_resources, why_not
from fetchwork.matchmaker.messages import Answer as MatchAnswer
from fetchwork.matchmaker.messages import Look as MatchLook

#: seconds for a call: a startd asks again soon enough
DATABASE_S = 5.0
#: autoclusters that one claim is asked to look for
AUTOCLUSTERS_A_CLAIM = 64
#: jobs that one fetch may hold or pass over before the slot has to ask again
TRIES = 20
#: with less time than this left, a fetch begins no further claim
LEAST_S = 0.5


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
        self.slot = ad
        #: why the slot can't be given a job now; "busy" if it can once its job has ended
        self.not_now = why_not(ad)

    @property
    def session(self) -> HostSession:
        """The session with the database of the fetch's keyword."""
        return self.task.context.session

    @property
    def partitionable(self) -> bool:
        """Whether the slot goes on asking while its dynamic slots run jobs."""
        return self.slot.get("SlotType") == "Partitionable"

    @property
    def may_wait(self) -> bool:
        """Whether the slot loses nothing while its fetch waits.

        A claimed slot that gets nothing is given up by the startd, and a dynamic one deleted: that must not
        wait.
        """
        return self.slot.get("State") in ("Unclaimed", "Owner")

    def answer(self, outcome: FetchOutcome) -> Answer:
        """An answer without a job."""
        return Subject(self.slot_name).answer(outcome)

    async def look(self, *, exclusive: bool, others: Sequence[bytes] = ()) -> Look:
        """Claim a job for the slot and build its ad, if there is one.

        ``exclusive``: the slot has no other run. Jobs whose Rank prefers one of the ``others``, the ads of
        slots that wait beside this one, are left to those.
        """
        candidates = await self._read_demand()
        if not candidates:
            return Look()
        session = self.session
        choices = order(
            candidates,
            autoclusters=session.autoclusters,
            positions=session.positions,
            shares=session.shares,
            queues=self.task.context.queues,
        )
        left_to_others = False
        tries = 0
        without_account: list[Weighed] = []
        while choices and tries < TRIES and self.task.left() > LEAST_S:
            tries += 1
            page, matched = await self._match(choices, others)
            left_to_others |= matched.left_to_others
            answer = await self._take_first(page, matched.problems, without_account, exclusive)
            if answer is not None:
                return Look(answer)
            if not page or (len(page) < AUTOCLUSTERS_A_CLAIM and not matched.postponed):
                break
            taken = {id(one.choice) for one in page}
            choices = [choice for choice in choices if id(choice) not in taken]
        if without_account and self.task.left() > LEAST_S:
            await offer.refuse_for_want_of_account(self, without_account, exclusive)
        return Look(left_to_others=left_to_others)

    async def _read_demand(self) -> list[calls.Candidate]:
        """What waits and is not too large for the slot, with all that matching wants to know of it."""
        task, session = self.task, self.session
        greeting = await session.hello(task.left(DATABASE_S))
        candidates = await session.database.run(
            calls.candidates(
                host_id=greeting.host_id,
                slot=self.slot_name,
                queues=task.context.queues,
                **slot_resources(self.slot),
            ),
            timeout_s=task.left(DATABASE_S),
        )
        await session.read_autoclusters((row.autocluster_id for row in candidates), task.left(DATABASE_S))
        if len({row.submitter for row in candidates}) > 1:
            await session.read_shares(task.left(DATABASE_S))
        return candidates

    async def _match(
        self, choices: Sequence[Choice], others: Sequence[bytes]
    ) -> tuple[list[Weighed], MatchAnswer]:
        """The first of the choices that the slot may be given, as many as one claim is asked to look for."""
        session = self.session
        autoclusters = {choice.autocluster.autocluster_id: choice.autocluster for choice in choices}
        look = MatchLook(
            self.task.request.body,
            [choice.autocluster.autocluster_id for choice in choices],
            others,
            AUTOCLUSTERS_A_CLAIM,
        )
        matched = await session.matchmaker.look([look], autoclusters)
        (seen,) = matched.seen
        if seen.problem is not None:
            raise ClassAdError(seen.problem)
        if matched.faults:
            await session.report_faults(matched.faults, self.task.left(DATABASE_S))
        return [Weighed(choices[match.index], match.weight) for match in seen.matches], matched

    async def _take_first(
        self,
        page: list[Weighed],
        problems: Mapping[int, str],
        without_account: list[Weighed],
        exclusive: bool,
    ) -> Answer | None:
        """The offer of the first job of these choices that can be had and printed.

        ``without_account`` gains the choices whose owners this host does not know.
        """
        task = self.task
        if task.context.check_accounts:
            known = await accounts.known({one.choice.autocluster.owner for one in page})
            without_account += [one for one in page if accounts.is_missing(one.choice.autocluster.owner)]
            page = [one for one in page if one.choice.autocluster.owner in known]
        tries = 0
        while page and tries < TRIES and task.left() > LEAST_S:
            tries += 1
            claimed = await offer.claim(self, page, exclusive)
            if claimed is None:
                return None
            answer = await offer.offer(self, claimed, problems.get(claimed.autocluster_id))
            if answer is not None:
                return answer
        return None
