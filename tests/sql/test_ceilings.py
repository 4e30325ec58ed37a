"""Ceilings of a submitter: its idle jobs and its autoclusters, at submit, edit and release."""

from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import DirectQueue

QUEUED = {"Cmd": "/bin/true", "Owner": "alice"}
RAISES = "an administrator may raise it)"


def different(first: int, number: int) -> list[dict[str, Any]]:
    """The own ads of so many jobs, each with an autocluster of its own."""
    return [{"RequestMemory": 100 + n} for n in range(first, first + number)]


def refused(queue: DirectQueue, ads: list[dict[str, Any]], **attributes: Any) -> str:
    """The error of a submission, which leaves nothing."""
    before = queue.value("SELECT count(*) FROM fetchwork.job")
    with pytest.raises(psycopg.Error) as caught:
        queue.submit_many(ads, {**QUEUED, **attributes})
    assert caught.value.sqlstate == "FWDEN"
    assert queue.value("SELECT count(*) FROM fetchwork.job") == before
    return str(caught.value.diag.message_primary)


def test_without_a_ceiling_there_is_none(queue: DirectQueue) -> None:
    assert queue.rows("SELECT name, value FROM fetchwork.setting WHERE name LIKE '%%_per_submitter'") == [
        ("max_idle_per_submitter", 0),
        ("max_autoclusters_per_submitter", 0),
    ]
    queue.submit_many(different(0, 50), QUEUED)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("own", [{}, {"Env": "A=1"}])
def test_a_submission_with_too_many_idle_jobs_is_refused(
    queue: DirectQueue, folded: bool, own: dict[str, Any]
) -> None:
    queue.set("max_idle_per_submitter", 3)
    jobs = queue.submit_many([own] * 3, QUEUED)
    if folded:
        queue.scalar("fold")
    assert refused(queue, [own]) == (
        "submitter 'alice' would have 4 idle jobs in the queue; allowed: 3 (setting max_idle_per_submitter; "
        + RAISES
    )
    # no other submitter is affected, also one of the same owner; two submitters count apart
    queue.submit_many([own] * 3, {**QUEUED, "Owner": "bob"})
    queue.submit_many([own] * 2, {**QUEUED, "AccountingGroup": "physics.alice"})
    assert "'physics.alice' would have 4" in refused(queue, [own] * 2, AccountingGroup="physics.alice")
    assert "'alice' would have 4" in refused(queue, [own, {"AccountingGroup": "b"}])
    # jobs that run, are held or have ended are not idle
    queue.act("hold", jobs[0])
    queue.started()
    if folded:
        queue.scalar("fold")
    queue.submit_many([own] * 2, QUEUED)
    assert "would have 4 idle jobs" in refused(queue, [own])


def test_an_offered_job_is_idle_and_a_running_one_is_not(queue: DirectQueue) -> None:
    queue.set("max_idle_per_submitter", 1)
    queue.submit()
    run = queue.claim()
    assert run is not None
    assert "would have 2 idle jobs" in refused(queue, [{}])
    queue.start(run)
    queue.submit()


def test_a_job_on_hold_counts_when_it_is_released(queue: DirectQueue) -> None:
    queue.set("max_idle_per_submitter", 2)
    held = queue.submit_many([{}] * 5, {**QUEUED, "JobStatus": 5})
    with pytest.raises(psycopg.Error, match=r"'alice' would have 5 idle jobs in the queue; allowed: 2"):
        queue.act("release", *held)
    assert {queue.status(job) for job in held} == {5}
    assert queue.act("release", *held[:2]) == 2
    with pytest.raises(psycopg.Error, match="would have 3 idle jobs"):
        queue.act("release", held[2])
    # other actions go on
    assert queue.act("hold", held[0]) == 1
    assert queue.act("remove", held[4]) == 1


@pytest.mark.parametrize("folded", [False, True])
def test_a_submission_with_too_many_autoclusters_is_refused(queue: DirectQueue, folded: bool) -> None:
    queue.set("max_autoclusters_per_submitter", 3)
    jobs = queue.submit_many(different(0, 3), QUEUED)
    if folded:
        queue.scalar("fold")
    assert refused(queue, different(3, 1)) == (
        "submitter 'alice' would have 4 autoclusters in the queue; allowed: 3 "
        "(setting max_autoclusters_per_submitter; " + RAISES
    )
    assert "would have 4" in refused(queue, [{}], RequestMemory=7)
    # jobs of the autoclusters that are there do no harm; others' do not count
    more = queue.submit_many(different(0, 3) * 2, QUEUED)
    queue.submit_many(different(0, 3), {**QUEUED, "Owner": "bob"})
    # an autocluster without jobs does not count, though it is kept for a while
    queue.act("remove", jobs[0], more[0], more[3])
    if folded:
        queue.scalar("fold")
    queue.submit_many(different(3, 1), QUEUED)
    assert "would have 4" in refused(queue, different(0, 1))
    # jobs on hold keep theirs
    assert queue.act("hold", "1.1", "1.2") == 2
    assert "would have 4" in refused(queue, different(0, 1), JobStatus=5)


def test_a_cluster_that_is_submitted_in_parts_counts_together(queue: DirectQueue) -> None:
    queue.set("max_autoclusters_per_submitter", 2)
    session = queue.another(autocommit=False)
    session.value(
        """SELECT fetchwork.submit_cluster(
            '{"Cmd": "/bin/true", "Owner": "alice"}',
            ARRAY['{"RequestMemory": 1}', '{"RequestMemory": 2}']::jsonb[]
        )"""
    )
    append = "SELECT fetchwork.submit_cluster(NULL, ARRAY['{\"RequestMemory\": %s}']::jsonb[], 1)"
    session.rows(append % 2)
    with pytest.raises(psycopg.Error, match="would have 3 autoclusters"):
        session.rows(append % 3)


def test_an_edit_is_bounded_too(queue: DirectQueue) -> None:
    queue.set("max_autoclusters_per_submitter", 2)
    queue.submit_many([{}] * 5, QUEUED)
    assert queue.act("edit", "1.0", changes={"RequestMemory": 1}) == 1
    with pytest.raises(psycopg.Error, match=r"'alice' would have 3 autoclusters .*; allowed: 2") as caught:
        queue.act("edit", "1.1", changes={"RequestMemory": 2})
    assert caught.value.sqlstate == "FWDEN"
    # to an autocluster that is there, of all jobs, or of nothing that matching reads
    assert queue.act("edit", "1.1", changes={"RequestMemory": 1}) == 1
    assert queue.act("edit", "1", changes={"RequestMemory": 3}) == 5
    assert queue.act("edit", "1.1", changes={"RequestMemory": 2, "Note": 1}) == 1
    assert queue.act("edit", "1", changes={"Note": 2}) == 5


def test_an_edit_charges_idle_jobs_to_another_submitter_up_to_its_ceiling(queue: DirectQueue) -> None:
    queue.call("set_submitter", name="physics.alice", changes={"max_idle": 2})
    queue.submit_many([{}] * 5, QUEUED)
    group = {"AccountingGroup": "physics.alice"}
    assert queue.act("edit", "1.0", "1.1", changes=group) == 2
    with pytest.raises(psycopg.Error, match=r"'physics.alice' would have 3 idle jobs"):
        queue.act("edit", "1.2", changes=group)
    queue.act("hold", "1.2")
    assert queue.act("edit", "1.2", changes=group) == 1


def test_a_submitter_s_own_ceiling_holds_instead_of_the_setting(queue: DirectQueue) -> None:
    queue.set("max_idle_per_submitter", 2)
    queue.set("max_autoclusters_per_submitter", 2)
    queue.call("set_submitter", name="alice", changes={"max_idle": 3, "max_autoclusters": 1})
    queue.submit_many([{}] * 3, QUEUED)
    assert refused(queue, [{}]) == (
        "submitter 'alice' would have 4 idle jobs in the queue; allowed: 3 (max_idle of this submitter; "
        + RAISES
    )
    queue.act("hold", "1.0")
    assert refused(queue, different(0, 1)) == (
        "submitter 'alice' would have 2 autoclusters in the queue; allowed: 1 "
        "(max_autoclusters of this submitter; " + RAISES
    )
    # 0: no ceiling; null: the setting again
    queue.call("set_submitter", name="alice", changes={"max_idle": 0, "max_autoclusters": 0})
    queue.submit_many(different(0, 10), QUEUED)
    assert queue.rows("SELECT name, maxidle, maxautoclusters FROM fetchwork.submitters") == [("alice", 0, 0)]
    queue.call("set_submitter", name="alice", changes={"max_idle": None, "max_autoclusters": None})
    assert "allowed: 2 (setting max_idle_per_submitter" in refused(queue, [{}])


def test_who_is_above_a_lowered_ceiling_keeps_its_jobs_and_autoclusters(queue: DirectQueue) -> None:
    queue.submit_many(different(0, 5), QUEUED)
    queue.set("max_autoclusters_per_submitter", 2)
    queue.submit_many(different(0, 5), QUEUED)
    assert "would have 6 autoclusters" in refused(queue, different(5, 1))
    queue.set("max_idle_per_submitter", 2)
    assert queue.act("edit", "1.0", changes={"RequestMemory": 101, "JobPrio": 7}) == 1
    queue.submit_many(different(0, 2), {**QUEUED, "JobStatus": 5})
    assert "would have 11 idle jobs" in refused(queue, different(0, 1))


def test_jobs_that_take_no_slot_do_not_count(queue: DirectQueue) -> None:
    queue.set("max_idle_per_submitter", 1)
    queue.set("max_autoclusters_per_submitter", 1)
    for number in range(2):
        queue.submit(JobUniverse=7, FetchWorkAccessPoint="ap", RequestMemory=number)
    queue.submit()
    assert "would have 2 idle jobs" in refused(queue, [{}])


def test_submissions_of_others_neither_wait_nor_count_before_their_commit(queue: DirectQueue) -> None:
    queue.set("max_idle_per_submitter", 3)
    queue.set("max_autoclusters_per_submitter", 3)
    slow = queue.another(autocommit=False)
    slow.submit_many(different(0, 3), QUEUED)  # 1. not committed
    slow.scalar("fold")
    with queue.within(5):
        queue.submit_many(different(3, 3), QUEUED)  # 2. does not wait
        queue.call("set_submitter", name="bob", changes={"max_idle": 1})
    assert "would have 4" in refused(queue, different(3, 1))
    slow.connection.commit()
    assert "would have 7 idle" in refused(queue, different(3, 1))
    assert "would have 7 autoclusters" in refused(queue, different(6, 1), JobStatus=5)


def test_the_check_reads_no_row_of_the_jobs(queue: DirectQueue) -> None:
    """The cost is the same with a million jobs in the queue."""
    queue.set("max_idle_per_submitter", 1000)
    queue.set("max_autoclusters_per_submitter", 1000)
    queue.submit_many([{}] * 500, QUEUED)
    queue.scalar("fold")

    with queue.connection.transaction():
        before = queue.tuples_read("job")
        queue.rows("SELECT fetchwork.check_ceilings(ARRAY[1], ARRAY[1], ARRAY[1])")
        assert queue.tuples_read("job") == before


def test_a_submitter_with_a_ceiling_of_its_own_is_not_forgotten(queue: DirectQueue) -> None:
    queue.call("set_submitter", name="alice", changes={"max_idle": 5})
    queue.call("set_submitter", name="bob", changes={"max_autoclusters": 0})
    queue.call("set_submitter", name="carol", changes={})
    queue.connection.execute("UPDATE fetchwork.submitter SET usage_at = now() - interval '9 days'")
    queue.call("forget")
    assert {name for (name,) in queue.rows("SELECT name FROM fetchwork.submitter")} == {"alice", "bob"}


@pytest.mark.parametrize("changes", [{"max_idle": -1}, {"max_autoclusters": -1}])
def test_a_ceiling_is_not_below_0(queue: DirectQueue, changes: dict[str, int]) -> None:
    with pytest.raises(psycopg.Error, match="the others not below 0"):
        queue.call("set_submitter", name="alice", changes=changes)
