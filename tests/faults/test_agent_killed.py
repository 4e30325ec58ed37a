"""kill -9 and SIGSTOP of the agent right before and after each of its writes, and answers that get lost."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from psycopg.types.json import Jsonb

from fetchwork.simulate.behaviour import NEVER
from fetchwork.simulate.hookcalls import FetchingSlot, HookKilled, Step
from tests.faults.harness import PATIENT, TIMING, UNTIL_TOLD, Pool, SimulatedHost
from tests.faults.proxy import Side, Trap
from tests.support.waiting import PATIENCE_S

#: each host makes these calls all the time; other writes are provoked below
WRITES = ("claim_many", "report_runs/start", "report_runs/update", "report_runs/exit", "beat")

#: an account that no host has
STRANGER = "no-such-account"
SHORT_RESTS = {
    "max_lost": 1000,
    "max_not_started": 1000,
    "retry_delay": 0.1,
    "max_retry_delay": 0.5,
    "refusal_rest": 0.1,
    "max_refusal_rest": 0.5,
    "black_hole_runs": 1000,
}
#: maintenance at intervals that a test can wait for
HURRY = """
import fetchwork.agent.main
from fetchwork.agent import leader
fetchwork.agent.main.SLOTS_S = 0.3
leader.LEAD_S = 0.0
leader.SHORTEST_ASK_S = leader.LONGEST_ASK_S = 0.3
leader.MAINTAIN_QUEUE_S = leader.PREEMPT_S = leader.MAINTAIN_TABLES_S = 0.3
"""


async def _sprung(trap: Trap) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await trap.sprung.wait()
    except TimeoutError:
        raise AssertionError(f"'{trap.function}' was not called, so nothing broke {trap.side} it") from None


def _deadly(host: SimulatedHost, function: str, side: Side) -> Trap:
    async def kill() -> None:
        host.agent.signal(signal.SIGKILL)

    return host.proxy.trap(function, side, kill)


async def _killed(host: SimulatedHost, function: str, side: Side) -> None:
    await _sprung(_deadly(host, function, side))
    await asyncio.sleep(0.3)
    await host.agent.start()


async def _stopped(host: SimulatedHost, function: str, side: Side) -> None:
    async def stop() -> None:
        host.agent.signal(signal.SIGSTOP)

    await _sprung(host.proxy.trap(function, side, stop, cuts=False))
    await asyncio.sleep(1.0)
    host.agent.signal(signal.SIGCONT)


async def _not_heard(host: SimulatedHost, function: str, side: Side) -> None:
    async def nothing() -> None:
        """Break the connection, and do nothing else."""

    await _sprung(host.proxy.trap(function, side, nothing))


@pytest.mark.parametrize("function", WRITES)
async def test_agent_may_die_around_each_write(pool: Pool, function: str) -> None:
    cases = [
        (_killed, "before"),
        (_killed, "after"),
        (_stopped, "before"),
        (_stopped, "after"),
        (_not_heard, "after"),
    ]
    hosts = await asyncio.gather(*(pool.add_host(slots=2) for _ in cases))
    masters = [
        asyncio.create_task(fault(host, function, side))  # type: ignore[arg-type]
        for host, (fault, side) in zip(hosts, cases, strict=True)
    ]
    pool.submit([0.3] * 40, SimulatedExitCode=3)
    # each of the five has had its fault and has recovered
    await asyncio.wait_for(asyncio.gather(*masters), 2 * PATIENCE_S)
    await pool.until_done()
    await pool.until(lambda: not pool.left_in_spool())
    assert pool.faults() == []
    assert pool.overlaps() == []
    assert pool.value("SELECT count(*) FROM fetchwork.job_history WHERE exit_code = 3") == 40


async def _killed_around(host: SimulatedHost, *functions: str) -> None:
    for function in functions:
        await _killed(host, function, "before")
        await _killed(host, function, "after")


def _submit_for(host: SimulatedHost, seconds: float = 0.1, **attributes: object) -> None:
    """Submit a job that runs on this host alone."""
    where = f'/Expr(TARGET.Machine == "{host.name}")/'
    host.pool.submit([seconds], SimulatedExitCode=3, Requirements=where, **attributes)


def _edit(host: SimulatedHost, **attributes: object) -> None:
    """Change the jobs that run on this host alone."""
    edited = host.pool.value(
        "SELECT fetchwork.edit(ARRAY(SELECT cluster_id || '.' || proc_id FROM fetchwork.job"
        " WHERE fetchwork.whole_ad(job) ->> 'Requirements' LIKE %s), %s)",
        f'%"{host.name}"%',
        Jsonb(attributes),
    )
    assert edited == 1


async def _reject(pool: Pool) -> None:
    """Let a startd refuse its offer."""
    host = await pool.add_host("refusing", slots=2)
    host.host.refuses = lambda ad: True
    _submit_for(host)
    await _killed_around(host, "reject")
    host.host.refuses = lambda ad: False


async def _refuse_start(pool: Pool) -> None:
    """Submit a job of an account that the host does not have."""
    host = await pool.add_host("strange", slots=2)
    _submit_for(host, Owner=STRANGER)
    await _killed_around(host, "refuse_start")


async def _while_hooks_die(
    pool: Pool,
    name: str,
    function: str,
    hook: tuple[str, str],
    also: Callable[[FetchingSlot], None] = lambda slot: None,
) -> None:
    """Let a host's hook die in this phase each time, until its agent was killed around the call."""
    dying = True

    def kill(step: Step) -> None:
        if dying and (step.hook, step.phase) == hook:
            also(step.slot)
            raise HookKilled

    host = await pool.add_host(name, slots=2, watch=kill)
    _submit_for(host)
    await _killed_around(host, function)
    dying = False


async def _withdraw(pool: Pool) -> None:
    """Let fetches die with the answer in hand, so that their slots ask again."""
    await _while_hooks_die(pool, "hasty", "withdraw", ("fetch_work", "answered"))


async def _slot_is_free(pool: Pool) -> None:
    """Let starters die unseen, upon which their slots ask again."""
    await _while_hooks_die(
        pool, "unseen", "slot_is_free", ("prepare_job", "answered"), lambda slot: slot.kill_starter()
    )


async def _starter_gone(pool: Pool) -> None:
    """Let a starter die on a slot that does not ask again; the agent sees the death."""
    host = await pool.add_host("seen", slots=2, family=True)
    host.host.timing = replace(TIMING, claimed_idle_delay_s=NEVER)
    _submit_for(host, 1000.0)
    await pool.until(lambda: any(run.host == host.name for run in pool.ledger.executions))
    _edit(host, SimulatedSeconds=0.1)
    for slot in host.host.busy():
        slot.kill_starter()
    await _killed_around(host, "starter_gone")


async def _apply_policy(pool: Pool) -> None:
    """Make a running job be held by its policy."""
    host = await pool.add_host("strict", slots=2)
    host.host.timing = replace(TIMING, starter_initial_update_interval_s=0.2, starter_update_interval_s=0.5)
    _submit_for(host, 1000.0, PeriodicHold="/Expr(JobStatus == 2)/")
    await _killed_around(host, "apply_policy")
    _edit(host, SimulatedSeconds=0.1, PeriodicHold=False)


async def _goodbye_and_hello(pool: Pool) -> None:
    """End an agent in good order, and start it again."""
    host = await pool.add_host("polite", slots=2)
    _submit_for(host)
    sides: tuple[Side, ...] = ("before", "after")
    for side in sides:
        # an agent that has not said hello says no goodbye
        await pool.until(lambda: host.proxy.calls.get("beat"))
        goodbye = _deadly(host, "goodbye", side)
        host.agent.signal(signal.SIGTERM)
        await _sprung(goodbye)
        hello = _deadly(host, "hello", side)
        host.agent.spawn()
        await _sprung(hello)
        host.proxy.calls.clear()
        await host.agent.start()


async def _maintenance(pool: Pool) -> None:
    """The periodic calls of every agent."""
    host = await pool.add_host("tidy", slots=2, prelude=HURRY)
    _submit_for(host)
    await _killed_around(host, "report_slots", "lead")


async def _leader_tasks(pool: Pool) -> None:
    """The periodic calls that one agent makes for all."""
    host = await pool.add_host("leader", slots=2, prelude=HURRY)
    _submit_for(host)
    await _killed_around(host, "take_leader_task", "preempt", "maintain_tables")


async def _sequencing(pool: Pool) -> None:
    """Put events into the stream, which the leader does."""
    host = await pool.add_host("leader", slots=2, prelude=HURRY)
    _submit_for(host)
    await _killed_around(host, "sequence_events")
    await pool.until(lambda: not pool.value("SELECT count(*) FROM fetchwork.event WHERE batch IS NULL"))


@pytest.mark.parametrize(
    "provoke",
    [
        _reject,
        _refuse_start,
        _withdraw,
        _slot_is_free,
        _starter_gone,
        _apply_policy,
        _goodbye_and_hello,
        _maintenance,
        _leader_tasks,
        _sequencing,
    ],
)
async def test_agent_may_die_around_writes_that_are_seldom(
    pool: Pool, provoke: Callable[[Pool], Awaitable[None]]
) -> None:
    # no failure here is a job's own, so none may be held or back off for long
    for name, number in SHORT_RESTS.items():
        pool.set(name, number)
    await provoke(pool)
    pool.value(
        "SELECT count(*) FROM fetchwork.remove(ARRAY(SELECT cluster_id || '.' || proc_id FROM fetchwork.job"
        " WHERE owner = %s))",
        STRANGER,
    )
    await pool.until_done()
    await pool.until(lambda: not pool.left_in_spool())
    assert pool.faults() == []
    assert pool.overlaps() == []
    done = pool.value("SELECT count(*) FROM fetchwork.job_history WHERE exit_code = 3")
    assert done == (provoke is not _refuse_start)


async def test_agent_that_comes_back_lets_jobs_live(pool: Pool) -> None:
    # it finds starters and jobs again by pid and start time; each must start once, no matter how slowly
    pool.deadlines_s = PATIENT
    host = await pool.add_host(slots=4, family=True)
    pool.submit([UNTIL_TOLD] * 4)
    await pool.until_running(4)
    await pool.until(lambda: pool.value("SELECT count(*) FROM fetchwork.run WHERE job_pid IS NOT NULL") == 4)
    await host.kill_agent()
    async with asyncio.timeout(PATIENCE_S):
        while len((await host.agent.status())["runs"]) < 4:
            await asyncio.sleep(0.05)
    assert pool.ledger.running == 4
    pool.end_jobs()
    await pool.until_done()
    assert pool.value("SELECT count(*) FROM fetchwork.job_history WHERE num_starts = 1") == 4
    assert pool.faults() == []
