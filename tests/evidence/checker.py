"""The checker: judges a history by what its clients were told, and knows nothing of the SQL.

Each job's calls must have an order that real time allows and the model of a job (``model.py``) explains:
``order.py`` searches it. Beside it are the promises about several jobs: executions, keys of submissions,
tokens, events, counts.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.evidence.history import NEVER, Call, History, Outcome
from tests.evidence.model import ANY, COMPLETED, HELD, IDLE, REMOVED, RUNNING, Step
from tests.evidence.order import Deadline, Operation, Undecided, unexplained

#: calls of people, whose arguments name one job
_ACTS = ("hold", "release", "remove", "vacate", "edit")
#: processor time of the search for an order, for all jobs of a history together
SEARCH_S = 20.0
#: a beat renews a run's lease when at most this part of it is left
_RENEWED = 0.67
#: HTCondor's numbers of events
_SUBMIT, _EXECUTE, _EVICTED, _TERMINATED, _ABORTED, _HELD, _RELEASED = 0, 1, 4, 5, 9, 12, 13


def anomalies(history: History, search_s: float = SEARCH_S) -> list[str]:
    """The violations of promises in a history, a line each; empty if it keeps them all.

    Raises Undecided where none was found before the search for an order ran out of time.
    """
    history = _without_lost_claims(history)
    problems = [
        *_overlapping_executions(history),
        *_executed_without_start(history),
        *_executed_in_free_slots(history),
        *_submitted_twice(history),
        *_given_twice(history),
        *_forged(history),
        *_given_unasked(history),
        *_chains(history),
        *_events(history),
        *_counts(history),
        *_left_behind(history),
    ]
    try:
        for problem in _jobs_without_an_order(history, Deadline(search_s)):
            problems.append(problem)
    except Undecided:
        if not problems:
            raise
    return problems


def _given(call: Call) -> list[dict[str, Any]]:
    """The runs that a call is known to have given to slots."""
    if call.outcome == Outcome.OK and call.function == "claim":
        return list(call.result)
    if call.outcome == Outcome.OK and call.function == "next" and "run" in call.result:
        return [{**call.result, "slot": call.arguments["slot"]}]
    return []


def _without_lost_claims(history: History) -> History:
    """Without claims that went with a crash of the server, if their runs' ids were given out again.

    A claim does not wait for the disk. All later calls by its token are in vain, and those are left out too.
    """
    crashes = [call for call in history.calls if call.function == "crash"]
    given: dict[int, tuple[Call, str]] = {}
    #: runs and tokens of lost claims
    lost: set[tuple[int, str]] = set()
    #: by run and host, the time until which the host's calls are about a lost claim
    until: dict[tuple[int, str], float] = {}
    for call in history.calls:
        for claimed in _given(call) if call.function == "claim" else ():
            run, token = claimed["run"], claimed["token"]
            first, first_token = given.get(run, (call, token))
            if first_token != token and any(
                first.invoked < crash.returned and crash.invoked < call.returned for crash in crashes
            ):
                lost.add((run, first_token))
                until[run, first.client] = call.invoked if first.client == call.client else NEVER
            given[run] = call, token

    def kept(call: Call) -> Iterator[Call]:
        if call.function == "claim" and call.outcome == Outcome.OK:
            claims = [claimed for claimed in call.result if (claimed["run"], claimed["token"]) not in lost]
            yield replace(call, result=claims)
        elif call.invoked > until.get((call.arguments.get("run", 0), call.client), 0.0) or _had_effect(call):
            yield call

    return replace(history, calls=[one for call in history.calls for one in kept(call)])


def _had_effect(call: Call) -> bool:
    """Whether a call about a run was told that the run is live."""
    if call.function == "start":
        return call.outcome == Outcome.OK and call.result is None
    if call.function == "next":
        return call.outcome == Outcome.OK and call.result["ended"]
    return call.outcome == Outcome.OK and call.result not in (False, "gone", "late", "duplicate")


# ---- the order of each job's calls


def operations(history: History) -> dict[str, list[Operation]]:
    """By job, what was done with it; among them the times at which the queue may lose its runs."""
    of_job: dict[str, list[Operation]] = defaultdict(list)
    #: by run, its first starter
    starters: dict[int, object] = {}
    claims = {claimed["run"]: (claimed, call) for call in history.calls for claimed in _given(call)}

    #: by run, its job; a claim whose answer was lost may come to light when a new agent asks for its runs
    jobs = {run: claimed["job"] for run, (claimed, _) in claims.items()}
    for begin, end, job, run in _started_unheard(history):
        jobs[run] = job
        of_job[job] += [
            Operation(Step("next", run, result=True), begin, end),
            Operation(Step("lose", run, result=True), begin, NEVER, False),
        ]
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
        if call.function == "next":
            for started in _given(call):
                starters[started["run"]] = given["starter"]
                add(started["job"], call, Step("next", started["run"], result=True))
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
        elif call.function == "next" and "run" in given and call.outcome != Outcome.FAIL:
            if call.outcome == Outcome.UNKNOWN or call.result["ended"]:
                add(jobs[given["run"]], call, Step("finish", given["run"], "exit", "completed"))
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
    restores = [call for call in history.calls if call.function == "restore"]
    for call in history.calls:
        if call.function in ("dump", "restore"):
            for operations_ in of_job.values():
                operations_.append(Operation(Step(call.function, result=True), call.invoked, call.returned))
    silent = _silences(history)
    renewals = _renewals(history)
    crashes = [call for call in history.calls if call.function == "crash"]
    for claimed, claim in claims.values():
        lost = Step("lose", claimed["run"], result=True)
        expired = Step("lose", claimed["run"], "offer", True)
        host = claim.arguments["host"]
        times = [
            *silent[host],
            # the call that gives a run does not end it
            *(freed for freed in _freed(history, host, claimed["slot"]) if freed[0] != claim.invoked),
            *_gaps(renewals[claimed["run"]], _RENEWED * claim.arguments["lease_s"]),
            # a run of the dump that has ended since is lost some time after the restore
            *((call.invoked, NEVER) for call in restores),
        ]
        crashed = Step("lose", claimed["run"], "crash", True)
        of_job[claimed["job"]] += [
            *(Operation(crashed, call.invoked, call.returned, False) for call in crashes),
            *(Operation(lost, begin, end, False) for begin, end in times if end > claim.invoked),
            Operation(expired, claim.invoked + claim.arguments.get("offer_s", 0.0), NEVER, False),
        ]
    return of_job


def _started_unheard(history: History) -> Iterator[tuple[float, float, str, int]]:
    """The starts of chains' runs by unanswered calls, as events tell: two times, the job and the run."""
    asked = {call.arguments["run"] for call in history.calls if call.function == "start"}
    asked |= {given["run"] for call in history.calls for given in _given(call) if call.function == "next"}
    unanswered = [
        call for call in history.calls if call.function == "next" and call.outcome == Outcome.UNKNOWN
    ]
    for call in sorted(history.calls, key=lambda call: call.returned):
        if call.function == "events" and call.outcome == Outcome.OK:
            for _, _, kind, job, run in call.result:
                begin = min((one.invoked for one in unanswered), default=NEVER)
                if kind == _EXECUTE and run not in asked and begin < call.returned:
                    asked.add(run)
                    yield begin, call.returned, job, run


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
            elif call.function == "next":
                for given in _given(call):
                    renewals[given["run"]].append(call)
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
    """The times in which a host said that the slot is free: also by asking for a job for it."""
    for call in history.calls:
        if call.function in ("slot_is_free", "claim", "next") and call.outcome != Outcome.FAIL:
            free = call.arguments.get("free", [call.arguments.get("slot")])
            if call.arguments["host"] == host and slot in free:
                yield call.invoked, call.returned


def _jobs_without_an_order(history: History, deadline: Deadline) -> Iterator[str]:
    for job, its_operations in operations(history).items():
        problem = unexplained(its_operations, deadline)
        if problem:
            yield f"job {job}: no order of its calls explains {problem}"


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
    for call in history.calls:
        if call.function == "next":
            passed |= {given["run"]: call.returned for given in _given(call)}
    for execution in history.executions:
        if not passed.get(execution.run, NEVER) <= execution.began:
            yield f"job {execution.job}: run {execution.run} was executed before the fence let it pass"


def _executed_in_free_slots(history: History) -> Iterator[str]:
    """No host says that a slot is free while a process exists there."""
    slots = {claimed["run"]: claimed["slot"] for call in history.calls for claimed in _given(call)}
    for execution in history.executions:
        for begin, end in _freed(history, execution.client, slots.get(execution.run, "")):
            if execution.began < begin and end < execution.ended:
                said = f"{execution.client} said that {slots[execution.run]} is free"
                yield f"{said} during run {execution.run} of {execution.job}"


def _restored(history: History) -> bool:
    """Whether a dump was restored: what was acknowledged between the two is undone."""
    return any(call.function == "restore" for call in history.calls)


def _submitted_twice(history: History) -> Iterator[str]:
    """A key of a submission names one cluster."""
    clusters = defaultdict(set)
    there = _final(history)
    for call in history.calls:
        if call.function == "submit" and call.outcome != Outcome.FAIL:
            cluster = call.arguments["cluster"]
            # a restore may have undone it
            if f"{cluster}.0" in there or (call.outcome == Outcome.OK and not _restored(history)):
                clusters[call.arguments["key"]].add(cluster)
    for key, made in clusters.items():
        if len(made) > 1:
            yield f"submission {key} was made as clusters {sorted(made)}"
    asked = {call.arguments["cluster"] for call in history.calls if call.function == "submit"}
    for job in there:
        if int(job.partition(".")[0]) not in asked:
            yield f"job {job} was submitted by no client"


def _given_twice(history: History) -> Iterator[str]:
    """No id of a run or a cluster is given out again, not even after a restore."""
    tokens: dict[int, str] = {}
    keys: dict[int, str] = {}
    for call in history.calls:
        if call.outcome == Outcome.OK and call.function in ("claim", "next"):
            for claimed in _given(call):
                if tokens.setdefault(claimed["run"], claimed["token"]) != claimed["token"]:
                    yield f"run {claimed['run']} was given out twice"
        elif call.outcome == Outcome.OK and call.function == "submit":
            given = call.arguments
            if keys.setdefault(given["cluster"], given["key"]) != given["key"]:
                yield f"cluster {given['cluster']} was given out twice"


def _forged(history: History) -> Iterator[str]:
    for call in history.calls:
        if call.arguments.get("forged") and call.outcome == Outcome.OK:
            if call.result in (None, [], {"ended": False}):
                continue
            yield f"{call.function} of run {call.arguments['run']} was allowed with another token"


def _given_unasked(history: History) -> Iterator[str]:
    """Each run that the queue has for a host was given to it, or may have been by an unanswered call."""
    known: set[int] = set()
    unanswered: set[str] = set()
    for call in sorted(history.calls, key=lambda call: call.returned):
        known |= {given["run"] for given in _given(call)}
    for call in history.calls:
        if call.function in ("claim", "next") and call.outcome == Outcome.UNKNOWN:
            unanswered.add(call.arguments["host"])
        if call.function == "host_runs" and call.outcome == Outcome.OK:
            for found in call.result:
                if found["run"] not in known and call.arguments["host"] not in unanswered:
                    yield f"job {found['job']}: no call of {call.client} has asked for run {found['run']}"


def _chains(history: History) -> Iterator[str]:
    """A chain's next job fits it, starts only with the end of the one before, and some call asked for it."""
    asked = {call.arguments["run"] for call in history.calls if call.function == "start"}
    asked |= {given["run"] for call in history.calls for given in _given(call) if call.function == "next"}
    asked |= {run for *_, run in _started_unheard(history)}
    places: dict[tuple[int, int], int] = {}
    for call in history.calls:
        if call.function == "events" and call.outcome == Outcome.OK:
            for _, _, kind, job, run in call.result:
                if call.client == "last reader":
                    places.setdefault((kind, run), len(places))
                if kind == _EXECUTE and run not in asked:
                    asked.add(run)
                    yield f"job {job}: no call has asked for the start of run {run}"
    for call in history.calls:
        for given in _given(call) if call.function == "next" else ():
            wanted, run = call.arguments, given["run"]
            if given["same"] != wanted["same"]:
                yield f"job {given['job']}: run {run} is in a chain of {wanted['same']}, not {given['same']}"
            if not given["ended"]:
                yield f"job {given['job']}: run {run} began although the end of the one before was refused"
            end, begin = places.get((_TERMINATED, wanted.get("run", 0))), places.get((_EXECUTE, run))
            if end is not None and begin is not None and begin < end:
                yield f"job {given['job']}: run {run} began before the end of the one before in its chain"


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
    """In the end, when hosts have waited for work in vain, no job is in the queue, unless it is held."""
    last = [call for call in history.calls if call.function == "snapshot" and call.outcome == Outcome.OK]
    for job, (status, _) in last[-1].result["queued"].items() if last else ():
        if status != HELD:
            yield f"job {job} was left in the queue in state {status}"


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
    kept = {tuple(event) for event in whole}
    for reader, read in streams.items():
        # they have read events that a restore undid
        stream = [event for event in read if tuple(event) in kept] if _restored(history) else read
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
            least = 0 if _restored(history) else sure[job] - superseded
            if not least <= kinds.count(kind) <= possible[job]:
                yield f"job {job}: {sure[job]} acknowledged {function}s have {kinds.count(kind)} events"
