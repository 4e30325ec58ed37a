"""A joined host opens the credentials of the runs that it was given, and no others."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fetchwork.config.identity import write_private
from fetchwork.credentials.keys import KeyFile, key_id, own_key_text, seal
from fetchwork.credentials.secret import Secret, decode
from fetchwork.errors import CredentialError
from tests.security.conftest import Root
from tests.security.roles import denied
from tests.security.test_joined_hosts import invite, join, refused
from tests.support.direct_queue import EXITED, Claimed, DirectQueue

COPIES = "SELECT h.name, c.owner FROM fetchwork.host_credential AS c JOIN fetchwork.host AS h USING (host_id) ORDER BY 1, 2"


@dataclass
class Host:
    """A joined host with a run, and the file of its own key."""

    name: str
    queue: DirectQueue
    keys: KeyFile
    run: Claimed

    def register(self) -> bool:
        return bool(self.queue.scalar("register_host_key", public_key=self.keys.newest()))

    def want(self, run: Claimed | None = None) -> bool:
        return bool(self.queue.of(run or self.run, "want_credentials"))

    def stored(self) -> list[dict[str, Any]]:
        """The rows that the database gives for the host's run."""
        return self.queue.call("run_credentials", run_id=self.run.run_id, token=self.run.token)

    def opened(self) -> dict[str, bytes]:
        """The contents that the host has of its run's credentials."""
        return {
            row["name"]: decode(
                self.keys.open(row["sealed"], row["key_id"]), row["owner"], row["name"]
            ).content
            for row in self.stored()
        }


@dataclass
class Pool:
    root: Root
    keys: KeyFile
    keeper: DirectQueue
    hosts: dict[str, Host]

    def seal(self, wanted: list[dict[str, Any]] | None = None) -> list[bool]:
        """Seal what is wanted, as a host with the pool's key does; whether each copy was stored."""
        stored = []
        for row in self.keeper.call("credentials_to_seal", most=100) if wanted is None else wanted:
            data = self.keys.open(row["sealed"], row["key_id"])
            copy = {key: row[key] for key in ("host_id", "public_key", "owner", "name", "version")}
            sealed = seal(data, row["public_key"])
            stored.append(self.keeper.scalar("put_host_credential", **copy, sealed=sealed))
        return stored

    def put(self, owner: str, content: bytes, name: str = "box") -> None:
        public = self.keys.newest()
        sealed = seal(Secret(owner, name, content).encode(), public)
        self.root.call("put_credential", owner=owner, name=name, key_id=key_id(public), sealed=sealed)


@pytest.fixture
def pool(root: Root, tmp_path: Path) -> Pool:
    """The host of alice's run, and that of bob's; fw_agent has the pool's key."""
    keys = KeyFile(tmp_path / "pool.key")
    keys.add()
    root.call("publish_credential_key", public_key=keys.newest())
    made = Pool(root, keys, root.login("fw_agent"), {})
    for owner in ("alice", "bob"):
        made.put(owner, f"token of {owner}".encode())
        root.submit(Owner=owner, OAuthServicesNeeded="box")
        name = f"{owner}s"
        _, queue = join(root, invite(root)[1], name)
        own = KeyFile(tmp_path / f"{name}.key")
        write_private(own.path, own_key_text())
        run = root.started(f"slot1@{name}")
        made.hosts[owner] = Host(name, queue, own, run)
        made.hosts[owner].register()
    return made


def test_each_host_opens_the_credentials_of_its_own_run(pool: Pool) -> None:
    for host in pool.hosts.values():
        # it is given what the pool stores, which its key does not open
        with pytest.raises(CredentialError):
            host.opened()
        assert host.want() is True
        with pytest.raises(CredentialError):
            host.opened()
    assert pool.seal() == [True, True]
    assert pool.hosts["alice"].opened() == {"box": b"token of alice"}
    assert pool.hosts["bob"].opened() == {"box": b"token of bob"}
    # copies that are there are not made again
    assert all(host.want() for host in pool.hosts.values())
    assert pool.seal() == []


def test_a_stolen_host_opens_no_other_hosts_copies_even_with_the_whole_database(pool: Pool) -> None:
    """The thief has a backup of the database, and the key file of one host."""
    for host in pool.hosts.values():
        host.want()
    pool.seal()
    stolen = pool.hosts["alice"].keys
    secrets = pool.root.rows(
        "SELECT owner, sealed FROM fetchwork.host_credential"
        " UNION ALL SELECT owner, sealed FROM fetchwork.credential"
    )
    assert len(secrets) == 4
    opened = []
    for owner, sealed in secrets:
        try:
            opened.append((owner, stolen.open(bytes(sealed), key_id(stolen.newest()))))
        except CredentialError:
            continue
    assert [owner for owner, _ in opened] == ["alice"]


def test_a_host_gets_no_copy_for_a_run_of_another_host_with_its_true_token(pool: Pool) -> None:
    alice, bob = pool.hosts["alice"], pool.hosts["bob"]
    bob.want()
    pool.seal()
    before = pool.root.rows(COPIES)
    of_bob = (bob.run.run_id, bob.run.token)
    assert refused(alice.queue, "SELECT fetchwork.want_credentials(%s, %s)", *of_bob) == "FWTOK"
    assert refused(alice.queue, "SELECT fetchwork.run_credentials(%s, %s)", *of_bob) == "FWTOK"
    assert pool.root.rows(COPIES) == before


def test_a_host_gets_no_copy_for_a_run_that_has_ended(pool: Pool) -> None:
    host = pool.hosts["alice"]
    host.want()
    pool.seal()
    host.queue.of(host.run, "finish", hook_reason="exit", report={**EXITED, "ExitCode": 0})
    assert host.stored() == []
    # a new version would be sealed for it no more
    pool.put("alice", b"new")
    host.want()
    assert pool.seal() == []


def test_a_host_that_is_not_trusted_seals_for_no_host(pool: Pool) -> None:
    alice, bob = pool.hosts["alice"], pool.hosts["bob"]
    bob.want()
    assert refused(alice.queue, "SELECT fetchwork.credentials_to_seal(100)") == "FWDEN"
    statement = "SELECT fetchwork.put_host_credential(%s, %s, 'bob', 'box', 1, 'x')"
    bobs = (own_id_of(pool, bob), bob.keys.newest())
    assert refused(alice.queue, statement, *bobs) == "FWDEN"
    assert refused(bob.queue, statement, *bobs) == "FWDEN"
    assert alice.queue.value("SELECT fetchwork.take_leader_task('seal', 0)") is False
    for role in ("fw_alice", "fw_reader", "fw_point"):
        denied(pool.root.login(role), "SELECT fetchwork.credentials_to_seal(100)")
        denied(pool.root.login(role), statement, *bobs)
    assert pool.root.login("fw_point").value("SELECT fetchwork.take_leader_task('seal', 0)") is False
    _, trusted = join(pool.root, invite(pool.root, trusted=True)[1], "trusted")
    assert trusted.value("SELECT fetchwork.take_leader_task('seal', 0)") is True
    assert len(trusted.call("credentials_to_seal", most=100)) == 1


def own_id_of(pool: Pool, host: Host) -> int:
    return int(pool.root.value("SELECT host_id FROM fetchwork.host WHERE name = %s", host.name))


def test_only_a_joined_host_has_a_key_and_only_its_own(pool: Pool) -> None:
    alice = pool.hosts["alice"]
    for role in ("fw_agent", "fw_point", "fw_alice"):
        denied(pool.root.login(role), "SELECT fetchwork.register_host_key(%s)", b"k" * 32)
    for wrong in (b"", b"k" * 31, None):
        assert refused(alice.queue, "SELECT fetchwork.register_host_key(%s)", wrong) == "FWINV"
    of = dict(
        pool.root.rows(
            "SELECT h.name, i.credential_key FROM fetchwork.host_identity AS i JOIN fetchwork.host AS h USING (host_id)"
        )
    )
    assert of == {host.name: host.keys.newest() for host in pool.hosts.values()}


def test_a_host_with_another_key_loses_the_copies_for_the_key_before(pool: Pool) -> None:
    host = pool.hosts["alice"]
    host.want()
    late = pool.keeper.call("credentials_to_seal", most=100)
    write_private(host.keys.path, own_key_text())
    host.register()
    assert pool.root.rows(COPIES) == []
    host.want()
    # sealed to the key before, it comes late
    assert pool.seal(late) == [False]
    assert pool.seal() == [True]
    assert host.opened() == {"box": b"token of alice"}


def test_a_revoked_host_has_no_key_and_no_copies_from_the_commit_on(pool: Pool) -> None:
    alice, bob = pool.hosts["alice"], pool.hosts["bob"]
    bob.want()
    alice.want()
    late = pool.keeper.call("credentials_to_seal", most=100)
    pool.root.call("revoke_host", host=alice.name)
    assert pool.root.rows(COPIES) == [("bobs", "bob")]
    assert sorted(pool.seal(late)) == [False, True]
    assert pool.root.rows(COPIES) == [("bobs", "bob")]
    assert bob.opened() == {"box": b"token of bob"}
    of_alice = "SELECT count(*) FROM fetchwork.host_identity WHERE credential_key IS NOT NULL"
    assert pool.root.value(of_alice) == 1


def test_neither_host_of_a_copied_identity_gets_copies(pool: Pool) -> None:
    host = pool.hosts["alice"]
    host.want()
    late = pool.keeper.call("credentials_to_seal", most=100)
    pool.root.connection.execute("UPDATE fetchwork.host_identity SET copied_at = now()")
    assert pool.seal(late) == [False]
    pool.root.connection.execute("UPDATE fetchwork.host_credential SET sealing_until = '-infinity'")
    assert pool.seal() == []
    assert host.want() is False
    assert host.register() is False
    assert pool.root.scalar("admit_host", host=host.name) is True
    assert pool.seal() == [True]
    assert host.opened() == {"box": b"token of alice"}


def test_a_new_version_is_sealed_anew_and_the_copy_of_the_old_one_is_given_to_no_run(pool: Pool) -> None:
    host = pool.hosts["alice"]
    host.want()
    pool.seal()
    late_host = pool.hosts["bob"]
    late_host.want()
    late = pool.keeper.call("credentials_to_seal", most=100)
    for owner in ("alice", "bob"):
        pool.put(owner, b"new")
    pool.seal(late)
    for each in (host, late_host):
        with pytest.raises(CredentialError):
            each.opened()
        each.want()
    assert pool.seal() == [True, True]
    assert host.opened() == late_host.opened() == {"box": b"new"}


def test_a_deleted_credential_leaves_no_copy(pool: Pool) -> None:
    pool.hosts["alice"].want()
    pool.seal()
    pool.root.call("delete_credential", owner="alice", name="box")
    assert pool.root.rows(COPIES) == []
    assert [row["sealed"] for row in pool.hosts["alice"].stored()] == [None]


def test_copies_that_no_one_can_make_come_after_those_that_were_not_tried(pool: Pool) -> None:
    """A host may register a key to which nothing can be sealed."""
    alice, bob = pool.hosts["alice"], pool.hosts["bob"]
    alice.queue.call("register_host_key", public_key=bytes(32))
    alice.want()
    (failed,) = pool.keeper.call("credentials_to_seal", most=1)
    assert failed["owner"] == "alice"
    assert pool.keeper.call("credentials_to_seal", most=1) == []
    bob.want()
    pool.root.connection.execute(
        "UPDATE fetchwork.host_credential SET sealing_until = now() - interval '1 s' WHERE owner = 'alice'"
    )
    (wanted,) = pool.keeper.call("credentials_to_seal", most=1)
    assert wanted["owner"] == "bob"


def test_a_host_hears_whether_copies_are_made(pool: Pool) -> None:
    host = pool.hosts["alice"]
    assert host.register() is False
    assert pool.keeper.value("SELECT fetchwork.take_leader_task('seal', 10)") is True
    assert pool.keeper.value("SELECT fetchwork.take_leader_task('seal', 10)") is False
    assert host.register() is True
    pool.root.connection.execute("UPDATE fetchwork.leader_task SET taken_at = now() - interval '61 s'")
    assert host.register() is False


def test_a_pool_without_hosts_of_their_own_key_has_nothing_to_seal(root: Root) -> None:
    assert root.login("fw_agent").value("SELECT fetchwork.take_leader_task('seal', 0)") is False


def test_a_host_that_joins_again_begins_without_a_key(pool: Pool) -> None:
    host = pool.hosts["alice"]
    host.want()
    pool.seal()
    join(pool.root, invite(pool.root, hosts=host.name)[1], host.name)
    assert pool.root.rows(COPIES) == []
