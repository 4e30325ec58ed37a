"""maintain_queue, wake, fold, maintain_tables, take_leader_task: periodic tasks, done by any agent."""

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.conftest import Connect
from tests.support.direct_queue import AGENT_ID, DirectQueue


def test_fold_empties_the_changes_and_leaves_the_totals(queue: DirectQueue) -> None:
    queue.submit_many([{"JobBatchName": "b"}, {"JobStatus": 5}, {}])
    queue.finish(queue.started())
    totals = queue.rows("SELECT * FROM fetchwork.totals")
    batches = queue.rows("SELECT * FROM fetchwork.batches")
    assert queue.scalar("fold") > 0
    assert queue.value("SELECT count(*) FROM fetchwork.tally_change") == 0
    assert queue.rows("SELECT * FROM fetchwork.totals") == totals
    assert queue.rows("SELECT * FROM fetchwork.batches") == batches
    assert queue.scalar("fold") == 0


def test_usage_decays_with_its_half_life(queue: DirectQueue) -> None:
    queue.call("set_submitter", name="alice", changes={"usage": 1000})
    queue.connection.execute("UPDATE fetchwork.submitter SET usage_at = now() - interval '1 day'")
    assert queue.value("SELECT round(WeightedUsage) FROM fetchwork.submitters") == 500
    queue.submit()
    run = queue.started()
    queue.pass_time(100)
    queue.finish(run)
    queue.scalar("fold")
    assert queue.value("SELECT round(WeightedUsage) FROM fetchwork.submitters") == 600


def test_priorities_are_htcondors(queue: DirectQueue) -> None:
    queue.call("set_submitter", name="alice", changes={"usage": 86400 * 8, "prio_factor": 10})
    queue.call("set_submitter", name="bob", changes={})
    rows = queue.rows(
        "SELECT Name, PriorityFactor, round(RealPriority::numeric, 3), round(Priority::numeric, 2) FROM fetchwork.submitters ORDER BY Name"
    )
    # eight slots in use for ever would be 8 / ln 2 times the half-life; no priority is better than 0.5
    assert [(row[0], row[1], float(row[2]), float(row[3])) for row in rows] == [
        ("alice", 10, 5.545, 55.45),
        ("bob", 1000, 0.5, 500),
    ]


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (
            "set_submitter",
            {"name": "a", "changes": {"factor": 1}},
            "submitter 'a' has no setting 'factor'; allowed: prio_factor, usage, max_running",
        ),
        (
            "set_submitter",
            {"name": "a", "changes": {"prio_factor": 0.5}},
            "submitter 'a': .*; allowed: prio_factor 1 or more",
        ),
        (
            "set_queue",
            {"name": "q", "changes": {"pause": True}},
            "queue 'q' has no setting 'pause'; allowed: paused, draining",
        ),
        (
            "set_setting",
            {"name": "host_leese", "value": 1},
            "setting 'host_leese' does not exist; allowed: black_hole_rest",
        ),
        (
            "set_limit",
            {"name": "a b", "maximum": 1},
            "'a b' is not the name of a concurrency limit; allowed: letters, digits, _ .",
        ),
        (
            "hello",
            {"host": "a b", "agent_version": "1", "agent_id": AGENT_ID},
            "'a b' is not a host name; allowed: letters, digits, _ . -",
        ),
        (
            "hello",
            {"host": "h1", "agent_version": "1", "agent_id": None},
            "agent of host 'h1' has no version or no id",
        ),
        (
            "grant_owner",
            {"role": "nobody_here", "owner": "alice"},
            "role 'nobody_here' does not exist in this PostgreSQL",
        ),
        (
            "grant_owner",
            {"role": "postgres", "owner": "root"},
            "Owner 'root' can't be granted; allowed: an account name, never root",
        ),
    ],
)
def test_a_setting_that_is_none_is_refused(
    queue: DirectQueue, function: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(psycopg.Error, match=message) as caught:
        queue.call(function, **arguments)
    assert str(caught.value.sqlstate).startswith("FW")


def test_a_leader_task_is_one_callers_in_each_period(queue: DirectQueue) -> None:
    assert queue.scalar("take_leader_task", name="policy", every_s=60) is True
    assert queue.scalar("take_leader_task", name="policy", every_s=60) is False
    assert queue.scalar("take_leader_task", name="maintain", every_s=60) is True
    queue.connection.execute("UPDATE fetchwork.leader_task SET taken_at = taken_at - interval '61 s'")
    assert queue.scalar("take_leader_task", name="policy", every_s=60) is True


def test_one_of_two_at_once_does_the_work_and_the_other_does_not_wait(queue: DirectQueue) -> None:
    queue.submit()
    slow = queue.another(autocommit=False)
    slow.call("maintain_queue")
    assert queue.call("maintain_queue") == [{"reaped": 0, "woken": 0, "folded": 0}]
    slow.connection.rollback()


# Partitions: each test has a database of its own, because it makes and drops tables


@pytest.fixture
def own(connect: Connect) -> DirectQueue:
    """A queue in a new database."""
    return DirectQueue(connect())


def partitions(queue: DirectQueue, parent: str) -> list[str]:
    """Names of a table's partitions without the default one."""
    return [
        row[0].removeprefix(f"{parent}_")
        for row in queue.rows(
            "SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = ('fetchwork.' || %s)::regclass AND c.relname NOT LIKE '%%default' ORDER BY 1",
            parent,
        )
    ]


def test_partitions_are_made_ahead_and_repeating_it_is_harmless(own: DirectQueue) -> None:
    for _ in range(2):
        own.call("maintain_tables")
        assert len(partitions(own, "event")) == 7
        assert len(partitions(own, "job_history")) == len(partitions(own, "run_history")) == 2
    days = own.rows(
        "SELECT to_char(now() AT TIME ZONE 'UTC' + n * interval '1 day', 'YYYYMMDD') FROM generate_series(1, 7) AS n"
    )
    assert partitions(own, "event") == [day for (day,) in days]


def test_events_of_tomorrow_go_to_tomorrows_partition(own: DirectQueue) -> None:
    own.call("maintain_tables")
    own.submit()
    own.connection.execute(
        "INSERT INTO fetchwork.event (at, event_type, cluster_id, proc_id) VALUES (now() + interval '1 day', 28, 1, 0)"
    )
    assert own.rows("SELECT count(*) FROM fetchwork.event_default") == [(1,)]


def test_what_is_past_its_time_is_dropped_and_readers_are_told(own: DirectQueue) -> None:
    own.connection.execute(
        "SELECT fetchwork.ensure_partition('event', date_trunc('day', now(), 'UTC') - interval '100 days', date_trunc('day', now(), 'UTC') - interval '99 days', 'old')"
    )
    insert = "INSERT INTO fetchwork.event (at, event_type, cluster_id, proc_id) VALUES (now() - %s * interval '1 day', 28, 1, 0) RETURNING event_id"
    own.rows(insert, 99.5)
    gone = own.rows(insert, 95)[0][0]  # in the default partition
    kept = own.rows(insert, 5)[0][0]
    own.call("sequence_events")
    own.call("maintain_tables")
    assert "old" not in partitions(own, "event")
    assert own.rows("SELECT event_id FROM fetchwork.event") == [(kept,)]
    assert own.rows("SELECT EventId FROM fetchwork.events_kept") == [(gone,)]


def test_a_setting_in_days_may_have_a_fraction(own: DirectQueue) -> None:
    """Rounded, it would drop rows that must stay: 0.4 days everything before today."""
    insert = "INSERT INTO fetchwork.event (at, event_type, cluster_id, proc_id) VALUES (date_trunc('day', now(), 'UTC') - %s * interval '1 day', 28, 1, 0) RETURNING event_id"
    own.rows(insert, 0.5)
    kept = own.rows(insert, 0.3)[0][0]
    own.set("event_days", 0.4)
    own.call("maintain_tables")
    assert own.rows("SELECT event_id FROM fetchwork.event") == [(kept,)]


@pytest.mark.parametrize("name", ["event_days", "host_lease", "max_lost"])
@pytest.mark.parametrize("value", [-1, 1e16, float("nan")])
def test_a_setting_that_makes_no_sense_is_refused(queue: DirectQueue, name: str, value: float) -> None:
    before = queue.scalar("setting_value", name=name)
    with pytest.raises(psycopg.Error, match=rf"setting '{name}' is .*; allowed: 0 to ") as caught:
        queue.set(name, value)
    assert caught.value.sqlstate == "FWINV"
    assert queue.scalar("setting_value", name=name) == before


def test_histories_are_kept_as_long_as_the_setting_says(own: DirectQueue) -> None:
    job, recent = own.submit_many([{}]) + own.submit_many([{}])
    for _ in range(2):
        own.finish(own.started())
    own.connection.execute(
        "UPDATE fetchwork.job_history SET completed_at = now() - interval '400 days' WHERE cluster_id = 1"
    )
    own.connection.execute(
        "UPDATE fetchwork.run_history SET ended_at = now() - interval '400 days' WHERE cluster_id = 1"
    )
    own.connection.execute(
        "UPDATE fetchwork.cluster SET submitted_at = now() - interval '400 days' WHERE cluster_id = 1"
    )
    own.call("maintain_tables")
    assert (own.status(job), own.status(recent)) == (None, 4)
    assert own.rows("SELECT JobId FROM fetchwork.runs") == [(recent,)]
    assert own.rows("SELECT cluster_id FROM fetchwork.cluster") == [(2,)]


def test_a_table_that_someone_reads_for_long_holds_nobody_up(own: DirectQueue, connect: Connect) -> None:
    dump = connect(autocommit=False)
    dump.execute("SELECT count(*) FROM fetchwork.event")
    own.call("maintain_tables")
    assert partitions(own, "event") == []
    assert len(partitions(own, "run_history")) == 2
    own.submit()
    dump.rollback()
    own.call("maintain_tables")
    assert len(partitions(own, "event")) == 7


def test_slots_that_are_gone_leave_the_view(queue: DirectQueue) -> None:
    hour = 3600.0
    names = {
        "slot1@h1": ("Partitionable", 0.0),
        "slot2@h1": ("Static", 3 * 24 * hour),
        # a schedd's job of a day keeps a slot from fetching
        "slot3@h1": ("Static", 24 * hour),
        "slot1_1@h1": ("Dynamic", 2 * hour),
        "slot1_2@h1": ("Dynamic", 0.5 * hour),
        "slot1_3@h1": ("Dynamic", 24 * hour),
    }
    queue.submit()
    queue.started(slot="slot1_3@h1")
    now = queue.value("SELECT extract(epoch FROM now())::float8")
    slots = [
        {"name": name, "slot_type": slot_type, "fetched_at": now - age}
        for name, (slot_type, age) in names.items()
    ]
    queue.value("SELECT fetchwork.report_slots(%s, %s)", queue.host(), Jsonb(slots))
    queue.call("maintain_tables")
    left = {name for (name,) in queue.rows("SELECT name FROM fetchwork.slots")}
    # slot1_3 has not asked for long because a fetched job runs there
    assert left == {"slot1@h1", "slot3@h1", "slot1_2@h1", "slot1_3@h1"}


def test_one_agent_leads_until_it_is_silent(queue: DirectQueue) -> None:
    one, two = "0" * 31 + "1", "0" * 31 + "2"
    queue.submit_many([{}])
    (done,) = queue.call("lead", agent_id=one, lead_s=5)
    assert done["leads"] and done["folded"] > 0
    assert queue.call("lead", agent_id=two, lead_s=5) == [
        {"leads": False, "reaped": 0, "woken": 0, "folded": 0, "rests": True}
    ]
    assert queue.call("lead", agent_id=one, lead_s=5)[0]["leads"]
    # it was silent long enough for the other agent to lead, and has lost the lead
    assert queue.call("lead", agent_id=two, lead_s=0)[0]["leads"]
    assert not queue.call("lead", agent_id=one, lead_s=5)[0]["leads"]


def test_nobody_waits_for_a_leader_that_is_at_work(queue: DirectQueue) -> None:
    one, two = "0" * 31 + "1", "0" * 31 + "2"
    slow = queue.another(autocommit=False)
    assert slow.call("lead", agent_id=one, lead_s=5)[0]["leads"]
    with queue.within(2.0):
        assert not queue.call("lead", agent_id=two, lead_s=5)[0]["leads"]
    slow.connection.rollback()
    assert queue.call("lead", agent_id=two, lead_s=5)[0]["leads"]
