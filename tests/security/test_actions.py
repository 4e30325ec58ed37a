"""The view of actions: who did what, seen by owners' rights."""

from tests.security.conftest import Root

ACTIONS = "SELECT action, owner, jobs, subject, details FROM fetchwork.actions WHERE actionid IS NOT NULL"


def test_each_call_is_noted_once_for_each_owner(busy: Root) -> None:
    alice = busy.login("fw_alice")
    alice.call("hold", jobs=["1.1", "1.2"], reason="why")
    alice.call("release", jobs=["1.2"])
    alice.call("edit", jobs=["1.2"], changes={"JobPrio": 3})
    alice.call("vacate", jobs=["1.2"])
    busy.call("remove", jobs=["1.2", "2.2"], reason="both")
    busy.call("set_queue", name="default", changes={"paused": True})
    busy.call("set_setting", name="history_days", value=30)
    busy.call("set_limit", name="licence", maximum=3)
    busy.call("set_starts", scope="limit", name="Licence", starts=10, seconds=0.5)
    busy.call("set_submitter", name="alice", changes={"prio_factor": 2})
    own = [
        ("hold", "alice", 2, "1.1, 1.2", "why"),
        ("release", "alice", 1, "1.2", None),
        ("edit", "alice", 1, "1.2", '{"JobPrio": 3}'),
        ("remove", "alice", 1, "1.2", "both"),
    ]
    assert alice.rows(ACTIONS + " ORDER BY actionid") == own
    theirs = busy.rows(ACTIONS + " ORDER BY actionid")
    assert [row[0] for row in theirs] == [
        *("hold", "release", "edit", "remove", "remove"),
        *("set_queue", "set_setting", "set_limit", "set_starts", "set_submitter"),
    ]
    assert ("set_starts", None, None, "limit licence", "10/0.5s") in theirs
    assert ("set_queue", None, None, "default", '{"paused": true}') in theirs
    assert alice.rows("SELECT DISTINCT role FROM fetchwork.actions WHERE action = 'hold'") == [("fw_alice",)]
    assert busy.login("fw_bob").rows(ACTIONS) == [("remove", "bob", 1, "2.2", "both")]


def test_a_submission_is_an_action_with_its_number_of_jobs(busy: Root) -> None:
    submitted = "SELECT role, owner, jobs, subject FROM fetchwork.actions WHERE action = 'submit'"
    assert busy.login("fw_alice").rows(submitted) == [("fw_alice", "alice", 3, "1")]
    assert len(busy.rows(submitted)) == 2


def test_an_action_that_is_refused_is_not_noted(busy: Root) -> None:
    bob = busy.login("fw_bob")
    bob.call("hold", jobs=["2.2"])
    bob.call("hold", jobs=["2.2"])
    assert len(bob.rows(ACTIONS)) == 1


def test_actions_are_dropped_by_age(busy: Root) -> None:
    busy.call("hold", jobs=["1.2", "2.2"])
    busy.connection.execute("UPDATE fetchwork.action SET at = now() - interval '91 days' WHERE owner = 'bob'")
    busy.call("forget")
    assert [row[1] for row in busy.rows(ACTIONS)] == ["alice"]
