"""One host's clock is an hour off: leases and fences are the database's, so nothing goes wrong."""

from tests.faults.harness import Site

LEASE_S = 6
HOUR_S = 3600


async def test_hosts_whose_clocks_are_off_work_like_the_others(site: Site) -> None:
    site.agent = {"lease_s": LEASE_S}
    await site.add_host("right", slots=2)
    await site.add_host("ahead", slots=2, clock_ahead_s=HOUR_S)
    await site.add_host("behind", slots=2, clock_ahead_s=-HOUR_S)
    site.submit([0.2] * 12)
    site.submit([LEASE_S + 2.0] * 6)
    await site.until_done()
    assert site.faults() == []
    assert site.overlaps() == []
    assert site.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome <> 'completed'") == 0
    by_host = dict(
        site.rows(
            "SELECT h.name, count(*) FROM fetchwork.run_history AS r JOIN fetchwork.host AS h USING (host_id)"
            " GROUP BY h.name"
        )
    )
    assert min(by_host.get(name, 0) for name in ("right", "ahead", "behind")) >= 2
    # times on record are the database's
    assert site.value(
        "SELECT bool_and(ended_at BETWEEN now() - interval '3 minutes' AND now()) FROM fetchwork.run_history"
    )
