"""claim_many: many slots in one call, each with its own run, and jobs that may not be claimed after all."""

import itertools
import json
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.conftest import Connect
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S


def claim(
    queue: DirectQueue,
    slots: list[str | None],
    pairs: list[tuple[int, int]],
    *,
    hints: list[int] | None = None,
    choices: list[list[int]] | None = None,
    **slot: Any,
) -> list[dict[str, Any]]:
    """Claim for each slot from these (autocluster, priority) pairs, or from those of its own choices."""
    wanted = [
        {
            "slot": name,
            "exclusive": True,
            "weights": 1,
            "choices": choices[n] if choices else list(range(1, len(pairs) + 1)),
            **slot,
        }
        for n, name in enumerate(slots)
    ]
    return queue.call(
        "claim_many",
        host_id=queue.host(),
        autoclusters=[number for number, _ in pairs],
        prios=[prio for _, prio in pairs],
        hints=hints or [0] * len(pairs),
        slots=Jsonb(wanted),
    )


def pairs(queue: DirectQueue) -> list[tuple[int, int]]:
    """All that waits, oldest autocluster first."""
    rows = queue.rows("SELECT DISTINCT autocluster_id, job_prio FROM fetchwork.waiting ORDER BY 1, 2")
    return [(number, prio) for number, prio in rows]


def names(count: int) -> list[str | None]:
    return [f"slot{n}@h1" for n in range(1, count + 1)]


def jobs(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['cluster_id']}.{row['proc_id']}" for row in rows]


def test_each_slot_gets_a_run_and_a_token_of_its_own(queue: DirectQueue) -> None:
    submitted = queue.submit_many([{} for _ in range(5)])
    rows = claim(queue, names(4), pairs(queue))
    assert jobs(rows) == submitted[:4]
    assert [row["slot_number"] for row in rows] == [1, 2, 3, 4]
    assert len({row["token"] for row in rows}) == 4
    assert queue.rows("SELECT slot, state::text FROM fetchwork.run ORDER BY run_id") == [
        (name, "reserved") for name in names(4)
    ]


def test_each_slot_has_its_own_order_of_choices(queue: DirectQueue) -> None:
    small, large = queue.submit_many([{"RequestCpus": 1}, {"RequestCpus": 4}])
    rows = claim(queue, names(2), pairs(queue), choices=[[2, 1], [2, 1]])
    assert [(job, row["choice"]) for job, row in zip(jobs(rows), rows, strict=True)] == [
        (large, 2),
        (small, 1),
    ]


def test_more_slots_than_jobs_leave_the_last_ones_without(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}])
    rows = claim(queue, names(4), pairs(queue))
    assert [row["slot_number"] for row in rows] == [1, 2]
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == 0


def test_demand_is_not_ended_by_a_call_that_began_at_a_hint(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}])
    first = queue.value("SELECT min(position) FROM fetchwork.waiting")
    assert len(claim(queue, names(3), pairs(queue), hints=[first])) == 1
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == 1


def test_slot_whose_claim_fails_fails_alone(queue: DirectQueue) -> None:
    submitted = queue.submit_many([{} for _ in range(4)])
    rows = claim(queue, ["slot1@h1", None, "slot3@h1"], pairs(queue))
    assert "null value" in rows[1]["problem"]
    assert (rows[1]["slot_number"], rows[1]["run_id"]) == (2, None)
    assert rows[1]["position"] == rows[0]["position"] + 1
    # its job waits on, and no other slot is affected
    assert jobs([rows[0], rows[2]]) == [submitted[0], submitted[2]]
    assert queue.value("SELECT count(*) FROM fetchwork.waiting") == 2


def test_slots_that_want_the_same_are_served_in_their_order_and_the_rest_by_their_next_choices(
    queue: DirectQueue,
) -> None:
    small = queue.submit_many([{"RequestCpus": 1}] * 2)
    large = queue.submit_many([{"RequestCpus": 4}] * 2)
    rows = claim(queue, names(5), pairs(queue), choices=[[2, 1]] * 5, weights=[0.5, 2])
    assert [(job, row["choice"], row["slot_number"]) for job, row in zip(jobs(rows), rows, strict=True)] == [
        (large[0], 2, 1),
        (large[1], 2, 2),
        (small[0], 1, 3),
        (small[1], 1, 4),
    ]
    assert queue.rows("SELECT slot, weight FROM fetchwork.run ORDER BY run_id") == [
        (name, weight) for name, weight in zip(names(4), (0.5, 0.5, 2, 2), strict=True)
    ]
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == 0


def test_slots_claim_with_one_that_had_begun_a_run(queue: DirectQueue) -> None:
    submitted = queue.submit_many([{}] * 4)
    (first,) = claim(queue, names(1), pairs(queue))
    queue.connection.execute("UPDATE fetchwork.run SET claimed_at = now() - interval '1 h'")
    rows = claim(queue, names(3), pairs(queue))
    # its offer was lost, and no other slot claims the job in this call
    assert jobs(rows) == submitted[1:]
    assert queue.rows("SELECT run_id FROM fetchwork.run WHERE run_id = %s", first["run_id"]) == []


def test_half_of_a_batch_refused_leaves_the_other_half_whole(queue: DirectQueue) -> None:
    submitted = queue.submit_many([{} for _ in range(8)])
    # jobs that have a run already, which no function would leave in the queue
    queue.connection.execute(
        "INSERT INTO fetchwork.run (cluster_id, proc_id, autocluster_id, host_id, slot, lease, deadline)"
        " SELECT cluster_id, proc_id, autocluster_id, 0, 'nowhere', '1 h', now() + '1 h'"
        " FROM fetchwork.waiting WHERE proc_id % 2 = 0"
    )
    rows = claim(queue, names(8), pairs(queue))
    assert sorted(jobs([row for row in rows if row["problem"] is None])) == submitted[1::2]
    assert sum(row["problem"] is not None for row in rows) == 4
    queue.connection.execute("DELETE FROM fetchwork.run WHERE slot = 'nowhere'")


def test_row_that_another_transaction_holds_is_passed_over(queue: DirectQueue) -> None:
    submitted = queue.submit_many([{}, {}, {}])
    holder = queue.another(autocommit=False)
    holder.connection.execute("SELECT FROM fetchwork.waiting WHERE proc_id = 0 FOR UPDATE")
    with queue.within(5.0):
        rows = claim(queue, names(3), pairs(queue))
    assert jobs(rows) == submitted[1:]
    # another transaction holds the rows, so the autocluster does not count as empty
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == 1


def test_limit_holds_for_the_slots_of_one_call(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="lic", maximum=2)
    queue.submit_many([{"ConcurrencyLimits": "lic"} for _ in range(5)])
    assert len(claim(queue, names(5), pairs(queue))) == 2


def test_maximum_that_was_set_after_the_demand_was_read_holds(queue: DirectQueue) -> None:
    queue.submit_many([{} for _ in range(5)])
    known = pairs(queue)
    queue.scalar("set_submitter", name="alice", changes={"max_running": 3})
    assert len(claim(queue, names(5), known)) == 3


def test_queue_that_was_paused_after_the_demand_was_read_gives_nothing(queue: DirectQueue) -> None:
    queue.submit_many([{} for _ in range(2)])
    known = pairs(queue)
    queue.scalar("set_queue", name="default", changes={"paused": True})
    assert claim(queue, names(2), known) == []


def test_limits_that_another_claim_counts_hold_up_nothing_else(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="lic", maximum=5)
    queue.submit_many([*({"ConcurrencyLimits": "lic"} for _ in range(4)), {}, {}])
    holder = queue.another(autocommit=False)
    holder.connection.execute("SELECT fetchwork.lock_limits()")
    with queue.within(10.0):
        rows = claim(queue, names(4), pairs(queue))
    # one wait of a second for all slots, then jobs without a limit
    assert [("ConcurrencyLimits" in row["ad"]) for row in rows] == [False, False]


def test_black_hole_gets_one_probe_when_it_is_due(queue: DirectQueue) -> None:
    queue.submit_many([{} for _ in range(4)])
    host_id = queue.host()
    change = "UPDATE fetchwork.host SET black_hole_since = now(), newcomer_probe_at = now() + %s::interval WHERE host_id = %s"
    queue.connection.execute(change, ["1 min", host_id])
    assert claim(queue, names(3), pairs(queue)) == []
    queue.connection.execute(change, ["-1 s", host_id])
    assert len(claim(queue, names(3), pairs(queue))) == 1
    assert claim(queue, ["slot9@h1"], pairs(queue)) == []


def test_what_an_undivided_slot_ran_before_is_over(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}, {}])
    before = queue.started("slot1@h1")
    rows = claim(queue, ["slot1@h1", "slot2@h1"], pairs(queue))
    assert len(rows) == 2
    assert queue.outcome(before) == "lost"
    # unlike a partitionable one
    queue.submit_many([{}])
    assert len(claim(queue, ["slot2@h1"], pairs(queue), exclusive=False)) == 1
    assert queue.value("SELECT count(*) FROM fetchwork.run WHERE slot = 'slot2@h1'") == 2


def test_weights_are_of_the_choice_that_was_got(queue: DirectQueue) -> None:
    queue.submit_many([{"RequestCpus": 1}, {"RequestCpus": 4}])
    claim(queue, names(1), pairs(queue), choices=[[2, 1]], weights=[4.0, 1.0])
    claim(queue, ["slot2@h1"], pairs(queue), weights=[1.5])
    assert queue.rows("SELECT weight FROM fetchwork.run ORDER BY run_id") == [(4.0,), (1.5,)]


def test_autocluster_that_was_forgotten_is_passed_over(queue: DirectQueue) -> None:
    queue.submit_many([{}])
    (known,) = pairs(queue)
    rows = claim(queue, names(1), [(999_999, 0), known])
    assert [row["choice"] for row in rows] == [2]


_words = itertools.count()


class Heard(DirectQueue):
    """A session in a new database, and the notifications that all sessions there send."""

    def __init__(self, connection: psycopg.Connection, listener: psycopg.Connection) -> None:
        super().__init__(connection)
        listener.execute("LISTEN fetchwork_work")
        self._listener = listener

    def notes(self) -> list[str]:
        """The notifications since the last call; this session's own one follows all that it caused."""
        last = f"that was all {next(_words)}"
        self.connection.execute("SELECT pg_notify('fetchwork_work', %s)", [last])
        told: list[str] = []
        for note in self._listener.notifies(timeout=PATIENCE_S):
            if note.payload == last:
                return told
            told.append(note.payload)
        raise AssertionError(f"waited in vain for the end of {told}")


@pytest.fixture
def heard(connect: Connect) -> Heard:
    return Heard(connect(), connect())


def test_news_says_what_came_and_what_was_taken(heard: Heard) -> None:
    heard.submit_many([{"RequestCpus": 2, "RequestMemory": 100} for _ in range(3)])
    (pair,) = pairs(heard)
    number = pair[0]
    assert heard.notes() == [f'["+", {number}, 0, 3, "default", 2, 100, null, null]']
    claim(heard, names(2), [pair])
    assert heard.notes() == []
    claim(heard, ["slot3@h1"], [pair])
    assert heard.notes() == [f'["~", {number}, 0]']
    claim(heard, ["slot3@h1"], [pair])
    assert heard.notes() == [f'["-", {number}, 0]']


@pytest.mark.parametrize("end", ["-", "~"])
def test_what_waits_again_in_one_transaction_is_the_last_that_is_told(heard: Heard, end: str) -> None:
    """PostgreSQL sends equal notifications of a transaction once, in the place of the first."""
    heard.submit_many([{}])
    ((number, _),) = pairs(heard)
    (came,) = heard.notes()
    with heard.connection.transaction():
        for what in ("+", end, "+", end, "+"):
            heard.connection.execute("SELECT fetchwork.tell_demand(%s, %s, 0, 1)", [what, number])
    told = heard.notes()
    assert json.loads(told[-1]) == json.loads(came)
    assert json.loads(told[1]) == [end, number, 0]


def test_release_of_a_job_whose_time_has_come_is_told(heard: Heard) -> None:
    (job,) = heard.submit_many([{"DeferralTime": 1000, "JobStatus": 5}])
    heard.notes()
    heard.act("release", job)
    assert heard.value("SELECT count(*) FROM fetchwork.waiting") == 1
    assert json.loads(heard.notes()[-1])[0] == "+"


def test_transaction_with_many_autoclusters_is_no_flood(heard: Heard) -> None:
    heard.submit_many([{"RequestMemory": n} for n in range(1, 501)])
    told = heard.notes()
    assert len(told) == 65
    assert told.count("") == 1
    assert max(map(len, told)) < 200
    # the next transaction notifies again
    heard.submit_many([{}])
    assert len(heard.notes()) == 1
