"""Jobs that turn out to be bad after their claim: few of them are claimed at a time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from fetchwork.db.database import Database
from fetchwork.handlers.host import unprintable
from fetchwork.handlers.host.unprintable import OWNERS_JOBS, REST_S, Unprintable
from fetchwork.matching.autoclusters import Autocluster
from tests.agent.conftest import Hooks, Jobs, attributes_of, slot_ad
from tests.support.by_name import call
from tests.support.waiting import PATIENCE_S

#: this name sorts before the other one, so this owner's jobs are matched first
MALLORY, BOB = "daemon", "nobody"
MANY = 30
#: for the host of these tests
TOO_LARGE = {"Cmd": "/bin/true", "Owner": MALLORY, "Arguments": "a" * 6000}


@pytest.fixture
async def hooks(conninfo: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hooks]:
    """The hooks of a host that reads no long ads; backoffs last longer than a test."""
    monkeypatch.setattr(unprintable, "REST_S", 1e6)
    made = Hooks(conninfo, ad_bytes=5000)
    yield made
    await made.close()


def claims_of(database: Database, owner: str) -> int:
    """The number of an owner's jobs that were claimed."""
    rows = database.query("SELECT count(*) AS n FROM fetchwork.runs WHERE owner = %s", [owner])
    return int(rows[0]["n"])


def job_id(ad: bytes) -> str:
    attributes = attributes_of(ad)
    return f"{attributes['ClusterId']}.{attributes['ProcId']}"


async def test_one_of_an_autocluster_is_claimed_before_others_have_their_turn(hooks: Hooks) -> None:
    hooks.call("submit_many", ads=[TOO_LARGE] * MANY)
    plain = {hooks.submit(owner=BOB) for _ in range(3)}
    offered = {job_id(await hooks.fetch(slot_ad(Name=f"slot{number}@vm"))) for number in range(3)}
    assert offered == plain
    assert claims_of(hooks.database, MALLORY) == 1


async def test_few_of_an_owner_are_claimed_whatever_their_autoclusters(hooks: Hooks) -> None:
    call(
        hooks.database,
        "submit_many",
        ads=[{**TOO_LARGE, "RequestMemory": 1 + number} for number in range(MANY)],
    )
    plain = {hooks.submit(owner=BOB) for _ in range(3)}
    offered = {job_id(await hooks.fetch(slot_ad(Name=f"slot{number}@vm"))) for number in range(3)}
    assert offered == plain
    assert claims_of(hooks.database, MALLORY) == OWNERS_JOBS


async def test_slots_that_look_together_claim_one_each(hooks: Hooks) -> None:
    hooks.call("submit_many", ads=[TOO_LARGE] * MANY)
    plain = {hooks.submit(owner=BOB) for _ in range(4)}
    await hooks.context.session.hello(PATIENCE_S)
    fetches = [hooks.fetch(slot_ad(Name=f"slot{number}@vm")) for number in range(4)]
    assert {job_id(ad) for ad in await asyncio.gather(*fetches)} == plain
    assert claims_of(hooks.database, MALLORY) <= 4


async def test_waiting_fetch_comes_back_for_what_rested(
    conninfo: str, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unprintable, "REST_S", 0.05)
    good = {**TOO_LARGE, "Arguments": ""}
    waits = Hooks(conninfo, ad_bytes=5000, max_fetch_wait_s=PATIENCE_S)
    # a fetch would otherwise wait for a notification
    waits.context.session.demand.live = True
    jobs.call("submit_many", ads=[TOO_LARGE, TOO_LARGE, TOO_LARGE, good])
    offered = job_id(await waits.fetch())
    await waits.close()
    cluster, proc = offered.split(".")
    assert proc == "3"
    bad = [jobs.job_of(f"{cluster}.{number}") for number in range(3)]
    assert {job["jobstatus"] for job in bad} == {5}
    assert {"5000" in job["holdreason"] for job in bad} == {True}


# ---- owners that back off, and for how long


def autocluster(number: int, owner: str = MALLORY) -> Autocluster:
    return Autocluster(number, "group", owner, "default", "{}")


def test_an_autocluster_rests_and_then_has_another_turn() -> None:
    resting = Unprintable()
    resting.failed(autocluster(1), 100.0)
    assert resting.rest_s(autocluster(1), 100.0 + REST_S / 2) == REST_S / 2
    assert resting.rest_s(autocluster(2), 100.0) == 0.0
    assert resting.rest_s(autocluster(1), 100.0 + REST_S) == 0.0


def test_an_owner_rests_after_several_and_its_group_does_not() -> None:
    resting = Unprintable()
    for number in range(OWNERS_JOBS):
        assert resting.rest_s(autocluster(99), 100.0) == 0.0
        resting.failed(autocluster(number), 100.0)
    assert resting.rest_s(autocluster(99), 100.0) == REST_S
    assert resting.rest_s(autocluster(98, BOB), 100.0) == 0.0
    assert resting.rest_s(autocluster(99), 100.0 + REST_S) == 0.0
    # and the backoff begins anew
    resting.failed(autocluster(99), 100.0 + REST_S)
    assert resting.rest_s(autocluster(98), 100.0 + REST_S) == 0.0
