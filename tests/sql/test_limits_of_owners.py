"""The limits on an owner's jobs and submissions: MAX_JOBS_PER_OWNER, MAX_JOBS_PER_SUBMISSION."""

from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import DirectQueue

QUEUED = {"Cmd": "/bin/true", "Owner": "alice"}


def refused(queue: DirectQueue, jobs: int, owner: str = "alice") -> str:
    """The error of a submission of this many jobs."""
    with pytest.raises(psycopg.Error) as caught:
        queue.submit_many([{}] * jobs, {**QUEUED, "Owner": owner})
    assert caught.value.sqlstate == "FWDEN"
    return str(caught.value.diag.message_primary)


def test_the_limits_are_those_of_htcondor(queue: DirectQueue) -> None:
    assert queue.rows(
        "SELECT name, value::integer FROM fetchwork.setting WHERE name LIKE 'max_jobs_per_%%' ORDER BY name"
    ) == [("max_jobs_per_owner", 100000), ("max_jobs_per_submission", 20000)]


def test_a_submission_that_is_too_large_is_refused_as_a_whole(queue: DirectQueue) -> None:
    queue.set("max_jobs_per_submission", 3)
    assert refused(queue, 4) == (
        "Number of submitted jobs would exceed MAX_JOBS_PER_SUBMISSION: "
        "4 jobs in one cluster; allowed: 3 (setting max_jobs_per_submission)"
    )
    assert queue.value("SELECT count(*) FROM fetchwork.job") == 0
    queue.submit_many([{}] * 3, QUEUED)


def test_a_cluster_that_is_submitted_in_parts_is_one_submission(queue: DirectQueue) -> None:
    queue.set("max_jobs_per_submission", 3)
    session = queue.another(autocommit=False)
    cluster = session.value(
        "SELECT fetchwork.submit_cluster(%s::jsonb, ARRAY['{}', '{}']::jsonb[])",
        '{"Cmd": "/bin/true", "Owner": "alice"}',
    )
    with pytest.raises(psycopg.Error, match="MAX_JOBS_PER_SUBMISSION: 4 jobs in one cluster"):
        session.rows("SELECT fetchwork.submit_cluster(NULL, ARRAY['{}', '{}']::jsonb[], %s)", cluster)


@pytest.mark.parametrize("folded", [False, True])
def test_an_owner_has_no_more_jobs_in_the_queue_than_he_may(queue: DirectQueue, folded: bool) -> None:
    queue.set("max_jobs_per_owner", 5)
    jobs = queue.submit_many([{}] * 5, QUEUED)
    if folded:
        queue.scalar("fold")
    assert refused(queue, 1) == (
        "Number of submitted jobs would exceed MAX_JOBS_PER_OWNER: "
        "Owner 'alice' would have 6 jobs in the queue; allowed: 5 (setting max_jobs_per_owner)"
    )
    # no other owner is affected, in a cluster of two owners either
    queue.submit_many([{}] * 5, {**QUEUED, "Owner": "bob"})
    assert "Owner 'bob' would have 6" in refused(queue, 1, "bob")
    with pytest.raises(psycopg.Error, match="Owner 'bob' would have 6"):
        queue.submit_many([{"Owner": "carol"}, {"Owner": "bob"}], QUEUED)
    # removed and ended jobs do not count
    queue.act("remove", jobs[1])
    queue.finish(queue.started())
    if folded:
        queue.scalar("fold")
    queue.submit_many([{}] * 2, QUEUED)
    assert "would have 6 jobs" in refused(queue, 1)


def test_jobs_on_hold_count_too(queue: DirectQueue) -> None:
    queue.set("max_jobs_per_owner", 1)
    queue.act("hold", queue.submit())
    assert "MAX_JOBS_PER_OWNER" in refused(queue, 1)


def test_an_open_transaction_of_somebody_neither_counts_nor_holds_up(queue: DirectQueue) -> None:
    queue.set("max_jobs_per_owner", 3)
    slow = queue.another(autocommit=False)
    slow.submit_many([{}] * 3, QUEUED)  # 1. not committed, and perhaps never
    slow.scalar("fold")
    with queue.within(5):
        queue.submit_many([{}] * 3, QUEUED)  # 2. does not wait
    assert "MAX_JOBS_PER_OWNER" in refused(queue, 1)
    slow.connection.commit()
    assert "would have 7" in refused(queue, 1)


def test_the_check_reads_no_row_of_the_owners_jobs(queue: DirectQueue) -> None:
    """The cost is the same with a million jobs in the queue."""
    queue.submit_many([{}] * 500, QUEUED)
    queue.scalar("fold")

    with queue.connection.transaction():
        before = queue.tuples_read("job")
        queue.rows("SELECT fetchwork.check_owner('alice')")
        assert queue.tuples_read("job") == before


FIRST: dict[str, dict[str, Any]] = {
    "an accounting group": {"AccountingGroup": "physics.alice"},
    "a submitter": {"Owner": "carol"},
    "a batch of another owner": {"JobBatchName": "b", "Owner": "carol"},
    "an autocluster": {"RequestMemory": 77},
}


@pytest.mark.parametrize("new", FIRST)
def test_the_first_jobs_of_a_submitter_wait_for_nobody(queue: DirectQueue, new: str) -> None:
    slow = queue.another(autocommit=False)
    slow.submit_many([{}, {}], {**QUEUED, **FIRST[new], "JobBatchName": "slow"})  # 1. not committed
    with queue.within(5):
        queue.submit_many([{}], {**QUEUED, **FIRST[new]})  # 2. does not wait
        queue.submit_many([FIRST[new], {}], QUEUED)
        queue.call("maintain_queue")
    slow.connection.commit()
    names = {name for (name,) in queue.rows("SELECT Name FROM fetchwork.submitters")}
    assert names >= {FIRST[new].get("AccountingGroup", FIRST[new].get("Owner", "alice"))}


def test_a_submitter_that_nothing_was_charged_to_yet_has_its_share(queue: DirectQueue) -> None:
    queue.submit(Owner="carol")
    for _ in range(2):
        assert queue.rows("SELECT Name, PriorityFactor, RunningJobs FROM fetchwork.submitters") == [
            ("carol", 1000, 0)
        ]
        assert queue.candidates(queue.host())[0]["submitter"] == "carol"
        queue.scalar("fold")  # makes its row
    assert queue.rows("SELECT name, usage FROM fetchwork.submitter") == [("carol", 0)]
