"""The checker: judges a history by what its clients were told, and knows nothing of the SQL.

Each job's calls must have an order that real time allows and the model of a job (``model.py``) explains: the
search is Wing and Gong's, with Lowe's memory of visited states, as in Porcupine. Beside it are the promises
about several jobs: executions, keys of submissions, tokens, events, counts.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.evidence.history import NEVER, Call, History, Outcome
from tests.evidence.model import ANY, COMPLETED, HELD, IDLE, REMOVED, RUNNING, Job, Step, steps

#: calls of people, whose arguments name one job
_ACTS = ("hold", "release", "remove", "vacate", "edit")
#: the search for an order gives up after so many states
MOST_STATES = 300_000
#: a beat renews a run's lease when at most this part of it is left
_RENEWED = 0.67
#: HTCondor's numbers of events
_SUBMIT, _EXECUTE, _EVICTED, _TERMINATED, _ABORTED, _HELD, _RELEASED = 0, 1, 4, 5, 9, 12, 13


@dataclass(frozen=True, slots=True)
class Operation:
    """A step with the time in which it took effect; one that is not ``certain`` may have had no effect."""

    step: Step
    begin: float
    end: float
    certain: bool = True


def anomalies(history: History) -> list[str]:
    """The violations of promises in a history, a line each; empty if it keeps them all."""
    return [
        *_jobs_without_an_order(history),
        *_overlapping_executions(history),
        *_executed_without_start(history),
        *_submitted_twice(history),
        *_forged(history),
        *_events(history),
        *_counts(history),
        *_left_behind(history),
    ]


# ---- the order of each job's calls


def operations(history: History) -> dict[str, list[Operation]]:
    """By job, what was done with it; among them the times at which the queue may lose its runs."""
    of_job: dict[str, list[Operation]] = defaultdict(list)
    #: by run, its first starter
    starters: dict[int, object] = {}
    claims = {
        claimed["run"]: (claimed, call)
        for call in history.calls
        if call.function == "claim" and call.outcome == Outcome.OK
        for claimed in call.result
    }

    #: by run, its job; a claim whose answer was lost may come to light when a new agent asks for its runs
    jobs = {run: claimed["job"] for run, (claimed, _) in claims.items()}
    for call in history.calls:
        if call.function == "host_runs" and call.outcome == Outcome.OK:
            for found in call.result:
                if found["run"] not in jobs:
                    jobs[found["run"]] = found["job"]
                    # nothing tells when it was claimed, nor for how long it was offered
                    of_job[found["job"]] += [
                        Operation(Step("claim", found["run"], result=True), 0.0, call.returned, False),
                        Operation(Step("lose", found["run"], result=True), 0.0, NEVER, False),
                    ]

    def add(job: str, call: Call, step: Step) -> None:
        certain = call.outcome != Outcome.UNKNOWN
        result = step.result if certain else ANY
        of_job[job].append(
            Operation(Step(step.name, step.run, step.argument, result), call.invoked, call.returned, certain)
        )

    for call in history.calls:
        given = call.arguments
        if given.get("forged") or ("run" in given and given["run"] not in jobs):
            continue
        known = call.outcome == Outcome.OK
        if call.function == "submit" and call.outcome != Outcome.FAIL:
            for proc in range(given["procs"]):
                add(f"{given['cluster']}.{proc}", call, Step("submit", argument=given["value"]))
        elif call.function == "claim" and known:
            for claimed in call.result:
                add(claimed["job"], call, Step("claim", claimed["run"], result=True))
        elif call.function in ("accept", "start", "heartbeat", "finish") and call.outcome != Outcome.FAIL:
            result = call.result
            argument = given.get("reason")
            if call.function == "start":
                result = call.result is None
                argument = int(starters.setdefault(given["run"], given["starter"]) != given["starter"])
            add(jobs[given["run"]], call, Step(call.function, given["run"], argument, result))
        elif call.function == "give_up" and call.outcome != Outcome.FAIL and call.result is not False:
            add(jobs[given["run"]], call, Step("lose", given["run"], result=True))
        elif call.function == "beat" and known:
            for run, action in call.result:
                if run in jobs:
                    add(jobs[run], call, Step("beat", run, result=action))
        elif call.function in _ACTS and (
            known or call.outcome == Outcome.UNKNOWN or call.result == "NotFound"
        ):
            add(given["job"], call, Step(call.function, argument=given.get("value"), result=call.result))
    for call in history.calls:
        if call.function == "snapshot" and call.outcome == Outcome.OK:
            for job, operations_ in of_job.items():
                operations_.append(
                    Operation(
                        Step("read", result=call.result["jobs"].get(job)), call.invoked, call.returned, True
                    )
                )
    silent = _silences(history)
    renewals = _renewals(history)
    crashes = [call for call in history.calls if call.function == "crash"]
    for claimed, claim in claims.values():
        lost = Step("lose", claimed["run"], result=True)
        expired = Step("lose", claimed["run"], "offer", True)
        host = claim.arguments["host"]
        times = [
            *silent[host],
            *_freed(history, host, claimed["slot"]),
            *_gaps(renewals[claimed["run"]], _RENEWED * claim.arguments["lease_s"]),
        ]
        crashed = Step("lose", claimed["run"], "crash", True)
        of_job[claimed["job"]] += [
            *(Operation(crashed, call.invoked, call.returned, False) for call in crashes),
            *(Operation(lost, begin, end, False) for begin, end in times if end > claim.invoked),
            Operation(expired, claim.invoked + claim.arguments["offer_s"], NEVER, False),
        ]
    return of_job


def _silences(history: History) -> dict[str, list[tuple[float, float]]]:
    """By host, the times in which its lease may have been over: between two of its beats."""
    beats: dict[str, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.function in ("hello", "beat", "goodbye") and call.outcome == Outcome.OK:
            beats[call.arguments["host"]].append(call)
    return defaultdict(
        list, {host: list(_gaps(calls, history.parameters["lease_s"])) for host, calls in beats.items()}
    )


def _renewals(history: History) -> dict[int, list[Call]]:
    """By run, the calls that renewed its own lease."""
    renewals: dict[int, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.outcome == Outcome.OK:
            if call.function in ("start", "heartbeat"):
                renewals[call.arguments["run"]].append(call)
            elif call.function == "beat":
                for run in call.arguments.get("alive", ()):
                    renewals[run].append(call)
    return renewals


def _gaps(calls: list[Call], lease_s: float) -> Iterator[tuple[float, float]]:
    """The times in which a lease may have been over that each of these calls renewed."""
    for before, after in itertools.zip_longest(calls, calls[1:]):
        over = before.invoked + (0.0 if before.function == "goodbye" else lease_s)
        if after is None or after.returned > over:
            yield over, after.returned if after else NEVER


def _freed(history: History, host: str, slot: str) -> Iterator[tuple[float, float]]:
    """The times in which a host said that the slot is free."""
    for call in history.calls:
        if (
            call.function == "slot_is_free"
            and call.outcome != Outcome.FAIL
            and call.arguments == {"host": host, "slot": slot}
        ):
            yield call.invoked, call.returned


def _jobs_without_an_order(history: History) -> Iterator[str]:
    for job, its_operations in operations(history).items():
        problem = unexplained(its_operations)
        if problem:
            yield f"job {job}: no order of its calls explains {problem}"


def unexplained(its_operations: list[Operation]) -> str | None:
    """None if the operations of a job have an order that explains them all, else where the best one ends."""
    ordered = sorted(_relevant(its_operations), key=lambda operation: operation.begin)
    certain = sum(1 << n for n, operation in enumerate(ordered) if operation.certain)
    start: tuple[int, Job | None] = (0, None)
    seen = {start}
    stack = [start]
    best = start
    while stack:
        if len(seen) > MOST_STATES:
            return f"nothing: undecided after {MOST_STATES} states, {len(ordered)} operations"
        done, job = stack.pop()
        if done & certain == certain:
            return None
        if (done & certain).bit_count() > (best[0] & certain).bit_count():
            best = done, job
        for state in _states_after(ordered, done, job):
            if state not in seen:
                seen.add(state)
                stack.append(state)
    missing = [ordered[n].step for n in _open(ordered, best[0]) if ordered[n].certain]
    return f"{missing[:3]} when it is {best[1]}"


def _relevant(its_operations: list[Operation]) -> Iterator[Operation]:
    """Without unanswered edits whose value was never read: they explain nothing."""
    read = {
        operation.step.result[1]
        for operation in its_operations
        if operation.step.name == "read" and operation.step.result is not None
    }
    for operation in its_operations:
        if operation.certain or operation.step.name != "edit" or operation.step.argument in read:
            yield operation


def _states_after(ordered: list[Operation], done: int, job: Job | None) -> list[tuple[int, Job | None]]:
    """The states to which the next operation may lead; the most likely last."""
    candidates = _open(ordered, done)
    # an operation that is not certain must come before each that began after its time
    first_end = min((ordered[n].end for n in candidates if not ordered[n].certain), default=NEVER)
    states: list[tuple[int, Job | None]] = []
    for n in candidates:
        for after in steps(job, ordered[n].step):
            state = _without_expired(ordered, done | 1 << n, ordered[n].begin), after
            if after == job:
                if not ordered[n].certain:
                    # it would explain nothing
                    continue
                if ordered[n].begin <= first_end:
                    # a step that changes nothing and excludes nothing may as well come now
                    return [state]
            states.append(state)
    return states


def _open(ordered: list[Operation], done: int) -> list[int]:
    """The operations that may be next, in real time; the certain ones last, so that they are tried first."""
    earliest_end = NEVER
    candidates = []
    for n in range((~done & (done + 1)).bit_length() - 1, len(ordered)):
        operation = ordered[n]
        if operation.begin > earliest_end:
            break
        if not done >> n & 1:
            candidates.append(n)
            if operation.certain:
                earliest_end = min(earliest_end, operation.end)
    return sorted(
        (n for n in candidates if ordered[n].begin <= earliest_end),
        key=lambda n: (ordered[n].certain, -ordered[n].begin),
    )


def _without_expired(ordered: list[Operation], done: int, latest: float) -> int:
    """``done`` with those operations that can't come any more, as a later one has: they had no effect."""
    for n in range((~done & (done + 1)).bit_length() - 1, len(ordered)):
        if ordered[n].begin > latest:
            break
        if not ordered[n].certain and ordered[n].end < latest:
            done |= 1 << n
    return done


# ---- promises about several jobs


def _overlapping_executions(history: History) -> Iterator[str]:
    of_job = defaultdict(list)
    for execution in history.executions:
        of_job[execution.job].append(execution)
    for job, executions in of_job.items():
        executions.sort(key=lambda execution: execution.began)
        for first, second in itertools.pairwise(executions):
            if second.began < first.ended:
                yield f"job {job}: runs {first.run} and {second.run} were executed at the same time"


def _executed_without_start(history: History) -> Iterator[str]:
    """A process begins only after the fence has let its run pass."""
    passed = {
        call.arguments["run"]: call.returned
        for call in reversed(history.calls)
        if call.function == "start" and call.outcome == Outcome.OK and call.result is None
    }
    for execution in history.executions:
        if not passed.get(execution.run, NEVER) <= execution.began:
            yield f"job {execution.job}: run {execution.run} was executed before the fence let it pass"


def _submitted_twice(history: History) -> Iterator[str]:
    """A key of a submission names one cluster."""
    clusters = defaultdict(set)
    there = _final(history)
    for call in history.calls:
        if call.function == "submit" and call.outcome != Outcome.FAIL:
            cluster = call.arguments["cluster"]
            if call.outcome == Outcome.OK or f"{cluster}.0" in there:
                clusters[call.arguments["key"]].add(cluster)
    for key, made in clusters.items():
        if len(made) > 1:
            yield f"submission {key} was made as clusters {sorted(made)}"
    asked = {call.arguments["cluster"] for call in history.calls if call.function == "submit"}
    for job in there:
        if int(job.partition(".")[0]) not in asked:
            yield f"job {job} was submitted by no client"


def _forged(history: History) -> Iterator[str]:
    for call in history.calls:
        if call.arguments.get("forged") and call.outcome == Outcome.OK and call.result not in (None, []):
            yield f"{call.function} of run {call.arguments['run']} was allowed with another token"


def _final(history: History) -> dict[str, list[int]]:
    last = [call for call in history.calls if call.function == "snapshot" and call.outcome == Outcome.OK]
    return dict(last[-1].result["jobs"]) if last else {}


def _counts(history: History) -> Iterator[str]:
    """In each snapshot the totals are the sum of the rows."""
    for call in history.calls:
        if call.function == "snapshot" and call.outcome == Outcome.OK:
            counted = Counter(status for status, _ in call.result["queued"].values())
            rows = {str(status): counted[status] for status in (IDLE, RUNNING, HELD, REMOVED)}
            if rows != call.result["totals"]:
                yield f"totals {call.result['totals']} of a snapshot whose rows are {rows}"


def _left_behind(history: History) -> Iterator[str]:
    """In the end, when hosts have waited for work in vain, no job is Idle or Running."""
    for job, (status, _) in _final(history).items():
        if status in (IDLE, RUNNING):
            yield f"job {job} was left in state {status}"


# ---- events


def _events(history: History) -> Iterator[str]:
    streams: dict[str, list[list[Any]]] = defaultdict(list)
    for call in history.calls:
        if call.function == "events" and call.outcome == Outcome.OK:
            streams[call.client] += call.result
    whole = streams.pop("last reader", [])
    places = [tuple(event[:2]) for event in whole]
    if sorted(set(places)) != places:
        yield "the last reader's events are not in the order of their places"
    for reader, stream in streams.items():
        if stream != whole[: len(stream)]:
            at = next(n for n, event in enumerate(stream) if n >= len(whole) or event != whole[n])
            yield f"{reader} differs from the last reader at event {at}: {stream[at]}, {whole[at : at + 1]}"
    of_job: dict[str, list[int]] = defaultdict(list)
    for _, _, kind, job, _ in whole:
        of_job[job].append(kind)
    final = _final(history)
    for job, kinds in of_job.items():
        problem = _contradiction(kinds, final.get(job))
        if problem:
            yield f"job {job}: events {kinds}: {problem}"
    for job in final.keys() - of_job.keys():
        yield f"job {job} has no event"
    yield from _acts_without_event(history, of_job)


def _contradiction(kinds: list[int], final: list[int] | None) -> str | None:
    """The first event that can't follow those before it, or the end that differs from the job's."""
    status = None
    running = False
    for kind in kinds:
        if (status is None) != (kind == _SUBMIT):
            return f"{kind} in state {status}"
        if status in (COMPLETED, REMOVED):
            return f"{kind} after the job's end"
        if kind == _SUBMIT:
            status = IDLE
        elif kind == _EXECUTE:
            if running or status != IDLE:
                return f"EXECUTE in state {status}"
            running = True
        elif kind == _EVICTED:
            if not running:
                return "EVICTED without a run"
            running = False
        elif kind == _TERMINATED:
            # a lost run whose report came late ended before
            status, running = COMPLETED, False
        elif kind == _ABORTED:
            if running:
                return "ABORTED before the run's end"
            status = REMOVED
        elif kind == _HELD:
            status = HELD
        elif kind == _RELEASED:
            if status != HELD:
                return f"RELEASED in state {status}"
            status = IDLE
    if final is None:
        return "the job is nowhere"
    if (status if not running else RUNNING) != final[0]:
        return f"the job's state is {final[0]}"
    return None


def _acts_without_event(history: History, of_job: dict[str, list[int]]) -> Iterator[str]:
    """Each acknowledged hold and release has its event, and each event its call."""
    for function, kind in (("hold", _HELD), ("release", _RELEASED)):
        sure: Counter[str] = Counter()
        possible: Counter[str] = Counter()
        for call in history.calls:
            if call.function == function and call.outcome != Outcome.FAIL and call.result != 0:
                possible[call.arguments["job"]] += 1
                sure[call.arguments["job"]] += call.outcome == Outcome.OK
        for job, kinds in of_job.items():
            # a running job's HELD comes with its run's end; if the job is removed before, it never comes
            superseded = kind == _HELD and kinds[-1] == _ABORTED
            if not sure[job] - superseded <= kinds.count(kind) <= possible[job]:
                yield f"job {job}: {sure[job]} acknowledged {function}s have {kinds.count(kind)} events"
