"""Ended runs, counted by their times: the same before and after the count, each run once; and idle jobs."""

from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import Connect
from tests.support.direct_queue import DirectQueue

_ALL = """
SELECT
    c.owner, date_bin('15 minutes', c.ended_at, 'epoch') AS ended,
    date_bin('15 minutes', c.started_at, 'epoch') AS started,
    sum(c.runs), sum(c.badruns), max(c.longestwait),
    array_agg(w.wait_s ORDER BY w.wait_s) FILTER (WHERE w.wait_s IS NOT NULL)
FROM fetchwork.run_counts AS c
-- a row has one wait at most here
LEFT JOIN LATERAL unnest(c.waits) AS w (wait_s) ON true
GROUP BY 1, 2, 3
ORDER BY 1, 2, 3
"""


# of a run that was evicted an hour before the next
_RUN_AT = """
UPDATE fetchwork.run_history AS h
SET ended_at = t.at, started_at = t.at - interval '40 minutes'
FROM (
    SELECT r.run_id, now() - make_interval(mins => %s + CASE r.outcome WHEN 'evicted' THEN 60 ELSE 0 END) AS at
    FROM fetchwork.run_history AS r
    WHERE r.cluster_id = %s
) AS t
WHERE h.run_id = t.run_id
"""
_JOB_AT = """
UPDATE fetchwork.job_history
SET completed_at = t.at, first_start_at = t.at - interval '40 minutes', q_date = t.at - interval '50 minutes'
FROM (SELECT now() - make_interval(mins => %s) AS at) AS t
WHERE cluster_id = %s
"""


@pytest.fixture
def ended(queue: DirectQueue) -> DirectQueue:
    """Five jobs that ended, three hours to some minutes ago, one of them in its second run; one that runs."""
    for number, owner in enumerate(("alice", "bob", "alice", "bob", "alice")):
        queue.submit({"Owner": owner})
        if number == 1:
            queue.finish(queue.started(), "evict")
        queue.finish(queue.started())
        for statement in (_RUN_AT, _JOB_AT):
            queue.connection.execute(statement, [180 - 40 * number, number + 1])
    queue.submit()
    queue.started()
    return queue


def rows(queue: DirectQueue) -> list[tuple[Any, ...]]:
    """The view's rows for each quarter and owner; a run and its job's wait are rows of their own."""
    return [tuple(row) for row in queue.rows(_ALL)]


def count(queue: DirectQueue) -> int:
    """Count all that is old enough; return the number of calls."""
    calls, before = 0, None
    while (now := queue.value("SELECT up_to::text FROM fetchwork.counted")) != before:
        before = now
        queue.connection.execute("SELECT fetchwork.count_runs()")
        calls += 1
    return calls


def test_what_is_counted_is_what_was_there(ended: DirectQueue) -> None:
    before = rows(ended)
    assert [(row[0], int(row[3]), int(row[4]), row[5], row[6]) for row in before] == [
        *[("alice", 1, 0, 600, [600])] * 3,
        ("bob", 1, 1, None, None),
        *[("bob", 1, 0, 600, [600])] * 2,
    ]
    # a call has a bound, even after a long time without calls
    assert count(ended) > 90
    assert rows(ended) == before
    assert ended.value("SELECT sum(runs) FROM fetchwork.run_count") == 6
    # no run is counted twice
    count(ended)
    assert rows(ended) == before


def test_counts_are_by_five_minutes_and_in_two_hours_by_quarters(ended: DirectQueue) -> None:
    count(ended)
    recent = "ended_at > now() - interval '115 minutes'"
    assert ended.rows(
        f"SELECT ended_at FROM fetchwork.run_counts WHERE {recent} AND runs > 0 ORDER BY 1"
    ) == ended.rows(
        f"SELECT date_bin('5 minutes', ended_at, 'epoch') FROM fetchwork.run_history WHERE {recent} ORDER BY 1"
    )
    ended.connection.execute("DELETE FROM fetchwork.run_count")
    ended.connection.execute(
        "INSERT INTO fetchwork.run_count"
        " SELECT q.at + m.m, q.at + m.m - interval '20 minutes', 'alice', 'default', 1, 0, '{5}', 5"
        " FROM date_bin('15 minutes', now() - interval '150 minutes', 'epoch') AS q (at)"
        " CROSS JOIN unnest(ARRAY['5 minutes', '10 minutes']::interval []) AS m (m)"
    )
    ended.connection.execute("UPDATE fetchwork.counted SET up_to = up_to - interval '1 minute'")
    ended.connection.execute("SELECT fetchwork.count_runs()")
    assert ended.rows(
        "SELECT ended - started, runs, waits, longest_wait, ended = date_bin('15 minutes', ended, 'epoch')"
        " FROM fetchwork.run_count"
    ) == [(timedelta(minutes=15), 2, [5, 5], 5, True)]


def test_runs_that_end_now_are_counted_in_a_while(ended: DirectQueue) -> None:
    count(ended)
    ended.submit()
    ended.finish(ended.started("slot2@h1"))
    assert sum(int(row[3]) for row in rows(ended)) == 7
    # a transaction that began before may end with an older time
    assert ended.value("SELECT up_to <= now() - interval '1 minute' FROM fetchwork.counted")
    count(ended)
    assert ended.value("SELECT sum(runs) FROM fetchwork.run_count") == 6


def test_two_that_count_at_one_moment_count_once(ended: DirectQueue, connect: Connect) -> None:
    other = connect()
    with ended.connection.transaction():
        ended.connection.execute("SELECT fetchwork.count_runs()")
        # it returns at once
        other.execute("SET lock_timeout = '10s'")
        other.execute("SELECT fetchwork.count_runs()")
    count(ended)
    assert ended.value("SELECT sum(runs) FROM fetchwork.run_count") == 6


def test_many_waits_are_kept_as_a_sample_with_somebody_of_everybody(queue: DirectQueue) -> None:
    queue.submit_many([{"Owner": "bob"}, *[{"Owner": "alice"}] * 300])
    for _ in range(301):
        queue.finish(queue.started())
    queue.connection.execute("UPDATE fetchwork.job_history SET completed_at = now() - interval '1 hour'")
    count(queue)
    kept = dict(queue.rows("SELECT owner, sum(cardinality(waits)) FROM fetchwork.run_count GROUP BY 1"))
    assert kept["bob"] == 1
    assert 40 <= kept["alice"] <= 60


def test_counts_are_kept_for_eight_days(ended: DirectQueue) -> None:
    count(ended)
    ended.connection.execute("UPDATE fetchwork.run_count SET ended = ended - interval '9 days'")
    ended.connection.execute("UPDATE fetchwork.counted SET up_to = up_to - interval '1 minute'")
    ended.connection.execute("SELECT fetchwork.count_runs()")
    assert ended.value("SELECT count(*) FROM fetchwork.run_count") == 0


def test_runs_are_counted_by_queue(ended: DirectQueue) -> None:
    by_queue = "SELECT fetchworkqueue, sum(runs)::int FROM fetchwork.run_counts WHERE runs > 0 GROUP BY 1"
    before = ended.rows(by_queue)
    assert [queue for queue, _ in before] == ["default"]
    ended.connection.execute("SELECT fetchwork.count_runs()")
    assert ended.rows(by_queue) == before


def test_runs_are_counted_by_host(ended: DirectQueue) -> None:
    by_host = (
        "SELECT machine, counted_at, sum(starts)::int, sum(ends)::int, sum(badends)::int"
        " FROM fetchwork.host_counts GROUP BY 1, 2 ORDER BY 1, 2"
    )
    before = ended.rows(by_host)
    assert [sum(row[n] for row in before) for n in (2, 3, 4)] == [6, 6, 1]
    # each call counts a quarter of an hour of a day
    for _ in range(110):
        ended.connection.execute("SELECT fetchwork.count_runs()")
    assert ended.value("SELECT sum(ends) FROM fetchwork.host_count") > 3
    assert ended.rows(by_host) == before


def test_idle_jobs_are_counted_once_in_five_minutes(queue: DirectQueue) -> None:
    idle = "SELECT owner, fetchworkqueue, idle::int FROM fetchwork.idle_counts ORDER BY counted_at, owner"
    queue.submit({"Owner": "alice"})
    queue.submit_many([{"Owner": "bob"}] * 2)
    queue.started()
    queue.connection.execute("SELECT fetchwork.count_idle()")
    counted = [("bob", "default", 2)]
    assert queue.rows(idle) == counted
    queue.submit({"Owner": "alice"})
    queue.connection.execute("SELECT fetchwork.count_idle()")
    assert queue.rows(idle) == counted
    queue.connection.execute("UPDATE fetchwork.counted SET idle_at = idle_at - interval '5 minutes'")
    queue.connection.execute("UPDATE fetchwork.idle_count SET at = at - interval '5 minutes'")
    queue.connection.execute("SELECT fetchwork.count_idle()")
    assert queue.rows(idle) == [*counted, ("alice", "default", 1), *counted]


def test_counts_of_idle_jobs_are_thinned_and_forgotten(queue: DirectQueue) -> None:
    queue.connection.execute(
        "INSERT INTO fetchwork.idle_count"
        " SELECT s.at, 'alice', 'default', 1"
        " FROM date_bin('15 minutes', now(), 'epoch') AS q (at)"
        " CROSS JOIN generate_series(q.at - interval '135 minutes', q.at, '5 minutes') AS s (at)"
        " UNION ALL SELECT now() - interval '9 days', 'alice', 'default', 1"
    )
    queue.connection.execute("UPDATE fetchwork.counted SET idle_at = now() - interval '5 minutes'")
    queue.connection.execute("SELECT fetchwork.count_idle()")
    old = "SELECT count(*) FROM fetchwork.idle_count WHERE at < now() - interval '2 hours'"
    quarters = f"{old} AND at = date_bin('15 minutes', at, 'epoch')"
    assert queue.value(old) == queue.value(quarters) > 0
    assert queue.value("SELECT count(*) FROM fetchwork.idle_count WHERE at < now() - interval '1 day'") == 0
    assert queue.value("SELECT count(*) FROM fetchwork.idle_count") > queue.value(old) + 20
