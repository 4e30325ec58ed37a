"""A host that is cut off ends its jobs by itself, so that none runs twice for long.

At host_lease after the host's last beat the database offers its jobs to others. At the next update after the
same time the host's agent has them killed. Both clocks start with the same call, so two executions
of a job overlap by no more than an update interval and the hook's own time.
"""

import time
from dataclasses import replace

from fetchwork.simulate.hookcalls import Step
from tests.faults.harness import TIMING, Pool

LEASE_S = 6
#: longer than an agent's answer takes on a busy machine
UPDATE_S = 5.0


async def test_job_of_a_host_that_is_cut_off_does_not_run_twice_for_long(pool: Pool) -> None:
    pool.agent = {"lease_s": LEASE_S}
    pool.timing = replace(TIMING, starter_update_interval_s=UPDATE_S)
    updates: list[float] = []

    def watch(step: Step) -> None:
        if (step.hook, step.phase) == ("update_job_info", "begin"):
            updates.append(time.time())

    cut = await pool.add_host("cut", slots=1, watch=watch)
    pool.submit([1000.0])
    await pool.until_running()
    await pool.until(lambda: pool.state() == 2)
    await pool.add_host("other", slots=1)
    await cut.proxy.set_mode("cut")
    # the other host gets the job
    await pool.until(lambda: pool.ledger.counts["started"] == 2)
    # and the first loses it
    await pool.until(lambda: pool.ledger.executions[0].ended is not None)
    first, second = pool.ledger.executions
    assert first.ended is not None
    assert second.ended is None
    # the first update that began after the second start ended the first
    assert len([at for at in updates if second.started < at < first.ended]) <= 1
    # in the database they never overlapped
    assert pool.violations() == []


async def test_report_of_a_run_that_was_given_away_changes_nothing(pool: Pool) -> None:
    # no earlier update ends it
    pool.agent = {"lease_s": LEASE_S}
    pool.timing = replace(TIMING, starter_initial_update_interval_s=100.0)
    cut = await pool.add_host("cut", slots=1)
    pool.submit([9.0], SimulatedExitCode=3)
    await pool.until_running()
    await pool.until(lambda: pool.state() == 2)
    await cut.proxy.set_mode("cut")
    # its second run should end before the first
    pool.value("SELECT fetchwork.edit(ARRAY['1.0'], '{\"SimulatedSeconds\": 0.1}')::text")
    await pool.add_host("other", slots=1)
    await pool.until(lambda: pool.ledger.counts["started"] == 2)
    await cut.proxy.set_mode("open")
    await pool.until_done()
    await pool.until(lambda: pool.ledger.counts["job_exit exit"] == 2)
    await pool.until(lambda: not pool.left_in_spool())
    # both reported an exit code, the first too late
    assert pool.value("SELECT count(*) FROM fetchwork.job_history") == 1
    assert pool.faults() == []
