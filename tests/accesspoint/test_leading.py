"""The leader tasks of an access point: policies of jobs that don't run, where no agent is."""

from tests.accesspoint.point import AccessPoint
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import until

DUE = "DELETE FROM fetchwork.leader_task WHERE name = 'policy'"


def test_it_evaluates_the_policies_of_all_jobs_in_a_pool_without_agents(
    point: AccessPoint, slots: DirectQueue
) -> None:
    # a hostile one before it costs the others nothing
    slots.submit(
        Owner="mallory", PeriodicHold='/Expr(regexp("^(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"))/'
    )
    slots.submit(Owner="alice", PeriodicRemove="/Expr(JobStatus == 1)/")
    kept = slots.submit(Owner="bob", PeriodicRemove="/Expr(JobStatus == 5)/")
    slots.connection.execute(DUE)
    gone = "SELECT removereason FROM fetchwork.history WHERE owner = 'alice'"
    until(lambda: slots.rows(gone), "the policy")
    assert "PeriodicRemove" in slots.value(gone)
    assert slots.status(kept) == 1
    assert slots.scalar("policies_rest") is False
