"""The process that evaluates: reads requests, answers each, and keeps the ads that it has read.

Requests and answers are JSON objects. ``op`` says what is wanted; whatever goes wrong with one item, of
whatever type, becomes that item's problem in the answer, and the next item is looked at.
"""

from __future__ import annotations

import json
import math
import signal
import socket
import time
from collections import OrderedDict
from typing import Any

from fetchwork.classad.ads import parse_old, print_old
from fetchwork.classad.cost import check_cost
from fetchwork.classad.jsonform import from_json
from fetchwork.codes import JobStatus
from fetchwork.errors import ClassAdError
from fetchwork.matching.autoclusters import as_offered
from fetchwork.matching.fit import JobRequest, SlotView, outranked
from fetchwork.matching.shares import SlotWeights
from fetchwork.matchmaker import frames, mark, policy
from fetchwork.matchmaker.bounds import (
    AD_BYTES,
    ANSWER_BYTES,
    KEPT_BYTES,
    LATE_S,
    LONG_REQUEST_S,
    LONG_SHARE_S,
    REQUEST_S,
)
from fetchwork.matchmaker.printing import Run, build

Json = dict[str, Any]


class _Kept:
    """An autocluster that the worker was sent; it is read when it is put against a slot first."""

    __slots__ = ("owner", "problem", "request", "submitter", "text")

    def __init__(self, submitter: str, owner: str, text: str) -> None:
        self.submitter, self.owner, self.text = submitter, owner, text
        self.request: JobRequest | None = None
        #: why it can't be read
        self.problem: str | None = None

    def read(self) -> None:
        """Make ``request`` of the text, or find the problem."""
        try:
            self.request = _request_of(self.text, self.owner)
        except Exception as error:
            self.problem = _sentence(error)


class _Attempt:
    """What a look at one slot has come to so far."""

    def __init__(self, slot: SlotView, others: list[SlotView], limit: int) -> None:
        self.slot, self.others, self.limit = slot, others, limit
        #: rank, index, autocluster
        self.fitting: list[tuple[float, int, int]] = []
        self.failed: list[list[Any]] = []
        self.skipped: set[str] = set()
        self.yielded = False
        #: it has come to what waited for the others
        self.is_late = False

    @property
    def enough(self) -> bool:
        """Whether as much fits as was asked for."""
        return len(self.fitting) >= self.limit and not self.slot.ranks

    def put(self, index: int, number: int, request: JobRequest) -> None:
        """Put an autocluster against the slot; raises whatever its evaluation raises."""
        rank = self.slot.rank_if_fits(number, request)
        if rank is None:
            return
        if request.rank is not None and outranked(request, self.slot, self.others):
            self.yielded = True
        else:
            self.fitting.append((rank, index, number))


class Worker:
    """One worker; it ends when its socket does, or by a signal of the kernel."""

    def __init__(self, at: mark.Mark) -> None:
        self._at = at
        self._autoclusters: OrderedDict[int, _Kept] = OrderedDict()
        self._kept = 0
        #: autoclusters that were put against a slot
        self._tried: set[int] = set()
        self._slots: OrderedDict[int, SlotView | str] = OrderedDict()
        self._operations = {
            "match": self.match,
            "print": self._print,
            "policy": self._policy,
            "explain": self._explain,
        }

    def serve(self, link: socket.socket) -> None:
        """Answer requests until the socket ends."""
        while (request := frames.receive(link)) is not None:
            signal.setitimer(signal.ITIMER_REAL, REQUEST_S)
            answer = frames.encode(self._operations[request["op"]](request))
            if len(answer) > ANSWER_BYTES:
                answer = frames.encode({"too_large": len(answer)})
            link.sendall(answer)
            signal.setitimer(signal.ITIMER_REAL, 0)

    # -- matching

    def match(self, request: Json) -> Json:
        """Put autoclusters against slots: see ``client.Matchmaker.look``."""
        for number, submitter, owner, text in request["ads"]:
            self._autoclusters[number] = _Kept(submitter, owner, text)
            self._kept += len(text)
        for number in request["old_slots"]:
            self._slots.pop(number, None)
        for number, text in request["slots"]:
            self._read_slot(number, text)
        budgets: dict[str, float] = request["budgets"]
        spent: dict[str, float] = {}
        tried: list[int] = []
        looks = [self._look(look, budgets, spent, tried) for look in request["looks"]]
        self._at.end()
        problems = {
            number: problem
            for look in request["looks"]
            for _, number in (*look["autoclusters"], *look.get("doubtful", ()))
            if (problem := self._autoclusters[number].problem) is not None
        }
        return {
            "looks": looks,
            "spent": spent,
            "problems": problems,
            "tried": tried,
            "evicted": self._evict(),
        }

    # -- explanations

    def _explain(self, request: Json) -> Json:
        """Say why autoclusters may not run on a slot: see ``client.Matchmaker.explain``."""
        explanations: list[list[Any]] = []
        slot = SlotView(parse_old(request["slot"]))
        for number, owner, text in request["ads"]:
            self._at.begin(mark.MATCH, number)
            try:
                job = _request_of(text, owner)
            except Exception:
                # its job is held as soon as a slot gets it
                explanations.append([number, None, 0.0])
                continue
            try:
                reason = slot.refusal(job)
                explanations.append([number, reason, slot.rank(job) if reason is None else 0.0])
            except Exception:
                explanations.append([number, "costly", 0.0])
        self._at.end()
        return {"explanations": explanations}

    def _read_slot(self, number: int, text: str) -> None:
        self._at.begin(mark.SLOT, number)
        try:
            self._slots[number] = SlotView(parse_old(text))
        except Exception as error:
            self._slots[number] = _sentence(error)

    def _look(self, look: Json, budgets: dict[str, float], spent: dict[str, float], tried: list[int]) -> Json:
        slot = self._slots[look["slot"]]
        if isinstance(slot, str):
            return {
                "fit": [],
                "failed": [],
                "yielded": False,
                "skipped": [],
                "postponed": False,
                "problem": slot,
            }
        others = [other for number in look["others"] if isinstance(other := self._slots[number], SlotView)]
        attempt = _Attempt(slot, others, look["limit"])
        own: dict[str, float] = {}
        late: list[tuple[int, int]] = []
        for index, number in look["autoclusters"]:
            submitter = self._autoclusters[number].submitter
            if own.get(submitter, 0.0) > look.get("slice_s", math.inf):
                late.append((index, number))
                continue
            seconds = self._try(attempt, index, number, budgets, spent, tried)
            own[submitter] = own.get(submitter, 0.0) + seconds
            if attempt.enough:
                break
        # what may be costly comes after all that is not, and what was never tried before what did not fit
        late.sort(key=lambda pair: pair[1] in self._tried)
        late += look.get("doubtful", ())
        left = LATE_S
        postponed = False
        for index, number in late:
            # a slot that ranks jobs wants the best of all
            found = bool(attempt.fitting) and not attempt.is_late and not slot.ranks
            if found or left <= 0.0:
                postponed = True
                break
            attempt.is_late = True
            left -= self._try(attempt, index, number, budgets, spent, tried)
            if attempt.enough:
                break
        fitting = attempt.fitting
        if slot.ranks:
            # stable: what the slot ranks the same stays in the order of preference
            fitting.sort(key=lambda fit: -fit[0])
            del fitting[attempt.limit :]
        return {
            "fit": self._weighed(slot, fitting, attempt.failed),
            "failed": attempt.failed,
            "yielded": attempt.yielded,
            "skipped": sorted(attempt.skipped),
            "postponed": postponed,
            "problem": None,
        }

    def _try(
        self,
        attempt: _Attempt,
        index: int,
        number: int,
        budgets: dict[str, float],
        spent: dict[str, float],
        tried: list[int],
    ) -> float:
        """Put one autocluster against the slot; returns the seconds of CPU that it took."""
        kept = self._autoclusters[number]
        submitter = kept.submitter
        if kept.problem is None and spent.get(submitter, 0.0) > self._share(
            budgets.get(submitter, 0.0), spent
        ):
            attempt.skipped.add(submitter)
            return 0.0
        began = time.thread_time()
        if kept.request is None and kept.problem is None:
            self._at.begin(mark.AUTOCLUSTER, number)
            kept.read()
        if kept.request is None:
            # whoever gets such a job holds it, with the reason
            attempt.fitting.append((0.0, index, number))
        else:
            self._at.begin(mark.MATCH, number)
            try:
                attempt.put(index, number, kept.request)
            except Exception as error:
                attempt.failed.append([number, _sentence(error)])
        if number not in self._tried:
            self._tried.add(number)
            tried.append(number)
        seconds = time.thread_time() - began
        spent[submitter] = spent.get(submitter, 0.0) + seconds
        return seconds

    def _share(self, budget: float, spent: dict[str, float]) -> float:
        """The seconds that one submitter may have spent: less once the request has taken long."""
        return budget if sum(spent.values()) < LONG_REQUEST_S else min(budget, LONG_SHARE_S)

    def _weighed(
        self, slot: SlotView, fitting: list[tuple[float, int, int]], failed: list[list[Any]]
    ) -> list[list[Any]]:
        weighed: list[list[Any]] = []
        self._at.begin(mark.SLOT, 0)
        weights = SlotWeights(slot.ad)
        for rank, index, number in fitting:
            request = self._autoclusters[number].request
            weight = 1.0
            if request is not None:
                self._at.begin(mark.MATCH, number)
                try:
                    weight = weights.of(request.ad)
                except Exception as error:
                    failed.append([number, _sentence(error)])
                    continue
            weighed.append([index, rank, weight])
        return weighed

    def _evict(self) -> list[int]:
        """Forget what was read first, down to the bound; returns which."""
        evicted = []
        while self._kept > KEPT_BYTES:
            number, kept = self._autoclusters.popitem(last=False)
            self._kept -= len(kept.text)
            evicted.append(number)
        return evicted

    # -- the ad of a run

    def _print(self, request: Json) -> Json:
        """Print the ad of a claimed run for a slot: see ``client.Matchmaker.print_ad``."""
        self._at.begin(mark.PRINT, 0)
        try:
            ad = build(
                Run(**request["run"]),
                parse_old(request["slot"]),
                kept=frozenset(request["kept"]),
                host=request["host"],
                keyword=request["keyword"],
                uid_domain=request["uid_domain"],
            )
            answer: Json = {"ad": print_old(ad)}
        except Exception as error:
            answer = {"problem": _sentence(error)}
        self._at.end()
        return answer

    # -- policy

    def _policy(self, request: Json) -> Json:
        """Evaluate the policy of jobs: see ``client.Matchmaker.judge``."""
        judgements: list[Json] = []
        spent: list[float] = []
        clock = time.thread_time()
        for number, job in enumerate(request["jobs"]):
            self._at.begin(mark.POLICY, number)
            try:
                verdict = _judged(job)
                judgements.append({"verdict": verdict.to_json() if verdict else None})
            except Exception as error:
                judgements.append({"problem": _sentence(error)})
            before, clock = clock, time.thread_time()
            spent.append(clock - before)
        self._at.end()
        return {"judgements": judgements, "spent": spent}


def rehearse() -> None:
    """Do everything once, so that all that is imported on first use is there."""
    ours, theirs = socket.socketpair()
    look = {"slot": 1, "autoclusters": [[0, 1], [1, 2]], "others": [], "limit": 1}
    slot = 'Cpus = 1\nStart = regexp("a", "b") || strcat("a") == "a"\nRequirements = START\n'
    run = {
        "run_id": 1,
        "token": "",
        "cluster_id": 1,
        "proc_id": 0,
        "owner": "",
        "has_policy": True,
        "ad": {},
    }
    job = {"ad": {"JobStatus": 1, "PeriodicHold": "/Expr(1 > 2)/"}, "report": {}, "at_exit": False}
    requests: list[Json] = [
        {
            "op": "match",
            "ads": [[1, "", "", '{"Requirements": "/Expr(TARGET.Cpus > 0)/"}'], [2, "", "", "["]],
            "slots": [(1, slot)],
            "old_slots": [],
            "budgets": {},
            "looks": [look],
        },
        {"op": "print", "run": run, "slot": slot, "kept": [], "host": "", "keyword": "", "uid_domain": None},
        {"op": "policy", "jobs": [job, {**job, "at_exit": True}]},
        {"op": "explain", "slot": slot, "ads": [[1, "", "{}"]]},
    ]
    with ours, theirs:
        for request in requests:
            ours.sendall(frames.encode(request))
        ours.shutdown(socket.SHUT_WR)
        Worker(mark.Mark()).serve(theirs)


def _request_of(text: str, owner: str) -> JobRequest:
    if len(text) > AD_BYTES:
        raise ClassAdError(f"ad of {len(text)} bytes is larger than {AD_BYTES}")
    ad = from_json(json.loads(text))
    check_cost(ad)
    as_offered(ad, owner)
    return JobRequest.of(ad)


def _judged(job: Json) -> policy.Verdict | None:
    if job["at_exit"]:
        return policy.on_exit(job["ad"], job["report"])
    return policy.periodic(
        policy.read_ad(job["ad"], job["report"]), job["ad"].get("JobStatus", JobStatus.IDLE)
    )


def _sentence(error: Exception) -> str:
    """What an error says, in one short line that any reader can print."""
    text = str(error) if isinstance(error, ClassAdError) else f"{type(error).__name__}: {error}"
    return " ".join(text.encode("utf-8", "replace").decode().split())[:500]
