"""The agent's side of the matchmaker: it asks the worker, and finds the ad to blame if the worker ends."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from fetchwork.errors import ClassAdError
from fetchwork.ipc.frames import Json
from fetchwork.log import event
from fetchwork.matching.autoclusters import Autocluster
from fetchwork.matchmaker import mark
from fetchwork.matchmaker.bounds import ENDS_A_REQUEST, ITEM_CPU_S, LOOK_CPU_S, SLICE_S
from fetchwork.matchmaker.budget import Budget
from fetchwork.matchmaker.expansion import CannotExpand
from fetchwork.matchmaker.knowledge import WorkersKnowledge, text_of
from fetchwork.matchmaker.messages import Answer, Explanation, Job, Judgement, Look, Match, Printed, Seen
from fetchwork.matchmaker.policy import Verdict
from fetchwork.matchmaker.printing import Run, print_plain
from fetchwork.matchmaker.processes import MatchmakerUnavailable, Processes, WorkerEnded

log = logging.getLogger(__name__)

#: jobs whose policy one request judges; between requests others have their turn
JOBS_A_REQUEST = 20
#: autoclusters that are explained in one request
ADS_A_REQUEST = 1000
#: the most values that are remembered as readable, and the most characters of such a value
MAX_READABLE = 10_000
READABLE_SIZE = 4096
TOO_LONG = f"evaluating it takes more than {ITEM_CPU_S} s of CPU"


@dataclass(slots=True)
class _Inquiry:
    """A call of ``look``: its looks, its answer so far, and the workers that it has cost."""

    looks: Sequence[Look]
    ads: Mapping[int, Autocluster]
    answer: Answer
    ends: int = 0
    suspects: set[int] = field(default_factory=set)
    spent_s: float = 0.0
    #: the last request evaluated something new, or sent new ads to the worker
    advances: bool = False
    #: submitters whose items have ended a worker in this call
    ended: set[str] = field(default_factory=set)
    #: nothing else fits: suspicious autoclusters are tried as well
    dares: bool = False

    @property
    def may_dare(self) -> bool:
        """Whether a slot without a match might match an autocluster that was left out."""
        return (
            not self.dares
            and self.ends <= 1
            and any(seen.postponed and not seen.matches for seen in self.answer.seen)
        )


#: the part of a look that may be evaluated: indices (None: all), ids, and whether any are left out for now
_List = tuple[list[int] | None, Sequence[int], bool]


class Matchmaker:
    """Asks one worker at a time. Requests take turns; ``close`` ends the processes."""

    def __init__(self) -> None:
        self.processes = Processes()
        self._budget = Budget()
        self._turn = asyncio.Lock()
        #: the number of the worker that ``_known`` is about
        self._worker = 0
        self._known = WorkersKnowledge()
        #: values of jobs' ads that HTCondor could read: the agent prints ads with such values itself
        self._readable: set[object] = set()

    # -- requests

    async def look(self, looks: Sequence[Look], ads: Mapping[int, Autocluster]) -> Answer:
        """Find the autoclusters that may run on each slot; ``ads`` has all that the looks name.

        No ad makes it raise an error. Raises MatchmakerUnavailable if no worker can be had.
        """
        inquiry = _Inquiry(looks, ads, Answer([]))
        async with self._turn:
            while True:
                try:
                    more = await self._look_once(inquiry)
                except WorkerEnded as ended:
                    await self._how_to_go_on(inquiry, ended)
                    continue
                if more and inquiry.spent_s < LOOK_CPU_S:
                    continue
                if not inquiry.may_dare or not self._budget.suspicious() > self._left_out_of_all(inquiry):
                    break
                inquiry.dares = True
            if inquiry.answer.postponed:
                inquiry.answer.again_s = 0.0 if inquiry.advances else self._budget.again_s()
        return inquiry.answer

    async def expect(self, slot: bytes) -> None:
        """Let the worker read the ad of a slot that a look will name soon, while the database is asked."""
        if self._turn.locked() or not self._has_same_worker or slot in self._known.slots:
            return
        async with self._turn:
            slots = [(self._known.new_slot(slot), text_of(slot))]
            await self.processes.tell({"op": "slots", "slots": slots})

    @property
    def _has_same_worker(self) -> bool:
        """Whether the present worker is the one that got the ads in ``_known``."""
        return self.processes.has_worker and self.processes.worker == self._worker

    async def print_ad(
        self,
        run: Run,
        slot: bytes,
        *,
        kept: Iterable[str],
        host: str,
        keyword: str,
        uid_domain: str | None,
    ) -> Printed:
        """Return the ad of a claimed run, as FETCH_WORK prints it.

        Raises ClassAdError if the job's ad is at fault, CannotExpand if a macro in it has no value.
        """
        kept = frozenset(kept)
        plain = print_plain(
            run,
            slot,
            kept=kept,
            host=host,
            keyword=keyword,
            uid_domain=uid_domain,
            readable=self._readable,
        )
        if plain is not None:
            return Printed(plain.encode())
        async with self._turn:
            # the worker has just matched the slot, unless the worker is new
            number = self._known.slots.get(slot) if self._has_same_worker else None
            request = {
                "op": "print",
                "run": asdict(run),
                "kept": sorted(kept),
                "host": host,
                "keyword": keyword,
                "uid_domain": uid_domain,
            }
            whole = {**request, "slot": text_of(slot)}
            reply = await self._alone(whole if number is None else {**request, "slot_number": number}, whole)
        if "unexpanded" in reply:
            raise CannotExpand(reply["unexpanded"])
        if "problem" in reply:
            raise ClassAdError(reply["problem"])
        if len(self._readable) > MAX_READABLE:
            self._readable.clear()
        self._readable.update(
            value for value in run.ad.values() if isinstance(value, str) and len(value) < READABLE_SIZE
        )
        return Printed(str(reply["ad"]).encode(), reply["remembered"])

    async def judge(self, jobs: Sequence[Job]) -> list[Judgement]:
        """Return the judgement of each job's policy.

        No ad makes it raise an error. Raises MatchmakerUnavailable if no worker can be had.
        """
        judgements: list[Judgement] = []
        for first in range(0, len(jobs), JOBS_A_REQUEST):
            async with self._turn:
                judgements += await self._judge(jobs[first : first + JOBS_A_REQUEST])
        return judgements

    async def explain(self, slot: bytes, ads: Mapping[int, Autocluster]) -> dict[int, Explanation]:
        """Return for people why each autocluster may not run on a slot, or the slot's rank of it."""
        explanations: dict[int, Explanation] = {}
        left = sorted(ads)
        while left:
            page = left[:ADS_A_REQUEST]
            request = {
                "op": "explain",
                "slot": text_of(slot),
                "ads": [[number, ads[number].owner, ads[number].text] for number in page],
            }
            async with self._turn:
                reply = await self._alone(request)
            for number, reason, rank in reply.get("explanations", ()):
                explanations[number] = Explanation(reason, rank)
            if "problem" in reply:
                if reply.get("item") not in ads:
                    raise MatchmakerUnavailable(f"matchmaker failed: {reply['problem']}")
                # the next request asks for the others again
                explanations[reply["item"]] = Explanation("costly", 0.0)
            left = [number for number in left if number not in explanations]
        return explanations

    async def close(self) -> None:
        """End the worker and its zygote."""
        await self.processes.close()

    # -- matching

    async def _look_once(self, inquiry: _Inquiry) -> bool:
        """Send all looks with a slice of each submitter's time; return whether asking again may find more."""
        answer = inquiry.answer
        lists = self._lists(inquiry)
        reply, sent = await self._match(inquiry.looks, [ids for _, ids, _ in lists], inquiry.ads)
        self._known.ads.difference_update(reply["evicted"])
        for submitter, seconds in reply["spent"].items():
            self._budget.spend(submitter, seconds)
        self._budget.prove(reply["tried"])
        answer.problems.update((int(number), text) for number, text in reply["problems"].items())
        answer.seen = []
        for (indices, ids, left_out), look, wanted in zip(lists, reply["looks"], inquiry.looks, strict=True):
            answer.faults.update(look["failed"])
            matches = tuple(
                Match(indices[index] if indices is not None else index, weight)
                for index, weight in look["fit"]
            )
            postponed = look["postponed"] or left_out
            seen = Seen(matches, look["yielded"], postponed, look["problem"])
            answer.seen.append(_with_what_lasts(seen, look, ids, wanted) if wanted.learns else seen)
        spent = sum(reply["spent"].values())
        inquiry.spent_s += spent
        # without progress another request finds nothing: no submitter has time left
        inquiry.advances = spent > 0.0 or sent
        return inquiry.advances and any(look["more"] for look in reply["looks"])

    def _lists(self, inquiry: _Inquiry) -> list[_List]:
        """Return the part of each look that may be evaluated.

        Skips autoclusters that failed before. Skips unproven autoclusters of submitters whose ads ended a
        worker lately, and all unproven ones once too many workers have ended over this request.
        """
        faults = inquiry.answer.faults
        dares = inquiry.dares and inquiry.ends <= 1
        left_out = self._left_out_of_all(inquiry) if dares else self._budget.suspicious()
        only_proven = inquiry.ends >= ENDS_A_REQUEST
        known: dict[int, _List] = {}
        lists: list[_List] = []
        for look in inquiry.looks:
            if not (faults or left_out or only_proven):
                lists.append((None, look.autoclusters, False))
                continue
            if id(look.autoclusters) not in known:
                indices: list[int] = []
                waits = False
                for index, number in enumerate(look.autoclusters):
                    if number in faults:
                        continue
                    submitter = inquiry.ads[number].submitter
                    if (only_proven or submitter in left_out) and not self._budget.is_proven(number):
                        waits = True
                    else:
                        indices.append(index)
                ids = [look.autoclusters[index] for index in indices]
                known[id(look.autoclusters)] = (indices, ids, waits)
            lists.append(known[id(look.autoclusters)])
        return lists

    def _left_out_of_all(self, inquiry: _Inquiry) -> frozenset[str]:
        """Return submitters whose unproven autoclusters are not tried even if nothing else fits.

        A submitter whose first costly ad was among these looks has one more try: mostly there is only one.
        """
        return self._budget.paused() - (inquiry.ended if inquiry.ends == 1 else frozenset())

    async def _how_to_go_on(self, inquiry: _Inquiry, ended: WorkerEnded) -> None:
        """Find the ad to blame, if any, for a worker that ended over an inquiry."""
        inquiry.ends += 1
        if ended.phase == mark.NOTHING and inquiry.ends <= ENDS_A_REQUEST:
            # it was idle: a kill from outside, or the kernel lacked memory
            return
        if ended.phase not in (mark.MATCH, mark.AUTOCLUSTER):
            raise MatchmakerUnavailable(f"matchmaker failed: {ended}") from None
        if ended.number == signal.SIGPROF or ended.item in inquiry.suspects:
            self._blame(inquiry, ended.item, ended)
        else:
            # memory, or a crash: other ads may have caused it
            inquiry.suspects.add(ended.item)
            await self._try_alone(inquiry, ended.item)

    def _blame(self, inquiry: _Inquiry, number: int, ended: WorkerEnded) -> None:
        ad, reason = inquiry.ads[number], _problem_of(ended)
        inquiry.answer.faults[number] = reason
        inquiry.ended.add(ad.submitter)
        self._budget.suspect(ad.submitter, ad.autocluster_id)
        event(
            log,
            logging.WARNING,
            "autocluster_ended_matchmaker",
            person=ad.submitter,
            autocluster=ad.autocluster_id,
            submitter=ad.submitter,
            reason=reason,
        )

    async def _try_alone(self, inquiry: _Inquiry, number: int) -> None:
        """Evaluate one autocluster in a new worker; blame it if that worker ends, too."""
        self.processes.drop_worker()
        alone = [Look(look.slot, [number], (), 1) for look in inquiry.looks if number in look.autoclusters]
        try:
            await self._match(alone, [look.autoclusters for look in alone], inquiry.ads)
        except WorkerEnded as ended:
            self._blame(inquiry, number, ended)
        self.processes.drop_worker()

    async def _match(
        self, looks: Sequence[Look], lists: Sequence[Sequence[int]], ads: Mapping[int, Autocluster]
    ) -> tuple[Json, bool]:
        """Send these looks with their lists and the ads that the worker lacks.

        Returns the answer, and whether the worker lacked any.
        """
        left = self._budget.left({ad.submitter for ad in ads.values()})
        allowances = {name: min(SLICE_S, seconds) for name, seconds in left.items() if seconds > 0.0}
        if not self._has_same_worker:
            self._known.clear()
        request = self._known.request_for(looks, lists, ads, allowances)
        reply = await self.processes.ask(request.to_message())
        self._worker = self.processes.worker
        self._known.ads.update(ad.autocluster_id for ad in request.ads)
        return reply, bool(request.ads)

    # -- policy

    async def _judge(self, jobs: Sequence[Job]) -> list[Judgement]:
        judgements: list[Judgement] = []
        while len(judgements) < len(jobs):
            page = self._affordable(jobs[len(judgements) :])
            if not page:
                judgements.append(Judgement(None))
                continue
            try:
                reply = await self.processes.ask({"op": "policy", "jobs": [asdict(job) for job in page]})
            except WorkerEnded as ended:
                at = ended.item if ended.phase == mark.POLICY and ended.item < len(page) else 0
                # the jobs before it are judged again, without it
                judgements += await self._judge(page[:at])
                judgements.append(await self._judge_alone(page[at], ended))
                continue
            for job, answer, seconds in zip(page, reply["judgements"], reply["spent"], strict=True):
                self._budget.spend(job.owner, seconds)
                judgements.append(_judgement_of(answer))
        return judgements

    def _affordable(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the first jobs, up to one whose owner has no time left; an end is always judged."""
        left = self._budget.left({job.owner for job in jobs})
        return list(itertools.takewhile(lambda job: job.ends or left[job.owner] > 0.0, jobs))

    async def _judge_alone(self, job: Job, ended: WorkerEnded) -> Judgement:
        """Return the judgement on a job at which a worker ended."""
        if ended.number == signal.SIGPROF:
            answer: Json = {"problem": TOO_LONG}
        else:
            reply = await self._alone({"op": "policy", "jobs": [asdict(job)]})
            answer = reply if "problem" in reply else reply["judgements"][0]
        if "problem" in answer:
            self._budget.suspect(job.owner)
        return _judgement_of(answer)

    async def _alone(self, request: Json, again: Json | None = None) -> Json:
        """Send a request about one job; return a problem if it ends the worker twice, or by its CPU time.

        ``again`` is the request for a new worker, if that needs more than ``request``.
        """
        for last in (False, True):
            try:
                return await self.processes.ask(again or request if last else request)
            except WorkerEnded as ended:
                if last or ended.number == signal.SIGPROF:
                    return {"problem": _problem_of(ended), "item": ended.item}
        raise AssertionError


def _judgement_of(answer: Json) -> Judgement:
    verdict = Verdict(**answer["verdict"]) if answer.get("verdict") else None
    return Judgement(verdict, answer.get("problem"))


def _with_what_lasts(seen: Seen, look: Json, ids: Sequence[int], wanted: Look) -> Seen:
    """Return ``seen`` with the verdicts that may be remembered."""
    if look["unsure"] is None:
        return replace(seen, lasts=False)
    unsure = {*look["unsure"], *(number for number, _ in look["failed"])}
    fit = {wanted.autoclusters[match.index]: match.weight for match in seen.matches}
    return replace(
        seen,
        weights={number: weight for number, weight in fit.items() if number not in unsure},
        misfits=[number for number in ids[: look["looked"]] if number not in fit and number not in unsure],
    )


def _problem_of(ended: WorkerEnded) -> str:
    if ended.number == signal.SIGPROF:
        return TOO_LONG
    return f"evaluating it ended the matchmaker (signal {ended.number})"
