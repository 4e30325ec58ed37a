"""candidates and claim: the choice of a slot's job, rules that exclude a slot, several claimers at once."""

from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import DirectQueue
from tests.support.there import there


def drain(queue: DirectQueue, slots: int = 20) -> list[str]:
    """The jobs that slots get one after the other, until none is left."""
    got: list[Any] = []
    for n in range(slots):
        run = queue.claim(f"slot{n}@h1")
        if run is None:
            return got
        got.append(run.job)
    raise AssertionError("no end of jobs")


def test_jobs_of_an_autocluster_are_claimed_in_the_order_of_their_arrival(queue: DirectQueue) -> None:
    jobs = queue.submit_many([{} for _ in range(4)])
    assert drain(queue) == jobs


def test_a_claim_answers_with_all_that_the_starter_needs(queue: DirectQueue) -> None:
    queue.submit_many([{"Args": "x"}], {"Cmd": "/bin/true", "Owner": "alice", "Environment": "A=1"})
    run = there(queue.claim("slot1@h1", offer_s=60, lease_s=1800, weight=2))
    assert run.ad == {"Cmd": "/bin/true", "Owner": "alice", "Environment": "A=1", "Args": "x"}
    assert queue.status(run.job) == 1
    assert queue.rows("SELECT state, RemoteHost, owner FROM fetchwork.runs") == [
        ("reserved", "slot1@h1", "alice")
    ]
    assert queue.value("SELECT weight FROM fetchwork.run") == 2
    left = queue.value("SELECT extract(epoch FROM deadline - now())::float FROM fetchwork.run")
    assert 50 < left <= 60


def test_the_caller_says_which_autocluster_goes_first(queue: DirectQueue) -> None:
    small, large = queue.submit_many([{"RequestCpus": 1}, {"RequestCpus": 4}])
    autoclusters = [queue.column("autocluster_id", job) for job in (large, small)]
    host_id = queue.host()
    rows = queue.call(
        "claim",
        host_id=host_id,
        slot="s",
        autoclusters=autoclusters,
        prios=[0, 0],
        hints=[0, 0],
    )
    assert (rows[0]["cluster_id"], rows[0]["proc_id"]) == (1, 1)


def test_a_hint_steps_over_what_lies_before_it(queue: DirectQueue) -> None:
    first, second, third = queue.submit_many([{}, {}, {}])
    run = there(queue.claim())
    later = queue.claim("slot2@h1", hint=run.position)
    assert later is not None
    assert (run.job, later.job) == (first, second)
    assert later.position > run.position
    assert queue.claim("slot3@h1", hint=later.position + 100) is None
    # a claimer that began at a hint must not report that nothing is left
    assert drain(queue) == [third]


def test_nothing_is_offered_where_nothing_waits(queue: DirectQueue) -> None:
    assert queue.claim() is None
    queue.submit()
    assert queue.claim() is not None
    # the first claimer that finds nothing deletes the row
    assert queue.candidates(queue.host())
    assert queue.claim("slot5@h1") is None
    assert queue.candidates(queue.host()) == []


def test_each_priority_is_a_demand_of_its_own(queue: DirectQueue) -> None:
    queue.submit_many([{"JobPrio": 0}, {"JobPrio": 5}])
    assert sorted(autocluster["job_prio"] for autocluster in queue.candidates(queue.host())) == [0, 5]


@pytest.mark.parametrize(
    ("ad", "slot", "fits"),
    [
        ({"RequestCpus": 4}, {"cpus": 4.0}, True),
        ({"RequestCpus": 4}, {"cpus": 3.0}, False),
        ({"RequestMemory": 100}, {"memory_mib": 99.0}, False),
        ({"RequestDisk": 100}, {"disk_kib": 99.0}, False),
        ({"RequestDisk": "/Expr(DiskUsage)/", "DiskUsage": 100}, {"disk_kib": 99.0}, False),
        ({"RequestGPUs": 1}, {"gpus": 0.0}, False),
        ({"RequestGPUs": 1}, {"gpus": 1.0}, True),
        ({"RequestMemory": "/Expr(TARGET.Memory)/"}, {"memory_mib": 1.0}, True),
        ({"RequestCpus": 4}, {}, True),
    ],
)
def test_what_does_not_fit_by_the_numbers_is_no_candidate(
    queue: DirectQueue, ad: dict[str, object], slot: dict[str, float], fits: bool
) -> None:
    queue.submit(ad)
    assert bool(queue.candidates(queue.host(), **slot)) is fits  # type: ignore[arg-type]


def test_a_slot_is_offered_the_queues_that_it_draws_from(queue: DirectQueue) -> None:
    queue.call("set_queue", name="gpu", changes={})
    queue.submit(FetchWorkQueue="gpu")
    host_id = queue.host()
    assert queue.candidates(host_id) == []
    assert len(queue.candidates(host_id, queues=["default", "gpu"])) == 1


def test_a_paused_queue_offers_nothing_until_it_goes_on(queue: DirectQueue) -> None:
    queue.submit()
    queue.call("set_queue", name="default", changes={"paused": True})
    assert queue.candidates(queue.host()) == []
    queue.call("set_queue", name="default", changes={"paused": False})
    assert len(queue.candidates(queue.host())) == 1


def test_two_claimers_at_once_get_two_jobs_and_neither_waits(queue: DirectQueue) -> None:
    first, second = queue.submit_many([{}, {}])
    host_id = queue.host()
    slow, quick = queue.another(autocommit=False), queue.another()
    slow_run = slow.claim("slot1@h1", host_id=host_id)
    quick_run = quick.claim("slot2@h1", host_id=host_id)
    assert slow_run is not None
    assert quick_run is not None
    assert (slow_run.job, quick_run.job) == (first, second)
    # the slow transaction is rolled back: its job is available again
    slow.connection.rollback()
    assert drain(queue) == [first]


def test_a_job_that_another_claim_holds_keeps_its_demand(queue: DirectQueue) -> None:
    queue.submit()
    host_id = queue.host()
    slow = queue.another(autocommit=False)
    assert slow.claim("slot1@h1", host_id=host_id) is not None
    assert queue.claim("slot2@h1") is None
    slow.connection.rollback()
    assert len(queue.candidates(host_id)) == 1


# The race of functions/matching/ensure_demand.sql, in both orders: a job is submitted to an autocluster that
# is just being found empty.


def test_a_submitter_that_came_first_keeps_the_claimer_from_taking_the_demand_back(
    queue: DirectQueue,
) -> None:
    queue.submit()
    assert queue.claim() is not None
    submitter, claimer = queue.another(autocommit=False), queue.another()
    submitter.submit()  # 1. not committed: its row of demand is held
    assert claimer.claim("slot2@h1") is None  # 2. finds nothing
    submitter.connection.commit()  # 3.
    assert queue.claim("slot3@h1") is not None


def test_a_submitter_that_meets_a_claimer_taking_the_demand_back_says_it_anew(queue: DirectQueue) -> None:
    queue.submit()
    assert queue.claim() is not None
    submitter, claimer = queue.another(), queue.another(autocommit=False)
    host_id = queue.host()
    assert claimer.claim("slot2@h1", host_id=host_id) is None  # 1. finds nothing, deletes, not committed
    submitter.submit()  # 2. does not wait
    claimer.connection.commit()  # 3.
    assert queue.claim("slot3@h1") is not None


def test_two_submitters_at_once_leave_one_candidate(queue: DirectQueue) -> None:
    queue.submit()
    assert drain(queue) == ["1.0"]
    assert queue.claim("slot8@h1") is None
    one, two = queue.another(autocommit=False), queue.another(autocommit=False)
    one.submit()
    two.submit()
    one.connection.commit()
    two.connection.commit()
    assert len(queue.candidates(queue.host())) == 1
    assert len(drain(queue)) == 2
    assert queue.claim("slot9@h1") is None
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == 0


# Limits


def test_a_concurrency_limit_counts_amounts_over_autoclusters(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="LIC", maximum=4)
    queue.submit_many(
        [
            {"ConcurrencyLimits": "lic:3"},
            {"ConcurrencyLimits": "Lic, other:100"},
            {"ConcurrencyLimits": "LIC"},
            {},
        ]
    )
    assert sorted(drain(queue)) == ["1.0", "1.1", "1.3"]
    assert queue.rows("SELECT Name, Maximum, used FROM fetchwork.limits") == [("lic", 4, 4)]


def test_a_place_under_a_limit_is_free_again_when_its_run_ends(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="lic", maximum=1)
    queue.submit_many([{}, {}], {"Cmd": "/bin/true", "Owner": "alice", "ConcurrencyLimits": "lic"})
    run = queue.started()
    assert queue.claim("slot2@h1") is None
    queue.finish(run)
    assert queue.claim("slot2@h1") is not None


def test_a_queue_and_a_submitter_run_no_more_than_their_maximum(queue: DirectQueue) -> None:
    queue.submit_many([{"Owner": owner} for owner in ("alice", "alice", "alice", "bob", "bob")])
    queue.call("set_submitter", name="alice", changes={"max_running": 1})
    queue.call("set_queue", name="default", changes={"max_running": 2})
    assert sorted(drain(queue)) == ["1.0", "1.3"]
    queue.call("set_queue", name="default", changes={"max_running": None})
    assert drain(queue, 30)[-1:] == ["1.4"]
    queue.call("set_submitter", name="alice", changes={"max_running": None})
    assert drain(queue, 40) == ["1.1", "1.2"]


def test_the_last_place_under_a_limit_goes_to_one_of_two_claimers(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="lic", maximum=1)
    queue.submit_many([{"ConcurrencyLimits": "lic", "RequestCpus": n} for n in (1, 2)])
    host_id = queue.host()
    first, second = queue.another(autocommit=False), queue.another()
    assert first.claim("slot1@h1", host_id=host_id) is not None  # 1. not committed
    with pytest.raises(psycopg.errors.QueryCanceled), second.within(0.3):
        second.claim("slot2@h1", host_id=host_id)  # 2. waits to know what it must count
    first.connection.commit()  # 3.
    assert second.claim("slot2@h1", host_id=host_id) is None


# The slot that asks is free


def test_a_slot_that_claims_has_lost_what_it_ran(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}])
    run = queue.started()
    assert queue.claim() is not None
    assert queue.outcome(run) == "lost"
    assert (
        queue.value("SELECT reason FROM fetchwork.runs WHERE RunId = %s", run.run_id)
        == "slot slot1@h1 asked for new work"
    )


def test_a_partitionable_slot_that_claims_again_keeps_what_it_took(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}])
    run = there(queue.claim())
    queue.of(run, "accept")
    assert queue.claim(exclusive=False) is not None
    assert queue.outcome(run) is None


def test_an_offer_whose_answer_is_not_known_yet_is_left_alone(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}])
    run = there(queue.claim())
    assert queue.claim() is not None
    assert queue.outcome(run) is None


def test_a_run_begins_after_the_end_of_the_one_before_whatever_transaction_claims_it(
    queue: DirectQueue,
) -> None:
    queue.submit()
    first = queue.started()
    later = queue.another(autocommit=False)
    later.value("SELECT now()")  # its transaction has begun
    queue.of(first, "starter_gone")
    queue.connection.execute("UPDATE fetchwork.setting SET value = 0 WHERE name = 'retry_delay'")
    assert later.claim("slot2@h1") is not None
    later.connection.commit()
    ended = "SELECT max(ended_at) FROM fetchwork.run_history"
    assert queue.value("SELECT claimed_at FROM fetchwork.run") >= queue.value(ended)
