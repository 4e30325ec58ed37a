"""Each DAG over the queue ends as the same DAG does over a schedd: order, exit status, rescue file."""

import pytest

from tests.dag.cases import CASES
from tests.dag.sides import Dag, Queue, Schedd


@pytest.fixture(scope="module")
def started(queue: Queue, schedd: Schedd) -> dict[str, tuple[Dag, Dag]]:
    """All of them, on both sides, at once."""
    found = {}
    for name, case in CASES.items():
        both = [side.start(case.text, *case.options, files=case.files) for side in (schedd, queue)]
        found[name] = (both[0], both[1])
    return found


@pytest.mark.parametrize("name", CASES)
def test_it_ends_as_over_a_schedd(started: dict[str, tuple[Dag, Dag]], name: str) -> None:
    theirs, ours = started[name]
    expected = theirs.wait()
    assert ours.wait() == expected, ours.tail
    order, rescue = theirs.noted(), theirs.rescue()
    ours_order = ours.noted()
    if CASES[name].any_order:
        order, ours_order = sorted(set(order)), sorted(set(ours_order))
    assert (ours_order, ours.rescue()) == (order, rescue), ours.tail
