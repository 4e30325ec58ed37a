"""Reports of runs that meet travel together; each is answered by itself, and in its own time."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, cast
from uuid import UUID

import pytest

from fetchwork.db.calls.call import Call
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseRefused, DatabaseUnavailable, NotFound
from fetchwork.handlers.host import reports
from fetchwork.handlers.host.reports import RunReports
from tests.support.waiting import PATIENCE_S

TOKEN = str(UUID(int=7))
EXIT = {"ExitCode": 0}


class FakeDatabase:
    """Records the calls; report_runs does all its parts but ``undone``, once ``free`` is set."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.undone: set[int] = set()
        self.alone: dict[str, Callable[[Mapping[str, Any]], object]] = {}
        self.error: Exception | None = None
        self.free = asyncio.Event()
        self.free.set()
        self.reports = RunReports(cast(AsyncDatabase, self))

    def start(self, run_id: int, starter: str = "1:1") -> Any:
        return self.reports.start(
            run_id=run_id, token=TOKEN, starter=starter, slot="slot1", timeout_s=PATIENCE_S
        )

    def finish(self, run_id: int, timeout_s: float = PATIENCE_S, **arguments: Any) -> Any:
        asked = {"hook_reason": "exit", "report": EXIT, "verdict": None, **arguments}
        return self.reports.finish(run_id=run_id, token=TOKEN, timeout_s=timeout_s, **asked)

    def named(self, function: str) -> list[Mapping[str, Any]]:
        return [arguments for name, arguments in self.calls if name == function]

    async def run(self, call: Call[Any], *, timeout_s: float) -> Any:
        assert timeout_s > 0
        self.calls.append((call.function, call.arguments))
        if call.function != "report_runs":
            return self.alone[call.function](call.arguments)
        await self.free.wait()
        if self.error is not None:
            raise self.error
        row = {}
        for column, name in {
            "accepted": "accept",
            "started": "start",
            "renewed": "update",
            "finished": "exit",
        }.items():
            ids: Any = call.arguments[f"{name}_ids"]
            row[column] = [n for n, run in enumerate(ids, 1) if run not in self.undone]
        return call.read([row])


@pytest.fixture
def database() -> FakeDatabase:
    return FakeDatabase()


async def test_what_comes_at_once_goes_in_one_call(database: FakeDatabase) -> None:
    update = database.reports.update(
        run_id=3, token=TOKEN, report={"JobState": "Running"}, timeout_s=PATIENCE_S
    )
    started, ended, beat = await asyncio.gather(database.start(1), database.finish(2), update)
    assert (started, ended, beat.action) == (None, "completed", None)
    ((function, sent),) = database.calls
    assert function == "report_runs"
    assert (sent["start_ids"], sent["exit_ids"], sent["update_ids"]) == ([1], [2], [3])
    assert TOKEN not in str(sent)


async def test_what_comes_while_a_call_is_under_way_goes_in_the_next(
    database: FakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MOST_CALLS", 1)
    database.free.clear()
    first = asyncio.ensure_future(database.finish(1))
    while not database.calls:
        await asyncio.sleep(0)
    others = [asyncio.ensure_future(database.finish(run)) for run in (2, 3, 4)]
    await asyncio.sleep(0.02)
    database.free.set()
    assert await asyncio.gather(first, *others) == ["completed"] * 4
    assert [sent["exit_ids"] for sent in database.named("report_runs")] == [[1], [2, 3, 4]]


async def test_a_call_that_hangs_keeps_the_next_no_longer_than_a_moment(database: FakeDatabase) -> None:
    database.free.clear()
    first = asyncio.ensure_future(database.finish(1))
    while not database.calls:
        await asyncio.sleep(0)
    second = asyncio.ensure_future(database.finish(2))
    while len(database.calls) < 2:
        await asyncio.sleep(0.001)
    database.free.set()
    both: Any = await asyncio.gather(first, second)
    assert both == ["completed"] * 2


async def test_a_run_that_is_left_undone_is_asked_for_alone(database: FakeDatabase) -> None:
    """Half a batch is refused: each gets the answer of the function for one run."""
    database.undone = {2, 3}

    def of_one(arguments: Mapping[str, Any]) -> str:
        if arguments["run_id"] == 3:
            raise NotFound("run 3 is not known")
        return "removed"

    database.alone["finish"] = of_one
    answers: Any = await asyncio.gather(*(database.finish(run) for run in (1, 2, 3)), return_exceptions=True)
    assert answers[:2] == ["completed", "removed"]
    assert isinstance(answers[2], NotFound)
    assert len(database.calls) == 3


async def test_a_call_that_is_refused_is_taken_apart(database: FakeDatabase) -> None:
    database.error = DatabaseRefused("one of them is wrong")
    database.alone["start"] = lambda arguments: None if arguments["run_id"] == 1 else "is over"
    answers: Any = await asyncio.gather(database.start(1), database.start(2))
    assert answers == [None, "is over"]


async def test_an_outage_is_told_to_each(database: FakeDatabase) -> None:
    database.error = DatabaseUnavailable("gone")
    answers: Any = await asyncio.gather(database.finish(1), database.start(2), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["gone", "gone"]
    assert all(isinstance(answer, DatabaseUnavailable) for answer in answers)
    assert answers[0] is not answers[1]


async def test_two_starters_of_one_run_are_never_in_one_call(database: FakeDatabase) -> None:
    database.undone = set()
    first = asyncio.ensure_future(database.start(1, "1:1"))
    second = asyncio.ensure_future(database.start(1, "2:2"))
    await asyncio.gather(first, second)
    assert [sent["starters"] for sent in database.named("report_runs")] == [["1:1"], ["2:2"]]


async def test_an_end_with_a_verdict_goes_alone(database: FakeDatabase) -> None:
    database.alone["finish"] = lambda arguments: "held"
    assert await database.finish(1, verdict={"action": "hold"}) == "held"
    assert await database.finish(2, hook_reason="evict") == "held"
    assert [function for function, _ in database.calls] == ["finish", "finish"]


async def test_each_waits_no_longer_than_its_own_time(database: FakeDatabase) -> None:
    database.free.clear()
    patient = asyncio.ensure_future(database.finish(1, 60.0))
    with pytest.raises(DatabaseUnavailable, match="in the time of the call"):
        await database.finish(2, 0.01)
    assert not patient.done()
    database.free.set()
    assert await patient == "completed"


async def test_an_accept_travels_with_the_start(
    database: FakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "ACCEPT_S", PATIENCE_S)
    database.reports.accepted(1, TOKEN)
    await database.start(1)
    ((_, sent),) = database.calls
    assert sent["accept_ids"] == []
    assert 0 <= sent["started_accepted_s"][0] < PATIENCE_S
    await database.reports.close()


async def test_an_accept_that_no_start_follows_is_written(
    database: FakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "ACCEPT_S", 0.01)
    database.reports.accepted(1, TOKEN)
    database.reports.accepted(2, TOKEN)
    while sum(len(sent["accept_ids"]) for sent in database.named("report_runs")) < 2:
        await asyncio.sleep(0.005)
    await database.start(1)
    assert database.named("report_runs")[-1]["started_accepted_s"] == [None]


async def test_accepts_are_written_before_a_slot_is_judged(database: FakeDatabase) -> None:
    database.undone = {2}
    database.alone["accept"] = lambda arguments: True
    database.reports.accepted(1, TOKEN)
    database.reports.accepted(2, TOKEN)
    await database.reports.write_accepts()
    assert [function for function, _ in database.calls] == ["report_runs", "accept"]
    await database.reports.close()


async def test_an_accept_in_an_outage_is_tried_again(
    database: FakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "ACCEPT_S", 0.01)
    database.error = DatabaseUnavailable("gone")
    database.reports.accepted(1, TOKEN)
    begin = time.monotonic()
    while len(database.calls) < 2 and time.monotonic() < begin + PATIENCE_S:
        await asyncio.sleep(0.005)
    database.error = None
    while database.named("report_runs")[-1]["accept_ids"] == [1] and database.reports._accepts:
        await asyncio.sleep(0.005)
    await database.reports.close()


async def test_who_waits_is_told_that_the_session_is_closed(database: FakeDatabase) -> None:
    database.free.clear()
    waiting = asyncio.ensure_future(database.finish(1))
    while not database.calls:
        await asyncio.sleep(0)
    await database.reports.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await waiting
