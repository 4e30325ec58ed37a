"""Tokens of people: who may make and revoke them, and what a session with one may do."""

import hashlib

import psycopg
import pytest

from tests.security.conftest import Root
from tests.security.roles import denied
from tests.support.direct_queue import DirectQueue


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def made(queue: DirectQueue, owner: str, text: str, *, read_only: bool = False, valid_s: float = 60) -> int:
    (row,) = queue.call(
        "create_token", owner=owner, digest=digest(text), valid_s=valid_s, read_only=read_only
    )
    return int(row["number"])


ACT = "SELECT owner FROM fetchwork.act_by_token(%s, %s)"


def test_people_make_and_revoke_tokens_of_their_own_and_administrators_all(busy: Root) -> None:
    alice, bob, admin = busy.login("fw_alice"), busy.login("fw_bob"), busy.login("fw_admin")
    own, of_bob = made(alice, "alice", "a"), made(admin, "bob", "b", read_only=True)
    create = "SELECT fetchwork.create_token(%s, %s, 60)"
    assert "Owner 'bob'" in denied(alice, create, "bob", digest("x"))
    # the schema's owner may, and a token of root is no use
    assert "never root" in denied(admin, create, "root", digest("x"))
    assert "allowed: 32" in denied(alice, create, "alice", b"secret")
    assert "1 to 31622400" in denied(alice, "SELECT fetchwork.create_token('alice', %s, 1e9)", digest("x"))
    assert [row["number"] for row in alice.call("tokens")] == [own]
    assert [row["number"] for row in admin.call("tokens")] == [of_bob, own]
    # one of others does not exist
    for number in (own, 9):
        assert f"there is no token {number}" in denied(bob, "SELECT fetchwork.revoke_token(%s)", number)
    assert bob.scalar("revoke_token", number=of_bob) is True
    assert bob.scalar("revoke_token", number=of_bob) is False
    assert admin.scalar("revoke_token", number=own) is True
    assert [row["state"] for row in admin.call("tokens")] == ["revoked", "revoked"]
    noted = "SELECT action, role, owner, subject, details FROM fetchwork.actions WHERE actionid IS NOT NULL"
    assert busy.rows(f"{noted} ORDER BY actionid") == [
        ("create_token", "fw_alice", "alice", str(own), None),
        ("create_token", "fw_admin", "bob", str(of_bob), "read only"),
        ("revoke_token", "fw_bob", "bob", str(of_bob), None),
        ("revoke_token", "fw_admin", "alice", str(own), None),
    ]


def test_an_owner_has_a_bounded_number_of_valid_tokens(busy: Root) -> None:
    alice = busy.login("fw_alice")
    numbers = [made(alice, "alice", str(n)) for n in range(100)]
    create = "SELECT fetchwork.create_token(%s, %s, 60)"
    assert "the most" in denied(alice, create, "alice", digest("more"))
    made(busy.login("fw_bob"), "bob", "b")
    alice.scalar("revoke_token", number=numbers[0])
    made(alice, "alice", "more")


def test_a_token_gives_its_owners_rights_alone_for_a_transaction(busy: Root) -> None:
    made(busy, "alice", "a")
    point = busy.login("fw_point")
    with point.connection.transaction():
        assert point.value(ACT, digest("a"), True) == "alice"
        assert {owner for (owner,) in point.rows("SELECT owner FROM fetchwork.jobs")} == {"alice"}
        assert point.act("hold", "1.2") == 1
        # it makes no further tokens, by the service's rights neither
        with pytest.raises(psycopg.Error) as caught, point.connection.transaction():
            made(point, "alice", "x")
        assert caught.value.sqlstate == "42501"
        assert "is not in the queue" in denied_within(point, "SELECT fetchwork.hold(ARRAY['2.2'])")
    assert len({owner for (owner,) in point.rows("SELECT owner FROM fetchwork.jobs")}) == 2
    admin = busy.login("fw_admin")
    assert "permission denied" in denied(admin, ACT, digest("a"), False)


def denied_within(queue: DirectQueue, statement: str) -> str:
    with pytest.raises(psycopg.Error) as caught, queue.connection.transaction():
        queue.rows(statement)
    return str(caught.value)


def test_what_is_no_valid_token_opens_nothing(busy: Root) -> None:
    point = busy.login("fw_point")
    number = made(busy, "alice", "a")
    made(busy, "alice", "r", read_only=True)
    # guesses, and the digest that the database has, taken for a token
    for guess in (b"", b"a", digest(""), digest("A"), digest("a")[:31], digest(digest("a").hex()), None):
        assert "not known here" in denied(point, ACT, guess, False)
    assert "read-only" in denied(point, ACT, digest("r"), True)
    assert point.value(ACT, digest("r"), False) == "alice"
    busy.call("revoke_token", number=number)
    assert "was revoked" in denied(point, ACT, digest("a"), False)
    made(busy, "alice", "short")
    busy.connection.execute("UPDATE fetchwork.person_token SET valid_until = now() WHERE revoked_at IS NULL")
    assert "is over" in denied(point, ACT, digest("short"), False)
    for role in ("fw_alice", "fw_reader", "fw_agent", "fw_nobody"):
        denied(busy.login(role), ACT, digest("r"), False)
        denied(busy.login(role), "SELECT digest FROM fetchwork.person_token")


def test_ended_tokens_are_forgotten_after_a_month(busy: Root) -> None:
    made(busy, "alice", "old")
    kept = made(busy, "alice", "kept")
    busy.connection.execute(
        "UPDATE fetchwork.person_token SET valid_until = now() - interval '31 d' WHERE number <> %s", [kept]
    )
    busy.connection.execute("SELECT fetchwork.forget_identities()")
    assert busy.rows("SELECT number FROM fetchwork.person_token") == [(kept,)]
