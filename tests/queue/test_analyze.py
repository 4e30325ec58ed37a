"""The reason why a job does not run, and a slot's next job: on slots whose ads real startds have written."""

import json
import re
from collections.abc import Iterator

import pytest

from fetchwork.db.calls import matching
from fetchwork.errors import NotFound
from fetchwork.explain.job import Analysis, analyze
from fetchwork.explain.slot import match
from tests.matchmaker.hostile import HOSTILE
from tests.queue.conftest import Queue, Run
from tests.support.direct_queue import DirectQueue
from tests.support.sessions import session_of
from tests.support.told_hosts import Hosts


@pytest.fixture
def hosts(slots: DirectQueue) -> Hosts:
    return Hosts(slots)


def look(queue: Queue, job: str) -> Analysis:
    cluster, _, proc = job.partition(".")
    return analyze(session_of(queue), int(cluster), int(proc))


# ---- q --better-analyze


def test_each_clause_is_counted_on_the_slots(queue: Queue, hosts: Hosts) -> None:
    for number in range(3):
        hosts.tell(f"slot{number}@h1", OpSysAndVer="Debian12" if number else "Debian13")
    requirements = (
        '/Expr(TARGET.Memory >= 1024 && TARGET.OpSysAndVer == "Debian13" && TARGET.HasIce =?= true)/'
    )
    found = look(queue, queue.direct.submit(Requirements=requirements))
    assert [(one.text, one.true, one.false, one.undefined) for one in found.clauses] == [
        ("TARGET.Memory >= 1024", 3, 0, 0),
        ('TARGET.OpSysAndVer == "Debian13"', 1, 2, 0),
        ("TARGET.HasIce is true", 0, 3, 0),
    ]
    assert found.clauses[2].unknown == ["HasIce"]
    assert found.verdicts == {"job_refuses": 3}
    assert found.reasons == [
        "No slot can run it now: of 3 slots, 3 rejected by the job's Requirements.",
        "No slot has the attribute HasIce, which 'TARGET.HasIce is true' refers to.",
    ]


def test_a_policy_that_no_process_evaluates_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    plain, job = queue.direct.submit(), queue.direct.submit(PeriodicHold="/Expr(false)/")
    rests = "Its policy (periodic_remove, ...) rests: no access point"
    assert not any(reason.startswith(rests) for reason in look(queue, plain).reasons)
    assert any(reason.startswith(rests) for reason in look(queue, job).reasons)
    queue.direct.scalar("take_leader_task", name="policy", every_s=60)
    assert not any(reason.startswith(rests) for reason in look(queue, job).reasons)


def test_resource_that_is_short_is_named(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    hosts.tell("slot2@h1")
    found = look(queue, queue.direct.submit(RequestMemory=2048))
    assert found.verdicts == {"resources": 2}
    assert found.resources == {"memory": 2}
    assert found.reasons[-1] == "Too little memory: 2 slots."


def test_start_of_a_slot_is_looked_into(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1", Start='/Expr(MY.Cpus > 0 && TARGET.Owner == "bob")/')
    hosts.tell("slot2@h1", Start='/Expr(TARGET.Project == "ice")/')
    found = look(queue, queue.direct.submit())
    assert found.verdicts == {"slot_refuses": 2}
    assert [(one.text, one.examples) for one in found.refusals] == [
        ('Start: TARGET.Owner == "bob" is false', ["slot1@h1"]),
        ('Start: TARGET.Project == "ice" is undefined', ["slot2@h1"]),
    ]


def test_partitionable_slot_that_is_full_is_busy_and_not_too_small(queue: Queue, hosts: Hosts) -> None:
    file = "23.9.6-fetch_work-pslot-with-dslots.ad"
    hosts.tell("slot1@h1", ad=file)
    hosts.tell("slot1@h2", ad=file, Cpus=0)
    hosts.tell("slot1@h3", ad=file, TotalSlotCpus=2, Cpus=1)
    found = look(queue, queue.direct.submit(RequestCpus=3))
    assert found.verdicts == {"resources": 1, "busy": 1, "free": 1}


def test_slot_that_runs_something_is_busy(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    first = queue.direct.submit()
    assert queue.direct.claim().job == first
    found = look(queue, queue.direct.submit())
    assert found.verdicts == {"busy": 1}
    assert "Every matching slot is busy (1 slot)." in found.reasons


def test_slot_of_another_queue_is_not_looked_at(queue: Queue, hosts: Hosts) -> None:
    queue.direct.scalar("set_queue", name="night")
    hosts.tell("slot1@h1", queues=("night", "weekend"))
    found = look(queue, queue.direct.submit())
    assert found.verdicts == {"other_queue": 1}
    assert found.reasons == ['No slot draws from queue "default" (1 slot known).']
    assert found.clauses == []


def test_slot_that_asks_no_more_is_not_expected_to(queue: Queue, slots: DirectQueue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    slots.connection.execute("UPDATE fetchwork.slot SET last_fetch_at = last_fetch_at - interval '20 min'")
    found = look(queue, slots.submit())
    assert found.verdicts == {"quiet": 1}
    assert "or START false" in found.reasons[0]


def test_silent_agent_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    queue.direct.connection.execute("UPDATE fetchwork.host SET lease_until = now() - interval '1 minute'")
    found = look(queue, queue.direct.submit())
    assert found.reasons == ['No agent of a slot that draws from queue "default" is alive (1 slot).']


def test_no_slot_and_no_agent_at_all_is_told(queue: Queue) -> None:
    found = look(queue, queue.direct.submit())
    assert found.reasons == [
        "No slot has asked for work yet, and no agent is alive: run 'fetchwork doctor' on a host to see why."
    ]


def test_held_job_tells_its_reason(queue: Queue) -> None:
    job = queue.direct.submit()
    queue.direct.act("hold", job, reason="until Monday")
    assert look(queue, job).reasons[0].startswith("It is held: until Monday")


def test_job_that_has_ended_and_stays_in_the_queue_is_told(queue: Queue) -> None:
    job = queue.direct.submit({"LeaveJobInQueue": "/Expr(JobStatus == 4)/"})
    queue.direct.scalar("take_leader_task", name="policy", every_s=60)
    queue.direct.finish(queue.direct.started())
    assert look(queue, job).reasons == ["It has ended, and its leave_in_queue keeps it in the queue."]


def test_paused_queue_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    job = queue.direct.submit()
    queue.direct.scalar("set_queue", name="default", changes={"paused": True})
    assert look(queue, job).reasons[0] == 'Queue "default" is paused.'


def test_concurrency_limit_that_is_reached_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    queue.direct.scalar("set_limit", name="licence", maximum=2)
    queue.direct.submit(ConcurrencyLimits="licence:2")
    assert queue.direct.claim() is not None
    found = look(queue, queue.direct.submit(ConcurrencyLimits="licence:2"))
    assert found.reasons[0] == 'Concurrency limit "licence" is reached: 2 of 2 in use, a job takes 2.'


def test_limit_on_starts_is_told_with_the_time_of_the_next(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    queue.direct.scalar("set_starts", scope="queue", name="default", starts=1, seconds=3600)
    queue.direct.submit()
    assert queue.direct.claim() is not None
    reason = look(queue, queue.direct.submit()).reasons[0]
    assert re.fullmatch(
        r'Queue "default" allows 1 starts in 3600 s: the next in 3(600|5\d\d)\.\d s\.', reason
    )


def test_maximum_of_a_submitter_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    queue.direct.submit()
    queue.direct.scalar("set_submitter", name="alice", changes={"max_running": 1})
    assert queue.direct.claim() is not None
    assert (
        look(queue, queue.direct.submit()).reasons[0]
        == 'Submitter "alice" has its maximum of 1 jobs running.'
    )


def test_rest_after_refusals_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    job = queue.direct.submit()
    run = queue.direct.claim()
    queue.direct.of(run, "reject")  # type: ignore[arg-type]
    found = look(queue, job)
    assert found.verdicts == {"resting": 1}
    assert found.refusals[0].text.startswith("refused 1 times, backs off for ")


def test_black_hole_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    queue.direct.connection.execute(
        "UPDATE fetchwork.host SET black_hole_since = now(), next_probe_at = now() + interval '1 minute',"
        " bad_reason = 'jobs die at once'"
    )
    found = look(queue, queue.direct.submit())
    assert found.verdicts == {"black_hole": 1}
    assert found.refusals[0].text == "h1: jobs die at once"


def test_job_that_waits_for_its_next_try_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    job = queue.direct.submit()
    queue.direct.connection.execute("UPDATE fetchwork.job SET not_before = now() + interval '1 hour'")
    assert re.match(r"It is not tried again for \d+ s", look(queue, job).reasons[0])


def test_job_that_waits_for_its_time_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    job = queue.direct.submit(DeferralTime=4102444800)
    reason = look(queue, job).reasons[0]
    assert reason.startswith("It is to start at 2100-01-01 00:00:00 UTC, and is offered in ")


def test_who_is_ahead_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    queue.direct.scalar("set_submitter", name="bob", changes={"prio_factor": 1})
    queue.direct.submit(Owner="bob")
    queue.direct.submit(JobPrio=5)
    queue.direct.submit(RequestMemory=2)
    queue.direct.submit_many([{"Args": str(n)} for n in range(3)])
    job = queue.direct.submit()
    found = look(queue, job)
    assert [(one.submitter, one.autoclusters_waiting) for one in found.ahead] == [("alice", 1), ("bob", 1)]
    assert "Jobs of its autocluster that come before it: 3." in found.reasons


def test_ad_that_can_not_be_read_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    found = look(queue, queue.direct.submit(Requirements="/Expr(1 1)/"))
    assert "Its ad can't be read" in found.reasons[0]
    assert "'Requirements'" in found.reasons[0]


@pytest.fixture
def eve(conninfo: str, slots: DirectQueue) -> Iterator[Queue]:
    """A queue as a submitter sees it who may act for no other owner."""
    slots.connection.execute("CREATE ROLE eve IN ROLE fetchwork_submitter")
    queue = Queue(conninfo)
    with queue:
        session_of(queue).database.query("SELECT set_config('role', 'eve', false)")
        yield queue
    slots.connection.execute("DROP ROLE eve")


def test_somebody_elses_job_is_not_found(eve: Queue, slots: DirectQueue) -> None:
    job = slots.submit()
    with pytest.raises(NotFound, match=f"job '{job}' is not in the queue, or not yours to see"):
        look(eve, job)


def test_somebody_elses_jobs_are_counted_and_not_shown(eve: Queue, slots: DirectQueue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    slots.submit()
    assert [one.first_job for one in session_of(eve).database.run(matching.waiting_autoclusters())] == [None]
    found = match(session_of(eve), "slot1@h1")
    assert (found.candidates, found.passed_over) == ([], {"unseen": 1})


# ---- match


def test_slot_is_shown_what_it_would_get_in_order_with_the_reason(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    low = queue.direct.submit(JobPrio=-1)
    high = queue.direct.submit(JobPrio=3)
    later = queue.direct.submit(JobPrio=3, Project="b", Requirements='/Expr(MY.Project == "b")/')
    bobs = queue.direct.submit(Owner="bob")
    queue.direct.scalar("set_submitter", name="bob", changes={"prio_factor": 2000})
    found = match(session_of(queue), "slot1@h1")
    assert [(one.job, one.decided_by) for one in found.candidates] == [
        (high, ""),
        (later, "age"),
        (low, "JobPrio"),
        (bobs, "share"),
    ]
    assert found.reasons == []


def test_rank_of_the_slot_decides_first(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1", Rank='/Expr(TARGET.Owner == "bob")/')
    mine, bobs = queue.direct.submit(), queue.direct.submit(Owner="bob")
    found = match(session_of(queue), "slot1@h1")
    assert [(one.job, one.slot_rank) for one in found.candidates] == [(bobs, 1.0), (mine, 0.0)]
    assert found.candidates[1].decided_by == "slot's Rank"


def test_what_is_not_for_the_slot_is_counted_by_reason(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1", Start='/Expr(TARGET.Owner =!= "bob")/')
    queue.direct.submit(RequestMemory=4096)
    queue.direct.submit(Requirements="/Expr(TARGET.Memory > 4096)/")
    queue.direct.submit(Owner="bob")
    queue.direct.submit(Owner="carol")
    queue.direct.scalar("set_submitter", name="carol", changes={"max_running": 0})
    found = match(session_of(queue), "slot1@h1")
    assert found.candidates == []
    assert found.passed_over == {"blocked": 1, "resources": 1, "job_refuses": 1, "slot_refuses": 1}


def test_match_is_what_a_claim_takes(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    for prio in (1, 7, 3):
        queue.direct.submit(JobPrio=prio)
    first = match(session_of(queue), "slot1@h1").candidates[0]
    run = queue.direct.claim(wanted=[(first.autocluster_id, first.job_prio)])
    assert run.job == first.job


def test_slot_may_be_named_short_and_must_be_one(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@ep1.example.org")
    hosts.tell("slot2@ep1.example.org")
    assert match(session_of(queue), "slot2@ep1").slot == "slot2@ep1.example.org"
    with pytest.raises(NotFound, match=r"'ep1\.example\.org' has 2 slots"):
        match(session_of(queue), "ep1.example.org")
    with pytest.raises(NotFound, match="no slot 'slot9@ep1' has asked for work"):
        match(session_of(queue), "slot9@ep1")


def test_of_two_slots_of_one_name_the_one_that_asked_last_is_meant(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@vm")
    queue.direct.connection.execute("UPDATE fetchwork.host SET name = 'localhost'")
    queue.direct.connection.execute("UPDATE fetchwork.slot SET last_fetch_at = now() - interval '1 h'")
    hosts.tell("slot1@vm", state="Drained")
    assert match(session_of(queue), "slot1@vm").state == "Drained"
    queue.direct.connection.execute(
        "UPDATE fetchwork.slot SET last_fetch_at = now() - interval '2 h' WHERE state = 'Drained'"
    )
    assert match(session_of(queue), "slot1@vm").state == "Unclaimed"


def test_busy_slot_is_told(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1", state="Claimed", activity="Busy")
    hosts.tell("slot2@h1", state="Drained")
    assert match(session_of(queue), "slot1@h1").reasons == [
        "It is Claimed/Busy; nothing is offered to it until that is over."
    ]
    assert match(session_of(queue), "slot2@h1").reasons == [
        "It is Drained/Idle; nothing is offered to it until that is over."
    ]


# ---- commands


def test_commands_print_for_people_and_as_json(fetchwork: Run, slots: DirectQueue, hosts: Hosts) -> None:
    hosts.tell("slot1@h1")
    job = slots.submit(Requirements="/Expr(TARGET.Memory > 4096)/")
    told = fetchwork("q", "--better-analyze", job)
    assert told.status == 0
    assert "1 rejected by the job's Requirements" in told.out
    assert "TARGET.Memory > 4096" in told.out
    (found,) = json.loads(fetchwork("q", "-better-analyze", job, "--json").out)
    assert found["verdicts"] == {"job_refuses": 1}

    told = fetchwork("match", "slot1@h1")
    assert told.status == 0
    assert "1 rejecting the slot by their Requirements" in told.out
    assert json.loads(fetchwork("match", "slot1@h1", "--json").out)["passed_over"] == {"job_refuses": 1}


def test_without_a_job_one_of_each_autocluster_is_explained(
    fetchwork: Run, slots: DirectQueue, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fetchwork("q", "--better-analyze").out == "No job is idle.\n"
    hosts.tell("slot1@h1")
    slots.submit_many([{"Args": str(number), "JobPrio": number} for number in range(3)])
    few = slots.submit(RequestMemory=99)
    deferred = slots.submit(RequestMemory=98)
    slots.connection.execute(
        "DELETE FROM fetchwork.waiting AS w USING fetchwork.job AS j WHERE"
        " j.cluster_id = w.cluster_id AND fetchwork.job_id(j.cluster_id, j.proc_id) = %s",
        [deferred],
    )
    slots.connection.execute(
        "UPDATE fetchwork.job SET not_before = now() + interval '1 h' WHERE"
        " fetchwork.job_id(cluster_id, proc_id) = %s",
        [deferred],
    )
    slots.act("hold", slots.submit(RequestMemory=97))
    found = json.loads(fetchwork("q", "-better-analyze", "--json").out)
    # the job that would be claimed first represents the three
    assert [(one["job"], one["alike"]) for one in found] == [("1.2", 2), (few, 0), (deferred, 0)]
    told = fetchwork("q", "--better-analyze")
    assert "-- Job 1.2 of alice, queue default, and 2 idle jobs like it\n" in told.out
    assert f"-- Job {few} of alice, queue default\n" in told.out
    assert "There are more" not in told.out
    for memory in range(10):
        slots.submit(RequestMemory=memory + 1)
    told = fetchwork("q", "--better-analyze")
    assert told.out.count("-- Job ") == 10
    assert told.out.endswith("There are more autoclusters with idle jobs; these are those with most.\n")


def test_commands_fail_in_one_line(fetchwork: Run) -> None:
    assert fetchwork("q", "--better-analyze", "7.0").status == 1
    told = fetchwork("match", "slot1@nowhere")
    assert told.status == 1
    assert told.err.startswith("fetchwork: error: no slot 'slot1@nowhere'")


def test_job_that_is_too_costly_to_evaluate_is_told_of_and_costs_no_more(queue: Queue, hosts: Hosts) -> None:
    hosts.tell("slot1@ep1")
    requirements = json.loads(HOSTILE["regexp that backtracks"])["Requirements"]
    analysis = look(queue, queue.direct.submit(Requirements=requirements))
    assert analysis.reasons == [
        "Its ad is too costly to evaluate, so hosts back off and hold it:"
        " it takes more than 0.2 s of CPU on one slot, or too much memory."
    ]
    assert analysis.slots == 0
