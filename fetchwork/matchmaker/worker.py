"""The process that evaluates: it reads requests and answers them.

Requests and answers are JSON objects. ``op`` is the operation. Any error with an item, of any type, becomes
that item's problem in the answer, and the worker goes on with the next item.
"""

from __future__ import annotations

import signal
import socket
import time

from fetchwork.classad.ads import parse_old, print_old
from fetchwork.classad.jsonform import to_json
from fetchwork.codes import JobStatus
from fetchwork.ipc import frames
from fetchwork.ipc.frames import Json
from fetchwork.matching.fit import SlotView
from fetchwork.matchmaker import mark, policy, retrying
from fetchwork.matchmaker.bounds import ANSWER_BYTES, REQUEST_S
from fetchwork.matchmaker.expansion import CannotExpand
from fetchwork.matchmaker.looking import Looking, request_of
from fetchwork.matchmaker.matchform import MatchRequest, SentAd, SentLook
from fetchwork.matchmaker.messages import sentence
from fetchwork.matchmaker.printing import Run, build


class Worker:
    """A worker; it ends with its socket, or by a signal of the kernel."""

    def __init__(self, at: mark.Mark) -> None:
        self._at = at
        self._looking = Looking(at)

    def serve(self, link: socket.socket) -> None:
        """Answer requests until the socket ends."""
        reader = frames.Reader(link)
        while (request := reader.receive()) is not None:
            signal.setitimer(signal.ITIMER_REAL, REQUEST_S)
            if request["op"] == "slots":
                # no answer
                self._looking.expect(dict(request["slots"]))
            else:
                answer = frames.encode(self._answer(request))
                if len(answer) > ANSWER_BYTES:
                    answer = frames.encode({"too_large": len(answer)})
                link.sendall(answer)
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _answer(self, request: Json) -> Json:
        operation = request["op"]
        if operation == "match":
            return self._looking.match(MatchRequest.from_message(request))
        if operation == "print":
            return self._print(request)
        if operation == "policy":
            return self._policy(request)
        return self._explain(request)

    def _print(self, request: Json) -> Json:
        """Print the ad of a claimed run for a slot: see ``client.Matchmaker.print_ad``."""
        self._at.begin(mark.PRINT, 0)
        try:
            number = request.get("slot_number")
            ad, remembered = build(
                Run(**request["run"]),
                parse_old(request["slot"]) if number is None else self._looking.slot_ad(number),
                kept=frozenset(request["kept"]),
                host=request["host"],
                keyword=request["keyword"],
                uid_domain=request["uid_domain"],
            )
            answer: Json = {"ad": print_old(ad), "remembered": to_json(remembered)}
        except CannotExpand as error:
            answer = {"unexpanded": str(error)}
        except Exception as error:
            answer = {"problem": sentence(error)}
        self._at.end()
        return answer

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
                judgements.append({"problem": sentence(error)})
            before, clock = clock, time.thread_time()
            spent.append(clock - before)
        self._at.end()
        return {"judgements": judgements, "spent": spent}

    def _explain(self, request: Json) -> Json:
        """Say why autoclusters may not run on a slot: see ``client.Matchmaker.explain``."""
        explanations: list[tuple[int, str | None, float]] = []
        slot = SlotView(parse_old(request["slot"]))
        for number, owner, text in request["ads"]:
            self._at.begin(mark.MATCH, number)
            try:
                job = request_of(text, owner)
            except Exception:
                # such a job is held as soon as a slot gets it
                explanations.append((number, None, 0.0))
                continue
            try:
                reason = slot.refusal(job)
                explanations.append((number, reason, slot.rank(job) if reason is None else 0.0))
            except Exception:
                explanations.append((number, "costly", 0.0))
        self._at.end()
        return {"explanations": explanations}


def rehearse() -> None:
    """Handle each operation once, so that all modules imported on first use are loaded."""
    ours, theirs = socket.socketpair()
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
    job = {
        "ad": {"JobStatus": 1, "PeriodicHold": "/Expr(1 > 2)/"},
        "report": {},
        "at_exit": False,
        "evicted_with": None,
    }
    match = MatchRequest(
        ads=[SentAd(1, "", "", b'{"Requirements": "/Expr(TARGET.Cpus > 0)/"}'), SentAd(2, "", "", b"[")],
        slots={1: slot},
        allowances={"": 1.0},
        ids=[[1, 2]],
        looks=[SentLook(1, [], 2, 0)],
    )
    requests: list[Json] = [
        match.to_message(),
        {
            "op": "print",
            "run": run,
            "slot": slot,
            "kept": [],
            "host": "",
            "keyword": "",
            "uid_domain": None,
        },
        {"op": "policy", "jobs": [job, {**job, "at_exit": True}, {**job, "evicted_with": (34, 102)}]},
        {"op": "explain", "slot": slot, "ads": [[1, "", "{}"]]},
    ]
    with ours, theirs:
        for request in requests:
            ours.sendall(frames.encode(request))
        ours.shutdown(socket.SHUT_WR)
        Worker(mark.Mark()).serve(theirs)


def _judged(job: Json) -> policy.Verdict | None:
    if job["evicted_with"] is not None:
        changed = retrying.changes(policy.read_ad(job["ad"], job["report"]), *job["evicted_with"])
        return policy.Verdict("requeue", "", changes=changed) if changed else None
    if job["at_exit"]:
        return policy.on_exit(job["ad"], job["report"])
    return policy.periodic(
        policy.read_ad(job["ad"], job["report"]), job["ad"].get("JobStatus", JobStatus.IDLE)
    )
