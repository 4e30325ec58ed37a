"""The agent's side: asks the worker, replaces it, and knows which item ended it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fetchwork.codes import HoldCode
from fetchwork.errors import ClassAdError, FetchworkError
from fetchwork.log import event
from fetchwork.matching.autoclusters import Autocluster
from fetchwork.matchmaker import frames, mark
from fetchwork.matchmaker.bounds import (
    ENDS_A_REQUEST,
    ITEM_CPU_S,
    PERIOD_S,
    REQUEST_S,
    STRIKE_S,
    SUBMITTER_CPU_S,
)
from fetchwork.matchmaker.policy import Verdict
from fetchwork.matchmaker.printing import Run

log = logging.getLogger(__name__)

Json = dict[str, Any]

#: slots' ads that the worker keeps
MAX_SLOTS = 512
#: jobs whose policy is asked for in one request, and autoclusters that are explained in one
JOBS_A_REQUEST = 100
ADS_A_REQUEST = 1000
TOO_LONG = f"evaluating it takes more than {ITEM_CPU_S} s of CPU"


class MatchmakerUnavailable(FetchworkError):
    """No worker could be had, or the wall clock ended it: nobody's ad is to blame."""


@dataclass(frozen=True, slots=True)
class Look:
    """A slot that may be given a job, and what waits for one, in the order of preference."""

    slot: bytes
    #: ids; the same one may stand at several places
    autoclusters: Sequence[int]
    #: ads of other slots that wait: jobs whose Rank prefers one of those are left to it
    others: Sequence[bytes] = ()
    limit: int = 64


@dataclass(frozen=True, slots=True)
class Match:
    """An autocluster that may run on the slot; one with a problem fits each slot, to be held there."""

    #: its place in the look's ``autoclusters``
    index: int
    rank: float
    weight: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one ``Look``."""

    matches: tuple[Match, ...]
    #: some jobs were left to other slots
    yielded: bool = False
    #: submitters who have used up their time: the rest of theirs was not looked at
    skipped: tuple[str, ...] = ()
    #: why the slot's ad can't be read
    problem: str | None = None


@dataclass(slots=True)
class Answer:
    """What came of all looks of a request, and what went wrong with single autoclusters on the way."""

    seen: list[Seen]
    #: autoclusters whose evaluation failed or took too much on a slot: their reason
    faults: dict[int, str] = field(default_factory=dict)
    #: autoclusters whose own ad can't be read on any slot: their reason
    problems: dict[int, str] = field(default_factory=dict)

    @property
    def left_to_others(self) -> bool:
        """Whether some jobs were left to other slots, which they prefer."""
        return any(seen.yielded for seen in self.seen)


@dataclass(frozen=True, slots=True)
class Job:
    """A job whose policy is asked for; ``ad`` is the whole of it, in HTCondor's JSON form."""

    ad: Mapping[str, object]
    report: Mapping[str, object] = field(default_factory=dict)
    at_exit: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a job's policy wants (None: nothing), or why it can't be evaluated."""

    verdict: Verdict | None
    problem: str | None = None

    def hold(self) -> Verdict | None:
        """The verdict on a job whose policy can't be evaluated: it is unknown what the policy wants."""
        if self.problem is None:
            return None
        reason = f"policy can't be evaluated: {self.problem}"
        return Verdict("hold", reason, HoldCode.JOB_POLICY_UNDEFINED)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an autocluster may not run on a slot (None: it may), and the slot's Rank of it."""

    reason: str | None
    rank: float


class _WorkerEnded(Exception):
    """The worker has ended, by this signal, at this item."""

    def __init__(self, number: int, phase: bytes, item: int) -> None:
        super().__init__(f"worker ended by signal {number} at item {phase.hex()} {item}")
        self.number, self.phase, self.item = number, phase, item


class Matchmaker:
    """One zygote and its present worker. Requests take turns; ``close`` ends both processes."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._link: socket.socket | None = None
        self._numbers = itertools.count(1)
        self._worker = 0
        #: what the present worker has
        self._sent: set[int] = set()
        self._slots: dict[bytes, int] = {}
        #: autoclusters that were evaluated to the end once
        self._proven: set[int] = set()
        self._strikes: dict[str, float] = {}
        self._spent: dict[str, float] = {}
        self._period_ends = 0.0
        #: workers that were replaced
        self.replaced = 0

    # -- what is asked

    async def look(self, looks: Sequence[Look], ads: Mapping[int, Autocluster]) -> Answer:
        """Find which autoclusters may run on each slot; ``ads`` has all that the looks name.

        Never raises for what an ad does. Raises MatchmakerUnavailable where no worker can be had.
        """
        async with self._turn:
            answer = Answer([])
            ends = 0
            suspect: tuple[int, ...] = ()
            while True:
                ordered = [self._ordered(look, ads, answer, ends < ENDS_A_REQUEST) for look in looks]
                try:
                    reply = await self._ask(self._match_request(looks, ordered, ads))
                except _WorkerEnded as ended:
                    ends += 1
                    if ended.phase == mark.NOTHING and ends <= ENDS_A_REQUEST:
                        # while it waited, by somebody's kill or the kernel's want of memory
                        continue
                    if ended.phase not in (mark.MATCH, mark.AUTOCLUSTER):
                        raise MatchmakerUnavailable(f"matchmaker failed: {ended}") from None
                    if ended.number != signal.SIGPROF and ended.item not in suspect:
                        # memory, or a crash: another one's ads may have led to it
                        suspect = (*suspect, ended.item)
                        if ends <= 2 * ENDS_A_REQUEST:
                            await self._try_alone(looks, ads, ended.item, answer)
                            continue
                    self._blame(ads[ended.item], ended, answer)
                    continue
                self._learn(reply, looks, ordered)
                answer.problems = {int(number): text for number, text in reply["problems"].items()}
                for look in reply["looks"]:
                    answer.faults.update(dict(look.get("failed", ())))
                    matches = tuple(Match(index, rank, weight) for index, rank, weight in look["fit"])
                    answer.seen.append(
                        Seen(matches, look["yielded"], tuple(look["skipped"]), look.get("problem"))
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
        async with self._turn:
            request = {
                "op": "print",
                "run": asdict(run),
                "slot": _text(slot),
                "kept": sorted(kept),
                "host": host,
                "keyword": keyword,
                "uid_domain": uid_domain,
            }
            reply = await self._alone(request)
        if "problem" in reply:
            raise ClassAdError(reply["problem"])
        return str(reply["ad"]).encode()

    async def judge(self, jobs: Sequence[Job]) -> list[Judgement]:
        """What the policy of each job wants.

        Never raises for what an ad does. Raises MatchmakerUnavailable where no worker can be had.
        """
        answers: list[Json] = []
        async with self._turn:
            while len(answers) < len(jobs):
                page = [asdict(job) for job in jobs[len(answers) : len(answers) + JOBS_A_REQUEST]]
                try:
                    answers += (await self._ask({"op": "policy", "jobs": page}))["judgements"]
                except _WorkerEnded as ended:
                    # those before the one at fault are asked again, without it
                    before = ended.item if ended.phase == mark.POLICY else 0
                    for some in (page[:before], page[before : before + 1]):
                        if some:
                            reply = await self._alone({"op": "policy", "jobs": some})
                            answers += reply.get("judgements", [reply] * len(some))
        return [
            Judgement(Verdict(**answer["verdict"]) if answer.get("verdict") else None, answer.get("problem"))
            for answer in answers
        ]

    async def explain(self, slot: bytes, ads: Mapping[int, Autocluster]) -> dict[int, Explanation]:
        """Why each autocluster may not run on a slot, or how the slot ranks it, for people to read."""
        explanations: dict[int, Explanation] = {}
        async with self._turn:
            left = sorted(ads)
            while left:
                request = {
                    "op": "explain",
                    "slot": _text(slot),
                    "ads": [[number, ads[number].owner, ads[number].text] for number in left[:ADS_A_REQUEST]],
                }
                reply = await self._alone(request)
                if "problem" in reply:
                    # which one it was, is known: the others are asked for again
                    number = int(reply.get("item", left[0]))
                    explanations[number] = Explanation("costly", 0.0)
                for number, reason, rank in reply.get("explanations", ()):
                    explanations[number] = Explanation(reason, rank)
                left = [number for number in left if number not in explanations]
        return explanations

    async def close(self) -> None:
        """End the worker and its zygote."""
        self._drop_worker()
        if self._control is not None:
            self._control.close()
            self._control = None
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            with contextlib.suppress(ProcessLookupError):
                zygote.kill()
            await asyncio.to_thread(zygote.wait)

    # -- order and blame

    def _ordered(
        self, look: Look, ads: Mapping[int, Autocluster], answer: Answer, all_of_them: bool
    ) -> list[int]:
        """Indices of a look's autoclusters; what is not proven, of a submitter with a strike, comes last."""
        now = time.monotonic()
        first: list[int] = []
        last: list[int] = []
        for index, number in enumerate(look.autoclusters):
            if number in answer.faults:
                continue
            struck = self._strikes.get(ads[number].submitter, 0.0) > now and number not in self._proven
            (last if struck else first).append(index)
        if all_of_them:
            return first + last
        return [index for index in first if look.autoclusters[index] in self._proven]

    def _blame(self, ad: Autocluster, ended: _WorkerEnded, answer: Answer) -> None:
        number = ad.autocluster_id
        reason = TOO_LONG if ended.number == signal.SIGPROF else _ended_by(ended.number)
        answer.faults[number] = reason
        self._proven.discard(number)
        self._strikes[ad.submitter] = time.monotonic() + STRIKE_S
        event(
            log,
            logging.WARNING,
            "autocluster_ended_matchmaker",
            autocluster=number,
            submitter=ad.submitter,
            reason=reason,
        )

    async def _try_alone(
        self, looks: Sequence[Look], ads: Mapping[int, Autocluster], number: int, answer: Answer
    ) -> None:
        """Evaluate one autocluster in a worker that has nothing else; blame it if that ends too."""
        self._drop_worker()
        alone = [Look(look.slot, [number], (), 1) for look in looks if number in look.autoclusters]
        try:
            await self._ask(self._match_request(alone, [[0]] * len(alone), ads))
        except _WorkerEnded as ended:
            self._blame(ads[number], ended, answer)
        self._drop_worker()

    def _learn(self, reply: Json, looks: Sequence[Look], ordered: list[list[int]]) -> None:
        self._sent.difference_update(reply["evicted"])
        for submitter, seconds in reply["spent"].items():
            self._spent[submitter] = self._spent.get(submitter, 0.0) + seconds
        if not any(look["skipped"] for look in reply["looks"]):
            for look, indices in zip(looks, ordered, strict=True):
                self._proven.update(look.autoclusters[index] for index in indices)
        if len(self._proven) > 100_000:
            self._proven.clear()

    def _budgets(self, ads: Mapping[int, Autocluster]) -> dict[str, float]:
        now = time.monotonic()
        if now >= self._period_ends:
            self._spent.clear()
            self._period_ends = now + PERIOD_S
            self._strikes = {name: until for name, until in self._strikes.items() if until > now}
        return {
            submitter: max(0.0, SUBMITTER_CPU_S - self._spent.get(submitter, 0.0))
            for submitter in {ad.submitter for ad in ads.values()}
        }

    # -- requests

    def _match_request(
        self, looks: Sequence[Look], ordered: Sequence[Sequence[int]], ads: Mapping[int, Autocluster]
    ) -> Json:
        wanted = {
            look.autoclusters[index]
            for look, indices in zip(looks, ordered, strict=True)
            for index in indices
        }
        missing = wanted if self._link is None else wanted - self._sent
        old_slots: list[int] = []
        if self._link is None:
            self._slots.clear()
        elif len(self._slots) > MAX_SLOTS:
            old_slots = list(self._slots.values())
            self._slots.clear()
        new_slots: list[tuple[int, str]] = []
        for text in {text for look in looks for text in (look.slot, *look.others)}:
            if text not in self._slots:
                self._slots[text] = next(self._numbers)
                new_slots.append((self._slots[text], _text(text)))
        return {
            "op": "match",
            "ads": [
                [ad.autocluster_id, ad.submitter, ad.owner, ad.text]
                for ad in (ads[number] for number in sorted(missing))
            ],
            "slots": new_slots,
            "old_slots": old_slots,
            "budgets": self._budgets(ads),
            "looks": [
                {
                    "slot": self._slots[look.slot],
                    "autoclusters": [(index, look.autoclusters[index]) for index in indices],
                    "others": [self._slots[text] for text in look.others],
                    "limit": look.limit,
                }
                for look, indices in zip(looks, ordered, strict=True)
            ],
        }

    async def _alone(self, request: Json) -> Json:
        """Ask what concerns one job; its problem where it ends the worker, twice or by its CPU time."""
        for last in (False, True):
            try:
                return await self._ask(request)
            except _WorkerEnded as ended:
                if ended.number == signal.SIGPROF:
                    return {"problem": TOO_LONG, "item": ended.item}
                if last:
                    return {"problem": _ended_by(ended.number), "item": ended.item}
        raise AssertionError

    async def _ask(self, request: Json) -> Json:
        """Send a request to the worker and read its answer; raises _WorkerEnded where it ended first."""
        try:
            async with asyncio.timeout(REQUEST_S + 5.0):
                link = self._link or await self._new_worker()
                if request["op"] == "match":
                    self._sent.update(number for number, *_ in request["ads"])
                loop = asyncio.get_running_loop()
                try:
                    await loop.sock_sendall(link, frames.encode(request))
                    head = await _read(link, frames.LENGTH.size)
                    answer = json.loads(await _read(link, frames.LENGTH.unpack(head)[0]))
                except (ConnectionError, EOFError):
                    raise await self._how_it_ended() from None
        except (TimeoutError, OSError) as error:
            await self.close()
            raise MatchmakerUnavailable(f"matchmaker does not answer: {error}") from None
        except BaseException:
            # half an answer may lie in the socket
            self._drop_worker()
            raise
        if "too_large" in answer:
            raise MatchmakerUnavailable(f"matchmaker's answer has {answer['too_large']} bytes")
        return dict(answer)

    async def _how_it_ended(self) -> Exception:
        control = self._control
        self._drop_worker()
        assert control is not None
        self.replaced += 1
        while True:
            words = (await asyncio.get_running_loop().sock_recv(control, 256)).decode().split()
            if len(words) != 4:
                # the zygote has gone, and every worker with it
                await self.close()
                return _WorkerEnded(0, mark.NOTHING, 0)
            # it also tells of workers that were dropped
            if int(words[0]) == self._worker:
                break
        number, phase, item = int(words[1]), bytes.fromhex(words[2]), int(words[3])
        if number == signal.SIGALRM:
            return MatchmakerUnavailable(f"matchmaker was not done in {REQUEST_S:.0f} s")
        return _WorkerEnded(number, phase, item)

    async def _new_worker(self) -> socket.socket:
        """A new worker's socket; also forgets what the last one had."""
        if self._zygote is None or self._zygote.poll() is not None or self._control is None:
            await self.close()
            self._start_zygote()
        assert self._control is not None
        ours, theirs = socket.socketpair()
        self._worker = next(self._numbers)
        with theirs:
            socket.send_fds(self._control, [str(self._worker).encode()], [theirs.fileno()])
        ours.setblocking(False)
        self._sent.clear()
        self._link = ours
        return ours

    def _start_zygote(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._zygote = subprocess.Popen(
                [sys.executable, "-m", "fetchwork.matchmaker.zygote", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        ours.setblocking(False)
        self._control = ours

    def _drop_worker(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        self._sent.clear()
        self._slots.clear()


async def _read(link: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    parts = []
    while size > 0:
        part = await loop.sock_recv(link, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _ended_by(number: int) -> str:
    return f"evaluating it ended the matchmaker (signal {number})"


def _text(ad: bytes) -> str:
    return ad.decode("utf-8", "replace")
