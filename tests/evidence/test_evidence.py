"""The checker, its model, its planted bugs, and one history of each kind; ``make evidence`` plays many."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fetchwork.pool.postgres import PostgresServer
from tests.evidence import __main__ as evidence
from tests.evidence import model
from tests.evidence.checker import Operation, anomalies, unexplained
from tests.evidence.explore import Limits, explore, first
from tests.evidence.history import NEVER, Recorder, read
from tests.evidence.model import ANY, Step
from tests.evidence.planted import PLANTED, Planted


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with evidence.server() as server:
        yield server


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories with anomalies are kept below the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.all)], ids=["clients", "pool"])
def test_history_has_no_anomaly(server: PostgresServer, seed: int) -> None:
    assert evidence.judge(server, seed) == []


@pytest.mark.all
@pytest.mark.parametrize("number", [3, 7, 13], ids=lambda number: PLANTED[number].name)
def test_planted_bug_is_found(server: PostgresServer, number: int) -> None:
    assert any(evidence.judge(server, seed, PLANTED[number]) for seed in (1, 2, 4, 5))


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_text_of_a_planted_bug_occurs_in_its_file(planted: Planted) -> None:
    assert planted.new in planted.text()


# ---- the order of a job's calls


def _operations(*steps: tuple[float, float, Step]) -> list[Operation]:
    return [Operation(step, begin, end, step.result is not ANY) for begin, end, step in steps]


SUBMITTED = (0.0, 1.0, Step("submit", argument=7, result=True))


def _life(*steps: tuple[float, float, Step]) -> str | None:
    return unexplained(_operations(SUBMITTED, *steps))


CLAIMED = (2.0, 3.0, Step("claim", 1, result=True))
STARTED = (4.0, 5.0, Step("start", 1, 0, True))
COMPLETED = (6.0, 7.0, Step("finish", 1, "exit", "completed"))


def test_a_life_without_trouble_is_explained() -> None:
    assert _life(CLAIMED, STARTED, COMPLETED, (8.0, 9.0, Step("read", result=[4, 7]))) is None


def test_start_after_an_acknowledged_hold_is_not_explained() -> None:
    assert _life(CLAIMED, (3.1, 3.2, Step("hold", result=1)), STARTED)


def test_start_beside_a_hold_is_explained() -> None:
    # the hold may have come after the start
    assert _life(CLAIMED, (3.1, 4.5, Step("hold", result=1)), STARTED) is None


def test_unanswered_hold_may_have_had_its_effect_or_not() -> None:
    hold = (3.1, NEVER, Step("hold"))
    assert _life(CLAIMED, hold, STARTED) is None
    assert _life(CLAIMED, hold, (4.0, 5.0, Step("start", 1, 0, False))) is None


def test_second_claim_needs_an_end_of_the_first_run() -> None:
    second = (8.0, 9.0, Step("claim", 2, result=True))
    assert _life(CLAIMED, STARTED, second)
    lost = Operation(Step("lose", 1, result=True), 6.0, 7.0, certain=False)
    assert unexplained([*_operations(SUBMITTED, CLAIMED, STARTED, second), lost]) is None


def test_loss_comes_too_late_for_a_claim_before_it() -> None:
    lost = Operation(Step("lose", 1, result=True), 10.0, 11.0, certain=False)
    second = (8.0, 9.0, Step("claim", 2, result=True))
    assert unexplained([*_operations(SUBMITTED, CLAIMED, STARTED, second), lost])


def test_stale_read_is_not_explained() -> None:
    edit = (2.0, 3.0, Step("edit", argument=8, result=1))
    assert _life(edit, (4.0, 5.0, Step("read", result=[1, 8]))) is None
    assert _life(edit, (4.0, 5.0, Step("read", result=[1, 7])))


def test_end_that_counts_twice_is_not_explained() -> None:
    again = (8.0, 9.0, Step("finish", 1, "exit", "completed"))
    assert _life(CLAIMED, STARTED, COMPLETED, again)


# ---- the other promises


def test_overlapping_executions_and_an_execution_without_a_start_are_anomalies(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl", lease_s=1.0)
    recorder.executed("h1", "1.0", 1, 1.0, 3.0)
    recorder.executed("h2", "1.0", 2, 2.0, 4.0)
    recorder.close()
    found = anomalies(read(tmp_path / "history.jsonl"))
    assert "job 1.0: runs 1 and 2 were executed at the same time" in found
    assert "job 1.0: run 1 was executed before the fence let it pass" in found


def test_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    recorder = Recorder(path, lease_s=1.0)
    recorder.invoke("h1", "hello", host="h1")
    recorder.close()
    path.write_text(path.read_text() + '{"type": "ok", "ca')
    (call,) = read(path).calls
    assert call.returned == NEVER


# ---- the model


@pytest.mark.parametrize(
    ("jobs", "limits"),
    [
        (1, Limits(claims=2, crashes=1, acts=1)),
        (2, Limits(claims=1, crashes=1, acts=0)),
        pytest.param(1, Limits(claims=2, crashes=2, acts=2), marks=pytest.mark.all),
        pytest.param(2, Limits(claims=1, crashes=2, acts=1), marks=pytest.mark.all),
        pytest.param(2, Limits(claims=2, crashes=1, acts=0), marks=pytest.mark.all),
    ],
    ids=str,
)
def test_model_keeps_its_promises_in_all_states(jobs: int, limits: Limits) -> None:
    states, broken = explore(limits, first(jobs))
    assert states > 1000
    assert broken == []


def test_search_finds_a_fence_that_lets_every_run_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(job: model.Job, step: Step) -> Iterator[tuple[model.Job, bool]]:
        yield job, True

    monkeypatch.setitem(model._STEPS, "start", start)
    _, broken = explore(Limits(claims=2, crashes=1, acts=1), first(1))
    assert any("executed twice at once" in line for line in broken)
