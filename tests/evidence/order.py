"""The search for an order of one job's calls that real time allows and the model explains.

Wing and Gong's problem, solved as in Lowe's "just-in-time" search: it goes through the beginnings and ends of
the calls by time, with all situations that the job can be in. A call is placed only when its end comes, by
the placements of other open calls that lead to it. A call that was never answered is open for ever; four
rules keep the search short in spite of many of these:

- A situation is left out where another has the same job, owes no more and can still do as much.
- Of unanswered calls that do the same, the one whose time ends first is placed first.
- A call that changes nothing is placed as soon as the job's state explains its answer.
- Unanswered calls about a run that is over are forgotten.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.evidence.history import NEVER
from tests.evidence.model import ANY, Job, Step, steps

#: so many placements are tried between two looks at the clock
_BETWEEN_LOOKS = 500


class Undecided(Exception):
    """The search was not finished in its time."""


class Deadline:
    """A bound on the processor time of searches; raises Undecided when it is over."""

    def __init__(self, seconds: float) -> None:
        self._end = time.process_time() + seconds
        self._tried = 0

    def check(self) -> None:
        """Count one more placement."""
        self._tried += 1
        if self._tried % _BETWEEN_LOOKS == 0 and time.process_time() > self._end:
            raise Undecided


@dataclass(frozen=True, slots=True)
class Operation:
    """A step with the time in which it took effect; one that is not ``certain`` may have had no effect."""

    step: Step
    begin: float
    end: float
    certain: bool = True


@dataclass(frozen=True, slots=True)
class _Situation:
    """A state of the job, with sets of operations as bits.

    ``owed``: begun, answered, not yet placed; ``spare``: begun, unanswered, may still be placed.
    """

    job: Job | None
    owed: int
    spare: int


def unexplained(operations: list[Operation], deadline: Deadline | None = None) -> str | None:
    """The first of a job's operations that no order explains; None if one explains them all.

    Raises Undecided.
    """
    return _Search(operations, deadline or Deadline(NEVER)).problem()


class _Search:
    def __init__(self, operations: list[Operation], deadline: Deadline) -> None:
        # the lowest bit of several unanswered calls is the one that ends first
        self._operations = sorted(_relevant(operations), key=lambda operation: operation.end)
        self._deadline = deadline
        self._pure = _bits(
            n for n, one in enumerate(self._operations) if one.certain and _changes_nothing(one.step)
        )
        #: by bit of an operation that is not certain, those that do the same
        self._alike: dict[int, int] = defaultdict(int)
        alike: dict[Step, int] = defaultdict(int)
        #: by run, its claim and its operations that are not certain
        self._claims: dict[int, int] = {}
        self._of_run: dict[int, int] = defaultdict(int)
        for n, one in enumerate(self._operations):
            if one.step.name in ("claim", "next"):
                self._claims[one.step.run] = 1 << n
            if not one.certain:
                alike[one.step] |= 1 << n
                self._of_run[one.step.run] |= 1 << n
        for n, one in enumerate(self._operations):
            if not one.certain:
                self._alike[n] = alike[one.step]
        #: the operations that have begun
        self._begun = 0

    def problem(self) -> str | None:
        situations = {_Situation(None, 0, 0)}
        moments = [
            moment
            for n, one in enumerate(self._operations)
            for moment in ((one.begin, 0, n), (one.end, 1, n))
            if moment[0] < NEVER
        ]
        for _, is_end, n in sorted(moments):
            before = situations
            situations = self._at_end(before, n) if is_end else self._at_begin(before, n)
            if not situations:
                jobs = sorted({repr(situation.job) for situation in before})
                return f"{self._operations[n].step} when it is {' or '.join(jobs[:2])}"
        return None

    def _at_begin(self, situations: set[_Situation], n: int) -> set[_Situation]:
        self._begun |= 1 << n
        best = _Best(self._pure)
        for one in situations:
            bit = 1 << n
            if self._operations[n].certain:
                best.add(self._settled(one.job, one.owed | bit, one.spare))
            else:
                best.add(self._settled(one.job, one.owed, one.spare | bit))
        return best.situations()

    def _at_end(self, situations: set[_Situation], n: int) -> set[_Situation]:
        """The situations in which an operation is placed, or if it is not certain will never be."""
        bit = 1 << n
        best = _Best(self._pure)
        passed = _Best(self._pure)
        waiting = []
        for one in situations:
            if not (one.owed | one.spare) & bit:
                best.add(one)
            else:
                waiting.append(one)
                if one.spare & bit:
                    best.add(_Situation(one.job, one.owed, one.spare & ~bit))
        while waiting:
            one = waiting.pop()
            for placed, after in self._placements(one):
                if placed == n or not (after.owed | after.spare) & bit:
                    best.add(after)
                elif passed.add(after):
                    waiting.append(after)
        return best.situations()

    def _placements(self, one: _Situation) -> Iterator[tuple[int, _Situation]]:
        """The situations to which one more operation leads."""
        open_ = one.owed | one.spare
        while open_:
            bit = open_ & -open_
            open_ ^= bit
            n = bit.bit_length() - 1
            is_spare = bool(one.spare & bit)
            if is_spare and one.spare & self._alike[n] & (bit - 1):
                # another does the same, and its time ends first
                continue
            self._deadline.check()
            for job in steps(one.job, self._operations[n].step):
                if not is_spare:
                    yield n, self._settled(job, one.owed & ~bit, one.spare)
                elif job != one.job:
                    yield n, self._settled(job, one.owed, one.spare & ~bit)

    def _settled(self, job: Job | None, owed: int, spare: int) -> _Situation:
        """Place the operations that change nothing here or later; forget those of runs that are over."""
        pure = owed & self._pure
        while pure:
            bit = pure & -pure
            pure ^= bit
            if any(True for _ in steps(job, self._operations[bit.bit_length() - 1].step)):
                owed &= ~bit
        if spare and job is not None:
            known = {job.run, job.lost}
            if job.dumped is not None:
                known |= {job.dumped.run, job.dumped.lost}
            for run, claim in self._claims.items():
                # its claim has been placed, or never will be
                if run not in known and claim & self._begun and not claim & (owed | spare):
                    spare &= ~self._of_run[run]
        return _Situation(job, owed, spare)


class _Best:
    """Situations without those that another makes superfluous."""

    def __init__(self, pure: int) -> None:
        self._pure = pure
        self._kept: dict[tuple[Job | None, int], list[_Situation]] = defaultdict(list)

    def add(self, new: _Situation) -> bool:
        """Add a situation; False if it is superfluous."""
        kept = self._kept[new.job, new.owed & ~self._pure]
        for old in kept:
            if not old.owed & ~new.owed and not new.spare & ~old.spare:
                return False
        kept[:] = [old for old in kept if new.owed & ~old.owed or old.spare & ~new.spare]
        kept.append(new)
        return True

    def situations(self) -> set[_Situation]:
        """The situations that no other makes superfluous."""
        return {one for kept in self._kept.values() for one in kept}


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << n for n in numbers)


def _changes_nothing(step: Step) -> bool:
    """Whether a step with this answer changes no state of a job."""
    if step.name in ("read", "beat"):
        return True
    unchanged: dict[str, tuple[object, ...]] = {
        "accept": (False,),
        "start": (False,),
        "heartbeat": (None, "gone", "late"),
        "finish": ("late", "duplicate"),
    }
    return step.result is not ANY and step.result in unchanged.get(step.name, (0, "NotFound"))


def _relevant(operations: list[Operation]) -> Iterator[Operation]:
    """Without unanswered edits whose value was never read, and losses of a run before its claim."""
    read = {
        operation.step.result[1]
        for operation in operations
        if operation.step.name == "read" and operation.step.result is not None
    }
    claimed = {one.step.run: one.begin for one in operations if one.step.name in ("claim", "next")}
    for one in operations:
        if one.certain or (
            one.end >= claimed.get(one.step.run, 0.0)
            if one.step.name != "edit"
            else one.step.argument in read
        ):
            yield one
