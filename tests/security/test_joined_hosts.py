"""The role of one host is refused with another host's ids and tokens, and with used-up invitations."""

import secrets
import threading
from dataclasses import dataclass
from typing import Any

import psycopg
import psycopg.sql
import pytest

from tests.security.conftest import Root
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S, until

#: functions that name neither a host nor a run, and the reason why a host may call them
ELSEWHERE = {
    "report_runs": "runs of many tokens: below",
    "hello": "names the host: below",
    "renew_identity": "is about the caller's own identity",
    "own_host_state": "is about the caller's own host: below",
    "autocluster_ads": "ads of the host's queues: below",
    "apply_policy": "names a job: below",
    "policy_jobs": "for trusted hosts: below",
    "objects_over": "for trusted hosts: below",
    "objects_deleted": "for trusted hosts: below",
    "postpone_objects": "for trusted hosts: below",
    "bucket_probes": "URLs of an object that never exists",
    "sealing_key": "a public key",
    "group_figures": "sums of the pool by accounting group, no job and no person",
    "register_host_key": "is about the caller's own host: test_host_keys.py",
    "credentials_to_seal": "for trusted hosts: test_host_keys.py",
    "shares": "what matching needs: usage by submitter",
    "sends_notifications": "tells one bit",
    "take_leader_task": "work for all, tells nothing",
    "maintain_queue": "work for all, tells nothing",
    "sequence_events": "work for all, tells nothing",
    "lead": "work for all, tells nothing",
    "end_notification_reader": "work for all, tells nothing",
    "reap": "work for all, tells nothing",
    "wake": "work for all, tells nothing",
    "fold": "work for all, tells nothing",
    "preempt": "work for all, tells nothing",
    "maintain_tables": "work for all, tells nothing",
}
#: values of other arguments, by type
VALUES = {
    "bigint": 1,
    "integer": 1,
    "double precision": 1.0,
    "numeric": 1,
    "text": "x",
    "name": "x",
    "boolean": True,
    "uuid": "00000000-0000-0000-0000-000000000000",
    "jsonb": "{}",
    "bytea": b"x",
    "timestamp with time zone": "now",
    "xid8": "0",
    "fetchwork.run": None,
}


@dataclass
class Pool:
    root: Root
    stolen: DirectQueue
    role: str
    other: int
    token: str
    run_id: int
    ended: int
    ended_token: str


def verifier(root: Root, password: str) -> str:
    made = root.connection.pgconn.encrypt_password(password.encode(), b"x", b"scram-sha-256")
    return made.decode()


def session(root: Root, role: str, password: str) -> DirectQueue:
    connection = psycopg.connect(root.server.conninfo("kept", user=role, password=password), autocommit=True)
    root._opened.append(connection)
    return DirectQueue(connection)


def invite(root: Root, **bounds: object) -> tuple[int, DirectQueue]:
    password = secrets.token_urlsafe(8)
    (row,) = root.call("invite_host", verifier=verifier(root, password), **bounds)
    return row["number"], session(root, row["role"], password)


def join(root: Root, invited: DirectQueue, host: str, password: str = "pw") -> tuple[str, DirectQueue]:
    (row,) = invited.call("join_host", host=host, verifier=verifier(root, password))
    return row["role"], session(root, row["role"], password)


def refused(queue: DirectQueue, statement: str, *values: object) -> str:
    with pytest.raises(psycopg.Error) as caught:
        queue.rows(statement, *values)
    return str(caught.value.sqlstate)


@pytest.fixture
def pool(busy: Root) -> Pool:
    """A host that joined, and the host h1, which has runs of its own."""
    role, stolen = join(busy, invite(busy)[1], "stolen")
    ((run_id, token, other),) = busy.rows("SELECT run_id, token::text, host_id FROM fetchwork.run LIMIT 1")
    ((ended, ended_token),) = busy.rows("SELECT run_id, token::text FROM fetchwork.run_history LIMIT 1")
    return Pool(busy, stolen, role, other, token, run_id, ended, ended_token)


def state(root: Root) -> str:
    """Everything that an attack may change."""
    tables = ["run", "job", "host", "slot", "event", "run_history", "job_history", "autocluster_fault"]
    return str([root.rows(f"SELECT t::text FROM fetchwork.{table} AS t ORDER BY 1") for table in tables])


def reachable(queue: DirectQueue) -> list[tuple[str, dict[str, str]]]:
    """The functions that the session may call, with the types of their arguments by name."""
    return [
        (name, dict(zip(names[: len(types)], types, strict=True)))
        for name, names, types in queue.rows(
            """
            SELECT p.proname, coalesce(p.proargnames, '{}'),
                ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n) ORDER BY n)
            FROM pg_proc AS p
            WHERE p.pronamespace = 'fetchwork'::regnamespace AND has_function_privilege(p.oid, 'EXECUTE')
            """
        )
    ]


def attempt(queue: DirectQueue, name: str, types: dict[str, str], named: dict[str, object]) -> Any:
    """Call a function with these arguments and any others; the rows, or the SQLSTATE of the refusal."""
    named = {"slots": "[]", "manifest": "[]", **named}
    values = {key: named.get(key, [] if kind.endswith("[]") else VALUES[kind]) for key, kind in types.items()}
    call = ", ".join(f"{key} => %s::{types[key]}" for key in values)
    try:
        return queue.rows(f"SELECT * FROM fetchwork.{name}({call})", *values.values())
    except psycopg.Error as error:
        return error.sqlstate


def test_each_function_that_names_a_host_refuses_another_one(pool: Pool) -> None:
    before = state(pool.root)
    tried = [(name, types) for name, types in reachable(pool.stolen) if "host_id" in types]
    for name, types in tried:
        assert attempt(pool.stolen, name, types, {"host_id": pool.other}) == "FWDEN", name
        assert attempt(pool.stolen, name, types, {"host_id": None}) == "FWDEN", name
    assert len(tried) >= 12
    assert refused(pool.stolen, "SELECT fetchwork.hello('h1', '1', gen_random_uuid())") == "FWDEN"
    assert refused(pool.stolen, "SELECT fetchwork.hello('new', '1', gen_random_uuid())") == "FWDEN"
    assert state(pool.root) == before


def test_each_function_that_names_a_run_refuses_another_hosts_with_its_true_token(pool: Pool) -> None:
    before = state(pool.root)
    tried = [
        (name, types) for name, types in reachable(pool.stolen) if "run_id" in types and "token" in types
    ]
    for name, types in tried:
        for run_id, token in ((pool.run_id, pool.token), (pool.ended, pool.ended_token)):
            got = attempt(pool.stolen, name, types, {"run_id": run_id, "token": token})
            # no such run for this caller: an error, or an answer without anything in it
            empty = not isinstance(got, str) and not any(value for row in got for value in row)
            late = run_id == pool.ended and got == [("late",)]
            assert got in ("FWTOK", "FWNOT", "FWDEN", "FWINV") or empty or late, (name, got)
    assert len(tried) >= 20
    assert state(pool.root) == before


def test_the_reports_of_many_runs_leave_out_those_of_another_host(pool: Pool) -> None:
    before = state(pool.root)
    reports = pool.stolen.rows(
        """
        SELECT * FROM fetchwork.report_runs(
            %(ids)s, %(tokens)s, '{0}', %(ids)s, %(tokens)s, '{1:1}', '{s}', '{0}',
            %(ids)s, %(tokens)s, ARRAY['{"JobState": "Running"}'::jsonb], %(ids)s, %(tokens)s,
            ARRAY['{"ExitCode": 0, "JobDuration": 9}'::jsonb]
        )
        """.replace("%(ids)s", f"ARRAY[{pool.run_id}]::bigint[]").replace(
            "%(tokens)s", f"ARRAY['{pool.token}']::uuid[]"
        )
    )
    assert reports == [([], [], [], [])]
    assert state(pool.root) == before


def test_every_other_function_that_a_host_may_call_was_thought_of(pool: Pool) -> None:
    by_itself = {
        name
        for name, types in reachable(pool.stolen)
        if "host_id" not in types and not {"run_id", "token"} <= types.keys()
    }
    assert by_itself == ELSEWHERE.keys()


def test_a_host_reads_no_view_and_no_table(pool: Pool) -> None:
    readable = pool.stolen.rows(
        "SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'fetchwork'::regnamespace"
        " AND c.relkind IN ('r', 'v', 'p', 'S') AND has_table_privilege(c.oid, 'SELECT') ORDER BY 1"
    )
    assert readable == [("attribute",), ("migration",)]


def test_the_jobs_that_wait_are_judged_by_trusted_hosts_alone(pool: Pool) -> None:
    for call in (
        "policy_jobs()",
        "objects_over()",
        "objects_deleted('{}', '{}')",
        "postpone_objects('{}', '{}')",
    ):
        assert refused(pool.stolen, f"SELECT fetchwork.{call}") == "FWDEN", call
    before = state(pool.root)
    for run in ("NULL", str(pool.run_id)):
        statement = f"SELECT fetchwork.apply_policy(1, 2, 1, 'remove', 'x', run_id => {run})"
        assert refused(pool.stolen, statement) == "FWDEN"
    assert state(pool.root) == before
    assert pool.stolen.value("SELECT fetchwork.take_leader_task('policy', 0)") is False
    _, trusted = join(pool.root, invite(pool.root, trusted=True)[1], "trusted")
    assert trusted.value("SELECT fetchwork.take_leader_task('policy', 0)") is True
    assert trusted.rows("SELECT fetchwork.policy_jobs()") == []


def test_a_trusted_host_learns_that_the_leader_may_not_judge(pool: Pool) -> None:
    _, trusted = join(pool.root, invite(pool.root, trusted=True)[1], "trusted")
    # a uuid each
    mine, other = VALUES["uuid"], str(VALUES["uuid"]).replace("0", "1")
    (led,) = pool.stolen.call("lead", agent_id=mine, lead_s=60)
    assert (led["leads"], led["rests"]) == (True, False)
    (asked,) = trusted.call("lead", agent_id=other, lead_s=60)
    assert (asked["leads"], asked["rests"]) == (False, True)
    assert trusted.value("SELECT fetchwork.take_leader_task('policy', 60)") is True
    (asked,) = trusted.call("lead", agent_id=other, lead_s=60)
    assert asked["rests"] is False


def test_an_access_point_judges_the_jobs_that_wait_unless_it_acts_for_an_account(pool: Pool) -> None:
    root, point = pool.root, pool.root.login("fw_point")
    cluster = root.value("SELECT cluster_id FROM fetchwork.job WHERE job_status = 1 LIMIT 1")
    root.connection.execute("UPDATE fetchwork.job SET has_policy = true WHERE cluster_id = %s", [cluster])
    statements = (
        "SELECT fetchwork.policy_jobs()",
        "SELECT fetchwork.apply_policy(1, 2, 1, 'remove', 'x')",
        "SELECT fetchwork.objects_over()",
    )
    before = state(root)
    for statement in statements:
        with pytest.raises(psycopg.Error) as caught, point.connection.transaction():
            point.rows("SELECT fetchwork.act_for('alice')")
            assert point.value("SELECT fetchwork.take_leader_task('policy', 0)") is False
            point.rows(statement)
        assert caught.value.sqlstate == "FWDEN", statement
    assert state(root) == before
    assert point.value("SELECT fetchwork.take_leader_task('policy', 0)") is True
    # work that agents do stays theirs
    assert point.value("SELECT fetchwork.take_leader_task('preempt', 0)") is False
    assert cluster in [row["cluster_id"] for row in point.call("policy_jobs")]


def test_set_role_makes_no_other_host_of_it(pool: Pool) -> None:
    pool.stolen.rows("SELECT set_config('role', 'fetchwork_host', false)")
    assert refused(pool.stolen, "SELECT fetchwork.host_runs(%s)", pool.other) == "FWDEN"
    for role in ("fetchwork_agent", "fetchwork_admin", "fw_agent", "postgres"):
        assert refused(pool.stolen, "SELECT set_config('role', %s, false)", role) == "42501"


def wants(root: Root, host_id: int, *jobs: str, slots: int = 1) -> dict[str, object]:
    """A claim for some slots, by the autoclusters of these jobs; by that of any job that waits."""
    kinds = [root.column("autocluster_id", job) for job in jobs]
    kinds = kinds or [root.value("SELECT autocluster_id FROM fetchwork.waiting LIMIT 1")]
    each = {"exclusive": True, "choices": list(range(1, len(kinds) + 1)), "weights": 1}
    return {
        "host_id": host_id, "autoclusters": kinds, "prios": [0] * len(kinds), "hints": [0] * len(kinds),
        "slots": psycopg.types.json.Jsonb([{"slot": f"slot{n + 1}@x", **each} for n in range(slots)]),
    }  # fmt: skip


def own_id(pool: Root, name: str) -> int:
    return int(pool.value("SELECT host_id FROM fetchwork.host WHERE name = %s", name))


def test_a_host_gets_jobs_of_its_queues_and_no_more_than_its_slots(busy: Root) -> None:
    busy.call("set_queue", name="other")
    _, elsewhere = join(busy, invite(busy, queues=["other"])[1], "elsewhere")
    asked = wants(busy, own_id(busy, "elsewhere"))
    assert elsewhere.call("claim_many", **asked) == []
    assert elsewhere.call("autocluster_ads", ids=asked["autoclusters"]) == []
    (demand,) = elsewhere.call("read_demand", host_id=asked["host_id"], queues=["default", "other"])
    assert demand["autoclusters"] == []

    _, small = join(busy, invite(busy, queues=["default"], max_slots=1)[1], "small")
    asked = wants(busy, own_id(busy, "small"))
    (demand,) = small.call("read_demand", host_id=asked["host_id"], queues=["default", "other"])
    assert len(demand["autoclusters"]) == 2
    assert len(small.call("autocluster_ads", ids=asked["autoclusters"])) == 1
    (got,) = small.call("claim_many", **asked)
    assert got["run_id"]
    asked = {**wants(busy, own_id(busy, "small")), "slots": psycopg.types.json.Jsonb(
        [{"slot": "slot2@x", "exclusive": True, "choices": [1], "weights": 1}]
    )}  # fmt: skip
    assert small.call("claim_many", **asked) == []
    assert small.scalar("accept", run_id=got["run_id"], token=got["token"]) is True


def claimed(host: DirectQueue, asked: dict[str, object]) -> list[str]:
    return [f"{row['cluster_id']}.{row['proc_id']}" for row in host.call("claim_many", **asked)]


def test_a_hosts_jobs_request_no_more_cores_than_its_slots(busy: Root) -> None:
    _, host = join(busy, invite(busy, max_slots=4)[1], "bounded")
    own = own_id(busy, "bounded")
    three = [busy.submit(RequestCpus=3) for _ in range(3)]
    small = [busy.submit(RequestCpus=1) for _ in range(3)]
    asked = wants(busy, own, three[0], small[0], slots=4)
    # 3 and 1 are 4: the second one of 3 is passed over, and nothing more is had
    assert claimed(host, asked) == [three[0], small[0]]
    assert claimed(host, asked) == []
    (run,) = host.rows("SELECT run_id, token FROM fetchwork.host_runs(%s) WHERE cluster_id = %s", own, 3)
    assert host.scalar("reject", run_id=run[0], token=run[1], reason="x") is not None
    # 3 are free again
    assert claimed(host, wants(busy, own, three[1], slots=2)) == [three[1]]
    assert claimed(host, wants(busy, own, small[1])) == []

    # an expression counts for one core, and a job without a core for a slot
    _, other = join(busy, invite(busy, max_slots=2)[1], "other")
    odd = [busy.submit(RequestCpus=n) for n in ("/Expr(TARGET.Cpus)/", 0, 0)]
    assert claimed(other, wants(busy, own_id(busy, "other"), *odd[:2], slots=3)) == odd[:2]


def test_two_claims_at_once_request_no_more_cores_than_a_hosts_slots(busy: Root) -> None:
    role, first = join(busy, invite(busy, max_slots=4)[1], "bounded")
    second = session(busy, role, "pw")
    jobs = [busy.submit(RequestCpus=3) for _ in range(2)]
    asked = wants(busy, own_id(busy, "bounded"), jobs[0])
    answers: list[list[str]] = []
    with first.connection.transaction():
        got = claimed(first, asked)
        late = threading.Thread(target=lambda: answers.append(claimed(second, asked)))
        late.start()
        until(lambda: busy.value("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1, "the second")
    late.join(PATIENCE_S)
    assert (got, answers) == ([jobs[0]], [[]])


def test_an_invitation_lets_in_so_many_hosts_of_such_names_for_a_time(busy: Root) -> None:
    _, invited = invite(busy, hosts="ep*.example.org", uses=2)
    assert (
        refused(invited, "SELECT fetchwork.join_host('db.example.org', %s)", verifier(busy, "x")) == "FWDEN"
    )
    assert refused(invited, "SELECT fetchwork.join_host('ep1', %s)", "password") == "FWINV"
    join(busy, invited, "ep1.example.org")
    join(busy, invited, "ep2.example.org")
    assert (
        refused(invited, "SELECT fetchwork.join_host('ep3.example.org', %s)", verifier(busy, "x")) == "FWDEN"
    )
    for statement in ("SELECT fetchwork.host_runs(1)", "SELECT * FROM fetchwork.jobs"):
        assert refused(invited, statement) == "42501"

    number, invited = invite(busy, uses=2)
    busy.connection.execute("UPDATE fetchwork.invitation SET valid_until = now() WHERE number = %s", [number])
    assert refused(invited, "SELECT fetchwork.join_host('ep4', %s)", verifier(busy, "x")) == "FWDEN"
    number, invited = invite(busy, uses=2)
    assert busy.scalar("uninvite", number=number) is True
    with pytest.raises(psycopg.OperationalError):
        invited.rows("SELECT 1")
    assert busy.scalar("uninvite", number=number) is False


def test_a_join_whose_answer_was_lost_is_repeated_without_a_second_use(busy: Root) -> None:
    _, invited = invite(busy, uses=1)
    made = verifier(busy, "pw")
    (first,) = invited.call("join_host", host="ep1", verifier=made)
    (again,) = invited.call("join_host", host="ep1", verifier=made)
    assert first == again
    assert session(busy, again["role"], "pw").rows("SELECT 1") == [(1,)]


def test_a_name_that_is_taken_or_revoked_is_given_away_by_its_own_invitation_alone(busy: Root) -> None:
    _, invited = invite(busy, uses=9)
    join(busy, invited, "ep1")
    assert refused(invited, "SELECT fetchwork.join_host('ep1', %s)", verifier(busy, "x")) == "FWTWO"
    busy.call("revoke_host", host="ep1")
    assert refused(invited, "SELECT fetchwork.join_host('ep1', %s)", verifier(busy, "x")) == "FWTWO"
    # a host of old has no identity, but a live agent
    busy.host("old")
    assert refused(invited, "SELECT fetchwork.join_host('old', %s)", verifier(busy, "x")) == "FWTWO"
    for name in ("ep1", "old"):
        join(busy, invite(busy, hosts=name)[1], name)


def test_what_administrators_do_with_hosts_is_noted(busy: Root) -> None:
    number, invited = invite(busy, hosts="ep*")
    join(busy, invited, "ep1")
    busy.call("admit_host", host="ep1")
    busy.call("revoke_host", host="ep1")
    busy.call("uninvite", number=number)
    busy.call("uninvite", number=number)
    noted = (
        "SELECT action, subject, details FROM fetchwork.actions WHERE actionid IS NOT NULL ORDER BY actionid"
    )
    assert busy.rows(noted) == [
        ("invite_host", str(number), "ep*"),
        ("admit_host", "ep1", None),
        ("revoke_host", "ep1", None),
        ("uninvite", str(number), None),
    ]


def test_a_host_sees_the_state_of_itself_alone(pool: Pool) -> None:
    pool.root.call("set_queue", name="other")
    slot = "INSERT INTO fetchwork.slot (host_id, name) VALUES (%s, %s)"
    pool.root.connection.execute(slot, [pool.other, "slot1@theirs"])
    pool.root.connection.execute(slot, [own_id(pool.root, "stolen"), "slot1@mine"])
    _, elsewhere = join(pool.root, invite(pool.root, queues=["other"])[1], "elsewhere")
    seen = "SELECT host, queues, owners, jsonb_path_query_array(slots, '$[*].name') FROM fetchwork.own_host_state()"
    (mine,) = pool.stolen.rows(seen)
    assert (mine[0], mine[3]) == ("stolen", ["slot1@mine"])
    assert mine[2]
    # no owner of jobs in queues that it was not invited for
    assert elsewhere.rows(seen) == [("elsewhere", ["other"], [], [])]
    assert refused(pool.root.login("fw_agent"), "SELECT fetchwork.own_host_state()") == "42501"
    pool.root.connection.execute("UPDATE fetchwork.host_identity SET revoked_at = now()")
    assert refused(pool.stolen, "SELECT fetchwork.own_host_state()") == "FWDEN"


def test_a_revoked_host_is_refused_at_once_and_logs_in_no_more(pool: Pool) -> None:
    (told,) = pool.root.call("revoke_host", host="stolen")
    assert told["sessions"] == 0
    with pytest.raises(psycopg.OperationalError):
        pool.stolen.rows("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match=r"authentication failed|not permitted|not exist"):
        session(pool.root, pool.role, "pw")
    assert pool.root.call("revoke_host", host="h1") == []


def test_a_session_that_goes_on_after_revoke_is_refused(pool: Pool) -> None:
    # as where the owner of the schema may not end sessions
    own = own_id(pool.root, "stolen")
    assert pool.stolen.rows("SELECT * FROM fetchwork.host_runs(%s)", own) == []
    for change in ("revoked_at = now()", "revoked_at = NULL, valid_until = now()"):
        pool.root.connection.execute(f"UPDATE fetchwork.host_identity SET {change}")
        assert refused(pool.stolen, "SELECT fetchwork.host_runs(%s)", own) == "FWDEN"
        assert (
            refused(pool.stolen, "SELECT fetchwork.renew_identity(1, %s)", verifier(pool.root, "y"))
            == "FWDEN"
        )


def test_a_copied_identity_is_noticed_at_its_second_renewal(busy: Root) -> None:
    role, first = join(busy, invite(busy)[1], "ep1")
    second = session(busy, role, "pw")
    own = own_id(busy, "ep1")
    (got,) = first.call("claim_many", **wants(busy, own))
    (renewed,) = first.call("renew_identity", generation=1, verifier=verifier(busy, "of-first"))
    assert (renewed["generation_now"], renewed["copied"]) == (2, False)
    (found,) = second.call("renew_identity", generation=1, verifier=verifier(busy, "of-second"))
    assert found["copied"] is True
    shown = "SELECT machine FROM fetchwork.hosts WHERE copied_at IS NOT NULL"
    assert busy.rows(shown) == [("ep1",)]
    for queue in (first, second):
        assert queue.call("claim_many", **wants(busy, own)) == []
    # running jobs go on
    assert first.scalar("accept", run_id=got["run_id"], token=got["token"]) is True
    assert busy.scalar("admit_host", host="ep1") is True
    assert busy.rows(shown) == []
    (healed,) = second.call("renew_identity", generation=1, verifier=verifier(busy, "of-second"))
    assert healed["copied"] is False
    session(busy, role, "of-second")
    with pytest.raises(psycopg.OperationalError):
        session(busy, role, "of-first")


def test_a_renewal_whose_answer_was_lost_is_repeated(busy: Root) -> None:
    role, host = join(busy, invite(busy)[1], "ep1")
    made = verifier(busy, "next")
    (first,) = host.call("renew_identity", generation=1, verifier=made)
    # by a new session, which has the new password
    (again,) = session(busy, role, "next").call("renew_identity", generation=1, verifier=made)
    assert first == again


def test_who_is_no_administrator_neither_invites_nor_revokes(busy: Root) -> None:
    made = verifier(busy, "x")
    for role in ("fw_agent", "fw_reader", "fw_alice", "fw_point"):
        for call in (
            f"invite_host('{made}')",
            "invitations()",
            "uninvite(1)",
            "revoke_host('x')",
            "admit_host('x')",
            "forget_host('x')",
            "require_join()",
        ):
            assert refused(busy.login(role), f"SELECT fetchwork.{call}") == "42501", (role, call)
    (row,) = busy.login("fw_admin").call("invite_host", verifier=made)
    assert busy.login("fw_admin").call("invitations")[0]["number"] == row["number"]


def test_jobs_are_held_as_faulty_by_hosts_of_two_invitations(busy: Root) -> None:
    kind = busy.value("SELECT autocluster_id FROM fetchwork.waiting LIMIT 1")

    def fault(invited: DirectQueue, name: str) -> int:
        _, host = join(busy, invited, name)
        host.call("report_faults", host_id=own_id(busy, name), autoclusters=[kind], reasons=["too dear"])
        return int(busy.value("SELECT fetchwork.hold_faulty()"))

    _, one = invite(busy, uses=2)
    assert [fault(one, "a1"), fault(one, "a2"), fault(invite(busy)[1], "b1")] == [0, 0, 1]


def test_maintenance_drops_the_roles_of_what_is_over(pool: Pool) -> None:
    root = pool.root
    pool.stolen.connection.execute("CREATE TEMP TABLE keeps_the_role (x integer)")
    made = "SELECT count(*) FROM pg_roles WHERE rolname = %s"
    root.call("revoke_host", host="stolen")
    root.connection.execute("SELECT fetchwork.forget_identities()")
    assert root.value(made, pool.role) == 0
    number, _ = invite(root)
    role = root.value("SELECT role FROM fetchwork.invitation WHERE number = %s", number)
    root.connection.execute("UPDATE fetchwork.invitation SET valid_until = now() - interval '1 s'")
    root.connection.execute("SELECT fetchwork.forget_identities()")
    assert root.value(made, role) == 0


def roles(root: Root) -> set[str]:
    return {role for (role,) in root.rows("SELECT rolname FROM pg_roles WHERE rolname ~ '^fetchwork_host_'")}


def test_a_host_that_is_gone_is_forgotten_with_its_role_and_a_live_one_is_not(pool: Pool) -> None:
    root = pool.root
    own = own_id(root, "stolen")
    # the lease of h1 is alive
    assert refused(root, "SELECT fetchwork.forget_host('h1')") == "FWTWO"
    (got,) = pool.stolen.call("claim_many", **wants(root, own))
    assert refused(root, "SELECT fetchwork.forget_host('stolen')") == "FWTWO"
    pool.stolen.call("reject", run_id=got["run_id"], token=got["token"], reason="x")
    assert root.scalar("forget_host", host="stolen") is True
    assert pool.role not in roles(root)
    with pytest.raises(psycopg.OperationalError):
        pool.stolen.rows("SELECT 1")
    assert root.scalar("forget_host", host="stolen") is False
    # the name is free, for an invitation that does not name it too
    join(root, invite(root)[1], "stolen")


def test_ephemeral_hosts_are_forgotten_an_hour_after_they_fell_silent(busy: Root) -> None:
    _, pilots = invite(busy, uses=3, ephemeral=True)
    gone, _ = join(busy, pilots, "gone")
    alive, _ = join(busy, pilots, "alive")
    runs, session_of = join(busy, pilots, "runs")
    stays, _ = join(busy, invite(busy)[1], "stays")
    session_of.call("claim_many", **wants(busy, own_id(busy, "runs")))
    old = "now() - interval '61 min'"
    busy.connection.execute(f"UPDATE fetchwork.host_identity SET joined_at = {old}")
    busy.connection.execute(f"UPDATE fetchwork.host SET seen_at = {old} WHERE name <> 'alive'")
    busy.connection.execute("SELECT fetchwork.forget_identities()")
    assert gone not in roles(busy)
    assert {alive, runs, stays} <= roles(busy)
    assert busy.value("SELECT count(*) FROM fetchwork.host WHERE name = 'gone'") == 0


def test_the_last_use_of_an_invitation_lets_one_of_two_hosts_in(busy: Root) -> None:
    number, first = invite(busy, uses=1)
    role = busy.value("SELECT role FROM fetchwork.invitation WHERE number = %s", number)
    busy.connection.execute(
        psycopg.sql.SQL("ALTER ROLE {} PASSWORD {}").format(psycopg.sql.Identifier(role), "again")
    )
    second = session(busy, role, "again")
    made = [verifier(busy, name) for name in ("ep1", "ep2")]
    answers: list[object] = []

    def come(queue: DirectQueue, name: str, secret: str) -> None:
        try:
            answers.append(queue.rows("SELECT role FROM fetchwork.join_host(%s, %s)", name, secret))
        except psycopg.Error as error:
            answers.append(error.sqlstate)

    with busy.connection.transaction():
        # both wait for the invitation's row
        busy.rows("SELECT FROM fetchwork.invitation WHERE number = %s FOR UPDATE", number)
        both = [
            threading.Thread(target=come, args=one)
            for one in ((first, "ep1", made[0]), (second, "ep2", made[1]))
        ]
        for one in both:
            one.start()
        until(lambda: busy.value("SELECT count(*) FROM pg_locks WHERE NOT granted") == 2, "both to wait")
    for one in both:
        one.join(PATIENCE_S)
    assert [answer for answer in answers if isinstance(answer, str)] == ["FWDEN"]
    assert len(answers) == 2
    assert busy.value("SELECT used FROM fetchwork.invitation WHERE number = %s", number) == 1


def test_a_pool_moves_over_while_it_runs_and_then_refuses_the_shared_role(pool: Pool) -> None:
    root, shared = pool.root, pool.root.login("fw_agent")
    own = own_id(root, "stolen")
    # both kinds are served until then
    assert shared.call("host_runs", host_id=pool.other) != []
    assert pool.stolen.call("host_runs", host_id=own) == []
    assert refused(root, "SELECT fetchwork.require_join()") == "FWDEN"
    assert shared.call("host_runs", host_id=pool.other) != []
    roles_left = root.scalar("require_join", forced=True)
    assert "fw_agent" in roles_left
    assert pool.role not in roles_left
    before = state(root)
    for host in (pool.other, own):
        assert refused(shared, "SELECT fetchwork.host_runs(%s)", host) == "FWDEN"
        assert shared_claims(shared, root, host) == "FWDEN"
    assert refused(shared, "SELECT fetchwork.hello('h1', '1', gen_random_uuid())") == "FWDEN"
    assert refused(shared, "SELECT fetchwork.hello('new', '1', gen_random_uuid())") == "FWDEN"
    assert refused(shared, "SELECT fetchwork.policy_jobs()") == "FWDEN"
    # a true token is worth nothing to it either
    finish = "SELECT fetchwork.finish(%s, %s, 'exit', '{}')"
    assert refused(shared, finish, pool.run_id, pool.token) == "FWTOK"
    assert state(root) == before
    assert pool.stolen.call("host_runs", host_id=own) == []
    (got,) = pool.stolen.call("claim_many", **wants(root, own))
    assert got["run_id"]
    root.call("require_join", required=False)
    assert shared.call("host_runs", host_id=pool.other) != []


def shared_claims(queue: DirectQueue, root: Root, host_id: int) -> object:
    try:
        return queue.call("claim_many", **wants(root, host_id))
    except psycopg.Error as error:
        return error.sqlstate
