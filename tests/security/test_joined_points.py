"""An access point that joined acts for the accounts of its invitation alone."""

import psycopg
import pytest

from tests.security.conftest import Root
from tests.security.roles import SECRET
from tests.security.test_joined_hosts import attempt, invite, join, reachable, refused, state, verifier
from tests.support.direct_queue import DirectQueue

NAME = "access point submit1"
READABLE = (
    "SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'fetchwork'::regnamespace"
    " AND c.relkind = 'v' AND has_table_privilege(c.oid, 'SELECT') ORDER BY 1"
)
#: of another account's, by the names of arguments
OTHERS = {
    "owner": "bob", "of_owner": "bob", "jobs": ["2.1", "2.2"], "ids": [2], "clusters": [2], "procs": [2],
    "cluster": 2, "cluster_id": 2, "proc": 2, "proc_id": 2, "host": "h1", "autoclusters": [2],
}  # fmt: skip


@pytest.fixture
def point(busy: Root) -> DirectQueue:
    """The session of an access point for alice and others whose names begin so."""
    return join(busy, invite(busy, owners="ali*")[1], "submit1")[1]


def owners(queue: DirectQueue, view: str) -> set[str]:
    return {owner for (owner,) in queue.rows(f"SELECT owner FROM fetchwork.{view}")}


def test_it_sees_and_changes_jobs_of_its_accounts(point: DirectQueue) -> None:
    for view in ("jobs", "history", "runs", "autoclusters"):
        assert owners(point, view) == {"alice"}, view
    with point.connection.transaction():
        point.rows("SELECT fetchwork.act_for('alice')")
        assert point.act("hold", "1.2") == 1


def test_it_sees_what_its_accounts_see_and_no_more(busy: Root, point: DirectQueue) -> None:
    alice, views = busy.login("fw_alice"), [name for (name,) in point.rows(READABLE)]
    assert len(views) >= 20
    for view in views:
        # use grows by the second
        what = "v.name" if view in ("submitters", "accounting") else "v::text"
        statement = f"SELECT {what} FROM fetchwork.{view} AS v ORDER BY 1"
        assert point.rows(statement) == alice.rows(statement), view


def test_it_learns_and_changes_nothing_by_any_function(busy: Root, point: DirectQueue) -> None:
    before, tried = state(busy), 0
    for name, types in reachable(point):
        # a run's token, which no view shows, is the proof of its holder
        if {"run_id", "token"} <= types.keys() or name in ("renew_identity", "reserve_cluster"):
            continue
        named = {key: value for key, value in OTHERS.items() if key in types}
        got = str(attempt(point, name, types, named))
        assert SECRET not in got or "alice" in got, (name, got)
        assert "bob" not in got or name in ("shares", "waiting_autoclusters"), (name, got)
        tried += 1
    assert tried >= 60
    assert state(busy) == before


def test_one_for_all_accounts_is_like_one_that_shares_a_role(busy: Root) -> None:
    _, point = join(busy, invite(busy, owners="*")[1], "submit1")
    assert owners(point, "jobs") == {"alice", "bob"}
    assert point.value("SELECT fetchwork.take_leader_task('policy', 0)") is True
    with point.connection.transaction():
        point.rows("SELECT fetchwork.act_for('bob')")
        assert point.act("hold", "2.2") == 1
    assert refused(point, "SELECT fetchwork.act_for('root')") == "FWDEN"
    busy.connection.execute("UPDATE fetchwork.host_identity SET revoked_at = now()")
    assert owners(point, "jobs") == set()
    assert point.value("SELECT fetchwork.take_leader_task('policy', 0)") is False


def test_its_identity_is_renewed_and_a_copy_is_noticed(busy: Root, point: DirectQueue) -> None:
    (now,) = point.call("renew_identity", generation=1, verifier=verifier(busy, "next"))
    assert (now["generation_now"], now["copied"]) == (2, False)
    assert owners(point, "jobs") == {"alice"}
    (copy,) = point.call("renew_identity", generation=1, verifier=verifier(busy, "of the copy"))
    assert copy["copied"] is True
    assert owners(point, "jobs") == set()
    assert busy.scalar("admit_host", host=NAME) is True
    assert owners(point, "jobs") == {"alice"}


def test_it_is_forgotten_once_it_is_revoked(busy: Root, point: DirectQueue) -> None:
    assert refused(busy, "SELECT fetchwork.forget_host(%s)", NAME) == "FWTWO"
    assert busy.call("revoke_host", host=NAME)
    with pytest.raises(psycopg.OperationalError):
        point.rows("SELECT 1")
    assert busy.scalar("forget_host", host=NAME) is True
    assert busy.call("identities") == []


@pytest.mark.parametrize(
    "bounds",
    [{"queues": ["default"]}, {"max_slots": 1}, {"trusted": True}, {"ephemeral": True}, {"owners": "a b"},
     {"owners": ""}],
)  # fmt: skip
def test_bounds_of_hosts_and_broken_patterns_are_refused(root: Root, bounds: dict[str, object]) -> None:
    with pytest.raises(psycopg.Error) as caught:
        invite(root, **{"owners": "*", **bounds})
    assert caught.value.sqlstate == "FWINV"


def test_it_has_no_rights_of_other_accounts(busy: Root, point: DirectQueue) -> None:
    before = state(busy)
    for name in ("bob", "Alice", "root", "", "al", "%", "ali*"):
        assert refused(point, "SELECT fetchwork.act_for(%s)", name) == "FWDEN"
    # the setting behind act_for is any session's
    for name in ("bob", "%", "bobby"):
        with pytest.raises(psycopg.Error), point.connection.transaction():
            point.rows("SELECT set_config('fetchwork.acting_for', %s, true)", name)
            assert owners(point, "jobs") == set()
            point.act("hold", "2.2")
    assert refused(point, "SELECT fetchwork.hold(ARRAY['2.2'])") == "FWNOT"
    assert refused(point, "SELECT fetchwork.policy_jobs()") == "FWDEN"
    assert point.value("SELECT fetchwork.take_leader_task('policy', 0)") is False
    assert state(busy) == before


@pytest.mark.parametrize("change", ["revoked_at = now()", "valid_until = now()", "copied_at = now()"])
def test_from_its_end_on_its_open_sessions_have_no_rights(
    busy: Root, point: DirectQueue, change: str
) -> None:
    busy.connection.execute(f"UPDATE fetchwork.host_identity SET {change}")
    assert owners(point, "jobs") == set()
    assert refused(point, "SELECT fetchwork.act_for('alice')") == "FWDEN"


def test_an_invitation_for_access_points_makes_no_execute_host(busy: Root, point: DirectQueue) -> None:
    (row,) = busy.call("identities")
    assert (row["host"], row["state"]) == (NAME, "valid")
    assert refused(point, "SELECT fetchwork.hello(%s, '1', gen_random_uuid())", NAME) == "42501"
    assert refused(point, "SELECT fetchwork.hello('submit1', '1', gen_random_uuid())") == "42501"
    # nor the other way round
    assert (
        refused(invite(busy, hosts="submit1")[1], "SELECT fetchwork.join_host('submit1', %s)", "x") == "FWINV"
    )
