"""All states of two hosts and their jobs: every order of claims, starts, ends, losses, crashes, acts.

The queue's part of each action is the model's (``model.py``), the same that judges histories. The hosts' part
is written here, with one assumption about time: a host ends its jobs before its lease is over in the
database. ``Search`` visits every state within the bounds of ``Limits`` and returns the broken promises.

An action changes one host and at most one job, or two where a chain goes on. So the actions of each of these
groups are worked out once and looked up after that, and a state is a tuple of numbers. States that differ by
the names of hosts or jobs alone are one.

    python -m tests.evidence.explore 2 --claims 2 --crashes 2 --acts 1      two jobs
"""

from __future__ import annotations

import argparse
import itertools
from array import array
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Generic, TypeVar

from tests.evidence.model import COMPLETED, Job, Step, steps

T = TypeVar("T", bound=Hashable)


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
class Life:
    """A job, and how much of its limits is used. ``completions`` counts the ends that were told."""

    job: Job = field(default_factory=Job)
    claims: int = 0
    acts: int = 0
    completions: int = 0


class _Numbers(Generic[T]):
    """Numbers for values, which are quicker to compare."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def of(self, value: T) -> int:
        """The number of a value."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


#: the lives' numbers, the hosts' numbers in ascending order, and the crashes
_State = tuple[int, ...]


class Search:
    """The search of all states of some jobs and hosts."""

    def __init__(self, limits: Limits, jobs: int, hosts: int = 2) -> None:
        self.limits = limits
        self._jobs = jobs
        self._lives: _Numbers[Life] = _Numbers()
        self._hosts: _Numbers[Host] = _Numbers()
        first = (*[self._lives.of(Life())] * jobs, *[self._hosts.of(Host())] * hosts, 0)
        #: by state, its number
        self.states: dict[_State, int] = {first: 0}
        #: the numbers of the states that follow each state, one after the other, and where each one's end
        self._after = array("I")
        self._ends = array("Q")
        self._renamed = cache(self._renamed_host)
        self._alone_ = cache(self._alone)
        self._acts_ = cache(self._acts)
        self._together_ = cache(self._together)
        self._chained_ = cache(self._chained)
        self._claims_ = cache(self._claims)
        self._losses_ = cache(self._losses)

    def run(self) -> list[str]:
        """Visit all states; the promises that are broken in some of them."""
        problems: list[str] = []
        order = list(self.states)
        for state in order:
            problems += self._broken(state)
            for after in self._states_after(state):
                number = self.states.setdefault(after, len(self.states))
                if number == len(order):
                    order.append(after)
                self._after.append(number)
            self._ends.append(len(self._after))
        return problems + list(self._stuck(order))

    def _described(self, state: _State) -> str:
        lives = [self._lives.values[number] for number in state[: self._jobs]]
        return f"{lives}, {[self._hosts.values[number] for number in state[self._jobs : -1]]}"

    # ---- promises

    def _broken(self, state: _State) -> Iterator[str]:
        hosts = [self._hosts.values[number] for number in state[self._jobs : -1]]
        executing = [host.job for host in hosts if host.phase == "executing"]
        if len(set(executing)) < len(executing):
            yield f"a job is executed twice at once: {self._described(state)}"
        for number in state[: self._jobs]:
            life = self._lives.values[number]
            if life.completions > 1:
                yield f"a job was completed twice: {self._described(state)}"
            if life.completions and life.job.status != COMPLETED:
                yield f"the end of a job was told and undone: {self._described(state)}"

    def _stuck(self, order: list[_State]) -> Iterator[str]:
        """States from which the jobs can't all end any more, although people stop and hosts come back."""
        # the limit of claims ends some lives early: such a job would go on
        good = bytearray(self._is_at_rest(state) for state in order)
        changed = True
        while changed:
            changed = False
            for number in range(len(order) - 1, -1, -1):
                if not good[number]:
                    begin = self._ends[number - 1] if number else 0
                    if any(good[after] for after in self._after[begin : self._ends[number]]):
                        good[number] = changed = True
        for number, is_good in enumerate(good):
            if not is_good:
                yield f"the jobs can't all end from {self._described(order[number])}"

    def _is_at_rest(self, state: _State) -> bool:
        """Each job has ended, or only a limit of this search or a person's hold keeps it in the queue."""
        return all(self._lives.values[number].job.run is None for number in state[: self._jobs]) and all(
            self._hosts.values[number].job is None for number in state[self._jobs : -1]
        )

    # ---- the states after a state

    def _states_after(self, state: _State) -> Iterator[_State]:
        jobs, crashes = self._jobs, state[-1]
        for number in range(jobs):
            life = state[number]
            for after in (*self._acts_(life), *self._losses_(life, self._is_silent(state, number))):
                yield self._with(state, number, after)
        for number in range(jobs, len(state) - 1):
            host = state[number]
            for changed, cost in self._alone_(host):
                if crashes + cost <= self.limits.crashes:
                    yield self._with(state, number, changed, crashes=crashes + cost)
            about = self._hosts.values[host].job
            if about is not None:
                for changed, after in self._together_(host, state[about]):
                    yield self._with(state, number, changed, about, after)
                for one in range(jobs):
                    if one != about:
                        for changed, after, begun in self._chained_(host, state[about], state[one], one):
                            yield self._with(state, number, changed, about, after, more=(one, begun))
                continue
            for one in range(jobs):
                for changed, after in self._claims_(host, state[one], one):
                    yield self._with(state, number, changed, one, after)

    def _is_silent(self, state: _State, number: int) -> bool:
        """No living host of the database's knows of the job's run."""
        run = self._lives.values[state[number]].job.run
        hosts = [self._hosts.values[host] for host in state[self._jobs : -1]]
        return not any(host.lease and host.job == number and host.run == run for host in hosts)

    def _with(
        self,
        state: _State,
        place: int,
        value: int,
        other: int = 0,
        life: int | None = None,
        crashes: int = -1,
        more: tuple[int, int] | None = None,
    ) -> _State:
        """The state with other numbers at up to three places, in the order that stands for all names."""
        changed = list(state)
        changed[place] = value
        if life is not None:
            changed[other] = life
        if more is not None:
            changed[more[0]] = more[1]
        if crashes >= 0:
            changed[-1] = crashes
        jobs = changed[: self._jobs]
        hosts = changed[self._jobs : -1]
        order = sorted(range(self._jobs), key=jobs.__getitem__)
        best: _State | None = None
        for names in itertools.permutations(order):
            named = [jobs[name] for name in names]
            if named == sorted(named):
                renamed = sorted(self._renamed(host, names) for host in hosts)
                one = (*named, *renamed, changed[-1])
                best = one if best is None else min(best, one)
        assert best is not None
        return best

    def _renamed_host(self, number: int, names: tuple[int, ...]) -> int:
        host = self._hosts.values[number]
        return number if host.job is None else self._hosts.of(replace(host, job=names.index(host.job)))

    # ---- actions, each worked out once

    def _acts(self, number: int) -> list[int]:
        """The acts of people."""
        life = self._lives.values[number]
        if life.acts == self.limits.acts:
            return []
        return [
            self._lives.of(replace(life, job=after, acts=life.acts + 1))
            for name in ("hold", "release", "remove", "vacate")
            for after in steps(life.job, Step(name))
            if after is not None and after != life.job
        ]

    def _losses(self, number: int, silent: bool) -> list[int]:
        """The queue gives up a run whose host is silent or knows nothing of it, or whose offer expires."""
        life = self._lives.values[number]
        if life.job.run is None:
            return []
        lost = steps(life.job, Step("lose", life.job.run, None if silent else "offer", True))
        return [self._lives.of(replace(life, job=after)) for after in lost if after is not None]

    def _alone(self, number: int) -> list[tuple[int, int]]:
        """The changes of a host alone, and the number of crashes in each."""
        host = self._hosts.values[number]
        after = []
        if host.agent:
            # the agent dies, and its job lives on; or the whole host does
            after += [(replace(host, agent=False), 1), (Host(agent=False, lease=host.lease), 1)]
        else:
            # a new agent adopts the run that it finds
            after.append((replace(host, agent=True, lease=True), 0))
        if host.lease and host.phase != "executing":
            after.append((replace(host, lease=False), 0))
        if host.agent and not host.lease:
            after.append((replace(host, lease=True), 0))
        if host.phase == "executing":
            # it exits, or its host ends it: in time before its lease ends
            after += [(replace(host, phase="exit"), 0), (replace(host, phase="evict"), 0)]
        return [(self._hosts.of(one), crashes) for one, crashes in after]

    def _together(self, number: int, life_number: int) -> list[tuple[int, int]]:
        """The calls of a host about the run that it knows: the host and the life afterwards."""
        host, life = self._hosts.values[number], self._lives.values[life_number]
        free = Host(host.agent, host.lease)
        after: list[tuple[Host, Job | None, bool]] = []
        if host.phase == "offered":
            for started in (True, False):
                for job in steps(life.job, Step("start", host.run, 0, started)):
                    # the answer may be lost: then the same starter asks again
                    after.append((host, job, False))
                    if not started:
                        after.append((free, job, False))
                    elif host.agent and host.lease:
                        after.append((replace(host, phase="executing"), job, False))
        elif host.phase != "executing" and host.agent:
            for outcome in ("completed", "held", "removed", "vacated", "evicted", "late", "duplicate"):
                for job in steps(life.job, Step("finish", host.run, host.phase, outcome)):
                    after += [(host, job, outcome == "completed"), (free, job, outcome == "completed")]
        return [
            (
                self._hosts.of(changed),
                self._lives.of(replace(life, job=job, completions=life.completions + told)),
            )
            for changed, job, told in after
            if job is not None
        ]

    def _chained(self, number: int, ended: int, next_: int, name: int) -> list[tuple[int, int, int]]:
        """A host reports that its job has exited, and gets the next one of its chain, in one call."""
        host, old, new = self._hosts.values[number], self._lives.values[ended], self._lives.values[next_]
        run = new.claims + 1
        if host.phase != "exit" or not (host.agent and host.lease) or run > self.limits.claims:
            return []
        after = []
        for job in steps(old.job, Step("finish", host.run, "exit", "completed")):
            for started in steps(new.job, Step("next", run, result=True)):
                if job is not None and started is not None and old.job.run == host.run:
                    told = self._lives.of(replace(old, job=job, completions=old.completions + 1))
                    begun = self._lives.of(replace(new, job=started, claims=run))
                    following = self._hosts.of(replace(host, job=name, run=run, phase="executing"))
                    # the answer may be lost: then no host executes the next job
                    untold = self._lives.of(replace(old, job=job))
                    after += [(following, told, begun), (number, untold, begun)]
        return after

    def _claims(self, number: int, life_number: int, name: int) -> list[tuple[int, int]]:
        """A free host claims a job."""
        host, life = self._hosts.values[number], self._lives.values[life_number]
        run = life.claims + 1
        if not (host.agent and host.lease) or run > self.limits.claims:
            return []
        after = []
        for job in steps(life.job, Step("claim", run, result=True)):
            if job is not None:
                claimed = self._lives.of(replace(life, job=job, claims=run))
                # the answer may be lost
                after += [(self._hosts.of(replace(host, job=name, run=run)), claimed), (number, claimed)]
        return after


def main() -> None:
    """Search, and print the number of states and the broken promises."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.explore")
    parser.add_argument("jobs", type=int, nargs="?", default=2)
    for name in ("claims", "crashes", "acts"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Limits(), name))
    arguments = parser.parse_args()
    search = Search(Limits(arguments.claims, arguments.crashes, arguments.acts), arguments.jobs)
    problems = search.run()
    for problem in problems[:5]:
        print(problem)
    print(f"states: {len(search.states)}, broken promises: {len(problems)}")


if __name__ == "__main__":
    main()
