"""The processes that evaluate for an agent, when the agent is killed or the database is cut off meanwhile."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from tests.faults.harness import Pool, SimulatedHost, descendants
from tests.faults.proxy import Side
from tests.matchmaker.hostile import HOSTILE
from tests.support.waiting import PATIENCE_S

#: takes more CPU time than one ad gets
COSTLY = json.loads(HOSTILE["eval of strings, 22 levels"])
PLAIN = 20


def alive(pids: set[int]) -> set[int]:
    """The processes that run, and are no zombies."""
    running = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            running.add(pid)
    return running


@pytest.mark.parametrize("busy", [False, True])
async def test_no_process_of_a_killed_agent_stays(pool: Pool, busy: bool) -> None:
    host = await pool.add_host(slots=2)
    pool.submit([0.1] * PLAIN, SimulatedExitCode=3)
    await pool.until_done()
    ours = descendants(host.agent.pid)
    assert len(ours) >= 2, "the zygote and a worker"
    if busy:
        # a worker that evaluates does not read, so it cannot see that its client is gone
        for number in range(3):
            pool.submit([0.1], **{**COSTLY, "A22": number})
    host.agent.signal(signal.SIGKILL)
    await pool.until(lambda: not alive(ours))
    await host.agent.start()
    pool.submit([0.1] * PLAIN, SimulatedExitCode=3)
    await pool.until(
        lambda: pool.value("SELECT count(*) FROM fetchwork.job_history WHERE exit_code = 3") == 2 * PLAIN
    )
    assert not alive(ours)
    assert os.path.exists(f"/proc/{host.agent.pid}")


async def _killed(host: SimulatedHost) -> None:
    host.agent.signal(signal.SIGKILL)


async def _cut(host: SimulatedHost) -> None:
    """Break the connection, and do nothing else."""


@pytest.mark.parametrize(("fault", "side"), [(_killed, "before"), (_cut, "after")])
async def test_a_fetch_that_is_cut_while_it_reports_an_ad_costs_nobody_else(
    pool: Pool, side: Side, fault: object
) -> None:
    hosts = [await pool.add_host(slots=2), await pool.add_host(slots=2)]
    traps = [host.proxy.trap("report_faults", side, lambda host=host: fault(host)) for host in hosts]  # type: ignore[operator,misc]
    pool.submit([0.1], **COSTLY)
    for host, trap in zip(hosts, traps, strict=True):
        async with asyncio.timeout(PATIENCE_S):
            await trap.sprung.wait()
        if fault is _killed:
            await asyncio.sleep(0.1)
            await host.agent.start()
    # other owners' jobs run even so, and the lost reports are repeated later: two hosts agree
    pool.submit([0.1] * PLAIN, SimulatedExitCode=3)
    await pool.until(
        lambda: pool.value("SELECT count(*) FROM fetchwork.job_history WHERE exit_code = 3") == PLAIN
    )
    await pool.until(lambda: pool.state("1.0") == 5)
    await pool.until(lambda: not pool.left_in_spool())
    assert pool.value("SELECT count(*) FROM fetchwork.autocluster_fault") == 2
    assert pool.value("SELECT count(*) FROM fetchwork.run_history WHERE cluster_id = 1") == 0
    assert pool.faults() == []
