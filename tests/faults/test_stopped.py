"""An agent, the processes that evaluate for it, a hook or the database stand still for a while (SIGSTOP)."""

import asyncio
import os
import signal
from collections.abc import Awaitable

import pytest

from fetchwork.simulate.hookcalls import PHASES, Step
from tests.faults.harness import DEADLINES_S, HOOKS, PATIENT, UNTIL_TOLD, Pool, SimulatedHost, descendants


def _reported_jobs(host: SimulatedHost) -> set[bytes]:
    lines = [line for report in host.reports() for line in report.read_bytes().splitlines()]
    return {line for line in lines if line.startswith(b"ProcId =")}


async def test_hooks_of_a_stopped_agent_end_in_time_and_other_hosts_go_on(pool: Pool) -> None:
    pool.agent = {"lease_s": 600}
    pool.deadlines_s = {name: min(seconds, 2.0) for name, seconds in DEADLINES_S.items()}
    stopped = await pool.add_host("stopped", slots=2)
    pool.submit([UNTIL_TOLD] * 2)
    await pool.until_running(2)
    before = pool.rows("SELECT run_id FROM fetchwork.run ORDER BY run_id")
    stopped.agent.signal(signal.SIGSTOP)
    await pool.add_host("other", slots=2)
    pool.submit([0.1] * 12)
    await pool.until(lambda: pool.value("SELECT count(*) FROM fetchwork.job_history") == 12)
    # the results are spooled by hooks that gave up
    pool.end_jobs()
    await pool.until(lambda: len(stopped.reports()) == 2)
    assert pool.rows("SELECT run_id FROM fetchwork.run ORDER BY run_id") == before
    stopped.agent.signal(signal.SIGCONT)
    await pool.until_done()
    assert pool.faults() == []
    assert pool.overlaps() == []
    assert pool.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome <> 'completed'") == 0


async def test_a_run_that_was_given_away_is_not_believed_when_its_agent_goes_on(pool: Pool) -> None:
    pool.agent = {"lease_s": 6}
    stopped = await pool.add_host("stopped", slots=1)
    pool.submit([UNTIL_TOLD])
    await pool.until_running()
    stopped.agent.signal(signal.SIGSTOP)
    await pool.add_host("other", slots=1)
    lost = "SELECT count(*) FROM fetchwork.run_history WHERE outcome = 'lost'"
    await pool.until(lambda: pool.value(lost) == 1)
    # the job runs elsewhere; the old execution ends as soon as its agent goes on
    await pool.until_running(2)
    stopped.agent.signal(signal.SIGCONT)
    await pool.until(lambda: pool.ledger.running == 1)
    assert (
        pool.value("SELECT h.name FROM fetchwork.run AS r JOIN fetchwork.host AS h USING (host_id)")
        == "other"
    )
    pool.end_jobs()
    await pool.until_done()
    assert pool.faults() == []


@pytest.mark.parametrize("newest", [True, False], ids=["worker", "all"])
async def test_a_matchmaker_that_stands_still_is_replaced(pool: Pool, newest: bool) -> None:
    host = await pool.add_host(slots=2)
    pool.submit([0.1] * 4)
    await pool.until_done()
    found = sorted(descendants(host.agent.pid))
    for pid in found[-1:] if newest else found:
        os.kill(pid, signal.SIGSTOP)
    # an autocluster that no slot is known to fit, so that it is evaluated
    pool.submit([0.1] * 4, Requirements="/Expr(TARGET.Memory > 1)/")
    await pool.until_done()
    assert pool.faults() == []
    assert pool.overlaps() == []


async def test_a_database_that_stands_still_while_jobs_end_loses_no_result(pool: Pool) -> None:
    pool.agent = {"lease_s": 600}
    pool.deadlines_s = {name: min(seconds, 2.0) for name, seconds in DEADLINES_S.items()}
    host = await pool.add_host(slots=2)
    pool.submit([UNTIL_TOLD] * 2)
    await pool.until_running(2)
    postmaster = pool.server.postmaster
    assert postmaster is not None
    # it starts no further process once it stands
    postmaster.signal(signal.SIGSTOP)
    family = [*postmaster.children(), postmaster]
    try:
        for process in family:
            process.signal(signal.SIGSTOP)
        pool.end_jobs()
        # the hooks' time is over before the database goes on; the agent may have spooled a report, too
        await pool.until(lambda: len(_reported_jobs(host)) == 2)
    finally:
        for process in family:
            process.signal(signal.SIGCONT)
    pool.submit([0.1] * 4)
    await pool.until_done()
    assert pool.faults() == []
    assert pool.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome <> 'completed'") == 0


#: in the agent: an offer is over while a hook stands still
_SHORT_OFFERS = """
from fetchwork.handlers.requests import offer
offer.OFFER_S = 1.0
"""
STILL_S = 3.0


@pytest.mark.parametrize("hook", HOOKS)
async def test_jobs_of_a_hook_that_stands_still_end_once_all_the_same(pool: Pool, hook: str) -> None:
    # slot 1 has a hook that stands still before its request, slot 2 after it, slot 3 after the answer
    phases = dict(enumerate(PHASES, start=1))

    def watch(step: Step) -> Awaitable[None] | None:
        if (step.hook, step.phase) != (hook, phases.get(step.slot.number)):
            return None
        del phases[step.slot.number]
        return asyncio.sleep(STILL_S)

    # the hook goes on where it stood: it is not over its time
    pool.deadlines_s = PATIENT
    await pool.add_host(slots=4, watch=watch, prelude=_SHORT_OFFERS)
    # the first update comes after a second, and its hook ends with its job
    seconds = STILL_S + 2 if hook == "update_job_info" else 0.5
    pool.submit([seconds] * 12)
    await pool.until(lambda: not phases)
    await pool.until_done()
    assert pool.faults() == []
    assert pool.overlaps() == []
    assert pool.value("SELECT count(*) FROM fetchwork.job_history WHERE job_status = 4") == 12
