"""A match round: jobs for all slots of a database that want one at this moment.

The demand is put in order, the matchmaker matches it with all the slots in one request, one call claims the
first available job for each slot, and the matchmaker prints the ads. An error with one slot or one job is
that slot's result; an error that concerns all (no database, no matchmaker) is the result of each.

A slot whose first choices yield nothing goes on with its next choices, in further passes. So does a slot
whose job could not be printed; jobs like that one back off meanwhile (``unprintable``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fetchwork.codes import HoldCode
from fetchwork.db.calls import runs as run_calls
from fetchwork.errors import ClassAdError, FetchworkError
from fetchwork.handlers.host import accounts
from fetchwork.handlers.host.session import HostSession
from fetchwork.handlers.requests import offer
from fetchwork.handlers.requests.fetch import FetchAttempt, Look
from fetchwork.log import event
from fetchwork.matching.autoclusters import Autocluster
from fetchwork.matching.choose import Choice, Groups
from fetchwork.matching.containers import has_all
from fetchwork.matching.demand import Waiting
from fetchwork.matching.rotation import Rotation, Weighed
from fetchwork.matchmaker.messages import Answer, Match, Seen
from fetchwork.matchmaker.messages import Look as MatchLook
from fetchwork.sandbox.offered import may_run

log = logging.getLogger(__name__)

#: seconds for a call: a startd asks again soon enough
DATABASE_S = 5.0
#: the most autoclusters that one claim tries, for each slot
AUTOCLUSTERS_A_CLAIM = 64
#: the same of the first claim
FIRST_OF_A_CLAIM = 8
#: passes of one fetch, each with one claim, before the slot has to ask again
TRIES = 20
#: seconds in which a new agent's slots are reported
SLOTS_KNOWN_S = 1.0
#: a fetch with less time left than this begins no further claim
LEAST_S = 0.5


@dataclass(slots=True, eq=False)
class Seeker:
    """A slot that wants a job now, and its result.

    ``exclusive``: the slot has no other run. ``others``: the ads of slots that wait beside this slot; jobs
    whose Rank prefers one of those are left to it. ``fresh``: this is the first round of the fetch.
    """

    attempt: FetchAttempt
    exclusive: bool
    others: Sequence[bytes] = ()
    fresh: bool = True
    #: the hook no longer waits for the answer
    is_over: Callable[[], bool] = lambda: False
    result: Look | FetchworkError | None = None
    #: not matched with the slot yet, in the order of offering
    choices: list[Choice] = field(default_factory=list)
    #: match the slot, and are to be claimed
    page: list[Weighed] = field(default_factory=list)
    without_account: list[Weighed] = field(default_factory=list)
    left_to_others: bool = False
    again_s: float | None = None
    tries: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether there is more to try, and time for it."""
        return (
            self.result is None
            and self.tries < TRIES
            and bool(self.page or self.choices)
            and self.attempt.task.left() > LEAST_S
            and not self.is_over()
        )

    def look_again_in(self, seconds: float) -> None:
        """Note that there may be more for this slot after so many seconds."""
        self.again_s = seconds if self.again_s is None else min(self.again_s, seconds)


async def look(seekers: Sequence[Seeker]) -> None:
    """Set the result of each seeker; they are of one session, and there is at least one."""
    session = seekers[0].attempt.session
    try:
        await MatchRound(session, seekers).run()
    except FetchworkError as error:
        for seeker in seekers:
            seeker.result = seeker.result or error
    for seeker in seekers:
        seeker.result = seeker.result or Look(None, seeker.left_to_others, seeker.again_s)


class MatchRound:
    """A match round for these seekers."""

    def __init__(self, session: HostSession, seekers: Sequence[Seeker]) -> None:
        self._session = session
        self._seekers = seekers
        self._end = max(seeker.attempt.task.end for seeker in seekers)
        #: reasons why autoclusters' ads can't be read
        self._problems: dict[int, str] = {}
        #: all autoclusters of the round
        self._autoclusters: dict[int, Autocluster] = {}
        #: by the queues of a keyword, in their order: rotations of the choices, and of the matches
        self._looks: dict[tuple[str, ...], Rotation] = {}
        self._dealt: dict[tuple[str, ...], Rotation] = {}

    async def run(self) -> None:
        """Match, claim and print in passes, until each seeker has a result or nothing is left to try."""
        await self._find_choices()
        while active := [seeker for seeker in self._seekers if seeker.goes_on]:
            for seeker in active:
                seeker.tries += 1
            await self._match([seeker for seeker in active if not seeker.page])
            await self._keep_known_accounts(active)
            claimants = [seeker for seeker in active if seeker.page and seeker.goes_on]
            runs = await self._claim(claimants)
            await asyncio.gather(*(self._offer(seeker, taken) for seeker, taken in runs))
            if any(seeker.result is None for seeker, _ in runs):
                self._leave_out_what_rests(active)
        for seeker in self._seekers:
            if seeker.result is None and seeker.without_account and self._left() > LEAST_S:
                await self._refuse_for_want_of_account(seeker)
        now = time.monotonic()
        for seeker in self._seekers:
            opens_s = self._session.demand.opens_s(seeker.attempt.resources, now)
            if opens_s is not None:
                seeker.look_again_in(opens_s)

    async def first_pages(self) -> None:
        """Give each seeker the first choices that match it, and claim nothing. Raises FetchworkError."""
        await self._find_choices()
        while active := [seeker for seeker in self._seekers if seeker.goes_on and not seeker.page]:
            for seeker in active:
                seeker.tries += 1
            await self._match(active)
            await self._keep_known_accounts(active)

    def _left(self) -> float:
        """Seconds that a call may take."""
        return max(0.05, min(DATABASE_S, self._end - time.monotonic() - 0.3))

    # -- choices

    async def _find_choices(self) -> None:
        """Give each seeker the choices that its resources allow, in order."""
        session, now = self._session, time.monotonic()
        queues = {queue for seeker in self._seekers for queue in seeker.attempt.task.context.queues}
        if session.demand.since(queues, now) is not None:
            for seeker in self._seekers:
                if seeker.attempt.known is None or not seeker.attempt.known.verdicts:
                    await session.matchmaker.expect(seeker.attempt.task.request.body)
            await session.read_demand(queues, self._left())
        fitting: dict[Seeker, Sequence[Waiting]] = {}
        for seeker in self._seekers:
            attempt = seeker.attempt
            found = session.demand.fitting(attempt.slot_name, attempt.resources, fresh=seeker.fresh, now=now)
            if attempt.known is not None:
                found = attempt.known.may_fit(found)
            if misfits := attempt.misfits.numbers:
                found = [waiting for waiting in found if waiting.autocluster_id not in misfits]
            if found:
                fitting[seeker] = found
        if not fitting:
            return
        await self._read_autoclusters(
            {waiting.autocluster_id for found in fitting.values() for waiting in found}
        )
        if session.shares.dues is not None and not session.slots_are_known:
            # quotas would be those of a pool without these slots
            session.wants_slots_known.set()
            for seeker in fitting:
                seeker.look_again_in(SLOTS_KNOWN_S)
            return
        for seeker, found in fitting.items():
            groups = session.orders.groups(found, session.autoclusters)
            self._autoclusters.update(groups.autoclusters)
            seeker.choices = self._rotation(self._looks, seeker).sort(
                groups.sorted_by(session.positions), self._may_get(seeker, groups)
            )

    def _may_get(self, seeker: Seeker, groups: Groups) -> Callable[[Choice], bool] | None:
        """The filter of a seeker's choices in the groups of its queues; None if it may get all of them."""
        now = time.monotonic()
        if not groups.have_conditions and not self._session.unprintable.any_rest(now):
            return None
        context = seeker.attempt.task.context
        return lambda choice: (
            may_run(choice.autocluster.files, context.shared)
            and (not choice.autocluster.credentials or context.can_open_credentials())
            and has_all(seeker.attempt.task.request.body, choice.autocluster.needs)
            and not self._rests(seeker, choice, now)
        )

    def _leave_out_what_rests(self, seekers: Sequence[Seeker]) -> None:
        now = time.monotonic()
        for seeker in seekers:
            seeker.page = [ranked for ranked in seeker.page if not self._rests(seeker, ranked.choice, now)]
            seeker.choices = [choice for choice in seeker.choices if not self._rests(seeker, choice, now)]

    def _rests(self, seeker: Seeker, choice: Choice, now: float) -> bool:
        """Whether a choice backs off because of jobs like it; the seeker may then try it later."""
        rest_s = self._session.unprintable.rest_s(choice.autocluster, now)
        if rest_s > 0.0:
            seeker.look_again_in(rest_s)
        return rest_s > 0.0

    async def _read_autoclusters(self, numbers: Iterable[int]) -> None:
        """Read the autoclusters that are not known, and the shares if there are several submitters."""
        session = self._session
        numbers = list(numbers)
        await session.read_autoclusters(numbers, self._left())
        missing = session.autoclusters.missing(numbers)
        session.demand.drop(set(missing))
        session.autoclusters.used(numbers)
        known = session.autoclusters.known
        if len({known[number].submitter for number in numbers if number in known}) > 1:
            await session.read_shares(self._left())

    # -- matches

    async def _match(self, seekers: Sequence[Seeker]) -> None:
        """Find the choices that match these seekers, for each as many as one claim tries."""
        seen: dict[Seeker, Seen] = {}
        looks: dict[Seeker, MatchLook] = {}
        for seeker in seekers:
            known = seeker.attempt.known
            numbers = [choice.autocluster.autocluster_id for choice in seeker.choices]
            matches = known.weigh(numbers, AUTOCLUSTERS_A_CLAIM) if known is not None else None
            if matches is not None:
                seen[seeker] = Seen(tuple([Match(*match) for match in matches]))
                continue
            looks[seeker] = MatchLook(
                seeker.attempt.task.request.body,
                numbers,
                seeker.others,
                AUTOCLUSTERS_A_CLAIM,
                learns=known is not None and known.learns,
            )
        matched = Answer([])
        if looks:
            matched = await self._session.matchmaker.look(list(looks.values()), self._autoclusters)
            seen.update(zip(looks, matched.seen, strict=True))
        self._problems.update(matched.problems)
        for seeker in seekers:
            self._take(seeker, seen[seeker])
            if seeker in looks:
                self._learn(seeker, seen[seeker])
            if seen[seeker].postponed and matched.again_s is not None:
                seeker.look_again_in(matched.again_s)
        if matched.faults:
            await self._session.report_faults(matched.faults, self._left())

    def _learn(self, seeker: Seeker, seen: Seen) -> None:
        """Remember a slot's matches and misfits, as far as they last."""
        known = seeker.attempt.known
        if known is not None and known.learns and seen.problem is None:
            known.learns = seen.lasts
            self._session.slots.learn(known, seen.weights, seen.misfits)

    def _take(self, seeker: Seeker, seen: Seen) -> None:
        if seen.problem is not None:
            seeker.result = ClassAdError(seen.problem)
            return
        seeker.left_to_others |= seen.yielded
        choices = seeker.choices
        fit = {match.index for match in seen.matches}
        rotation = self._rotation(self._dealt, seeker)
        seeker.page = rotation.deal(
            [Weighed(choices[match.index], match.weight) for match in seen.matches],
            ranked=seeker.attempt.ranks,
        )
        looked_at_all = len(fit) < AUTOCLUSTERS_A_CLAIM and not seen.postponed
        if looked_at_all and not seen.yielded:
            seeker.attempt.misfits.add(
                choice.autocluster.autocluster_id for index, choice in enumerate(choices) if index not in fit
            )
        # if nothing matches, further passes would only get to postponed choices
        seeker.choices = (
            [choice for index, choice in enumerate(choices) if index not in fit]
            if fit and not looked_at_all
            else []
        )

    def _rotation(self, rotations: dict[tuple[str, ...], Rotation], seeker: Seeker) -> Rotation:
        queues = seeker.attempt.task.context.queues
        if queues not in rotations:
            rotations[queues] = Rotation(self._session.shares, queues)
        return rotations[queues]

    async def _keep_known_accounts(self, seekers: Sequence[Seeker]) -> None:
        """Set aside the choices whose owners have no account on this host."""
        checked = [seeker for seeker in seekers if seeker.attempt.task.context.check_accounts]
        owners = {ranked.choice.autocluster.owner for seeker in checked for ranked in seeker.page}
        if not owners:
            return
        known = await accounts.known(owners)
        if len(known) == len(owners):
            return
        for seeker in checked:
            for ranked in seeker.page:
                if accounts.is_missing(ranked.choice.autocluster.owner):
                    seeker.without_account.append(ranked)
            seeker.page = [ranked for ranked in seeker.page if ranked.choice.autocluster.owner in known]

    # -- claims

    async def _claim(self, seekers: Sequence[Seeker]) -> list[tuple[Seeker, offer.Taken]]:
        """Claim a run for each seeker that can have a job of its page.

        The first claim tries only the head of the page, since mostly the first job can be had; a seeker
        without a run keeps the rest of its page.
        """
        if not seekers:
            return []
        pages = [seeker.page[:FIRST_OF_A_CLAIM] if seeker.tries == 1 else seeker.page for seeker in seekers]
        wanted = [
            offer.Wanted(seeker.attempt, page, seeker.exclusive)
            for seeker, page in zip(seekers, pages, strict=True)
        ]
        runs: list[tuple[Seeker, offer.Taken]] = []
        answers = await offer.claim(self._session, wanted, self._left())
        for seeker, page, answer in zip(seekers, pages, answers, strict=True):
            if answer is None:
                seeker.page = seeker.page[len(page) :]
            elif isinstance(answer, FetchworkError):
                seeker.result = answer
            else:
                runs.append((seeker, answer))
        return runs

    async def _offer(self, seeker: Seeker, taken: offer.Taken) -> None:
        """Set a seeker's run as its result; leave it without a result if the job can't be printed."""
        autocluster = taken.of.choice.autocluster
        problem = self._problems.get(autocluster.autocluster_id)
        try:
            answer = await offer.offer(seeker.attempt, taken, problem)
        except FetchworkError as error:
            seeker.result = error
            return
        except Exception as error:
            # the defect is this offer's alone; the other slots of the round get theirs
            job = f"{taken.run.cluster_id}.{taken.run.proc_id}"
            event(log, logging.ERROR, "offer_failed", exc_info=True, job=job, slot=seeker.attempt.slot_name)
            seeker.result = FetchworkError(f"the offer of job {job} failed: {type(error).__name__}: {error}")
            await self._withdraw(taken, seeker.result)
            return
        if answer is not None:
            seeker.result = Look(answer)
        else:
            self._session.unprintable.failed(autocluster, time.monotonic())

    async def _withdraw(self, taken: offer.Taken, problem: FetchworkError) -> None:
        """Let the job of an offer that failed wait again; else it waits for the offer's deadline."""
        withdrawal = run_calls.withdraw(
            run_id=taken.run.run_id,
            token=taken.run.token,
            reason=str(problem),
            hold_reason=None,
            code=HoldCode.UNSPECIFIED,
        )
        with contextlib.suppress(FetchworkError):
            await self._session.database.run(withdrawal, timeout_s=self._left())

    async def _refuse_for_want_of_account(self, seeker: Seeker) -> None:
        """Refuse a job whose turn it was, but whose owner has no account on this host."""
        wanted = offer.Wanted(seeker.attempt, seeker.without_account, seeker.exclusive)
        (taken,) = await offer.claim(self._session, [wanted], self._left())
        if isinstance(taken, offer.Taken):
            await offer.refuse_for_want_of_account(self._session, taken.run)
