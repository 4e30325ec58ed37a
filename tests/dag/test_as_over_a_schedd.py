"""Each DAG over the queue ends as the same DAG does over a schedd: order, exit status, rescue file."""

from pathlib import Path

import pytest

from fetchwork.pool.condorroot import DEFAULT_SUITE
from tests.dag.cases import CASES
from tests.dag.sides import Dag, Queue, Schedd, Side, on_both
from tests.dag.suites import MAJOR, NEWEST, suites

#: slow, or similar to another case
ONLY_ALL = {
    "one node",
    "vars before the job",
    "a post script",
    "no post script after a failing pre script",
    "unless another exit",
    "abort on another status",
    "a failing node in a splice",
    "a failing final node",
    "pre_skip of another status",
    "vars with the retry",
    "a service node that ends early does not end the DAG",
    "a priority of all nodes",
    "names with signs in them",
    "a category of all splices",
    "a DAG five deep in another",
    "a sub-DAG goes on from its rescue file when it is tried again",
    "what the DAG takes of the environment",
    "an environment of the command line",
    "what scripts are told of a node's jobs",
    "a priority is handed down",
    "a failed node waits on hold",
    "a sub-DAG in a splice",
    "a final node after an abort",
    "a pre script that fails once",
}


assert CASES.keys() >= ONLY_ALL


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each case with each HTCondor that knows it; in `make test` with the first that does."""

    def left_out(suite: str, name: str) -> bool:
        is_repeated = suite == NEWEST and CASES[name].since <= MAJOR[DEFAULT_SUITE]
        return name in ONLY_ALL or (is_repeated and not metafunc.config.getoption("--suites"))

    metafunc.parametrize(
        ("suite", "name"),
        [
            pytest.param(suite, name, marks=[pytest.mark.all] if left_out(suite, name) else [])
            for suite in suites(metafunc.config)
            for name, case in CASES.items()
            if case.since <= MAJOR.get(suite, case.since)
        ],
        scope="session",
    )


@pytest.fixture(scope="module")
def started(
    request: pytest.FixtureRequest, suite: str, queue: Queue, schedd: Schedd
) -> dict[str, tuple[Dag, Dag]]:
    """Start the chosen cases of this HTCondor, on both sides, at once."""
    asked = _asked(request.session)
    cases = {name: case for name, case in CASES.items() if (suite, name) in asked}

    def start(side: Side) -> list[Dag]:
        return [
            side.start(case.text, *case.options, files=case.files, **case.environment)
            for case in cases.values()
        ]

    ours, theirs = on_both(start, queue, schedd)
    return dict(zip(cases, zip(theirs, ours, strict=True), strict=True))


def _asked(session: pytest.Session) -> set[tuple[object, object]]:
    items = [item for item in session.items if item.path == Path(__file__)]
    values = [item.callspec.params for item in items if isinstance(item, pytest.Function)]
    return {(one["suite"], one["name"]) for one in values}


def test_it_ends_as_over_a_schedd(started: dict[str, tuple[Dag, Dag]], name: str) -> None:
    theirs, ours = started[name]
    expected = theirs.wait()
    assert ours.wait() == expected, ours.tail
    order, rescue = theirs.noted(), theirs.rescue()
    ours_order = ours.noted()
    if CASES[name].any_order:
        order, ours_order = sorted(set(order)), sorted(set(ours_order))
    assert (ours_order, ours.rescue()) == (order, rescue), ours.tail
