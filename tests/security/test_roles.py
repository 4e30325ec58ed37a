"""Each role tries every forbidden action: alice, bob (submitters), a reader, an agent, no role."""

import hashlib
import uuid

import psycopg
import pytest

from fetchwork.db.database import Database
from fetchwork.pool.postgres import SUPERUSER, PostgresServer
from tests.security.conftest import Root
from tests.security.roles import PASSWORD, ROLES, SECRET, VIEWS, denied, owners_seen
from tests.support.by_name import call


def test_a_submitter_sees_his_own_jobs_and_nobody_elses(busy: Root) -> None:
    for view in VIEWS:
        assert owners_seen(busy, view) == {"alice", "bob"}, view
        assert owners_seen(busy.login("fw_alice"), view) == {"alice"}, view
        assert owners_seen(busy.login("fw_bob"), view) == {"bob"}, view


@pytest.mark.parametrize("role", ["fw_reader", "fw_agent", "fw_point", "fw_admin"])
def test_readers_agents_and_administrators_see_all_jobs(busy: Root, role: str) -> None:
    queue = busy.login(role)
    for view in VIEWS:
        assert owners_seen(queue, view) == {"alice", "bob"}, view


def test_a_submitter_sees_the_ends_of_his_own_jobs_alone(busy: Root) -> None:
    on_hosts = (
        "SELECT e.owner FROM fetchwork.hosts AS h CROSS JOIN LATERAL fetchwork.host_ends(h.machine, 9) AS e"
    )
    of_bob = "SELECT jobid FROM fetchwork.batch_ends('bob', 'batch-bob', 9)"
    for role, owners, jobs in (
        ("fw_reader", {("alice",), ("bob",)}, [("2.0",)]),
        ("fw_alice", {("alice",)}, []),
        ("fw_bob", {("bob",)}, [("2.0",)]),
    ):
        session = busy.login(role)
        assert set(session.rows(on_hosts)) == owners, role
        assert session.rows(of_bob) == jobs, role


MEMBERS = [role for role, member_of in ROLES.items() if member_of]


@pytest.mark.parametrize("role", MEMBERS)
def test_every_column_of_every_view_is_readable(busy: Root, role: str) -> None:
    """A view computes its columns with the reader's rights: what it calls must be granted, too."""
    slot = {"name": "slot00@h1", "fetched_at": 1e9, "cpus": 1, "queues": ["default"], "ad": {"Cpus": 1}}
    busy.call("report_slots", host_id=busy.host(), slots=psycopg.types.json.Jsonb([slot]))
    busy.call("set_limit", name="licence", maximum=2)
    busy.call("set_group", name="physics", changes={"quota": 2})
    busy.call("set_starts", scope="owner", name="alice", starts=9, seconds=60)
    busy.call("publish_credential_key", public_key=b"k" * 32)
    key = busy.value("SELECT key_id FROM fetchwork.sealing_key()")
    busy.call("put_credential", owner="alice", name="box", key_id=key, sealed=b"x")
    busy.connection.execute("UPDATE fetchwork.heartbeat SET offers_wait = true, moved_at = clock_timestamp()")
    reader = busy.login(role)
    columns = busy.rows(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'fetchwork' AND table_name <> 'known_job'"
        " AND table_name IN (SELECT viewname FROM pg_views WHERE schemaname = 'fetchwork')"
    )
    views = {view for view, _ in columns}
    assert views >= {*VIEWS, "slots", "hosts", "submitters", "queues", "limits", "settings"}
    for view in views:
        busy_rows = len(busy.rows(f"SELECT * FROM fetchwork.{view}"))
        assert len(reader.rows(f"SELECT * FROM fetchwork.{view}")) <= busy_rows
        # an empty view computes nothing
        assert busy_rows or view in ("rests", "checkpoints", "factories"), view
    for view, column in columns:
        reader.rows(f"SELECT {column} FROM fetchwork.{view} WHERE {column} IS NOT NULL")


@pytest.mark.parametrize("role", MEMBERS)
def test_a_function_that_a_role_may_call_calls_none_that_it_may_not(busy: Root, role: str) -> None:
    caller = busy.login(role)
    caller.connection.autocommit = False
    functions = busy.rows(
        "SELECT p.oid::regproc::text, coalesce((SELECT string_agg('NULL::' || t::regtype, ', ' ORDER BY n)"
        " FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n)), '') FROM pg_proc AS p"
        " WHERE p.pronamespace = 'fetchwork'::regnamespace AND has_function_privilege(%s, p.oid, 'EXECUTE')",
        role,
    )
    assert len(functions) >= len(FOR_EVERYONE)
    for function, arguments in functions:
        try:
            caller.rows(f"SELECT * FROM {function}({arguments})")
        except psycopg.errors.InsufficientPrivilege as error:
            pytest.fail(f"{function}: {error}")
        except psycopg.Error:
            pass  # a call with only NULLs has no meaning
        finally:
            caller.connection.rollback()


def test_who_has_no_role_sees_nothing(busy: Root) -> None:
    nobody = busy.login("fw_nobody")
    for view in [*VIEWS, "slots", "hosts", "submitters", "queues", "settings"]:
        assert "permission denied" in denied(nobody, f"SELECT * FROM fetchwork.{view}")
    assert "permission denied" in denied(
        nobody, "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'alice')"
    )


def test_slots_tell_a_submitter_nothing_of_other_peoples_jobs(busy: Root) -> None:
    slots = [
        {
            "name": f"slot{n}@h1",
            "fetched_at": 1e9,
            "ad": {"Cpus": 1, "RemoteOwner": "x", "ClaimId": "<1.1.1.1>#1#secret"},
        }
        for n in ("00", "10")
    ]
    busy.connection.execute(
        "SELECT fetchwork.report_slots(%s, %s)", [busy.host(), psycopg.types.json.Jsonb(slots)]
    )
    rows = busy.login("fw_alice").rows("SELECT RemoteOwner, JobId FROM fetchwork.slots")
    assert {owner for owner, _ in rows} == {"alice", None}
    assert {job for _, job in rows} == {"1.1", None}
    assert "secret" not in str(busy.rows("SELECT * FROM fetchwork.slots"))
    assert busy.login("fw_alice").value("SELECT ad FROM fetchwork.slots LIMIT 1") == {"Cpus": 1}


def test_no_view_and_no_column_shows_a_token(busy: Root) -> None:
    tokens = {
        str(token)
        for (token,) in busy.rows(
            "SELECT token FROM fetchwork.run UNION ALL SELECT token FROM fetchwork.run_history"
        )
    }
    assert len(tokens) == 4
    views = [name for (name,) in busy.rows("SELECT viewname FROM pg_views WHERE schemaname = 'fetchwork'")]
    assert len(views) > 10
    for view in views:
        shown = str(busy.rows(f"SELECT * FROM fetchwork.{view}"))
        assert not any(token in shown for token in tokens), view


def test_nobody_reads_or_writes_a_table(busy: Root) -> None:
    tables = [name for (name,) in busy.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'fetchwork'")]
    assert len(tables) > 20
    readable = {"migration", "attribute"}
    for role in ROLES:
        queue = busy.login(role)
        # a view for functions and other views, without a reader's rights of its own
        denied(queue, "SELECT * FROM fetchwork.known_job")
        for table in tables:
            if table not in readable or role == "fw_nobody":
                denied(queue, f"SELECT * FROM fetchwork.{table}")
            denied(queue, f"DELETE FROM fetchwork.{table}")
            denied(queue, f"INSERT INTO fetchwork.{table} DEFAULT VALUES")
            denied(queue, f"DROP TABLE fetchwork.{table}")
            denied(queue, f"TRUNCATE fetchwork.{table}")
            denied(queue, f"ALTER TABLE fetchwork.{table} ADD COLUMN x integer")


def test_nobody_writes_through_a_view(busy: Root) -> None:
    for role in ROLES:
        for view in ("settings", "queues", "events_kept"):
            denied(busy.login(role), f"DELETE FROM fetchwork.{view}")
        denied(busy.login(role), "UPDATE fetchwork.settings SET value = 0")
        denied(busy.login(role), "UPDATE fetchwork.queues SET paused = true")


def test_nobody_alters_functions_views_or_the_schema(busy: Root) -> None:
    for role in ROLES:
        queue = busy.login(role)
        denied(queue, "CREATE TABLE fetchwork.mine (x integer)")
        denied(queue, "CREATE FUNCTION fetchwork.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'")
        denied(
            queue,
            "CREATE OR REPLACE FUNCTION fetchwork.invoker() RETURNS name LANGUAGE sql AS 'SELECT ''postgres''::name'",
        )
        denied(queue, "DROP VIEW fetchwork.jobs")
        denied(queue, "DROP SCHEMA fetchwork CASCADE")
        denied(queue, "ALTER FUNCTION fetchwork.is_admin(name) SECURITY DEFINER")
        denied(queue, "SELECT nextval('fetchwork.run_id')")
        denied(queue, "SELECT setval('fetchwork.cluster_id', 1)")


# the functions that each role may call; all others are forbidden to all roles
FOR_EVERYONE = {
    "invoker", "sees_all", "is_admin", "own_owners", "acting_for", "is_joined_point", "invited_owners", "may_act_for", "asker", "job_id", "parse_job_id", "shares", "group_figures", "is_expression", "attribute_of", "integer_of", "memory_use", "vacate_s", "charged_s", "dag_counts", "default_attributes",
    "can_be_undefined", "event_window", "may_sequence_events", "log_clusters", "dag_clusters", "scheduler_clusters", "is_log_of", "named_jobs", "job_edge", "run_edge", "history_edge", "waiting_autoclusters", "prospects", "first_idle", "recent_failures", "policies_rest", "host_ends", "batch_ends", "watch_output", "sends_notifications", "sealing_key",
}  # fmt: skip
OF_SUBMITTERS = {
    "submit", "submit_many", "submit_cluster", "submit_ads", "reserve_cluster", "note_submission", "submitted_as", "begin_submission", "submit_noted", "lacking_contents", "end_content", "add_job_files", "add_job_key", "job_outputs", "output_clusters", "awaited_owners", "checkpoint_owners", "awaited_outputs", "drop_outputs", "left_checkpoints", "forget_checkpoint", "not_brought",
    "create_token", "revoke_token", "tokens", "put_credential", "delete_credential", "hold", "release", "remove", "remove_now", "vacate", "suspend", "continue",
    "edit", "notify_agents", "set_group", "remove_group",
    # the scheduler-universe jobs of its own account, for an access point that serves only that account
    "claim_scheduler_job", "tend_scheduler_runs", "run_policy", "start", "refuse_start", "heartbeat", "finish",
}  # fmt: skip
OF_AGENTS = {
    "hello", "beat", "goodbye", "report_slots", "candidates", "read_demand", "read_groups", "autocluster_ads", "claim_many", "accept", "reject", "start", "refuse_start", "start_failed",
    "withdraw", "note_match", "retry_with_more", "heartbeat", "report_runs", "next_runs", "run_policy", "finish", "slot_is_free", "run_owner", "starter_gone", "watched_output", "ship_output", "host_runs", "policy_jobs", "apply_policy",
    "report_faults", "maintain_queue", "sequence_events", "lead", "end_notification_reader", "reap", "wake", "fold", "preempt", "maintain_tables", "take_leader_task",
    "fail_inputs",
    "run_credentials", "note_credentials", "changed_credentials", "begin_renewal", "renew_credential",
    "credentials_to_seal", "put_host_credential",
    "run_files", "output_url", "objects_over", "objects_deleted", "postpone_objects", "bucket_probes", "keep_outputs", "leave_outputs", "note_transfer",
}  # fmt: skip
OF_CONTENTS = {"put_whole_contents", "begin_content", "put_chunk", "read_chunk", "content_url"}
OF_ACCESS_POINTS = {
    "act_for", "act_by_token", "renew_identity", "sequence_events",
    "take_leader_task", "policy_jobs", "apply_policy", "objects_over", "objects_deleted", "postpone_objects",
}  # fmt: skip
OF_ADMINISTRATORS = {
    "grant_owner", "revoke_owner", "grant_group", "revoke_group", "set_queue", "set_submitter", "set_limit", "set_starts", "set_setting", "set_bucket", "buckets", "clear_host", "after_restore",
    "invite_host", "invitations", "uninvite", "identities", "revoke_host", "admit_host", "forget_host", "require_join",
    "resume_offers", "publish_credential_key", "sealed_otherwise", "reseal_credential",
}  # fmt: skip


def test_each_function_is_for_those_whom_it_is_for(root: Root) -> None:
    root.login("fw_alice")
    may: dict[str, set[str]] = {}
    for role in ROLES:
        may[role] = {
            name
            for (name,) in root.rows(
                "SELECT proname FROM pg_proc WHERE pronamespace = 'fetchwork'::regnamespace AND has_function_privilege(%s, oid, 'EXECUTE')",
                role,
            )
        }
    assert may == {
        "fw_alice": FOR_EVERYONE | OF_SUBMITTERS | OF_CONTENTS,
        "fw_bob": FOR_EVERYONE | OF_SUBMITTERS | OF_CONTENTS,
        "fw_reader": FOR_EVERYONE,
        "fw_agent": FOR_EVERYONE | OF_AGENTS | OF_CONTENTS,
        "fw_point": FOR_EVERYONE
        | (OF_SUBMITTERS - {"create_token", "revoke_token", "tokens"})
        | OF_CONTENTS
        | OF_ACCESS_POINTS,
        "fw_admin": FOR_EVERYONE | OF_SUBMITTERS | OF_AGENTS | OF_CONTENTS | OF_ADMINISTRATORS,
        "fw_nobody": set(),
    }


def test_every_security_definer_function_has_a_search_path_of_its_own(root: Root) -> None:
    open_to_tricks = root.rows(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'fetchwork'::regnamespace AND prosecdef"
        " AND NOT coalesce(proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp']"
    )
    assert open_to_tricks == []


# Other owners' jobs


@pytest.mark.parametrize("function", ["hold", "release", "remove", "vacate", "suspend", "continue"])
def test_a_job_of_someone_else_does_not_exist(busy: Root, function: str) -> None:
    alice = busy.login("fw_alice")
    before = busy.rows("SELECT * FROM fetchwork.job ORDER BY cluster_id, proc_id")
    theirs = denied(alice, f"SELECT fetchwork.{function}(ARRAY['2.2'])")
    assert theirs.splitlines()[0] == "job 2.2 is not in the queue"
    assert theirs.replace("2.2", "9.9") == denied(alice, f"SELECT fetchwork.{function}(ARRAY['9.9'])")
    denied(alice, f"SELECT fetchwork.{function}(ARRAY['2'])")
    denied(alice, f"SELECT fetchwork.{function}(ARRAY['1.2', '2.2'])")
    assert "may not change jobs of Owner 'bob'" in denied(
        alice, f"SELECT fetchwork.{function}(NULL, owner => 'bob')"
    )
    assert busy.rows("SELECT * FROM fetchwork.job ORDER BY cluster_id, proc_id") == before


def test_a_job_of_someone_else_can_not_be_edited(busy: Root) -> None:
    denied(busy.login("fw_alice"), "SELECT fetchwork.edit(ARRAY['2.2'], '{\"Args\": \"x\"}')")
    assert SECRET in busy.value("SELECT ad ->> 'Args' FROM fetchwork.jobs WHERE JobId = '2.2'")


def test_an_administrator_changes_everybodys_jobs(busy: Root) -> None:
    assert busy.login("fw_admin").act("hold", "1.2", "2.2") == 2


def test_a_function_of_the_readers_own_sees_no_row_that_he_may_not_see(busy: Root) -> None:
    alice = busy.login("fw_alice")
    alice.connection.execute(
        "CREATE FUNCTION pg_temp.leak(value text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS"
        " $$ BEGIN RAISE NOTICE 'seen %', value; RETURN true; END $$"
    )
    notices: list[str] = []
    alice.connection.add_notice_handler(lambda diagnostic: notices.append(str(diagnostic.message_primary)))
    for view, column in [
        ("jobs", "ad"),
        ("history", "ad"),
        # of the row alone, so it is checked before any join
        ("jobs", "owner"),
        ("history", "owner"),
        ("runs", "owner"),
        ("events", "info"),
        ("autoclusters", "ad"),
        ("totals", "owner"),
        ("batches", "jobbatchname"),
        ("run_counts", "owner"),
        ("idle_counts", "owner"),
        ("owners", "owner"),
    ]:
        alice.rows(f"SELECT 1 FROM fetchwork.{view} WHERE pg_temp.leak({column}::text)")
        assert notices, view
        assert not [notice for notice in notices if "bob" in notice.replace(SECRET, "")], view
        notices.clear()
    # an error that shows the value is the same leak
    alice.rows("SELECT 1 / (length(owner) - 3) FROM fetchwork.jobs")  # bob's name has 3 letters


def test_what_keeps_a_job_from_running_is_told_to_those_who_see_the_job(busy: Root) -> None:
    alice = busy.login("fw_alice")
    assert len(alice.call("prospects", cluster=1, proc=2)) == 1
    assert alice.call("prospects", cluster=2, proc=2) == []
    assert {row["first_job"] for row in alice.call("waiting_autoclusters")} == {"1.2", None}
    every = [autocluster for (autocluster,) in busy.rows("SELECT autocluster_id FROM fetchwork.autocluster")]
    for role, jobs in ((alice, {(1, 2)}), (busy, {(1, 2), (2, 2)})):
        found = role.call("first_idle", autoclusters=every)
        assert {(row["cluster_id"], row["proc_id"]) for row in found} == jobs


# Submitting


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        ("bob", "role 'fw_alice' may not submit as Owner 'bob'; allowed: alice"),
        ("root", "Owner 'root' is refused: no job runs as root"),
        ("Root", "Owner 'Root' is refused"),
        ("alice\nOwner = root", 'attribute "Owner" has a control character'),
        ("", 'attribute "Owner" is ""'),
    ],
)
def test_nobody_submits_as_an_owner_that_he_may_not_name(busy: Root, owner: str, message: str) -> None:
    alice = busy.login("fw_alice")
    assert message in denied(alice, "SELECT fetchwork.submit(cmd => '/bin/true', owner => %s)", owner)
    assert message in denied(
        alice,
        'SELECT fetchwork.submit_many(ARRAY[jsonb_build_object(\'Owner\', %s::text)], \'{"Cmd": "/bin/true", "Owner": "alice"}\')',
        owner,
    )
    # the second job's own part
    assert message in denied(
        alice,
        'SELECT fetchwork.submit_cluster(\'{"Cmd": "/bin/true", "Owner": "alice"}\', ARRAY[\'{}\'::jsonb, jsonb_build_object(\'oWNER\', %s::text)])',
        owner,
    )


def test_a_key_under_way_is_not_waited_for_by_who_may_not_name_its_owner(busy: Root) -> None:
    """Nor does who may not name the Owner make its submissions wait."""
    statement = "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'bob', key => 'k')"
    alice, bob = busy.login("fw_alice"), busy.login("fw_bob")
    for queue in (alice, bob):
        queue.connection.execute("SET lock_timeout = '10s'")
    with bob.connection.transaction():
        first = bob.value(statement)
        assert "may not submit as Owner 'bob'" in denied(alice, statement)
    assert "may not submit as Owner 'bob'" in denied(alice, statement)
    assert bob.value(statement) == first


def test_root_is_refused_to_administrators_too(root: Root) -> None:
    for queue in (root.login("fw_admin"), root):
        assert "no job runs as root" in denied(
            queue, "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'root')"
        )


def test_who_was_granted_no_owner_submits_nothing(root: Root) -> None:
    assert "allowed: none yet: an administrator calls fetchwork.grant_owner" in denied(
        root.login("fw_alice"), "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'alice')"
    )


def test_a_grant_taken_back_is_gone(busy: Root) -> None:
    assert busy.login("fw_admin").scalar("revoke_owner", role="fw_alice", owner="alice") is True
    alice = busy.login("fw_alice")
    assert owners_seen(alice, "jobs") == set()
    denied(alice, "SELECT fetchwork.remove(ARRAY['1.2'])")


SUBMIT_FOR = "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'alice', accounting_group => %s)"
EDIT_FOR = "SELECT fetchwork.edit(ARRAY['1.2'], jsonb_build_object('AccountingGroup', %s::text))"


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("group", ["bob", "physics.bob"])
def test_nobody_is_charged_for_someone_elses_jobs(busy: Root, group: str, opened: bool) -> None:
    busy.set("open_accounting_groups", int(opened))
    busy.call("grant_group", role="fw_alice", accounting_group="physics")
    alice = busy.login("fw_alice")
    assert f"may not charge AccountingGroup '{group}'" in denied(alice, SUBMIT_FOR, group)
    assert "may not charge" in denied(alice, EDIT_FOR, group)
    for allowed in ("physics", "physics.alice", "alice"):
        alice.rows(SUBMIT_FOR, allowed)


def test_an_accounting_group_is_charged_by_those_whom_it_was_granted_to(busy: Root) -> None:
    """Else every new name would be a fresh share."""
    alice, bob, admin = (busy.login(f"fw_{name}") for name in ("alice", "bob", "admin"))
    for group in ("physics", "physics.alice", "fresh1"):
        told = denied(alice, SUBMIT_FOR, group)
        assert f"may not charge AccountingGroup '{group}'; allowed: alice; an administrator calls" in told
        denied(alice, EDIT_FOR, group)
    admin.call("grant_group", role="fw_alice", accounting_group="physics")
    for group in ("physics", "physics.alice"):
        alice.rows(SUBMIT_FOR, group)
        alice.rows(EDIT_FOR, group)
        denied(bob, SUBMIT_FOR.replace("alice", "bob"), group)
    for group in ("physics.fresh", "physics.sub.alice", "Physics", "physicsalice", "physics..alice"):
        assert "allowed: alice, physics; an administrator" in denied(alice, SUBMIT_FOR, group)
    assert admin.scalar("revoke_group", role="fw_alice", accounting_group="physics") is True
    assert admin.scalar("revoke_group", role="fw_alice", accounting_group="physics") is False
    denied(alice, SUBMIT_FOR, "physics")
    admin.rows(SUBMIT_FOR, "whatever")


def test_a_grant_to_a_role_is_one_to_its_members(busy: Root) -> None:
    busy.call("grant_group", role="fetchwork_submitter", accounting_group="all")
    busy.login("fw_alice").rows(SUBMIT_FOR, "all.alice")


def test_accounting_groups_may_be_open_as_in_htcondor(busy: Root) -> None:
    busy.set("open_accounting_groups", 1)
    for group in ("physics", "physics.alice", "fresh1"):
        busy.login("fw_alice").rows(SUBMIT_FOR, group)


def test_an_owners_rights_are_not_learned_by_asking_for_another_role(busy: Root) -> None:
    alice = busy.login("fw_alice")
    assert alice.value("SELECT fetchwork.own_owners('fw_bob')") == []
    assert alice.value("SELECT fetchwork.own_owners('fw_alice')") == ["alice"]


# Becoming another account


def test_nobody_becomes_someone_else(busy: Root) -> None:
    alice = busy.login("fw_alice")
    for role in ("fw_bob", "fw_admin", "fetchwork_admin", SUPERUSER):
        denied(alice, f"SET ROLE {role}")
        denied(alice, f"SET SESSION AUTHORIZATION {role}")
        denied(alice, "SELECT set_config('role', %s, false)", role)
    alice.connection.execute(
        "CREATE FUNCTION pg_temp.as_admin() RETURNS name LANGUAGE sql SET role = fetchwork_submitter AS 'SELECT fetchwork.invoker()'"
    )
    # she may take a role that she is a member of, and then has its rights: none
    assert alice.value("SELECT pg_temp.as_admin()") == "fetchwork_submitter"
    denied(
        alice,
        "CREATE FUNCTION pg_temp.as_bob() RETURNS name LANGUAGE sql SET role = fw_bob AS 'SELECT fetchwork.invoker()'",
    )


def test_a_role_that_is_set_counts_and_not_the_login(busy: Root) -> None:
    busy.connection.execute("SET ROLE fw_alice")
    try:
        assert owners_seen(busy, "jobs") == {"alice"}
        assert "may not submit as Owner 'bob'" in denied(
            busy, "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'bob')"
        )
    finally:
        busy.connection.execute("RESET ROLE")


def test_objects_of_the_callers_own_do_not_stand_in_for_those_of_the_functions(busy: Root) -> None:
    busy.connection.execute("CREATE SCHEMA of_alice AUTHORIZATION fw_alice")
    alice = busy.login("fw_alice")
    for schema in ("of_alice", "pg_temp"):
        alice.connection.execute(f"CREATE TABLE {schema}.job (owner text)")
        alice.connection.execute(f"CREATE TABLE {schema}.pg_roles (oid oid, rolname name)")
        alice.connection.execute(
            f"CREATE FUNCTION {schema}.is_admin(role name) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
        )
        alice.connection.execute(
            f"CREATE FUNCTION {schema}.lower(text) RETURNS text LANGUAGE sql AS $$ SELECT 'x'::text $$"
        )
        alice.connection.execute(
            f"CREATE FUNCTION {schema}.pg_has_role(name, text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
        )
        alice.connection.execute(
            f"CREATE FUNCTION {schema}.equal(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
        )
    alice.connection.execute(
        "CREATE OPERATOR of_alice.= (LEFTARG = text, RIGHTARG = text, FUNCTION = of_alice.equal)"
    )
    alice.connection.execute(
        "CREATE OPERATOR of_alice.!~ (LEFTARG = text, RIGHTARG = text, FUNCTION = of_alice.equal)"
    )
    alice.connection.execute("SET search_path = of_alice, pg_temp, pg_catalog, fetchwork")
    assert "may not submit as Owner 'bob'" in denied(
        alice, "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'bob')"
    )
    assert "no job runs as root" in denied(
        alice, "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'root')"
    )
    denied(alice, "SELECT fetchwork.remove(ARRAY['2.2'])")
    assert {owner for (owner,) in alice.rows("SELECT Owner FROM fetchwork.jobs")} == {"alice"}
    busy.connection.execute("DROP SCHEMA of_alice CASCADE")


# Agents


def test_an_agent_changes_no_run_without_its_token(busy: Root) -> None:
    agent = busy.login("fw_agent")
    run_id = busy.value("SELECT run_id FROM fetchwork.run LIMIT 1")
    for function in ("accept", "reject", "starter_gone"):
        assert "the token is not that of run" in denied(
            agent, f"SELECT fetchwork.{function}(%s, %s)", run_id, uuid.uuid4()
        )
    assert "the token is not that of run" in denied(
        agent, "SELECT fetchwork.finish(%s, %s, 'exit', '{\"ExitCode\": 0}')", run_id, uuid.uuid4()
    )
    assert agent.value("SELECT fetchwork.run_policy(%s, %s)", run_id, uuid.uuid4()) is None


def test_an_agent_neither_submits_nor_sets_anything(busy: Root) -> None:
    agent = busy.login("fw_agent")
    for statement in (
        "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'alice')",
        "SELECT fetchwork.remove(ARRAY['1.2'])",
        "SELECT fetchwork.edit(ARRAY['1.2'], '{}')",
        "SELECT fetchwork.set_setting('max_lost', 1)",
        "SELECT fetchwork.grant_owner('fw_agent', 'alice')",
        "SELECT fetchwork.set_queue('default', '{\"paused\": true}')",
    ):
        denied(agent, statement)


def test_an_agent_may_ask_for_the_tokens_of_a_host(busy: Root) -> None:
    # the secrets that grants.sql trusts the role with
    assert len(busy.login("fw_agent").rows("SELECT token FROM fetchwork.host_runs(%s)", busy.host())) == 2
    denied(busy.login("fw_alice"), "SELECT token FROM fetchwork.host_runs(1)")
    denied(busy.login("fw_reader"), "SELECT token FROM fetchwork.host_runs(1)")


def test_no_error_tells_a_token(busy: Root) -> None:
    agent = busy.login("fw_agent")
    rows = busy.rows("SELECT run_id, token FROM fetchwork.run")
    told = []
    for run_id, token in rows:
        told.append(denied(agent, "SELECT fetchwork.finish(%s, %s, 'x', '{}')", run_id, token))
        told.append(denied(agent, "SELECT fetchwork.start(%s, %s, 'x')", run_id, uuid.uuid4()))
        told.append(str(agent.value("SELECT fetchwork.start(%s, %s, 'x')", run_id, token)))
    assert not [text for text in told for _, token in rows if str(token) in text]


def test_no_list_of_sessions_shows_a_token(busy: Root, postgres: PostgresServer) -> None:
    ((run_id, token), *_) = busy.rows("SELECT run_id, token FROM fetchwork.run")
    with Database(postgres.conninfo("kept", user="fw_agent", password=PASSWORD)) as agents:
        assert call(agents, "accept", run_id=run_id, token=token)
        # even to the superuser, and to another session of the same role, which sees the statement
        for queue in (busy, busy.login("fw_agent"), busy.login("fw_alice")):
            shown = queue.rows("SELECT query, application_name FROM pg_stat_activity")
            assert str(token) not in str(shown)
        assert "fetchwork.accept(" in str(busy.rows("SELECT query FROM pg_stat_activity"))


# Files


def test_nobody_learns_or_gets_what_another_owner_s_files_hold(busy: Root) -> None:
    secret = b"of bob"
    digest = hashlib.sha256(secret).hexdigest()
    bob, alice = busy.login("fw_bob"), busy.login("fw_alice")
    bob.call("put_whole_contents", owner="bob", datas=[secret])
    asked = {"sha256s": [digest], "sizes": [len(secret)], "job_bytes": 0}
    assert bob.scalar("lacking_contents", owner="bob", **asked) == []
    # with her as the owner the content does not exist, and she may not ask about his
    assert alice.scalar("lacking_contents", owner="alice", **asked) == [1]
    denied(alice, "SELECT fetchwork.lacking_contents('bob', %s, %s, 0)", [digest], [len(secret)])
    denied(alice, "SELECT fetchwork.begin_content('bob', %s, 6)", digest)
    denied(alice, "SELECT fetchwork.put_whole_contents('bob', ARRAY['x'::bytea])")
    his = busy.value("SELECT content_id FROM fetchwork.content")
    for statement in (
        f"SELECT fetchwork.put_chunk({his}, 0, 'forged', '{hashlib.sha256(b'forged').hexdigest()}')",
        f"SELECT fetchwork.end_content({his})",
    ):
        assert denied(alice, statement).startswith(f"content {his} is not there")
    alice.connection.autocommit = False
    cluster = int(alice.submit_many([{}], {"Cmd": "/bin/true", "Owner": "alice"})[0].split(".")[0])
    file = psycopg.types.json.Jsonb([{"name": "a", "size": len(secret), "sha256": digest}])
    assert "is not stored" in denied(alice, "SELECT fetchwork.add_job_files(%s, %s)", cluster, file)
    alice.connection.rollback()
    alice.connection.autocommit = True

    # the outputs of his job
    run = busy.value("SELECT run_id FROM fetchwork.run_history WHERE owner = 'bob' AND outcome = 'completed'")
    busy.connection.execute("UPDATE fetchwork.content SET run_id = %s", [run])
    busy.connection.execute(
        "INSERT INTO fetchwork.job_file (cluster_id, proc_id, direction, run_id, owner, name, size, content_id)"
        " SELECT cluster_id, proc_id, 'output', run_id, owner, 'out', 6, %s FROM fetchwork.run_history WHERE run_id = %s",
        [his, run],
    )
    (left,) = bob.call("job_outputs", jobs=None)
    assert bob.scalar("read_chunk", content_id=his, n=0) == secret
    assert bob.scalar("output_clusters") == [left["cluster_id"]]
    assert alice.scalar("output_clusters") == []
    assert alice.call("job_outputs", jobs=None) == []
    assert alice.call("job_outputs", jobs=[str(left["cluster_id"])]) == []
    assert alice.scalar("read_chunk", content_id=his, n=0) is None
    of = f"{left['cluster_id']}, {left['proc_id']}"
    denied(alice, f"SELECT fetchwork.drop_outputs({of}, {run})")
    assert alice.value(f"SELECT fetchwork.not_brought({of}, {run}, 'mine', 1)") is False
    # an access point finds every owner's outputs, and reads and drops them only as their owner
    point = busy.login("fw_point")
    assert len(point.call("job_outputs", jobs=None)) == 1
    assert point.scalar("read_chunk", content_id=his, n=0) is None
    with point.connection.transaction():
        point.call("act_for", owner="alice")
        assert point.call("job_outputs", jobs=None) == []
        assert point.scalar("read_chunk", content_id=his, n=0) is None
    with point.connection.transaction():
        point.call("act_for", owner="bob")
        assert point.scalar("read_chunk", content_id=his, n=0) == secret
        assert point.scalar("drop_outputs", cluster=left["cluster_id"], proc=left["proc_id"], run_id=run)
    assert bob.call("job_outputs", jobs=None) == []


def test_a_job_of_the_scheduler_universe_is_run_for_its_owner_alone(root: Root) -> None:
    for name in ("alice", "bob"):
        root.call("grant_owner", role=f"fw_{name}", owner=name)
    root.submit(Owner="alice", JobUniverse=7, FetchWorkAccessPoint="here")
    asked = {"access_point": "here", "max_each": 10, "lease_s": 60.0}
    assert root.login("fw_bob").call("claim_scheduler_job", **asked) == []
    (claimed,) = root.login("fw_alice").call("claim_scheduler_job", **asked)
    assert claimed["owner"] == "alice"
    # nor are its tokens shown to others
    assert (
        root.login("fw_bob").call("tend_scheduler_runs", access_point="here", alive=[claimed["run_id"]]) == []
    )
    (row,) = root.login("fw_point").call("tend_scheduler_runs", access_point="here", alive=[])
    assert row["run_id"] == claimed["run_id"]


def test_who_submits_may_read_when_a_job_of_theirs_is_killed(busy: Root) -> None:
    alice = busy.login("fw_alice")
    alice.act("remove", "1.1")
    busy.connection.execute("UPDATE fetchwork.run SET signalled_at = to_timestamp(1000000)")
    assert alice.rows("SELECT facts -> 'FetchWorkKillDate' FROM fetchwork.jobs WHERE jobid = '1.1'") == [
        (1000600,)
    ]
