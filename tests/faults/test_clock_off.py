"""One host's clock is an hour off: leases and fences are the database's, so nothing goes wrong."""

from pathlib import Path

from tests.faults.harness import UNTIL_TOLD, Pool

LEASE_S = 6
HOUR_S = 3600
#: put before an agent's program: the file has the seconds by which its wall clock is ahead now
_JUMPING = """
import time
_steady, _steady_ns = time.time, time.time_ns
def _ahead_s():
    with open({path!r}) as file:
        return float(file.read() or 0)
time.time = lambda: _steady() + _ahead_s()
time.time_ns = lambda: _steady_ns() + int(_ahead_s() * 10**9)
"""


async def test_hosts_whose_clocks_are_off_work_like_the_others(pool: Pool) -> None:
    pool.agent = {"lease_s": LEASE_S}
    await pool.add_host("right", slots=2)
    await pool.add_host("ahead", slots=2, clock_ahead_s=HOUR_S)
    await pool.add_host("behind", slots=2, clock_ahead_s=-HOUR_S)
    pool.submit([0.2] * 12)
    pool.submit([LEASE_S + 2.0] * 6)
    await pool.until_done()
    assert pool.faults() == []
    assert pool.overlaps() == []
    assert pool.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome <> 'completed'") == 0
    by_host = dict(
        pool.rows(
            "SELECT h.name, count(*) FROM fetchwork.run_history AS r JOIN fetchwork.host AS h USING (host_id)"
            " GROUP BY h.name"
        )
    )
    assert min(by_host.get(name, 0) for name in ("right", "ahead", "behind")) >= 2
    # times on record are the database's
    assert pool.value(
        "SELECT bool_and(ended_at BETWEEN now() - interval '3 minutes' AND now()) FROM fetchwork.run_history"
    )


async def test_a_clock_that_is_set_while_jobs_run_loses_none_and_runs_none_twice(
    pool: Pool, tmp_path: Path
) -> None:
    ahead = tmp_path / "ahead"
    ahead.write_text("0")
    pool.agent = {"lease_s": LEASE_S}
    await pool.add_host(slots=4, prelude=_JUMPING.format(path=str(ahead)))
    pool.submit([UNTIL_TOLD] * 2)
    await pool.until_running(2)
    runs = pool.rows("SELECT run_id FROM fetchwork.run ORDER BY run_id")
    renewed = "SELECT lease_until > clock_timestamp() + interval '2 s' FROM fetchwork.host"
    for seconds in (HOUR_S, -HOUR_S, 0):
        ahead.write_text(str(seconds))
        pool.submit([0.1] * 6)
        await pool.until(lambda: pool.left() == 2)
        # the lease is renewed after the jump, and the runs go on
        pool.value("UPDATE fetchwork.host SET lease_until = clock_timestamp() + interval '1 s' RETURNING 1")
        await pool.until(lambda: pool.value(renewed))
        assert pool.rows("SELECT run_id FROM fetchwork.run ORDER BY run_id") == runs
    pool.end_jobs()
    await pool.until_done()
    assert pool.faults() == []
    assert pool.overlaps() == []
    assert pool.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome <> 'completed'") == 0
