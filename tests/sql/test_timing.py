"""Jobs that start at a time: the time of their offers, and the next time of a cron schedule."""

from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import DirectQueue

#: HTCondor's submit adds it to a job with deferral_time
CLAUSE = (
    "/Expr(TARGET.HasJobDeferral && (((time() + ScheddInterval) >= (DeferralTime - DeferralPrepTime))"
    " && (time() < (DeferralTime + DeferralWindow))))/"
)
JOB: dict[str, Any] = {"Cmd": "/bin/true", "Owner": "alice"}
DEFERRED = {**JOB, "DeferralWindow": 0, "DeferralPrepTime": 300, "Requirements": CLAUSE}


def now(queue: DirectQueue) -> int:
    return int(queue.value("SELECT extract(epoch FROM clock_timestamp())::bigint"))


def soon(queue: DirectQueue) -> str:
    """A CronMinute two to three minutes ahead: not during the test, and slots may have the job."""
    return str((now(queue) // 60 + 3) % 60)


def waits(queue: DirectQueue) -> int:
    return int(queue.value("SELECT count(*) FROM fetchwork.waiting"))


def delay_s(queue: DirectQueue) -> float | None:
    """Seconds until the only job is requeued; None if it waits in the queue."""
    (found,) = queue.rows("SELECT extract(epoch FROM not_before - clock_timestamp()) FROM fetchwork.job")
    return None if found[0] is None else float(found[0])


def deferral_time(queue: DirectQueue) -> int:
    return int(
        queue.value(
            "SELECT c.ad || j.ad -> 'DeferralTime' FROM fetchwork.job j JOIN fetchwork.cluster c USING (cluster_id)"
        )
    )


def next_time(queue: DirectQueue, after: str, zone: str = "UTC", **fields: str) -> str | None:
    """The next time of a schedule after a time, both as the zone's clocks show it."""
    found = queue.value(
        "SELECT fetchwork.next_cron_time(%s, %s::timestamp AT TIME ZONE %s) AT TIME ZONE %s",
        psycopg.types.json.Jsonb({**fields, "FetchWorkTimeZone": zone}),
        after,
        zone,
        zone,
    )
    return None if found is None else f"{found:%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("fields", "after", "expected"),
    [
        ({}, "2026-11-22 10:00:00", "2026-11-22 10:01"),
        ({}, "2026-11-22 10:00:59", "2026-11-22 10:01"),
        ({"CronMinute": "5"}, "2026-11-22 10:04:59", "2026-11-22 10:05"),
        ({"CronMinute": "5"}, "2026-11-22 10:05:00", "2026-11-22 11:05"),
        ({"CronMinute": "0", "CronHour": "0"}, "2026-12-31 10:00", "2027-01-01 00:00"),
        ({"CronMinute": "*/15"}, "2026-11-22 10:16", "2026-11-22 10:30"),
        ({"CronMinute": "10-30/7"}, "2026-11-22 10:00", "2026-11-22 10:14"),
        ({"CronMinute": "50-70"}, "2026-11-22 10:00", "2026-11-22 10:50"),
        ({"CronMinute": "5, 3 ,40"}, "2026-11-22 10:03", "2026-11-22 10:05"),
        # an invalid value stands for all
        ({"CronMinute": "75"}, "2026-11-22 10:00", "2026-11-22 10:01"),
        ({"CronMinute": "0", "CronHour": "23,7-9"}, "2026-11-22 09:00", "2026-11-22 23:00"),
        (
            {"CronDayOfMonth": "31", "CronHour": "1", "CronMinute": "2"},
            "2026-11-22 10:00",
            "2026-12-31 01:02",
        ),
        ({"CronDayOfMonth": "31", "CronMonth": "2,4,5"}, "2026-11-22 10:00", "2027-05-31 00:00"),
        ({"CronDayOfMonth": "29", "CronMonth": "2"}, "2096-03-01 10:00", "2104-02-29 00:00"),
        ({"CronDayOfMonth": "30", "CronMonth": "2"}, "2026-11-22 10:00", None),
        # 2026-11-22 is a Sunday
        ({"CronDayOfWeek": "0", "CronHour": "9"}, "2026-11-22 10:00", "2026-11-29 09:00"),
        ({"CronDayOfWeek": "7", "CronHour": "11"}, "2026-11-22 10:00", "2026-11-22 11:00"),
        ({"CronDayOfWeek": "1-5", "CronHour": "11"}, "2026-11-27 12:00", "2026-11-30 11:00"),
        ({"CronDayOfWeek": "5", "CronHour": "3"}, "2026-11-28 12:00", "2026-12-04 03:00"),
        ({"CronDayOfWeek": "0-7"}, "2026-11-22 10:00", "2026-11-22 10:01"),
        # either is accepted
        (
            {"CronDayOfWeek": "3", "CronDayOfMonth": "23", "CronHour": "3"},
            "2026-11-22 12:00",
            "2026-11-23 03:00",
        ),
        (
            {"CronDayOfWeek": "3", "CronDayOfMonth": "30", "CronHour": "3"},
            "2026-11-22 12:00",
            "2026-11-25 03:00",
        ),
        ({"CronMinute": "x"}, "2026-11-22 10:00", None),
        ({"CronMinute": "*/0"}, "2026-11-22 10:00", None),
        ({"CronHour": "25-30"}, "2026-11-22 10:00", None),
        # a list of every minute, and a hostile one
        (
            {"CronMinute": ", ".join(map(str, range(60)))},
            "2026-11-22 10:00",
            "2026-11-22 10:01",
        ),
        ({"CronMinute": ",".join(["*"] * 251)}, "2026-11-22 10:00", None),
    ],
)
def test_schedule_names_its_next_time(
    queue: DirectQueue, fields: dict[str, str], after: str, expected: str | None
) -> None:
    assert next_time(queue, after, **fields) == expected
    assert next_time(queue, after, "Asia/Kolkata", **fields) == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        # 02:30 does not exist on this day
        ("2026-03-29 01:00", "2026-03-29 03:30"),
        # 02:30 exists twice, and counts once
        ("2026-10-25 01:00", "2026-10-25 02:30"),
        ("2026-10-25 03:00", "2026-10-26 02:30"),
    ],
)
def test_schedule_follows_the_clocks_of_its_zone(queue: DirectQueue, after: str, expected: str) -> None:
    assert next_time(queue, after, "Europe/Berlin", CronHour="2", CronMinute="30") == expected


def test_job_waits_for_its_time_outside_the_queue(queue: DirectQueue) -> None:
    at = now(queue) + 1000
    queue.submit_many([{}], {**DEFERRED, "DeferralTime": at})
    left = delay_s(queue)
    # 300 s to prepare, and a schedd's time between two checks
    assert left is not None and 635 <= left <= 640.999
    assert (waits(queue), queue.claim()) == (0, None)
    queue.connection.execute("UPDATE fetchwork.job SET not_before = now()")
    # it is not yet time: only the schedd's clock decides that
    assert queue.scalar("wake") == 1
    assert waits(queue) == 0
    assert delay_s(queue) == pytest.approx(left, abs=20)


@pytest.mark.parametrize(("ahead", "waiting"), [(359, 1), (-10, 1), (0, 1), (500, 0)])
def test_job_is_offered_when_it_is_time_to_prepare(queue: DirectQueue, ahead: int, waiting: int) -> None:
    queue.submit_many([{}, {"DeferralTime": now(queue) + ahead}], {**DEFERRED, "DeferralTime": 10})
    # the first one is too late for any slot, by its Requirements
    assert waits(queue) == 1 + waiting


def test_time_that_is_an_expression_is_for_the_matchmaker(queue: DirectQueue) -> None:
    queue.submit_many([{}], {**DEFERRED, "DeferralTime": "/Expr(QDate + 3600)/"})
    assert waits(queue) == 1
    (ad,) = (row[0] for row in queue.rows("SELECT ad FROM fetchwork.autocluster"))
    assert (ad["ScheddInterval"], ad["DeferralTime"]) == (60, "/Expr(QDate + 3600)/")


def test_job_on_hold_waits_for_its_time_after_its_release(queue: DirectQueue) -> None:
    queue.submit_many([{}], {**DEFERRED, "DeferralTime": now(queue) + 1000, "JobStatus": 5})
    assert (waits(queue), delay_s(queue)) == (0, None)
    queue.call("release", jobs=["1"])
    assert waits(queue) == 0
    assert delay_s(queue) == pytest.approx(640, abs=30)


def test_edit_of_the_time_is_followed(queue: DirectQueue) -> None:
    queue.submit_many([{}], {**DEFERRED, "DeferralTime": now(queue) + 1000})
    queue.call("edit", jobs=["1.0"], changes={"DeferralTime": now(queue) + 5000})
    assert delay_s(queue) == pytest.approx(4640, abs=30)
    queue.call("edit", jobs=["1.0"], changes={"DeferralPrepTime": 4990})
    assert waits(queue) == 1
    queue.call("edit", jobs=["1.0"], changes={"DeferralPrepTime": 0})
    assert waits(queue) == 0
    queue.call("edit", jobs=["1.0"], changes={"DeferralTime": None})
    assert (waits(queue), delay_s(queue)) == (1, None)


def test_edit_of_the_time_cuts_no_delay_of_a_retry_short(queue: DirectQueue) -> None:
    queue.submit_many([{}], {**DEFERRED, "DeferralTime": now(queue)})
    requeued = {"action": "requeue", "delay_s": 500}
    queue.finish(queue.started(), verdict=requeued)
    queue.call("edit", jobs=["1.0"], changes={"DeferralTime": now(queue) + 100})
    assert waits(queue) == 0
    assert delay_s(queue) == pytest.approx(500, abs=30)
    # the time counts once the backoff is over
    queue.call("edit", jobs=["1.0"], changes={"DeferralTime": now(queue) + 1500})
    queue.pass_time(501)
    assert queue.scalar("wake") == 1
    assert delay_s(queue) == pytest.approx(1140, abs=30)


def test_edit_of_many_times_tells_the_jobs_that_wait_for_a_delay_apart(queue: DirectQueue) -> None:
    for _ in range(2):
        queue.submit_many([{}, {}, {}], {**DEFERRED, "DeferralTime": now(queue)})
    jobs = [f"{cluster}.{proc}" for cluster in (1, 2) for proc in (0, 1, 2)]
    delayed = {queue.finish(queue.started(), verdict={"action": "requeue", "delay_s": 500}) for _ in range(3)}
    assert len(delayed) == 1
    rows = "SELECT fetchwork.job_id(cluster_id, proc_id) FROM fetchwork.job WHERE not_before IS NOT NULL"
    waiting = {row[0] for row in queue.rows(rows)}
    assert len(waiting) == 3
    assert queue.scalar("edit", jobs=jobs, changes={"DeferralTime": now(queue) + 5000}) == 6
    after = dict(
        queue.rows(
            "SELECT fetchwork.job_id(cluster_id, proc_id), extract(epoch FROM not_before - now())::float8"
            " FROM fetchwork.job"
        )
    )
    for job in jobs:
        assert after[job] == pytest.approx(500 if job in waiting else 4640, abs=60), job


def test_schedule_gives_the_job_its_time(queue: DirectQueue) -> None:
    queue.connection.execute("SET TimeZone = 'America/New_York'")
    queue.submit_many(
        [{}, {"CronHour": "5"}], {**DEFERRED, "CronMinute": "30", "CronHour": "4", "DeferralTime": 5}
    )
    rows = queue.rows(
        "SELECT to_char(to_timestamp((ad ->> 'DeferralTime')::bigint) AT TIME ZONE 'America/New_York', 'HH24:MI'),"
        " ad ->> 'FetchWorkTimeZone' FROM fetchwork.job ORDER BY proc_id"
    )
    assert rows == [("04:30", "America/New_York"), ("05:30", "America/New_York")]


def test_schedule_goes_on_after_a_run_of_a_job_that_stays(queue: DirectQueue) -> None:
    ad = {**DEFERRED, "CronMinute": soon(queue), "DeferralWindow": 3600, "OnExitRemove": False}
    queue.submit_many([{}], ad)
    first = deferral_time(queue)
    run = queue.started()
    queue.finish(run, verdict={"action": "requeue"})
    assert deferral_time(queue) > max(first - 1, now(queue))
    # and a job that was evicted keeps its time while that is possible
    second = deferral_time(queue)
    run = queue.started()
    queue.finish(run, "evict")
    assert deferral_time(queue) == second
    assert queue.status(run.job) == 1


def test_schedule_goes_on_when_no_slot_came_in_time(queue: DirectQueue) -> None:
    queue.submit_many([{}], {**DEFERRED, "CronMinute": soon(queue)})
    assert waits(queue) == 1
    queue.connection.execute(
        "UPDATE fetchwork.job SET ad = ad || '{\"DeferralTime\": 1000}', late_at = now()"
    )
    assert queue.scalar("wake") == 1
    assert deferral_time(queue) > now(queue)
    assert waits(queue) == 1
    assert queue.scalar("wake") == 0
    # a job that a slot has got keeps its time
    run = queue.started()
    at = deferral_time(queue)
    queue.connection.execute("UPDATE fetchwork.job SET late_at = now()")
    assert queue.scalar("wake") == 0
    assert (deferral_time(queue), queue.status(run.job)) == (at, 2)


def test_job_that_came_too_late_is_held_as_by_a_schedd(queue: DirectQueue) -> None:
    queue.submit_many([{}], {**DEFERRED, "DeferralTime": 1000})
    run = queue.started()
    assert queue.of(run, "finish", hook_reason="evict", report={}) == "could_not_start"
    assert queue.rows(
        "SELECT JobStatus, HoldReason, HoldReasonCode, HoldReasonSubCode FROM fetchwork.jobs"
    ) == [(5, "Job missed deferred execution time", 20, 0)]
    # the failure says nothing about the host
    assert queue.value("SELECT bad_starts FROM fetchwork.host") == 0


def test_job_that_was_prepared_in_time_did_not_miss_it(queue: DirectQueue) -> None:
    queue.submit_many([{}], {**DEFERRED, "DeferralTime": now(queue) - 5, "DeferralWindow": 60})
    run = queue.started()
    # it waited, and could not be started then
    queue.connection.execute(
        "UPDATE fetchwork.run SET claimed_at = now() - interval '1 h', started_at = now() - interval '1 h'"
    )
    queue.connection.execute("UPDATE fetchwork.cluster SET ad = ad || '{\"DeferralWindow\": 0}'")
    assert queue.of(run, "finish", hook_reason="evict", report={}) == "could_not_start"
    assert queue.value("SELECT HoldReasonCode FROM fetchwork.jobs") is None


def test_report_can_not_make_a_job_late_that_has_no_time(queue: DirectQueue) -> None:
    queue.submit_many([{}], JOB)
    run = queue.started()
    assert queue.of(run, "finish", hook_reason="evict", report={"DeferralTime": 1000}) == "could_not_start"
    assert queue.value("SELECT HoldReasonCode FROM fetchwork.jobs") is None


@pytest.mark.parametrize(
    ("ad", "message"),
    [
        ({"DeferralTime": -1}, "allowed: seconds"),
        ({"DeferralTime": "tomorrow"}, "allowed: seconds"),
        ({"DeferralWindow": 1.5}, "allowed: seconds"),
        ({"DeferralPrepTime": 10**15}, "allowed: seconds"),
        ({"CronMinute": "x"}, "allowed: a field of a cron schedule"),
        ({"CronMinute": 5}, "allowed: a field of a cron schedule"),
        ({"CronMinute": "*" * 501}, "of at most 500 characters"),
        ({"CronHour": "25-30"}, "allowed: a field of a cron schedule"),
        ({"CronHour": "1", "FetchWorkTimeZone": "Nowhere/City"}, "allowed: a time zone"),
        ({"CronMonth": "2", "CronDayOfMonth": "30"}, "the cron schedule never comes"),
    ],
)
def test_time_that_never_is_is_refused(queue: DirectQueue, ad: dict[str, Any], message: str) -> None:
    with pytest.raises(psycopg.Error, match=message) as caught:
        queue.submit_many([{}], {**JOB, **ad})
    assert caught.value.sqlstate == "FWINV"


NEVER = {"CronMonth": "2", "CronDayOfMonth": "30"}


@pytest.mark.parametrize("common", [{}, {"CronMonth": "2"}])
def test_every_job_of_a_cluster_is_asked_whether_its_time_comes(
    queue: DirectQueue, common: dict[str, str]
) -> None:
    with pytest.raises(psycopg.Error, match="the cron schedule never comes"):
        queue.submit_many([{"CronDayOfMonth": "1"}, {**NEVER}], {**JOB, **common})


def test_every_job_that_is_edited_is_asked_whether_its_time_comes(queue: DirectQueue) -> None:
    queue.submit_many([{"CronDayOfMonth": "1"}, {"CronDayOfMonth": "30"}], JOB)
    with pytest.raises(psycopg.Error, match="the cron schedule never comes"):
        queue.call("edit", jobs=["1"], changes={"CronMonth": "2"})


@pytest.mark.parametrize("changes", [{"CronMinute": None}, {"CronMinute": None, "DeferralTime": None}])
def test_schedule_that_was_removed_is_none(queue: DirectQueue, changes: dict[str, None]) -> None:
    queue.submit_many([{}], {**DEFERRED, "CronMinute": "*", "OnExitRemove": False})
    # too late by the time of the edit, as far as the queue knows
    queue.connection.execute("UPDATE fetchwork.job SET late_at = now()")
    queue.call("edit", jobs=["1.0"], changes=changes)
    position = queue.value("SELECT position FROM fetchwork.job")
    assert queue.scalar("wake") == 0
    assert queue.value("SELECT position FROM fetchwork.job") == position
    run = queue.started()
    queue.finish(run, verdict={"action": "requeue"})
    assert queue.value("SELECT ad ->> 'DeferralTime' FROM fetchwork.job") is None
    assert (waits(queue), delay_s(queue)) == (1, None)


def test_schedule_that_is_undefined_is_none(queue: DirectQueue) -> None:
    queue.submit_many([{}], {**JOB, "CronMinute": None})
    assert queue.value("SELECT ad ->> 'DeferralTime' FROM fetchwork.job") is None
