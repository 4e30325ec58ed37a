"""No ad of one submitter keeps another submitter's exit-status-only job from being offered."""

import contextlib
import json
from collections.abc import Callable

import pytest

from fetchwork.errors import FetchworkError
from tests.agent.conftest import Hooks, Jobs, attributes_of, slot_ad
from tests.matchmaker.hostile import HOSTILE, made_by_chance
from tests.support.by_name import scalar
from tests.support.waiting import PATIENCE_S

#: this name sorts before the other one, so this owner's jobs are matched first
MALLORY, BOB = "daemon", "nobody"
#: match rounds within which each exit-status-only job has to be offered
PASSES = 5


@pytest.fixture
def submit_text(jobs: Jobs) -> Callable[[str], str | None]:
    """Puts an ad, as JSON text, into the queue; None if it is refused at once."""

    def submit_text(ad: str) -> str | None:
        whole = f'{{"Cmd": "/bin/true", "Owner": "{MALLORY}", ' + ad.lstrip().removeprefix("{")
        with contextlib.suppress(FetchworkError, ValueError):
            rows = jobs.database.query(
                "SELECT fetchwork.submit_cluster('{}', ARRAY[%s]::jsonb[]) AS c", [whole]
            )
            return f"{rows[0]['c']}.0"
        return None

    return submit_text


def job_id(ad: bytes) -> str:
    attributes = attributes_of(ad)
    return f"{attributes['ClusterId']}.{attributes['ProcId']}"


@pytest.mark.parametrize("name", HOSTILE)
async def test_plain_job_is_offered_in_the_same_fetch(
    hooks: Hooks, submit_text: Callable[[str], str | None], name: str
) -> None:
    submit_text(HOSTILE[name])
    plain = hooks.submit(owner=BOB)
    offered = await hooks.fetch()
    if hooks.job_of(plain)["jobstatus"] == 1 and offered and job_id(offered) != plain:
        # the ad was harmless after all, and was offered
        offered = await hooks.fetch(slot_ad(Name="slot2@vm"))
    assert job_id(offered) == plain


async def test_what_two_hosts_cannot_evaluate_is_held_and_the_first_lets_it_rest(
    hooks: Hooks, conninfo: str
) -> None:
    costly = hooks.submit(owner=MALLORY, ad=json.loads(HOSTILE["regexp that backtracks"]))
    assert not await hooks.fetch()
    scalar(hooks.database, "maintain_queue")
    assert hooks.job_of(costly)["jobstatus"] == 1
    replaced = hooks.context.session.matchmaker.processes.ended
    assert not await hooks.fetch()
    # the ad backs off: it is not evaluated again
    assert hooks.context.session.matchmaker.processes.ended == replaced == 1
    other = Hooks(conninfo)
    other.context.session.host = "another"
    try:
        assert not await other.fetch(slot_ad(Name="slot1@another"))
    finally:
        await other.close()
    scalar(hooks.database, "maintain_queue")
    job = hooks.job_of(costly)
    assert job["jobstatus"] == 5
    assert "more than 0.2 s of CPU" in job["holdreason"]


async def test_hostile_policies_do_not_stop_those_of_later_jobs(hooks: Hooks) -> None:
    hostile = [
        {"PeriodicHold": "/Expr(true)/", "PeriodicHoldSubCode": 3000000000},
        {"PeriodicHold": "/Expr(true)/", "PeriodicHoldReason": '/Expr(strcat("\\377"))/'},
        {"PeriodicHold": json.loads(HOSTILE["regexp that backtracks"])["Requirements"]},
        {"PeriodicRemove": "/Expr(1 1)/"},
    ]
    for ad in hostile:
        with contextlib.suppress(FetchworkError):
            hooks.submit(owner=MALLORY, ad=ad)
    plain = hooks.submit(owner=BOB, ad={"PeriodicHold": "/Expr(true)/"})
    await hooks.context.session.hello(PATIENCE_S)
    await hooks.policy_pass()
    assert hooks.job_of(plain)["jobstatus"] == 5


@pytest.mark.parametrize(
    ("seed", "number"), [(1, 200), pytest.param(2, 10_000, marks=pytest.mark.all)], ids=["some", "many"]
)
async def test_plain_jobs_are_offered_beside_ads_made_by_chance(
    hooks: Hooks, submit_text: Callable[[str], str | None], seed: int, number: int
) -> None:
    for made in range(number):
        submit_text(json.dumps(made_by_chance(seed * 1_000_000 + made)))
    waiting = {hooks.submit(owner=BOB) for _ in range(5)}
    passes = 0
    while waiting:
        passes += 1
        assert passes <= PASSES * 5, f"seed {seed}: {len(waiting)} plain jobs are not offered"
        offered = await hooks.fetch(slot_ad(Name=f"slot{passes}@vm"))
        if offered:
            waiting.discard(job_id(offered))
