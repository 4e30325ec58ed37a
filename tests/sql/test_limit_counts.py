"""Claims count under limits: by a count of a moment ago as long as that makes no difference, else anew."""

import itertools
from typing import Any

from tests.support.direct_queue import DirectQueue
from tests.support.waiting import until


def claim(queue: DirectQueue, slots: int, first: int = 1) -> int:
    """The number of these slots that get a job."""
    rows = queue.claim_many(queue.host(), *(f"slot{n}@h1" for n in range(first, first + slots)))
    assert [row["problem"] for row in rows] == [None] * len(rows)
    return len(rows)


def submit(queue: DirectQueue, jobs: int, **attributes: Any) -> None:
    queue.submit_many([{"ConcurrencyLimits": "lic", "Owner": "alice", **attributes}] * jobs)


def test_a_claim_far_from_the_limit_reads_no_run_that_was_counted(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="lic", maximum=1000)
    queue.scalar("set_group", name="physics", changes={"quota": 1000})
    submit(queue, 400, AccountingGroup="physics.alice")
    assert claim(queue, 300) == 300
    numbers = itertools.count(301)

    def reads_few() -> bool:
        # until a claim comes within a second of the last count
        with queue.connection.transaction():
            before = queue.tuples_read("run")
            assert claim(queue, 1, next(numbers)) == 1
            return queue.tuples_read("run") - before < 100

    until(reads_few, "a claim that reads few runs")


def test_runs_made_since_the_count_are_added(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="lic", maximum=8)
    submit(queue, 20)
    assert [claim(queue, 1, n) for n in range(1, 11)] == [1] * 8 + [0] * 2
    assert queue.rows("SELECT used FROM fetchwork.limits") == [(8,)]


def test_a_run_that_has_ended_since_the_count_gives_room_at_once(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="lic", maximum=9)
    submit(queue, 30)
    runs = [queue.started(f"slot{n}@h1") for n in range(1, 7)]
    assert claim(queue, 1, 7) == 1
    for run in runs:
        queue.finish(run)
    assert claim(queue, 12, 8) == 8


def test_a_limit_made_after_the_count_counts_what_ran_before(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="other", maximum=1)
    submit(queue, 20)
    assert claim(queue, 5) == 5
    queue.scalar("set_limit", name="lic", maximum=7)
    assert claim(queue, 5, 6) == 2


def test_a_job_takes_all_that_it_names_of_several_limits(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="a", maximum=100)
    queue.scalar("set_limit", name="b", maximum=7.5)
    submit(queue, 10, ConcurrencyLimits="a:3, B:2.5,unknown, a")
    assert claim(queue, 5) == 3
    assert queue.rows("SELECT name, used FROM fetchwork.limits ORDER BY name") == [("a", 12), ("b", 7.5)]


def test_slots_that_want_the_same_get_as_many_as_the_limit_allows(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="lic", maximum=6)
    submit(queue, 10)
    submit(queue, 4, ConcurrencyLimits="none", Owner="bob")
    assert claim(queue, 4) == 4
    # the rest get others' jobs
    assert claim(queue, 5, 5) == 5
    assert queue.rows("SELECT used FROM fetchwork.limits") == [(6,)]
