"""Hosts and access points join, renew and end where the schema's owner may make roles and is no superuser."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from fetchwork.config.identity import read_identity, verifier_of
from fetchwork.db import schema
from fetchwork.pool.postgres import PostgresServer, system_programs
from tests.support.direct_queue import DirectQueue
from tests.support.joining import invite, join, run_host

Open = Callable[[str], DirectQueue]
ROLES = "SELECT rolname FROM pg_roles WHERE rolname ~ '^fetchwork_.*_[0-9]+$'"


@pytest.fixture(scope="module", params=["wheel", "system"])
def owner(request: pytest.FixtureRequest, public_directory: Callable[[], Path]) -> Iterator[str]:
    """The connection string of the owner of a queue, in a server of its own: roles belong to all databases."""
    programs = system_programs() if request.param == "system" else None
    if request.param == "system" and programs is None:
        pytest.skip("no PostgreSQL of the system: nothing in /usr/lib/postgresql/*/bin")
    server = PostgresServer(public_directory() / "postgres", programs=programs, durable=False)
    server.start()
    try:
        server.query("CREATE ROLE keeper LOGIN CREATEROLE NOSUPERUSER PASSWORD 'x'")
        server.query("CREATE DATABASE plain OWNER keeper")
        conninfo = server.conninfo("plain", user="keeper", password="x")
        schema.init(conninfo)
        yield conninfo
    finally:
        server.stop("immediate")


@pytest.fixture
def session() -> Iterator[Open]:
    """Opens sessions."""
    with ExitStack() as stack:
        yield lambda conninfo: DirectQueue(stack.enter_context(psycopg.connect(conninfo, autocommit=True)))


def conninfo_in(file: Path) -> str:
    found = re.search(r'(?:conninfo = "|FETCHWORK_DSN=)([^"\n]+)', file.read_text())
    assert found is not None
    return found[1]


def test_a_host_joins_renews_and_ends(owner: str, session: Open, tmp_path: Path) -> None:
    file = join(owner, invite(owner), tmp_path)
    identity = read_identity(tmp_path / "id" / "main.pgpass")
    assert identity is not None
    host = session(conninfo_in(file))
    assert host.call("own_host_state")[0]["host"] == "ep1"
    assert host.call("hello", host="ep1", agent_version="1", agent_id="0" * 32)
    (renewed,) = host.call("renew_identity", generation=1, verifier=verifier_of("next"))
    assert (renewed["generation_now"], renewed["copied"]) == (2, False)
    session(f"{conninfo_in(file)} password=next")
    told = run_host(owner, "revoke", "ep1")
    assert "is revoked" in told
    with pytest.raises(psycopg.Error):
        host.call("own_host_state")
    with pytest.raises(psycopg.OperationalError):
        session(f"{conninfo_in(file)} password=next")


def test_an_access_point_joins_and_acts(owner: str, session: Open, tmp_path: Path) -> None:
    file = tmp_path / "point.env"
    words = ["--name", "submit1", "--state", tmp_path / "id", "--config", file]
    run_host(owner, "join", invite(owner, "--access-point", "--owners", "alice"), *words)
    point = session(conninfo_in(file))
    with point.connection.transaction():
        point.rows("SELECT fetchwork.act_for('alice')")
        point.submit(Owner="alice")
    assert point.rows("SELECT owner FROM fetchwork.jobs") == [("alice",)]
    with pytest.raises(psycopg.errors.DatabaseError, match="may not act for Owner"):
        point.rows("SELECT fetchwork.act_for('bob')")
    # a role that can't be dropped: the owner has become a member to end its session, and must not stay one
    queue = session(owner)
    ((role,),) = point.rows("SELECT session_user")
    queue.connection.execute(f"GRANT SELECT ON fetchwork.jobs TO {role}")
    run_host(owner, "revoke", "access point submit1")
    assert queue.rows("SELECT rolname FROM pg_roles WHERE rolname = %s", role) == [(role,)]
    assert queue.rows("SELECT owner FROM fetchwork.jobs") == [("alice",)]
    queue.connection.execute(f"REVOKE SELECT ON fetchwork.jobs FROM {role}")


def test_roles_of_hosts_that_are_gone_are_dropped(owner: str, session: Open, tmp_path: Path) -> None:
    queue = session(owner)
    join(owner, invite(owner), tmp_path, "ep2")
    assert "is forgotten" in run_host(owner, "forget", "ep2")
    queue.connection.execute("UPDATE fetchwork.invitation SET valid_until = now() - interval '1 second'")
    queue.connection.execute("UPDATE fetchwork.host_identity SET revoked_at = now()")
    queue.call("maintain_tables")
    assert queue.rows(ROLES) == []
