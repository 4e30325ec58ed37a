"""A slot that asks again is recognised, and the verdicts about it count no longer than they hold."""

from typing import Any

import pytest

from fetchwork.classad.ads import parse_expr, parse_old, print_old
from fetchwork.db.database import Database
from fetchwork.matchmaker.client import Matchmaker
from fetchwork.matchmaker.messages import Answer
from tests.agent.conftest import Hooks, slot_ad
from tests.support.by_name import call
from tests.support.waiting import PATIENCE_S

NAME = "slot1_1@vm"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of evaluations in each request to the matchmaker."""
    counted: list[int] = []
    look = Matchmaker.look

    async def counting(self: Matchmaker, looks: Any, ads: Any) -> Answer:
        counted.append(len(looks))
        return await look(self, looks, ads)

    monkeypatch.setattr(Matchmaker, "look", counting)
    return counted


def submit(database: Database, count: int = 4, **attributes: Any) -> None:
    call(database, "submit_many", ads=[{"Cmd": "/bin/true", "Owner": "nobody", **attributes}] * count)


async def gets(hooks: Hooks, **attributes: Any) -> bool:
    """Whether the slot gets a job; texts are expressions, None means that the slot lacks the attribute."""
    ad = parse_old(slot_ad(Name=NAME))
    for name, value in attributes.items():
        ad.pop(name, None)
        if value is not None:
            ad[name] = parse_expr(value) if type(value) is str else value
    return bool(await hooks.fetch(print_old(ad).encode()))


async def test_what_differs_in_clocks_alone_is_not_evaluated_again(hooks: Hooks, looks: list[int]) -> None:
    await hooks.context.session.hello(PATIENCE_S)
    submit(hooks.database)
    submit(hooks.database, Requirements="/Expr(TARGET.Large)/")
    for clock in range(4):
        assert await gets(hooks, MyCurrentTime=1000 + clock, LoadAvg=clock / 10, KeyboardIdle=clock)
    assert len(looks) == 1
    assert not await gets(hooks, MyCurrentTime=2000)
    assert len(looks) == 1


@pytest.mark.parametrize(
    "change", [{"HasTool": True}, {"Memory": 100_000}, {"Start": False}, {"LoadAvg": "1 + 1"}]
)
async def test_one_other_attribute_makes_it_another_slot(
    hooks: Hooks, looks: list[int], change: dict[str, Any]
) -> None:
    submit(hooks.database)
    assert await gets(hooks)
    await gets(hooks, **change)
    assert len(looks) == 2


@pytest.mark.parametrize(
    "requirements",
    ["TARGET.LoadAvg < 0.5", "Busy < 0.5", "TARGET.KeyboardIdle =?= undefined || TARGET.LoadAvg < 0.5"],
)
async def test_job_that_looks_at_a_clock_is_put_against_it_each_time(hooks: Hooks, requirements: str) -> None:
    submit(hooks.database, Requirements=f"/Expr({requirements})/", Busy="/Expr(TARGET.LoadAvg)/")
    for load in (0.9, 0.1, 0.8, 0.2):
        assert await gets(hooks, LoadAvg=load) is (load < 0.5)


async def test_slot_that_looks_at_a_clock_is_evaluated_each_time(hooks: Hooks) -> None:
    submit(hooks.database)
    for load in (0.9, 0.1, 0.8, 0.2):
        assert await gets(hooks, Start="MY.Busy < 0.5", Busy="LoadAvg", LoadAvg=load) is (load < 0.5)


async def test_resource_that_is_computed_from_a_clock_is_read_each_time(hooks: Hooks) -> None:
    submit(hooks.database, RequestMemory=1000)
    for load in (9500, 1, 9400, 2):
        got = await gets(hooks, Memory="10000 - LoadAvg", LoadAvg=load)
        assert got is (load < 9000)


async def test_clock_that_the_slot_did_not_have_is_seen_when_it_has_it(hooks: Hooks) -> None:
    submit(hooks.database, Requirements="/Expr(TARGET.NumPids =?= undefined)/")
    assert await gets(hooks, NumPids=None)
    assert not await gets(hooks, NumPids=1)
    assert await gets(hooks, NumPids=None)


@pytest.mark.parametrize("requirements", ["time() > 0", "random() >= 0.0", "CurrentTime > 0", 'eval("true")'])
async def test_what_depends_on_time_or_chance_is_not_remembered(
    hooks: Hooks, looks: list[int], requirements: str
) -> None:
    submit(hooks.database, Requirements=f"/Expr({requirements})/")
    for count in (1, 2, 3):
        await gets(hooks)
        assert len(looks) == count


async def test_job_that_ranks_slots_is_not_remembered(hooks: Hooks, looks: list[int]) -> None:
    submit(hooks.database, Rank="/Expr(TARGET.Memory)/")
    for count in (1, 2, 3):
        assert await gets(hooks)
        assert len(looks) == count


async def test_slot_that_ranks_jobs_is_evaluated_each_time(hooks: Hooks, looks: list[int]) -> None:
    submit(hooks.database)
    for count in (1, 2, 3):
        assert await gets(hooks, Rank="TARGET.RequestMemory")
        assert len(looks) == count


async def test_job_that_was_changed_is_put_against_the_slot_anew(hooks: Hooks) -> None:
    submit(hooks.database, count=1, Requirements="/Expr(TARGET.Large)/")
    assert not await gets(hooks)
    (job,) = hooks.database.query("SELECT jobid FROM fetchwork.jobs")
    hooks.call("edit", jobs=[job["jobid"]], changes={"Requirements": "/Expr(TARGET.Cpus > 0)/"})
    assert await gets(hooks)


async def test_new_jobs_are_put_against_a_known_slot(hooks: Hooks) -> None:
    submit(hooks.database, Requirements="/Expr(TARGET.Large)/")
    assert not await gets(hooks)
    submit(hooks.database, Requirements="/Expr(TARGET.Cpus > 0)/")
    assert await gets(hooks)


async def test_new_worker_evaluates_what_is_new(hooks: Hooks, looks: list[int]) -> None:
    submit(hooks.database, count=1)
    assert await gets(hooks)
    hooks.context.session.matchmaker.processes.drop_worker()
    submit(hooks.database, Requirements="/Expr(TARGET.Large)/")
    assert not await gets(hooks)
    submit(hooks.database, Requirements="/Expr(TARGET.Memory > 0)/")
    assert await gets(hooks)
    assert len(looks) == 3


async def test_numbers_of_another_database_stand_for_other_jobs(hooks: Hooks, looks: list[int]) -> None:
    submit(hooks.database)
    assert await gets(hooks)
    await hooks.context.session.say_hello(PATIENCE_S)
    assert await gets(hooks)
    assert len(looks) == 2
