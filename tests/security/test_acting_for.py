"""The rights of a transaction that acts for an account: those of that account, under any role."""

import psycopg
import pytest

from tests.security.conftest import Root
from tests.security.roles import ROLES, VIEWS, denied, owners_seen
from tests.support.direct_queue import DirectQueue


def act(queue: DirectQueue, owner: str) -> None:
    """Begin a transaction that acts for an account."""
    queue.connection.rollback()
    queue.connection.autocommit = False
    queue.rows("SELECT fetchwork.act_for(%s)", owner)


def sees_only_its_owner(acting: DirectQueue) -> None:
    for owner in ("alice", "bob"):
        act(acting, owner)
        for view in VIEWS:
            assert owners_seen(acting, view) == {owner}, view
    act(acting, "carol")
    for view in VIEWS:
        assert owners_seen(acting, view) == set(), view


@pytest.fixture(params=["fw_point", "superuser"])
def acting(request: pytest.FixtureRequest, busy: Root) -> DirectQueue:
    """A role that may act for others: with no other rights, and with all of them."""
    return busy.login("fw_point") if request.param == "fw_point" else busy


@pytest.fixture(autouse=True)
def _ends(root: Root) -> object:
    yield
    root.connection.rollback()
    root.connection.autocommit = True


def test_it_sees_the_jobs_of_that_account_in_every_view(acting: DirectQueue) -> None:
    sees_only_its_owner(acting)


def test_it_sees_no_more_where_several_processes_look(acting: DirectQueue) -> None:
    for setting in ("debug_parallel_query", "force_parallel_mode"):
        # by its name in this server's version
        if acting.rows("SELECT 1 FROM pg_settings WHERE name = %s", setting):
            acting.connection.execute(f"SET {setting} = on")
    acting.connection.execute("SET parallel_setup_cost = 0")
    acting.connection.execute("SET parallel_tuple_cost = 0")
    acting.connection.execute("SET min_parallel_table_scan_size = 0")
    # worth it even for two rows, the number that is known after an ANALYZE
    acting.connection.execute("SET cpu_tuple_cost = 100")
    (plan,) = acting.rows("EXPLAIN (FORMAT JSON) SELECT count(*) FROM fetchwork.history")
    assert "Workers Planned" in str(plan)
    acting.connection.commit()
    sees_only_its_owner(acting)


def test_it_sees_in_every_view_what_a_role_with_that_one_owner_sees(busy: Root, acting: DirectQueue) -> None:
    views = [name for (name,) in busy.rows("SELECT viewname FROM pg_views WHERE schemaname = 'fetchwork'")]
    act(acting, "alice")
    assert len(views) > 10
    # every role sees all submitters, and usage that grows between two reads
    for view in set(views) - {"submitters", "accounting", "known_job"}:
        seen = {str(row) for row in acting.rows(f"SELECT * FROM fetchwork.{view}")}
        theirs = {str(row) for row in busy.login("fw_alice").rows(f"SELECT * FROM fetchwork.{view}")}
        assert seen == theirs, view


@pytest.mark.parametrize("function", ["hold", "release", "remove", "vacate", "edit"])
def test_it_changes_no_job_of_another(acting: DirectQueue, function: str) -> None:
    act(acting, "alice")
    more = ', \'{"Args": "x"}\'' if function == "edit" else ""
    assert "job 2.2 is not in the queue" in denied(acting, f"SELECT fetchwork.{function}(ARRAY['2.2']{more})")


def test_it_changes_the_jobs_of_that_account(acting: DirectQueue) -> None:
    act(acting, "bob")
    assert acting.act("hold", "2.2") == 1
    reason = acting.value("SELECT holdreason FROM fetchwork.jobs WHERE jobid = '2.2'")
    assert reason == "via fetchwork hold (by bob)"
    assert acting.act("remove", "2") == 2


def test_it_submits_as_that_account_alone(acting: DirectQueue) -> None:
    submit = "SELECT fetchwork.submit(cmd => '/bin/true', owner => %s)"
    for other in ("bob", "root", "carol"):
        act(acting, "alice")
        denied(acting, submit, other)
    act(acting, "carol")
    assert acting.value(submit, "carol")
    act(acting, "alice")
    assert "may not charge" in denied(
        acting, "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'alice', accounting_group => 'g.bob')"
    )


def test_nobody_is_charged_for_by_whom_only_an_access_point_knows(busy: Root) -> None:
    point = busy.login("fw_point")
    act(point, "carol")
    point.rows("SELECT fetchwork.submit(cmd => '/bin/true', owner => 'carol')")
    point.connection.commit()
    denied(
        busy.login("fw_alice"),
        "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'alice', accounting_group => 'physics.carol')",
    )


def test_an_administrator_who_acts_for_somebody_administers_nothing(busy: Root) -> None:
    for statement in (
        "SELECT fetchwork.set_setting('max_lost', 1)",
        "SELECT fetchwork.grant_owner('fw_point', 'alice')",
        "SELECT fetchwork.set_queue('default', '{\"paused\": true}')",
        "SELECT fetchwork.set_limit('licence', 2)",
        "SELECT fetchwork.set_starts('queue', 'default', 1, 60)",
    ):
        act(busy, "alice")
        assert "is not an administrator" in denied(busy, statement)


def test_no_other_role_acts_for_anybody(busy: Root) -> None:
    for role in ROLES:
        if role != "fw_point":
            denied(busy.login(role), "SELECT fetchwork.act_for('bob')")


def test_a_setting_of_its_own_gives_and_takes_nobody_else_any_right(busy: Root) -> None:
    for role in ROLES:
        queue = busy.login(role)
        if ROLES[role] is None or role == "fw_point":
            continue
        before = {view: owners_seen(queue, view) for view in VIEWS}
        queue.rows("SELECT set_config('fetchwork.acting_for', 'bob', false)")
        assert {view: owners_seen(queue, view) for view in VIEWS} == before, role
        assert queue.value("SELECT fetchwork.acting_for(%s)", role) is None
    alice = busy.login("fw_alice")
    alice.rows("SELECT set_config('fetchwork.acting_for', 'bob', false)")
    denied(alice, "SELECT fetchwork.remove(ARRAY['2.2'])")
    denied(alice, "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'bob')")
    assert alice.value("SELECT fetchwork.own_owners('fw_point')") == []


@pytest.mark.parametrize("owner", ["root", "Root", "toor", "", "a b", "-x", "x" * 80, None])
def test_it_acts_for_no_root_and_for_no_name_that_is_none(busy: Root, owner: str | None) -> None:
    assert "allowed: an account name, never root" in denied(
        busy.login("fw_point"), "SELECT fetchwork.act_for(%s)", owner
    )


def test_it_ends_with_the_transaction(busy: Root) -> None:
    point = busy.login("fw_point")
    act(point, "alice")
    assert owners_seen(point, "jobs") == {"alice"}
    point.connection.commit()
    assert owners_seen(point, "jobs") == {"alice", "bob"}
    # and without it the role may read, as event logs need it, and change nothing
    for statement in (
        "SELECT fetchwork.remove(ARRAY['2.2'])",
        "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'bob')",
        "SELECT fetchwork.set_setting('max_lost', 1)",
    ):
        denied(point, statement)
        point.connection.rollback()


def test_reserved_ids_are_counted_by_account_and_used_by_theirs_alone(busy: Root) -> None:
    busy.call("set_setting", name="max_reserved_clusters", value=2)
    busy.connection.commit()
    point = busy.login("fw_point")
    ids = []
    for _ in range(2):
        act(point, "alice")
        ids.append(point.value("SELECT fetchwork.reserve_cluster()"))
        point.connection.commit()
    act(point, "alice")
    assert "has 2 cluster ids reserved" in denied(point, "SELECT fetchwork.reserve_cluster()")
    act(point, "bob")
    assert point.value("SELECT fetchwork.reserve_cluster()")
    ad = '{"Cmd": "/bin/true", "Owner": "bob"}'
    assert "was not reserved" in denied(
        point, f"SELECT fetchwork.submit_cluster('{ad}', ARRAY['{{}}'::jsonb], {ids[0]})"
    )


def test_a_submission_has_one_key_and_its_owner_alone_learns_of_it(busy: Root) -> None:
    point = busy.login("fw_point")
    act(point, "alice")
    assert point.value("SELECT fetchwork.submitted_as('alice', 'k')") is None
    point.rows("SELECT fetchwork.note_submission('alice', 'k', 1)")
    point.connection.commit()
    act(point, "alice")
    assert point.value("SELECT fetchwork.submitted_as('alice', 'k')") == 1
    with pytest.raises(psycopg.Error, match="submission 'k' has been made") as error:
        point.rows("SELECT fetchwork.note_submission('alice', 'k', 2)")
    assert error.value.sqlstate == "FWCON"
    act(point, "bob")
    assert point.value("SELECT fetchwork.submitted_as('alice', 'k')") is None
    denied(point, "SELECT fetchwork.note_submission('alice', 'other', 1)")
    act(point, "bob")
    point.rows("SELECT fetchwork.note_submission('bob', 'k', 2)")
