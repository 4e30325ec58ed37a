"""All states of two hosts and their jobs: every order of claims, starts, ends, losses, crashes, acts.

The queue's part of each action is the model's (``model.py``), the same that judges histories. The hosts' part
is written here, with one assumption about time: a host ends its jobs before its lease is over in the
database. ``explore`` visits every state within the bounds of ``Limits`` and returns the broken promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.evidence.model import COMPLETED, Job, Step, steps


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the search: crashes of all hosts together, claims and acts of people for each job."""

    claims: int = 2
    crashes: int = 2
    acts: int = 2


@dataclass(frozen=True, slots=True)
class Host:
    """A host with one slot: the run that it knows, and how far that is.

    ``agent``: its agent is alive; ``lease``: the database takes the host for alive.
    """

    agent: bool = True
    lease: bool = True
    job: int | None = None
    run: int = 0
    #: offered, executing, or ended and not yet reported
    phase: str = "offered"


@dataclass(frozen=True, slots=True)
class State:
    """Jobs and hosts, and how much of the limits is used. ``completions`` counts the ends that were told."""

    jobs: tuple[Job, ...]
    hosts: tuple[Host, ...]
    claims: tuple[int, ...]
    acts: tuple[int, ...]
    completions: tuple[int, ...]
    crashes: int = 0


def first(jobs: int = 2, hosts: int = 2) -> State:
    """Idle jobs, free hosts."""
    return State((Job(),) * jobs, (Host(),) * hosts, (0,) * jobs, (0,) * jobs, (0,) * jobs)


def explore(limits: Limits | None = None, start: State | None = None) -> tuple[int, list[str]]:
    """The number of states, and the promises that are broken in some of them."""
    limits = limits or Limits()
    start = start or first()
    edges: dict[State, list[State]] = {}
    waiting = [start]
    problems: list[str] = []
    while waiting:
        state = waiting.pop()
        if state in edges:
            continue
        edges[state] = list(_after(state, limits))
        problems += _broken(state)
        waiting += edges[state]
    problems += _stuck(edges)
    return len(edges), problems


def _broken(state: State) -> Iterator[str]:
    for number, job in enumerate(state.jobs):
        executing = [host for host in state.hosts if host.job == number and host.phase == "executing"]
        if len(executing) > 1:
            yield f"job {number} is executed twice at once: {state}"
        if state.completions[number] > 1:
            yield f"job {number} was completed twice: {state}"
        if state.completions[number] and job.status != COMPLETED:
            yield f"the end of job {number} was told and undone: {state}"


def _stuck(edges: dict[State, list[State]]) -> Iterator[str]:
    """States from which the jobs can't all end any more, although people stop and hosts come back."""
    before: dict[State, list[State]] = {}
    for state, after in edges.items():
        for one in after:
            before.setdefault(one, []).append(state)
    # the limit of claims ends some lives early: such a job would go on
    good = {state for state in edges if all(_at_rest(state, n) for n in range(len(state.jobs)))}
    waiting = list(good)
    while waiting:
        for state in before.get(waiting.pop(), []):
            if state not in good:
                good.add(state)
                waiting.append(state)
    for state in edges.keys() - good:
        yield f"the jobs can't all end from {state}"


def _at_rest(state: State, number: int) -> bool:
    """The job has ended, or only a limit of this search or a person's hold keeps it in the queue."""
    job = state.jobs[number]
    return job.run is None and not any(host.job == number for host in state.hosts)


def _after(state: State, limits: Limits) -> Iterator[State]:
    yield from _people(state, limits)
    for number, host in enumerate(state.hosts):
        for changed, *touched in _of_host(state, number, host, limits):
            hosts = (*state.hosts[:number], changed, *state.hosts[number + 1 :])
            after = replace(state, hosts=hosts)
            for about, its, completed in touched:
                after = replace(
                    after,
                    jobs=_with(after.jobs, about, its),
                    completions=_with(after.completions, about, after.completions[about] + completed),
                )
                if its.run is not None and its.run == after.claims[about] + 1:
                    after = replace(after, claims=_with(after.claims, about, its.run))
            if host.agent and not changed.agent:
                after = replace(after, crashes=after.crashes + 1)
            # hosts have no names: states that differ by them alone are one
            yield replace(after, hosts=tuple(sorted(after.hosts, key=repr)))
    for number, job in enumerate(state.jobs):
        yield from (
            replace(state, jobs=_with(state.jobs, number, lost)) for lost in _losses(state, number, job)
        )


def _with(values: tuple[Any, ...], number: int, value: Any) -> tuple[Any, ...]:
    return (*values[:number], value, *values[number + 1 :])


def _people(state: State, limits: Limits) -> Iterator[State]:
    for number, job in enumerate(state.jobs):
        if state.acts[number] < limits.acts:
            for name in ("hold", "release", "remove", "vacate"):
                for after in steps(job, Step(name)):
                    if after != job:
                        yield replace(
                            state,
                            jobs=_with(state.jobs, number, after),
                            acts=_with(state.acts, number, state.acts[number] + 1),
                        )


def _of_host(state: State, number: int, host: Host, limits: Limits) -> Iterator[tuple[Any, ...]]:
    """The actions of a host: its state afterwards, the job's state, and the completions that were told."""
    if host.agent and state.crashes < limits.crashes:
        # the agent dies, and its job lives on; or the whole host does
        yield (replace(host, agent=False),)
        yield (Host(agent=False, lease=host.lease),)
    if not host.agent:
        # a new agent adopts the run that it finds
        yield (replace(host, agent=True, lease=True),)
    if host.lease and host.phase != "executing":
        yield (replace(host, lease=False),)
    if host.agent and not host.lease:
        yield (replace(host, lease=True),)
    if host.job is None:
        if host.agent and host.lease:
            yield from _claims(state, host, limits)
        return
    job, run = state.jobs[host.job], host.run
    if host.phase == "executing":
        # it exits, or its host ends it: in time before its lease ends
        yield (replace(host, phase="exit"),)
        yield (replace(host, phase="evict"),)
    elif host.phase == "offered":
        for result in (True, False):
            for after in steps(job, Step("start", run, 0, result)):
                # the answer may be lost: then the same starter asks again
                yield host, (host.job, after, 0)
                if result and host.agent and host.lease:
                    yield replace(host, phase="executing"), (host.job, after, 0)
                elif not result:
                    yield Host(host.agent, host.lease), (host.job, after, 0)
    elif host.agent:
        for outcome in ("completed", "held", "removed", "vacated", "evicted", "late", "duplicate"):
            for after in steps(job, Step("finish", run, host.phase, outcome)):
                told = int(outcome == "completed")
                yield host, (host.job, after, told)
                yield Host(host.agent, host.lease), (host.job, after, told)


def _claims(state: State, host: Host, limits: Limits) -> Iterator[tuple[Any, ...]]:
    for number, job in enumerate(state.jobs):
        run = state.claims[number] + 1
        if run <= limits.claims:
            for after in steps(job, Step("claim", run, result=True)):
                yield replace(host, job=number, run=run, phase="offered"), (number, after, 0)
                # the answer is lost
                yield host, (number, after, 0)


def _losses(state: State, number: int, job: Job) -> Iterator[Job]:
    """The queue gives up a run whose host is silent or knows nothing of it, or whose offer expires."""
    if job.run is None:
        return
    owners = [host for host in state.hosts if host.job == number and host.run == job.run]
    silent = all(not host.lease for host in owners)
    for after in steps(job, Step("lose", job.run, None if silent else "offer", True)):
        if after is not None:
            yield after
