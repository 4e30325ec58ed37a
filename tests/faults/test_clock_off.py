"""One host's clock is an hour off: leases and fences are the database's, so nothing happens."""

import pytest

from tests.faults.harness import Site

HOUR_S = 3600


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S])
async def test_host_whose_clock_is_off_works_like_the_others(site: Site, ahead_s: int) -> None:
    await site.add_host("right", slots=2)
    wrong = await site.add_host("wrong", slots=2, clock_ahead_s=ahead_s)
    site.submit([0.2] * 12)
    site.submit([17.0] * 4)
    await site.until_done(60)
    assert site.faults() == []
    assert site.overlaps() == []
    assert site.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome <> 'completed'") == 0
    by_host = dict(
        site.rows(
            "SELECT h.name, count(*) FROM fetchwork.run_history AS r JOIN fetchwork.host AS h USING (host_id)"
            " GROUP BY h.name"
        )
    )
    assert by_host["wrong"] >= 2
    assert wrong.agent.running
    # times on record are the database's
    assert site.value(
        "SELECT bool_and(ended_at BETWEEN now() - interval '3 minutes' AND now()) FROM fetchwork.run_history"
    )
