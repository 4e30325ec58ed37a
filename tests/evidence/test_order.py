"""The search for an order, against one that tries every order."""

import random

import pytest

from tests.evidence.history import NEVER
from tests.evidence.model import ANY, Job, Step, steps
from tests.evidence.order import Deadline, Operation, Undecided, unexplained

_RUNS = (1, 2)


def _is_explained(left: list[Operation], job: Job | None = None, latest: float = 0.0) -> bool:
    """Whether some order explains the operations that are left, by trying each."""
    if not any(operation.certain for operation in left):
        return True
    first_end = min(operation.end for operation in left if operation.certain)
    return any(
        _is_explained([*left[:n], *left[n + 1 :]], after, max(latest, one.begin))
        for n, one in enumerate(left)
        if one.begin <= first_end and latest <= one.end
        for after in steps(job, one.step)
    )


def _random_operations(chosen: random.Random) -> list[Operation]:
    """Few operations about one job, some without an answer, some of which no order explains."""
    submitted = Operation(Step("submit", argument=0), 0.0, 1.0)
    return [submitted, *(_random_operation(chosen) for _ in range(chosen.randint(3, 7)))]


def _random_operation(chosen: random.Random) -> Operation:
    begin = chosen.uniform(0.0, 5.0)
    run = chosen.choice(_RUNS)
    step = chosen.choice(
        [
            Step("claim", run, result=True),
            Step("accept", run, result=True),
            Step("start", run, 0, chosen.choice([True, True, False])),
            Step("heartbeat", run, result=chosen.choice([None, "end", "gone"])),
            Step("finish", run, "exit", chosen.choice(["completed", "held", "vacated", "late"])),
            Step("lose", run, chosen.choice([None, "offer", "crash"]), True),
            Step("hold", result=chosen.choice([1, 0])),
            Step("release", result=1),
            Step("vacate", result=1),
            Step("remove", result=1),
            Step("edit", argument=chosen.choice([1, 2]), result=1),
            Step("read", result=[chosen.choice([1, 2, 4, 5]), chosen.choice([0, 1, 2])]),
        ]
    )
    if step.name == "lose":
        return Operation(step, begin, chosen.choice([NEVER, begin + chosen.uniform(0.0, 3.0)]), False)
    if step.name not in ("claim", "read") and chosen.random() < 0.4:
        return Operation(Step(step.name, step.run, step.argument, ANY), begin, NEVER, False)
    return Operation(step, begin, begin + chosen.uniform(0.0, 3.0))


@pytest.mark.parametrize("part", range(4))
def test_search_agrees_with_one_that_tries_every_order(part: int) -> None:
    chosen = random.Random(part)
    verdicts = {True: 0, False: 0}
    for number in range(1000):
        operations = _random_operations(chosen)
        # a run is claimed once
        claims = [one for one in operations if one.step.name == "claim"]
        if len({one.step.run for one in claims}) < len(claims):
            continue
        explained = _is_explained(operations)
        assert (unexplained(operations) is None) == explained, f"number {number}: {operations}"
        verdicts[explained] += 1
    assert min(verdicts.values()) > 50


def test_unanswered_calls_do_not_make_the_search_long() -> None:
    # each may have had its effect at any time after its beginning, or none
    acts = [
        Operation(Step(name, argument=number if name == "edit" else None), 2.0 + number / 100, NEVER, False)
        for number in range(20)
        for name in ("hold", "release", "vacate", "edit")
    ]
    reads = [Operation(Step("read", result=[1 if n % 2 else 5, n % 20]), 3.0 + n, 3.5 + n) for n in range(40)]
    submitted = Operation(Step("submit", argument=0), 0.0, 1.0)
    assert unexplained([submitted, *acts, *reads], Deadline(20.0)) is not None
    assert unexplained([submitted, *acts, *reads[:20]], Deadline(20.0)) is None


def test_search_that_is_not_finished_is_undecided() -> None:
    operations = [
        Operation(Step("submit", argument=0), 0.0, 1.0),
        *(Operation(Step("edit", argument=n, result=1), 1.0, 9.0) for n in range(12)),
        Operation(Step("read", result=[1, 99]), 2.0, 10.0),
    ]
    with pytest.raises(Undecided):
        unexplained(operations, Deadline(0.0))
