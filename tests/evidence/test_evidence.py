"""The checker, its model, its planted bugs, and one history of each kind; ``make evidence`` plays many."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fetchwork.pool.postgres import PostgresServer, server_version, system_programs, wheel_programs
from fetchwork.process import Process
from tests.evidence import judging, model
from tests.evidence.checker import anomalies
from tests.evidence.explore import Limits, Search
from tests.evidence.history import NEVER, Outcome, Recorder, read
from tests.evidence.model import ANY, Step
from tests.evidence.order import Operation, unexplained
from tests.evidence.planted import PLANTED, Planted
from tests.support.leftovers import MEMORY, VARIABLE, in_memory, left
from tests.support.waiting import PATIENCE_S, until

_VARIABLE = f"{VARIABLE}=".encode()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with judging.server() as server:
        yield server


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories with anomalies are kept below the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.all)], ids=["clients", "pool"])
def test_history_has_no_anomaly(server: PostgresServer, seed: int) -> None:
    assert judging.judge(server, seed) == []


def _other_programs() -> list[Path]:
    """The server programs of PostgreSQL 14 to 17: of the wheel, the system and .venv/postgres."""
    newest = wheel_programs()
    trees = newest.parents[1].glob("pginstall*")
    system = system_programs()
    return [
        *([] if system is None else [system]),
        *(tree / "bin" for tree in trees if tree / "bin" != newest),
        # tests/support/install-postgres-versions
        *(path.parent for path in sorted(Path(sys.prefix).glob("postgres/*/bin/postgres"))),
    ]


@pytest.mark.all
@pytest.mark.parametrize("programs", _other_programs(), ids=server_version)
def test_history_on_an_older_postgresql_has_no_anomaly(programs: Path) -> None:
    with judging.server(programs) as server:
        assert judging.judge(server, 5) == []


@pytest.mark.all
@pytest.mark.parametrize("number", [3, 7, 13, 17], ids=lambda number: PLANTED[number].name)
def test_planted_bug_is_found(server: PostgresServer, number: int) -> None:
    assert any(judging.judge(server, seed, PLANTED[number]) for seed in (1, 2, 4, 5))


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


def _claimed(recorder: Recorder, host: str, token: str, **more: Any) -> None:
    call = recorder.invoke(host, "claim", host=host, offer_s=4.0, lease_s=1800.0, free=["slot1"], **more)
    claim = {"run": 1, "job": "1.0", "slot": "slot1", "token": token}
    recorder.answer(call, Outcome.OK, [claim])


def test_run_that_is_given_out_twice_is_an_anomaly_but_not_after_a_crash(tmp_path: Path) -> None:
    for number, crash in enumerate([False, True]):
        path = tmp_path / f"{number}.jsonl"
        recorder = Recorder(path, lease_s=1.0)
        submit = recorder.invoke("person 1", "submit", key="k", cluster=1, procs=1, value=1)
        recorder.answer(submit, Outcome.OK, 1)
        _claimed(recorder, "h1", "one")
        if crash:
            recorder.answer(recorder.invoke("faults", "crash"), Outcome.OK)
        accept = recorder.invoke("h1", "accept", run=1)
        recorder.answer(accept, Outcome.OK, False)
        _claimed(recorder, "h2", "other")
        recorder.close()
        assert ("run 1 was given out twice" in anomalies(read(path))) != crash
        assert any("no order" in line for line in anomalies(read(path))) != crash


SAME = {"requestmemory": 64}


def _chain(path: Path, answer: dict[str, Any], outcome: Outcome = Outcome.OK, state: int = 2) -> list[str]:
    """The anomalies of a history in which h1 asks for the job after 1.0, and then executes 1.1."""
    recorder = Recorder(path, lease_s=1000.0)
    submit = recorder.invoke("person 1", "submit", key="k", cluster=1, procs=2, value=1)
    recorder.answer(submit, Outcome.OK, 1)
    _claimed(recorder, "h1", "one")
    recorder.answer(recorder.invoke("h1", "start", run=1, starter="1:1"), Outcome.OK, None)
    arguments = {"host": "h1", "slot": "slot1", "starter": "1:1", "lease_s": 1800.0, "same": SAME}
    recorder.answer(recorder.invoke("h1", "next", run=1, **arguments), outcome, answer or None)
    events = [[1, 1, 0, "1.0", -1], [1, 2, 0, "1.1", -1], [1, 3, 1, "1.0", 1]]
    events += [[1, 4, 5, "1.0", 1], [1, 5, 1, "1.1", 2]]
    recorder.answer(recorder.invoke("last reader", "events", after=[0, 0]), Outcome.OK, events)
    jobs = {"1.0": [4, 1], "1.1": [state, 1]}
    queued = {"1.1": jobs["1.1"]}
    totals = {str(n): int(n == state) for n in (1, 2, 3, 5)}
    last = recorder.invoke("last reader", "snapshot")
    recorder.answer(last, Outcome.OK, {"jobs": jobs, "queued": queued, "totals": totals})
    recorder.close()
    return [line for line in anomalies(read(path)) if "left in the queue" not in line]


def test_chain_is_judged_by_the_answers_of_its_calls(tmp_path: Path) -> None:
    good = {"ended": True, "run": 2, "job": "1.1", "token": "two", "same": SAME}
    assert _chain(tmp_path / "good", good) == []
    # the answer was lost: the events tell which job was started
    assert _chain(tmp_path / "lost", {}, Outcome.UNKNOWN) == []
    assert any("no order" in line for line in _chain(tmp_path / "idle", good, state=1))
    (problem,) = _chain(tmp_path / "unfit", good | {"same": {"requestmemory": 65}})
    assert "is in a chain of" in problem
    assert any("was refused" in line for line in _chain(tmp_path / "refused", good | {"ended": False}))
    alone = _chain(tmp_path / "alone", {"ended": True})
    assert "job 1.1: no call has asked for the start of run 2" in alone


def test_run_that_no_call_has_asked_for_is_an_anomaly(tmp_path: Path) -> None:
    for outcome in (Outcome.OK, Outcome.UNKNOWN):
        path = tmp_path / outcome
        recorder = Recorder(path, lease_s=1000.0)
        claim = recorder.invoke("h1", "claim", host="h1", offer_s=4.0, lease_s=1800.0, free=["slot1"])
        recorder.answer(claim, outcome, [])
        found = recorder.invoke("h1", "host_runs", host="h1")
        recorder.answer(found, Outcome.OK, [{"run": 1, "job": "1.0"}])
        recorder.close()
        problems = anomalies(read(path))
        assert any("has asked for run 1" in line for line in problems) == (outcome == Outcome.OK)


def test_claim_for_an_undivided_slot_ends_the_run_that_was_there(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl", lease_s=1000.0)
    submit = recorder.invoke("person 1", "submit", key="k", cluster=1, procs=1, value=1)
    recorder.answer(submit, Outcome.OK, 1)
    _claimed(recorder, "h1", "one")
    recorder.answer(recorder.invoke("h1", "start", run=1, starter="1:1"), Outcome.OK, None)
    free = {"host": "h1", "offer_s": 4.0, "lease_s": 1800.0, "free": ["slot1"]}
    recorder.answer(recorder.invoke("h1", "claim", **free), Outcome.OK, [])
    read_ = recorder.invoke("last reader", "snapshot")
    jobs = {"1.0": [1, 1]}
    recorder.answer(read_, Outcome.OK, {"jobs": jobs, "queued": jobs, "totals": {}})
    recorder.close()
    assert not any("no order" in line for line in anomalies(read(tmp_path / "history.jsonl")))


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
        (1, Limits(claims=2, crashes=2, acts=2)),
        (2, Limits(claims=1, crashes=2, acts=0)),
        pytest.param(2, Limits(claims=1, crashes=2, acts=1), marks=pytest.mark.all),
        pytest.param(2, Limits(claims=2, crashes=2, acts=0), marks=pytest.mark.all),
    ],
    ids=str,
)
def test_model_keeps_its_promises_in_all_states(jobs: int, limits: Limits) -> None:
    search = Search(limits, jobs)
    assert search.run() == []
    assert len(search.states) > 1000


def test_search_finds_a_fence_that_lets_every_run_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(job: model.Job, step: Step) -> Iterator[tuple[model.Job, bool]]:
        yield job, True

    monkeypatch.setitem(model._STEPS, "start", start)
    broken = Search(Limits(claims=2, crashes=1, acts=1), 1).run()
    assert any("executed twice at once" in line for line in broken)


def test_search_finds_a_chain_that_takes_a_running_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def following(job: model.Job, step: Step) -> Iterator[tuple[model.Job, bool]]:
        if job.status in (model.IDLE, model.RUNNING):
            yield replace(job, run=step.run, started=True, status=model.RUNNING), True

    monkeypatch.setitem(model._STEPS, "next", following)
    broken = Search(Limits(claims=2, crashes=0, acts=0), 2).run()
    assert any("executed twice at once" in line for line in broken)


# ---- a run of make evidence


@pytest.mark.all
def test_run_that_is_ended_leaves_nothing_and_is_taken_up_again() -> None:
    def run(seeds: str) -> subprocess.Popen[str]:
        words = ["--histories-only", "--workers", "1", "--seeds", seeds]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.evidence", *words],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    with run("1-5") as cut:
        assert cut.stderr is not None
        assert cut.stderr.readline() == "seed 1: ok\n"
        own = Process.find(cut.pid)
        assert own is not None
        environments = [one for child in own.children() for one in child.environment()]
        (name,) = {one for one in environments if one.startswith(_VARIABLE)}
        number = name.removeprefix(_VARIABLE).decode()
        assert left(number)
        cut.terminate()
        assert cut.wait(PATIENCE_S) == 128 + signal.SIGTERM
    until(lambda: not left(number) and not list(MEMORY.glob(f"{in_memory(number)}*")), "the end of all of it")
    with run("1-2") as again:
        out, errors = again.communicate()
    # the first has its verdict
    assert "seed 1:" not in errors
    assert out.splitlines()[-2:] == ["histories checked: 2", "anomalies: 0"]
