"""The agent's side: what to ask the worker, in which order, and which ad is to blame where it ended."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from fetchwork.errors import ClassAdError
from fetchwork.log import event
from fetchwork.matching.autoclusters import Autocluster
from fetchwork.matchmaker import mark
from fetchwork.matchmaker.bounds import ENDS_A_REQUEST, ITEM_CPU_S, SLICE_S
from fetchwork.matchmaker.budget import Budget
from fetchwork.matchmaker.messages import Answer, Explanation, Job, Judgement, Look, Match, Seen
from fetchwork.matchmaker.policy import Verdict
from fetchwork.matchmaker.printing import Run
from fetchwork.matchmaker.processes import Json, MatchmakerUnavailable, Processes, WorkerEnded

log = logging.getLogger(__name__)

#: slots' ads that the worker keeps
MAX_SLOTS = 512
#: jobs whose policy is asked for in one request, between which others have their turn
JOBS_A_REQUEST = 20
#: autoclusters that are explained in one request
ADS_A_REQUEST = 1000
TOO_LONG = f"evaluating it takes more than {ITEM_CPU_S} s of CPU"


@dataclass(frozen=True, slots=True)
class _Order:
    """Indices of a look's autoclusters: those to try first, and those to try if none of them fits."""

    first: list[int]
    doubtful: list[int]


class Matchmaker:
    """One worker at a time. Requests take turns; ``close`` ends the processes."""

    def __init__(self) -> None:
        self.processes = Processes()
        self._budget = Budget()
        self._turn = asyncio.Lock()
        self._numbers = itertools.count(1)
        #: what the worker of this number has: autoclusters, and slots' ads by their numbers
        self._worker = 0
        self._sent: set[int] = set()
        self._slots: dict[bytes, int] = {}

    # -- what is asked

    async def look(self, looks: Sequence[Look], ads: Mapping[int, Autocluster]) -> Answer:
        """Find which autoclusters may run on each slot; ``ads`` has all that the looks name.

        Never raises for what an ad does. Raises MatchmakerUnavailable where no worker can be had.
        """
        async with self._turn:
            answer = Answer([])
            ends = 0
            suspects: set[int] = set()
            while True:
                ordered = [self._ordered(look, ads, answer, ends) for look in looks]
                try:
                    reply = await self._match(looks, ordered, ads)
                except WorkerEnded as ended:
                    ends += 1
                    if ended.phase == mark.NOTHING and ends <= ENDS_A_REQUEST:
                        # while it waited, by a kill from outside or the kernel's want of memory
                        continue
                    if ended.phase not in (mark.MATCH, mark.AUTOCLUSTER):
                        raise MatchmakerUnavailable(f"matchmaker failed: {ended}") from None
                    if ended.number == signal.SIGPROF or ended.item in suspects:
                        self._blame(ads[ended.item], ended, answer)
                    else:
                        # memory, or a crash: the ads of others may have led to it
                        suspects.add(ended.item)
                        await self._try_alone(looks, ads, ended.item, answer)
                    continue
                self._learn(reply)
                answer.problems = {int(number): text for number, text in reply["problems"].items()}
                for look in reply["looks"]:
                    answer.faults.update(dict(look["failed"]))
                    matches = tuple(Match(index, rank, weight) for index, rank, weight in look["fit"])
                    answer.seen.append(
                        Seen(
                            matches,
                            look["yielded"],
                            tuple(look["skipped"]),
                            look["postponed"],
                            look["problem"],
                        )
                    )
                return answer

    async def print_ad(
        self,
        run: Run,
        slot: bytes,
        *,
        kept: Iterable[str],
        host: str,
        keyword: str,
        uid_domain: str | None,
    ) -> bytes:
        """The ad of a claimed run, as FETCH_WORK prints it.

        Raises ClassAdError where the job's ad is at fault.
        """
        request = {
            "op": "print",
            "run": asdict(run),
            "slot": _text(slot),
            "kept": sorted(kept),
            "host": host,
            "keyword": keyword,
            "uid_domain": uid_domain,
        }
        async with self._turn:
            reply = await self._alone(request)
        if "problem" in reply:
            raise ClassAdError(reply["problem"])
        return str(reply["ad"]).encode()

    async def judge(self, jobs: Sequence[Job]) -> list[Judgement]:
        """What the policy of each job wants.

        Never raises for what an ad does. Raises MatchmakerUnavailable where no worker can be had.
        """
        judgements: list[Judgement] = []
        for first in range(0, len(jobs), JOBS_A_REQUEST):
            async with self._turn:
                judgements += await self._judge(jobs[first : first + JOBS_A_REQUEST])
        return judgements

    async def explain(self, slot: bytes, ads: Mapping[int, Autocluster]) -> dict[int, Explanation]:
        """Why each autocluster may not run on a slot, or how the slot ranks it, for people to read."""
        explanations: dict[int, Explanation] = {}
        left = sorted(ads)
        while left:
            page = left[:ADS_A_REQUEST]
            request = {
                "op": "explain",
                "slot": _text(slot),
                "ads": [[number, ads[number].owner, ads[number].text] for number in page],
            }
            async with self._turn:
                reply = await self._alone(request)
            for number, reason, rank in reply.get("explanations", ()):
                explanations[number] = Explanation(reason, rank)
            if "problem" in reply:
                if reply.get("item") not in ads:
                    raise MatchmakerUnavailable(f"matchmaker failed: {reply['problem']}")
                # the others are asked for again
                explanations[reply["item"]] = Explanation("costly", 0.0)
            left = [number for number in left if number not in explanations]
        return explanations

    async def close(self) -> None:
        """End the worker and its zygote."""
        await self.processes.close()

    # -- matching

    def _ordered(self, look: Look, ads: Mapping[int, Autocluster], answer: Answer, ends: int) -> _Order:
        """Indices of a look's autoclusters; ``ends`` workers have ended over the request.

        After two, or without time left for its submitter, what is doubtful is left out; after some more, all
        that is not proven.
        """
        order = _Order([], [])
        for index, number in enumerate(look.autoclusters):
            if number in answer.faults:
                continue
            submitter = ads[number].submitter
            if self._budget.is_doubtful(submitter, number):
                if ends <= 1 and self._budget.has_time_for_doubtful(submitter):
                    order.doubtful.append(index)
            elif ends < ENDS_A_REQUEST or self._budget.is_proven(number):
                order.first.append(index)
        return order

    def _blame(self, ad: Autocluster, ended: WorkerEnded, answer: Answer) -> None:
        reason = _problem_of(ended)
        answer.faults[ad.autocluster_id] = reason
        self._budget.strike(ad.submitter, ad.autocluster_id)
        event(
            log,
            logging.WARNING,
            "autocluster_ended_matchmaker",
            autocluster=ad.autocluster_id,
            submitter=ad.submitter,
            reason=reason,
        )

    async def _try_alone(
        self, looks: Sequence[Look], ads: Mapping[int, Autocluster], number: int, answer: Answer
    ) -> None:
        """Evaluate one autocluster in a worker that has nothing else; blame it if that ends too."""
        self.processes.drop_worker()
        alone = [Look(look.slot, [number], (), 1) for look in looks if number in look.autoclusters]
        try:
            await self._match(alone, [_Order([0], [])] * len(alone), ads)
        except WorkerEnded as ended:
            self._blame(ads[number], ended, answer)
        self.processes.drop_worker()

    def _learn(self, reply: Json) -> None:
        self._sent.difference_update(reply["evicted"])
        for submitter, seconds in reply["spent"].items():
            self._budget.spend(submitter, seconds)
        self._budget.prove(reply["tried"])

    async def _match(
        self, looks: Sequence[Look], ordered: Sequence[_Order], ads: Mapping[int, Autocluster]
    ) -> Json:
        """Ask for these looks, with all that the worker does not have; ``ordered`` is of each."""
        if not self.processes.has_worker or self._worker != self.processes.worker:
            self._sent.clear()
            self._slots.clear()
        old_slots: list[int] = []
        if len(self._slots) > MAX_SLOTS:
            old_slots = list(self._slots.values())
            self._slots.clear()
        new_slots: list[tuple[int, str]] = []
        for text in {text for look in looks for text in (look.slot, *look.others)}:
            if text not in self._slots:
                self._slots[text] = next(self._numbers)
                new_slots.append((self._slots[text], _text(text)))
        pairs = list(zip(looks, ordered, strict=True))
        wanted = {
            look.autoclusters[index] for look, order in pairs for index in (*order.first, *order.doubtful)
        }
        missing = wanted - self._sent
        request = {
            "op": "match",
            "ads": [
                [ad.autocluster_id, ad.submitter, ad.owner, ad.text]
                for ad in (ads[number] for number in sorted(missing))
            ],
            "slots": new_slots,
            "old_slots": old_slots,
            "budgets": self._budget.left({ad.submitter for ad in ads.values()}),
            "looks": [
                {
                    "slot": self._slots[look.slot],
                    "autoclusters": [(index, look.autoclusters[index]) for index in order.first],
                    "doubtful": [(index, look.autoclusters[index]) for index in order.doubtful],
                    "slice_s": SLICE_S,
                    "others": [self._slots[text] for text in look.others],
                    "limit": look.limit,
                }
                for look, order in pairs
            ],
        }
        reply = await self.processes.ask(request)
        self._worker = self.processes.worker
        self._sent |= missing
        return reply

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
                # those before the one at fault are asked again, without it
                judgements += await self._judge(page[:at])
                judgements.append(await self._judge_alone(page[at], ended))
                continue
            for job, answer, seconds in zip(page, reply["judgements"], reply["spent"], strict=True):
                self._budget.spend(job.owner, seconds)
                judgements.append(_judgement_of(answer))
        return judgements

    def _affordable(self, jobs: Sequence[Job]) -> list[Job]:
        """The first of the jobs, up to one whose owner has used up his time; an exit is always judged."""
        left = self._budget.left({job.owner for job in jobs})
        return list(itertools.takewhile(lambda job: job.at_exit or left[job.owner] > 0.0, jobs))

    async def _judge_alone(self, job: Job, ended: WorkerEnded) -> Judgement:
        """The judgement on a job at which a worker ended."""
        if ended.number == signal.SIGPROF:
            answer: Json = {"problem": TOO_LONG}
        else:
            reply = await self._alone({"op": "policy", "jobs": [asdict(job)]})
            answer = reply if "problem" in reply else reply["judgements"][0]
        if "problem" in answer:
            self._budget.strike(job.owner)
        return _judgement_of(answer)

    async def _alone(self, request: Json) -> Json:
        """Ask what concerns one job; its problem where it ends the worker, twice or by its CPU time."""
        for last in (False, True):
            try:
                return await self.processes.ask(request)
            except WorkerEnded as ended:
                if last or ended.number == signal.SIGPROF:
                    return {"problem": _problem_of(ended), "item": ended.item}
        raise AssertionError


def _judgement_of(answer: Json) -> Judgement:
    verdict = Verdict(**answer["verdict"]) if answer.get("verdict") else None
    return Judgement(verdict, answer.get("problem"))


def _problem_of(ended: WorkerEnded) -> str:
    if ended.number == signal.SIGPROF:
        return TOO_LONG
    return f"evaluating it ended the matchmaker (signal {ended.number})"


def _text(ad: bytes) -> str:
    return ad.decode("utf-8", "replace")
