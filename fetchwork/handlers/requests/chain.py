"""The requests of a chain's runner: the first job, and the end of one with the next.

``chain_first`` only hands over the job whose start PREPARE_JOB has confirmed. ``chain_next`` is a JOB_EXIT
and a FETCH_WORK with its PREPARE_JOB in one, and one call of the database if the end is a common one. A
runner that got no answer repeats its request: the answer to the last end is kept for that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from fetchwork.classad.values import ClassAd
from fetchwork.codes import HoldCode
from fetchwork.db.calls import runs as run_calls
from fetchwork.db.calls.call import JsonObject
from fetchwork.errors import ClassAdError, DatabaseUnavailable, FetchworkError, one_line
from fetchwork.handlers.context import Answer, Denied, Subject, Task
from fetchwork.handlers.host.chainreports import Wish
from fetchwork.handlers.host.chains import Chain
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.host.starterlog import MOST_CHARACTERS, Fault, fault_of
from fetchwork.handlers.requests import adfiles, finish, offer
from fetchwork.handlers.requests.fetch import FetchAttempt
from fetchwork.handlers.requests.matchround import MatchRound, Seeker
from fetchwork.handlers.requests.start import could_not_start
from fetchwork.handlers.runad import RunKey, read_starter_ad, report, run_key
from fetchwork.hook.wire import Reply, Request
from fetchwork.matching.rotation import Weighed
from fetchwork.matchmaker.expansion import CannotExpand

#: seconds for a call, as for a JOB_EXIT
DATABASE_S = 4.0
#: the most choices that one claim tries
MOST_CHOICES = 8


async def chain_first(task: Task) -> Answer:
    """Hand over the first job of a chain, as often as its runner asks."""
    key = run_key(read_starter_ad(task.request.body))
    run = await task.own_run(key)
    chain = run.chain if run is not None and run.is_running else None
    if run is None or chain is None or chain.first != run.run_id or not chain.job:
        raise Denied(f"run {key.run_id} is not the first of a chain that goes on")
    _check_starter(task, run)
    return Subject(run.slot, run.run_id, run.job).answer("begun", Reply(_text(run, chain)))


async def chain_next(task: Task) -> Answer:
    """Record the end of a chain's job, and hand over the next; an empty reply ends the chain."""
    ad = read_starter_ad(task.request.body)
    key = run_key(ad)
    run = await task.own_run(key)
    chain = run.chain if run is not None else task.runs.chain_after(task.context.session, key)
    if chain is None:
        # another agent began it: the end is recorded as JOB_EXIT's, and the chain is over
        return await _job_exit(task)
    async with chain.turn:
        if chain.answered is not None and chain.answered[:2] == (key.run_id, key.token):
            return Subject(chain.slot, key.run_id).answer("again", Reply(chain.answered[2]))
        if run is None or run.ended:
            return await _job_exit(task)
        _check_starter(task, run)
        with run.reporting():
            answer = await _Next(task, key, run, chain).answer()
        if not answer.reply.code:
            chain.answered = key.run_id, key.token, answer.reply.body
        return answer


async def _job_exit(task: Task) -> Answer:
    """Record the end as JOB_EXIT's; spooled, it has to be a report of JOB_EXIT."""
    asked = task.request
    request = Request("job_exit", asked.body, keyword=asked.keyword, arg=asked.arg, slot=asked.slot)
    return await finish.job_exit(replace(task, request=request))


def _check_starter(task: Task, run: LiveRun) -> None:
    starter = task.caller.starter
    if not task.caller.trusted and run.starter is not None and starter != run.starter:
        raise Denied(f"run {run.run_id} belongs to another starter")


def _text(run: LiveRun, chain: Chain) -> bytes:
    """Return the text of a run's job for the runner: its ad, and the content of .job.ad."""
    slot_ad, parsed = chain.slot_now or (b"", ClassAd())
    _, _, job_ad = adfiles.ad_files(chain.job, slot_ad, parsed, run.facts).rpartition(adfiles.SEPARATOR)
    return chain.job + adfiles.SEPARATOR + job_ad


@dataclass(slots=True)
class _Next:
    """The end of a run, and the next run of its chain."""

    task: Task
    key: RunKey
    run: LiveRun
    chain: Chain

    async def answer(self) -> Answer:
        """Record the end, and start the next job if there is one for this chain."""
        task, run = self.task, self.run
        # the wish for the next job counts this one's slot as free
        run.free_slot()
        ended = report(read_starter_ad(task.request.body))
        over = self._over
        common = (
            task.request.arg == "exit"
            and not task.request.check
            and not run.has_policy
            and not run.memory_capped
            and run.state == "running"
        )
        if not common or over:
            first = await self._end_alone()
            wish = None if over or first.outcome == "spooled" else await self._wish()
            return await self._next(first, None if wish is None else await self._ask(None, wish))
        wish = await self._wish()
        if wish is None:
            return await self._next(await self._end_alone(), None)
        row = await self._ask((self.key.run_id, self.key.token, ended), wish)
        if not row.ended:
            # not a common end: the host or the job may be at fault, or a person has asked for it
            first = await self._end_alone()
            if first.outcome == "spooled":
                return await self._next(first, None)
            row = await self._ask(None, wish)
        else:
            task.runs.ended(task.context.session, self.key.run_id)
            details = {name: ended[name] for name in ("ExitCode", "ExitSignal") if name in ended}
            first = Subject(run.slot, run.run_id, run.job).answer("completed", None, **details)
        return await self._next(first, row)

    @property
    def _over(self) -> str | None:
        """The reason for which the chain ends here, without a look at waiting jobs; None if it may go on."""
        if self.task.request.arg != "exit":
            return "evicted"
        if self.chain.leaving:
            return "slot"
        return "time" if self.chain.over or not self.task.context.chain_s else None

    # -- the end

    async def _end_alone(self) -> Answer:
        """Record an end that is not common, or that no job follows."""
        task, run = self.task, self.run
        if not task.request.check:
            return await _job_exit(task)
        fault = fault_of(one_line(task.request.check, MOST_CHARACTERS))
        await self._could_not_start(run, fault)
        return Subject(run.slot, run.run_id, run.job).answer("could_not_start", None, reason=fault.text)

    async def _could_not_start(self, run: LiveRun, fault: Fault) -> None:
        session = self.task.context.session
        call = could_not_start(run.run_id, run.token, fault, run.slot)
        await session.database.run(call, timeout_s=self.task.left(DATABASE_S))
        self.task.runs.ended(session, run.run_id)

    # -- the next job

    def _fetch(self) -> Task:
        """Return the request as which the slot would fetch, by the ad of the chain's offer."""
        task = self.task
        request = Request("fetch_work", self.chain.slot_ad, keyword=task.request.keyword)
        return Task(request, task.caller, task.context, task.runs, task.end)

    async def _wish(self) -> Wish | None:
        """Return what the slot would fetch now, as far as it fits the chain; None if that is nothing."""
        task, chain = self.task, self.chain
        seeker = Seeker(FetchAttempt(self._fetch()), exclusive=True)
        await MatchRound(task.context.session, [seeker]).first_pages()
        page: list[Weighed] = []
        for ranked in seeker.page[:MOST_CHOICES]:
            if not chain.takes(ranked.choice.autocluster):
                break
            page.append(ranked)
        if not page:
            return None
        return Wish(
            slot=chain.slot,
            starter=self.run.starter.key if self.run.starter is not None else None,
            chain=chain.first,
            choices=[(ranked.choice.autocluster.autocluster_id, ranked.choice.prio) for ranked in page],
            weights=[ranked.weight for ranked in page],
            same=chain.same,
        )

    async def _ask(self, ended: tuple[int, str, JsonObject] | None, wish: Wish) -> run_calls.Next:
        task = self.task
        session = task.context.session
        greeting = await session.hello(task.left(DATABASE_S))
        try:
            row, pair = await session.chains.next(
                greeting.host_id,
                ended,
                wish,
                lease_s=task.context.lease_s,
                timeout_s=task.left(DATABASE_S),
            )
        except DatabaseUnavailable:
            # it may have started a run that this process has not heard of
            session.has_unheard_claim = True
            raise
        if pair is not None and row.run_id is not None:
            weight = self.run.charged[1] if self.run.charged is not None else 1.0
            session.shares.claimed(self.chain.submitter, weight=weight)
            session.demand.got(pair)
        elif row.ended:
            now = time.monotonic()
            for choice in wish.choices:
                session.positions.found_nothing(*choice)
                session.demand.in_vain(choice, now)
        return row

    async def _next(self, first: Answer, row: run_calls.Next | None) -> Answer:
        """Return the answer with the run of ``row``; it is ``first``, which ends the chain, without one."""
        if row is None or row.run_id is None:
            over = self._over or ("database" if first.outcome == "spooled" else "no_job")
            self.chain.finish()
            return replace(first, details={**first.details, "chain_over": over})
        task, chain = self.task, self.chain
        claimed = Claimed.of_row(row)
        run = offer.live_run(task.context, chain.slot, claimed)
        run.chain, run.charged = chain, self.run.charged
        try:
            printed = await offer.print_ad(self._fetch(), run, claimed)
        except CannotExpand as error:
            await self._drop(run, Fault(str(error), HoldCode.UNSPECIFIED))
            return first
        except ClassAdError as error:
            await self._drop(run, Fault(f"the job's ad can't be read: {error}", HoldCode.UNSPECIFIED))
            return first
        except FetchworkError as error:
            await self._drop(run, Fault(f"its ad could not be printed: {error}"))
            return first
        offer.describe(run, printed.text, chain.slot_ad, claimed)
        chain.job = printed.text
        text = _text(run, chain)
        task.runs.offered(run)
        task.runs.started(run, self.run.starter, chain.slot)
        details = {**first.details, "next": run.job}
        return Answer(Reply(text), first.outcome, first.slot, first.job, first.run_id, details)

    async def _drop(self, run: LiveRun, fault: Fault) -> None:
        """End a run whose job can't be handed over, and the chain."""
        self.chain.finish()
        try:
            await self._could_not_start(run, fault)
        except DatabaseUnavailable:
            # its runner never hears of it: it is given up as a run without a process
            self.task.runs.offered(run)
            self.task.runs.started(run, self.run.starter, self.chain.slot)


@dataclass(frozen=True, slots=True)
class Claimed:
    """The run of a row that has one."""

    run_id: int
    token: object
    cluster_id: int
    proc_id: int
    owner: str
    has_policy: bool
    ad: JsonObject
    facts: JsonObject

    @classmethod
    def of_row(cls, row: run_calls.Next) -> Claimed:
        """Return the run of a row of ``next_runs``."""
        assert row.run_id is not None and row.cluster_id is not None and row.proc_id is not None
        assert row.owner is not None and row.ad is not None and row.facts is not None
        return cls(
            row.run_id,
            row.token,
            row.cluster_id,
            row.proc_id,
            row.owner,
            bool(row.has_policy),
            row.ad,
            row.facts,
        )
