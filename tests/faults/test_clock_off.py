"""One host's clock is an hour off: leases and fences are the database's, so nothing goes wrong."""

from tests.faults.harness import Pool

LEASE_S = 6
HOUR_S = 3600


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
