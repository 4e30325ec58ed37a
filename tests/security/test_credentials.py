"""Credentials by role: the rights to store, list and read them; a sealed secret stays sealed on its way."""

from pathlib import Path

import pytest

from fetchwork.credentials.keys import KeyFile, key_id, seal
from fetchwork.credentials.secret import Secret
from fetchwork.pool.postgres import PostgresServer
from tests.security.conftest import Root
from tests.security.roles import ROLES, denied
from tests.support.direct_queue import DirectQueue

TOKEN = b"the-token-that-nobody-may-read"


@pytest.fixture
def keys(root: Root, tmp_path: Path) -> KeyFile:
    """The keys of the hosts, and credentials of alice and bob."""
    keys = KeyFile(tmp_path / "credential.key")
    keys.add()
    public = keys.newest()
    root.call("publish_credential_key", public_key=public)
    for owner in ("alice", "bob"):
        root.call("grant_owner", role=f"fw_{owner}", owner=owner)
        sealed = seal(Secret(owner, "box", TOKEN).encode(), public)
        root.call("put_credential", owner=owner, name="box", key_id=key_id(public), sealed=sealed)
    return keys


def names(queue: DirectQueue) -> set[str]:
    return {owner for (owner,) in queue.rows("SELECT owner FROM fetchwork.credentials")}


def test_each_sees_which_are_stored_of_his_own(root: Root, keys: KeyFile) -> None:
    for role in ROLES:
        root.login(role)
    assert names(root.login("fw_alice")) == {"alice"}
    assert names(root.login("fw_bob")) == {"bob"}
    assert names(root.login("fw_reader")) == names(root.login("fw_agent")) == set()
    assert names(root.login("fw_admin")) == {"alice", "bob"}
    columns = {
        name
        for (name,) in root.rows(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = 'fetchwork' AND table_name = 'credentials'"
        )
    }
    assert "sealed" not in columns


def test_nobody_stores_or_deletes_anothers(root: Root, keys: KeyFile) -> None:
    key = key_id(keys.newest())
    put = "SELECT fetchwork.put_credential(%s, 'box', %s, 'x')"
    for role in ("fw_alice", "fw_reader", "fw_agent"):
        denied(root.login(role), put, "bob", key)
        denied(root.login(role), "SELECT fetchwork.delete_credential('bob', 'box')")
    assert "may not add or delete credentials of Owner 'bob'" in denied(
        root.login("fw_alice"), put, "bob", key
    )
    root.login("fw_alice").rows(put, "alice", key)


def test_an_access_point_stores_for_the_account_that_asks(root: Root, keys: KeyFile) -> None:
    point = root.login("fw_point")
    key = key_id(keys.newest())
    denied(point, "SELECT fetchwork.put_credential('alice', 'box', %s, 'x')", key)
    with point.connection.transaction():
        point.call("act_for", owner="alice")
        assert names(point) == {"alice"}
        point.call("put_credential", owner="alice", name="box", key_id=key, sealed=b"x")
    with point.connection.transaction():
        point.call("act_for", owner="alice")
        denied(point, "SELECT fetchwork.put_credential('bob', 'box', %s, 'x')", key)


def test_who_submits_can_not_have_what_is_sealed(root: Root, keys: KeyFile) -> None:
    token = "00000000-0000-0000-0000-000000000000"
    for role in ("fw_alice", "fw_reader", "fw_point"):
        denied(root.login(role), "SELECT * FROM fetchwork.run_credentials(1, %s)", token)
        denied(root.login(role), "SELECT * FROM fetchwork.changed_credentials(1, 0, 0)")
        denied(root.login(role), "SELECT * FROM fetchwork.sealed_otherwise(10)")
        denied(root.login(role), "SELECT fetchwork.publish_credential_key(%s)", b"k" * 32)
    denied(root.login("fw_agent"), "SELECT * FROM fetchwork.sealed_otherwise(10)")
    denied(root.login("fw_agent"), "SELECT fetchwork.publish_credential_key(%s)", b"k" * 32)


def test_a_dump_of_the_database_has_no_token(root: Root, postgres: PostgresServer, keys: KeyFile) -> None:
    root.submit(OAuthServicesNeeded="box")
    everything = b""
    tables = root.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'fetchwork'")
    for (table,) in tables:
        for (row,) in root.rows(f"SELECT t::text FROM fetchwork.{table} AS t"):
            everything += str(row).encode()
    assert b"box" in everything
    for form in (TOKEN, TOKEN.hex().encode(), b'alice", "name'):
        assert form not in everything
