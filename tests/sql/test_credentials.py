"""Credentials in the database: rights to store, list and get them, jobs that need them, keys, renewal."""

import hashlib
from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import EXITED, Claimed, DirectQueue

PUBLIC, OTHER = b"p" * 32, b"q" * 32


def key(public: bytes = PUBLIC) -> str:
    return hashlib.sha256(public).hexdigest()[:16]


@pytest.fixture(autouse=True)
def published(queue: DirectQueue) -> None:
    assert queue.scalar("publish_credential_key", public_key=PUBLIC) is True


def put(queue: DirectQueue, name: str = "box", owner: str = "alice", **more: Any) -> int:
    stored = {"key_id": key(), "sealed": b"sealed", **more}
    return int(queue.scalar("put_credential", owner=owner, name=name, **stored))


def needing(queue: DirectQueue, services: str = "box", **more: Any) -> str:
    return queue.submit(OAuthServicesNeeded=services, **more)


def started(queue: DirectQueue, slot: str = "slot1@h1") -> Claimed:
    (run,) = [queue.claim(slot)]
    assert run is not None
    queue.call("start", run_id=run.run_id, token=run.token, starter="1:1")
    return run


def needed(queue: DirectQueue, run: Claimed) -> dict[str, Any]:
    rows = queue.call("run_credentials", run_id=run.run_id, token=run.token)
    return {row["name"]: row["sealed"] for row in rows}


# ---- jobs that ask for them


def test_a_job_is_refused_whose_credential_is_not_stored(queue: DirectQueue) -> None:
    put(queue, "box")
    put(queue, "disk", owner="bob")
    needing(queue)
    for services, lacking in (("disk", "disk"), ("box, other*h", "other_h"), ("box*h", "box_h")):
        with pytest.raises(psycopg.Error, match=f"credential '{lacking}' of Owner 'alice' is not stored"):
            needing(queue, services)


@pytest.mark.parametrize(
    ("stored", "asked", "problem"),
    [
        ({}, ["", ""], None),
        ({"permissions": "read:/ write:/x"}, ["write:/x, read:/", ""], None),
        ({"permissions": "read:/", "resource": "https://a"}, ["read:/", "https://a"], None),
        ({"permissions": "read:/"}, ["", ""], None),
        ({}, ["read:/", ""], "permissions 'read:/', it has ''"),
        (
            {"permissions": "read:/ write:/x"},
            ["read:/", ""],
            "permissions 'read:/', it has 'read:/ write:/x'",
        ),
        ({"permissions": "read:/"}, ["read:/", "https://a"], "resource 'https://a', it has ''"),
        ({"resource": "https://b"}, ["", "https://a"], "resource 'https://a', it has 'https://b'"),
    ],
)
def test_a_job_that_asks_for_other_permissions_than_were_stored_is_refused(
    queue: DirectQueue, stored: dict[str, str], asked: list[str], problem: str | None
) -> None:
    put(queue, "box_h", **stored)
    # another owner's credential neither helps nor interferes
    put(queue, "box_h", owner="bob", permissions="all", resource="everything")
    put(queue, "disk")
    said = ["disk", "", "", "box_h", *asked]
    if problem is None:
        needing(queue, "disk,box*h", FetchWorkOAuthRequests=said)
        return
    with pytest.raises(psycopg.Error) as refused:
        needing(queue, "disk,box*h", FetchWorkOAuthRequests=said)
    assert f"credential 'box_h' of Owner 'alice' was found, but did not match the requested {problem}" in str(
        refused.value
    )


def test_what_is_said_of_many_credentials_is_taken_apart_once(queue: DirectQueue) -> None:
    """One ad may name as many as fit: the cost must not be the square of their number."""
    put(queue, permissions="read:/ " * 200, resource="https://a")
    said = [word for n in range(500) for word in ("box" if n % 2 else f"other{n}", "read:/", "https://a")]
    with queue.connection.transaction():
        queue.connection.execute("SET LOCAL track_functions = 'all'")
        needing(queue, FetchWorkOAuthRequests=said)
        (calls,) = queue.rows(
            "SELECT pg_stat_get_xact_function_calls('fetchwork.words_of(text)'::regprocedure)"
        )
    # two calls for each requested credential, and two for all stored ones
    assert calls == (2 * 500 + 2,)
    with pytest.raises(psycopg.Error, match="did not match the requested resource 'https://b'"):
        needing(queue, FetchWorkOAuthRequests=[*said, "box", "read:/", "https://b"])


@pytest.mark.parametrize("strange", ["box", 7, {"box": 1}, ["box"], [["box", "x", "y"]], [None, None, None]])
def test_what_is_said_of_credentials_may_be_anything(queue: DirectQueue, strange: object) -> None:
    put(queue)
    try:
        needing(queue, FetchWorkOAuthRequests=strange)
    except psycopg.Error as refused:
        assert refused.sqlstate == "FWINV"


def test_each_job_of_a_cluster_is_looked_at(queue: DirectQueue) -> None:
    put(queue)
    common = {"Cmd": "/bin/true", "Owner": "alice"}
    queue.submit_many([{"OAuthServicesNeeded": "box"}, {}], common)
    with pytest.raises(psycopg.Error, match="'other' of Owner 'alice'"):
        queue.submit_many([{"OAuthServicesNeeded": "box"}, {"OAuthServicesNeeded": "other"}], common)


@pytest.mark.parametrize(
    "services", ["a/b", "../x", "a*", "*h", "a;b", 3, True, "/Expr(x)/", "a" * 2001, "ä"]
)
def test_a_service_that_no_file_can_be_named_after_is_refused(queue: DirectQueue, services: object) -> None:
    with pytest.raises(psycopg.Error, match="OAuthServicesNeeded"):
        queue.submit(OAuthServicesNeeded=services)


def test_a_job_that_asks_for_none_needs_none(queue: DirectQueue) -> None:
    queue.submit(OAuthServicesNeeded="")
    assert needed(queue, started(queue)) == {}


def test_an_edit_can_not_ask_for_what_is_not_stored(queue: DirectQueue) -> None:
    job = queue.submit()
    with pytest.raises(psycopg.Error, match="is not stored"):
        queue.act("edit", job, changes={"OAuthServicesNeeded": "box"})
    put(queue)
    assert queue.act("edit", job, changes={"OAuthServicesNeeded": "box"}) == 1
    assert needed(queue, started(queue)) == {"box": b"sealed"}


# ---- storing


def test_a_credential_goes_over_the_one_before(queue: DirectQueue) -> None:
    first = put(queue, sealed=b"1", renewable=True, permissions="read:/")
    assert put(queue, sealed=b"2") > first
    assert queue.rows("SELECT name, renewable, permissions, keyid FROM fetchwork.credentials") == [
        ("box", False, None, key())
    ]


def test_a_credential_is_stored_only_with_the_current_key(queue: DirectQueue) -> None:
    queue.call("publish_credential_key", public_key=OTHER)
    with pytest.raises(psycopg.Error, match="is not the current one"):
        put(queue)
    put(queue, key_id=key(OTHER))


@pytest.mark.parametrize("name", ["", ".a", "a/b", "a*b", "x" * 129, "a\nb", None])
def test_a_credential_has_a_name_that_a_file_can_have(queue: DirectQueue, name: str | None) -> None:
    with pytest.raises(psycopg.Error, match="is not the name of a credential"):
        queue.scalar("put_credential", owner="alice", name=name, key_id=key(), sealed=b"x")


@pytest.mark.parametrize("more", [{"sealed": b""}, {"sealed": b"x" * 65537}, {"resource": "x" * 2001}])
def test_a_credential_has_a_bounded_size(queue: DirectQueue, more: dict[str, Any]) -> None:
    with pytest.raises(psycopg.Error, match="too long"):
        put(queue, **more)


@pytest.mark.parametrize("when", ["infinity", "-infinity", "10000-01-01", "0044-03-15 BC"])
def test_a_credential_expires_in_a_year_that_agents_know(queue: DirectQueue, when: str) -> None:
    """A date that they cannot read would keep all other owners' credentials from them too."""
    with pytest.raises(psycopg.Error, match="allowed: 1970-01-01 to 9999-01-01"):
        put(queue, expires_at=when)
    put(queue, expires_at="9998-12-31 12:00+00")


def test_an_owner_has_a_bounded_number(queue: DirectQueue) -> None:
    queue.call("set_setting", name="max_credentials", value=2)
    put(queue, "a")
    put(queue, "b")
    put(queue, "b")
    with pytest.raises(psycopg.Error, match="has 2 credentials already"):
        put(queue, "c")
    put(queue, "c", owner="bob")


def test_a_deleted_credential_is_gone(queue: DirectQueue) -> None:
    put(queue)
    assert queue.scalar("delete_credential", owner="alice", name="box") is True
    assert queue.scalar("delete_credential", owner="alice", name="box") is False


# ---- runs


def test_a_run_gets_what_its_job_asks_for_and_nothing_else(queue: DirectQueue) -> None:
    for name in ("box", "box_h", "other"):
        put(queue, name, sealed=name.encode())
    put(queue, "box", owner="bob", sealed=b"bob's")
    needing(queue, "box*h, box box")
    run = started(queue)
    assert needed(queue, run) == {"box": b"box", "box_h": b"box_h"}
    queue.call("delete_credential", owner="alice", name="box")
    assert needed(queue, run) == {"box": None, "box_h": b"box_h"}
    with pytest.raises(psycopg.Error, match="token"):
        queue.call("run_credentials", run_id=run.run_id, token="00000000-0000-0000-0000-000000000000")
    queue.call(
        "finish", run_id=run.run_id, token=run.token, hook_reason="exit", report={**EXITED, "ExitCode": 0}
    )
    assert needed(queue, run) == {}


def noted(queue: DirectQueue, run: Claimed, **versions: int) -> None:
    of_run = {"run_id": run.run_id, "token": run.token}
    assert queue.scalar("note_credentials", **of_run, directory="/x/.condor_creds", versions=versions) is True


def changed(queue: DirectQueue, within_s: float = 60, settled_s: float = 0) -> list[tuple[int, str, bytes]]:
    rows = queue.call("changed_credentials", host_id=queue.host(), within_s=within_s, settled_s=settled_s)
    assert all(row["directory"] == "/x/.condor_creds" for row in rows)
    return [(row["run_id"], row["name"], row["sealed"]) for row in rows]


def test_a_run_has_what_changed_since(queue: DirectQueue) -> None:
    versions = {name: put(queue, name) for name in ("box", "disk")}
    needing(queue, "box,disk")
    run = started(queue)
    assert changed(queue) == []
    noted(queue, run, **versions)
    assert changed(queue) == []
    versions["box"] = put(queue, "box", sealed=b"new")
    # its hook may still write the old one
    assert changed(queue, settled_s=3600) == []
    assert changed(queue) == [(run.run_id, "box", b"new")]
    noted(queue, run, **versions)
    assert changed(queue) == []
    queue.call("delete_credential", owner="alice", name="box")
    assert changed(queue) == []


def test_what_can_be_renewed_is_told_before_it_expires(queue: DirectQueue) -> None:
    of = {"box": True, "disk": False}
    versions = {
        name: put(
            queue, name, renewable=renewable, expires_at=queue.value("SELECT now() + interval '1 hour'")
        )
        for name, renewable in of.items()
    }
    needing(queue, "box,disk")
    run = started(queue)
    noted(queue, run, **versions)
    assert changed(queue, within_s=1800) == []
    assert changed(queue, within_s=7200) == [(run.run_id, "box", b"sealed")]


# ---- renewal


def begin(queue: DirectQueue, run: Claimed, version: int, name: str = "box") -> bool:
    return bool(queue.scalar("begin_renewal", run_id=run.run_id, token=run.token, name=name, version=version))


def renew(queue: DirectQueue, run: Claimed, version: int, **more: Any) -> int | None:
    told = {
        "name": "box",
        "version": version,
        "key_id": key(),
        "sealed": b"fresh",
        "expires_at": None,
        **more,
    }
    value: int | None = queue.scalar("renew_credential", run_id=run.run_id, token=run.token, **told)
    return value


def test_one_agent_at_a_time_asks_the_issuer(queue: DirectQueue) -> None:
    version = put(queue, renewable=True)
    needing(queue)
    needing(queue)
    one, two = started(queue), started(queue, "slot2@h1")
    assert begin(queue, one, version) is True
    assert begin(queue, two, version) is False
    fresh = renew(queue, one, version)
    assert fresh is not None
    assert fresh > version
    assert needed(queue, two) == {"box": b"fresh"}
    # it is valid for a while
    assert begin(queue, two, fresh) is False
    # an agent that did not end its renewal does not keep it for ever
    queue.connection.execute("UPDATE fetchwork.credential SET renewed_at = now() - interval '1 minute'")
    assert begin(queue, two, fresh) is True
    queue.connection.execute("UPDATE fetchwork.credential SET renewing_until = now() - interval '1 second'")
    assert begin(queue, one, fresh) is True


def test_what_was_stored_meanwhile_is_not_overwritten(queue: DirectQueue) -> None:
    version = put(queue, renewable=True)
    needing(queue)
    run = started(queue)
    assert begin(queue, run, version)
    put(queue, sealed=b"newer", renewable=True)
    assert renew(queue, run, version) is None
    assert needed(queue, run) == {"box": b"newer"}
    assert begin(queue, run, version) is False


def test_a_run_renews_what_its_job_asks_for_alone(queue: DirectQueue) -> None:
    version, theirs = put(queue, renewable=True), put(queue, owner="bob", renewable=True)
    other = put(queue, "other", renewable=True)
    needing(queue)
    run = started(queue)
    assert begin(queue, run, other, "other") is False
    assert begin(queue, run, theirs) is False
    assert renew(queue, run, theirs) is None
    assert renew(queue, run, other, name="other") is None
    plain = put(queue)
    assert begin(queue, run, plain) is False
    assert begin(queue, run, version) is False


def test_what_an_issuer_answered_is_stored_though_the_run_has_ended(queue: DirectQueue) -> None:
    version = put(queue, renewable=True)
    for _ in range(3):
        needing(queue)
    asked, never, forged = (started(queue, f"slot{n}@h1") for n in (1, 2, 3))
    assert begin(queue, asked, version)
    for run in (asked, never):
        queue.finish(run)
    # an agent that did not ask cannot end it, nor can a run with another token
    assert renew(queue, never, version) is None
    assert renew(queue, asked._replace(token=forged.token), version) is None
    assert renew(queue, asked, version, name="other") is None
    assert needed(queue, forged) == {"box": b"sealed"}
    assert renew(queue, asked, version) is not None
    assert needed(queue, forged) == {"box": b"fresh"}
    # once
    assert renew(queue, asked, version) is None


def test_an_answer_is_not_stored_over_what_somebody_stored_after_the_run(queue: DirectQueue) -> None:
    version = put(queue, renewable=True)
    needing(queue)
    needing(queue)
    run, other = started(queue), started(queue, "slot2@h1")
    assert begin(queue, run, version)
    queue.finish(run)
    put(queue, sealed=b"newer", renewable=True)
    assert renew(queue, run, version) is None
    assert needed(queue, other) == {"box": b"newer"}


def test_a_renewed_credential_is_sealed_to_a_known_key(queue: DirectQueue) -> None:
    version = put(queue, renewable=True)
    needing(queue)
    with pytest.raises(psycopg.Error, match="a key that is not known"):
        renew(queue, started(queue), version, key_id="0" * 16)


# ---- keys


def test_keys_change_and_go_when_nothing_is_sealed_to_them(queue: DirectQueue) -> None:
    version = put(queue)
    assert queue.scalar("publish_credential_key", public_key=OTHER) is True
    assert queue.scalar("publish_credential_key", public_key=OTHER) is False
    assert queue.call("sealing_key") == [{"key_id": key(OTHER), "public_key": OTHER}]
    (row,) = queue.call("sealed_otherwise", n=10)
    assert queue.call("sealed_otherwise", n=10, after_owner=row["owner"], after_name=row["name"]) == []
    assert queue.call("sealed_otherwise", n=10, after_owner=row["owner"], after_name="") == [row]
    assert (row["name"], row["key_id"], row["sealed"]) == ("box", key(), b"sealed")
    told = {"owner": "alice", "name": "box", "key_id": key(OTHER), "sealed": b"anew"}
    assert queue.scalar("reseal_credential", **told, version=version - 1) is False
    assert queue.scalar("reseal_credential", **told, version=version) is True
    assert queue.call("sealed_otherwise", n=10) == []
    queue.call("publish_credential_key", public_key=OTHER)
    assert queue.rows("SELECT key_id FROM fetchwork.credential_key") == [(key(OTHER),)]
    needing(queue)
    assert needed(queue, started(queue)) == {"box": b"anew"}


def test_to_store_a_credential_waits_for_nobodys_transaction(queue: DirectQueue) -> None:
    slow = queue.another(autocommit=False)
    put(slow, "slow")
    put(queue, "quick")
    queue.call("publish_credential_key", public_key=OTHER)
    put(queue, "quicker", key_id=key(OTHER))
    slow.connection.commit()
    assert [row["name"] for row in queue.call("sealed_otherwise", n=10)] == ["quick", "slow"]


def test_a_key_of_another_length_is_none(queue: DirectQueue) -> None:
    for public in (b"", b"x" * 31, None):
        with pytest.raises(psycopg.Error, match="allowed: the 32 bytes"):
            queue.call("publish_credential_key", public_key=public)
