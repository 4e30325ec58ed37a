"""A hook, or its starter, gets SIGKILL before its request, after it, and after the answer."""

import itertools

import pytest

from fetchwork.simulate.hookcalls import PHASES, HookKilled, Step
from tests.faults.harness import HOOKS, Pool


@pytest.mark.parametrize("hook", HOOKS)
async def test_jobs_end_once_all_the_same(pool: Pool, hook: str) -> None:
    # slot 1 loses its hook at the begin, slot 2 its starter there, ...
    cases = dict(enumerate(itertools.product(PHASES, ("hook", "starter")), start=1))
    happened = []

    def watch(step: Step) -> None:
        phase, victim = cases.get(step.slot.number, ("", ""))
        if (step.hook, step.phase) != (hook, phase):
            return
        happened.append(cases.pop(step.slot.number))
        if victim == "starter":
            step.slot.kill_starter()
        raise HookKilled

    await pool.add_host(slots=len(cases), watch=watch)
    pool.submit([0.3] * 18)
    await pool.until(lambda: not cases)
    await pool.until_done()
    assert len(happened) == 6
    assert pool.faults() == []
    assert pool.overlaps() == []
    assert pool.value("SELECT count(*) FROM fetchwork.job_history WHERE job_status = 4") == 18
