"""Credentials on a joined host: copies that the agent of a host with the pool's key seals to its own key."""

import asyncio
import os
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from fetchwork import config
from fetchwork.agent.credentialsealer import CredentialSealer
from fetchwork.agent.credentialupkeep import CredentialUpkeep
from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.config.identity import identity_path, own_key_path, read_identity, write_identity
from fetchwork.credentials.keys import KeyFile, key_id, seal
from fetchwork.credentials.secret import Secret, decode
from fetchwork.db.calls import credentials as credential_calls
from fetchwork.db.database import Database
from fetchwork.db.pool import AsyncDatabase
from fetchwork.handlers.context import Answer
from fetchwork.handlers.host import hostcredentials
from fetchwork.handlers.host.hostcredentials import HostCredentials
from fetchwork.handlers.host.session import HostSession
from tests.agent.conftest import Hooks, MakeAgent, slot_ad
from tests.support.joining import invite, join, run_host
from tests.support.waiting import PATIENCE_S, until_async

Result = TypeVar("Result")
NEEDS = {"OAuthServicesNeeded": "box"}


class Keeper:
    """The agent of a host that shares the agents' password and has the pool's key."""

    def __init__(self, conninfo: str, keys: KeyFile) -> None:
        database = AsyncDatabase(conninfo, size=2, application_name="keeper")
        self.session = HostSession("main", database, "keeper", agent_id=str(uuid.uuid4()))
        self.host = HostCredentials(self.session, keys)
        self.sealer = CredentialSealer(self.host)

    async def look(self) -> None:
        await self.session.hello(PATIENCE_S)
        await self.sealer.look()

    async def while_it_looks(self, work: Awaitable[Result]) -> Result:
        """The result of ``work``, while this agent seals."""
        working = asyncio.ensure_future(work)
        while not working.done():
            await self.look()
            await asyncio.sleep(0.05)
        return working.result()


def put(database: Database, keys: KeyFile, content: bytes, said: str = "nobody") -> None:
    """Store a credential of the jobs' owner, which says that it is that of ``said``."""
    public = keys.newest()
    sealed = seal(Secret(said, "box", content).encode(), public)
    database.run(
        credential_calls.put_credential(owner="nobody", name="box", key_id=key_id(public), sealed=sealed)
    )


class Joined(Hooks):
    """The hooks of host vm, which joined."""

    def __init__(self, conninfo: str, joined: str, directory: Path, keys: KeyFile) -> None:
        super().__init__(conninfo, own=joined)
        self.directory = directory
        self.keys = keys
        assert self.context.credentials is not None
        self.credentials = self.context.credentials
        self.upkeep = CredentialUpkeep(self.credentials, SignalRights(), os.geteuid())
        self.database.run(credential_calls.publish_credential_key(public_key=keys.newest()))

    def put(self, content: bytes, said: str = "nobody") -> None:
        put(self.database, self.keys, content, said)

    async def register(self) -> None:
        """Register this host's key at once."""
        await self.context.session.hello(PATIENCE_S)
        self.credentials._register_at = 0.0
        await self.credentials.register()

    async def job(self) -> bytes:
        job = await self.fetch(slot_ad())
        assert b"FetchWorkCredentials = true\n" in job
        return job + f'FetchWorkScratch = "{self.directory}"\n'.encode()


@pytest.fixture
def pool_key(tmp_path: Path) -> KeyFile:
    keys = KeyFile(tmp_path / "pool.key")
    keys.add()
    return keys


@pytest.fixture
async def keeper(conninfo: str, pool_key: KeyFile) -> AsyncIterator[Keeper]:
    keeper = Keeper(conninfo, pool_key)
    yield keeper
    await keeper.session.close()


@pytest.fixture
def joined_file(conninfo: str, public_directory: Callable[[], Path]) -> Path:
    return join(conninfo, invite(conninfo), public_directory(), name="vm")


@pytest.fixture
async def host(
    conninfo: str, joined_file: Path, pool_key: KeyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Joined]:
    monkeypatch.setattr("fetchwork.agent.credentialupkeep.SETTLED_S", 0.0)
    host = Joined(conninfo, config.load(joined_file).databases["main"].conninfo, tmp_path, pool_key)
    yield host
    await host.close()


def sent(answer: Answer) -> dict[str, bytes]:
    """The credentials in an answer."""
    _, section, lines = answer.reply.body.rpartition(b"-----credentials\n")
    assert section, answer
    words = [line.split() for line in lines.decode().splitlines()]
    return {name: bytes.fromhex(content) for name, content in words}


async def known(host: Joined, keeper: Keeper) -> None:
    """Host and keeper know of each other."""
    await host.register()
    await keeper.look()
    await host.register()
    assert host.credentials.usable()


async def test_a_job_gets_its_credentials_on_a_host_without_the_pools_key(
    host: Joined, keeper: Keeper
) -> None:
    host.put(b"token")
    host.submit(ad=NEEDS)
    await known(host, keeper)
    answer = await keeper.while_it_looks(host.start(await host.job()))
    assert answer.outcome == "started", answer
    assert sent(answer) == {"box": b"token"}


async def test_it_is_offered_no_such_jobs_until_a_host_with_the_pools_key_is_at_work(
    host: Joined, keeper: Keeper
) -> None:
    host.put(b"token")
    host.submit(ad=NEEDS)
    await host.register()
    assert await host.fetch() == b""
    await known(host, keeper)
    assert b"FetchWorkCredentials" in await host.fetch()


async def test_without_a_copy_the_job_waits_for_another_host_and_this_one_gets_no_more_such_jobs(
    host: Joined, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host with the pool's key went away between the fetch and the start."""
    monkeypatch.setattr(hostcredentials, "SEAL_S", 0.5)
    host.put(b"token")
    job = host.submit(ad=NEEDS)
    await known(host, keeper)
    answer = await host.start(await host.job())
    assert answer.outcome == "could_not_start"
    assert "no host with the pool's key has sealed them" in answer.reply.stderr
    row = host.job_of(job)
    assert (row["jobstatus"], row["numjobstarts"]) == (1, 0)
    assert not host.credentials.usable()
    assert await host.fetch() == b""


async def test_a_job_is_held_whose_credential_was_moved_into_anothers_row(
    host: Joined, keeper: Keeper
) -> None:
    host.put(b"of bob", said="bob")
    job = host.submit(ad=NEEDS)
    await known(host, keeper)
    answer = await keeper.while_it_looks(host.start(await host.job()))
    assert answer.outcome == "could_not_start"
    row = host.job_of(job)
    assert (row["jobstatus"], row["holdreasoncode"]) == (5, 4)
    assert "'box' cannot be read; add it again" in row["holdreason"]
    assert b"of bob" not in answer.reply.body


async def test_a_running_job_gets_the_new_version(host: Joined, keeper: Keeper) -> None:
    host.put(b"one")
    host.submit(ad=NEEDS)
    await known(host, keeper)
    assert (await keeper.while_it_looks(host.start(await host.job()))).outcome == "started"
    directory = host.directory / ".condor_creds"
    directory.mkdir(mode=0o700)
    (directory / "box.use").write_bytes(b"one")
    host.put(b"two")
    await keeper.while_it_looks(host.upkeep.round())
    assert (directory / "box.use").read_bytes() == b"two"


async def test_a_host_whose_password_changed_makes_another_key_and_gets_copies_for_it(
    host: Joined, keeper: Keeper
) -> None:
    host.put(b"token")
    host.submit(ad=NEEDS)
    await known(host, keeper)
    assert host.credentials.own is not None
    before = host.credentials.own.newest()
    job = await host.job()
    # as a renewal does
    os.utime(host.credentials.own.path.with_suffix(".pgpass"))
    answer = await keeper.while_it_looks(host.start(job))
    assert sent(answer) == {"box": b"token"}
    assert host.credentials.own.newest() != before


async def test_one_agent_at_a_time_seals(
    conninfo: str, host: Joined, keeper: Keeper, pool_key: KeyFile
) -> None:
    await host.register()
    await keeper.look()
    other = Keeper(conninfo, pool_key)
    other.session.host = "other"
    try:
        await other.look()
        assert (keeper.sealer._seals, other.sealer._seals) == (True, False)
    finally:
        await other.session.close()


async def test_a_key_to_which_nothing_can_be_sealed_keeps_no_other_host_from_its_copies(
    conninfo: str, host: Joined, keeper: Keeper, joined_file: Path
) -> None:
    host.put(b"token")
    host.submit(ad=NEEDS)
    await known(host, keeper)
    job = await host.job()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        # as if another host had registered it, with a want that is older
        connection.execute("INSERT INTO fetchwork.host (name) VALUES ('hostile')")
        connection.execute(
            "INSERT INTO fetchwork.host_identity"
            " (host_id, role, invitation, verifier, valid_until, credential_key)"
            " SELECT h.host_id, 'hostile', i.invitation, '', 'infinity', %s"
            " FROM fetchwork.host AS h, fetchwork.host_identity AS i WHERE h.name = 'hostile'",
            [bytes(32)],
        )
        connection.execute(
            "INSERT INTO fetchwork.host_credential (host_id, owner, name)"
            " SELECT h.host_id, 'nobody', 'box' FROM fetchwork.host AS h WHERE h.name = 'hostile'"
        )
        answer = await keeper.while_it_looks(host.start(job))
        assert sent(answer) == {"box": b"token"}
        sealed = "SELECT count(sealed), count(*) FROM fetchwork.host_credential"
        assert connection.execute(sealed).fetchall() == [(1, 2)]


async def test_agents_register_the_key_of_the_join_change_it_with_the_password_and_seal_to_it(
    conninfo: str, make_agent: MakeAgent, joined_file: Path, pool_key: KeyFile
) -> None:
    agent = make_agent("vm")
    text = agent.file.read_text()
    joined = config.load(joined_file).databases["main"].conninfo
    agent.file.write_text(text.replace(config.load(agent.file).databases["main"].conninfo, joined))
    path = identity_path(joined)
    assert path is not None
    own = KeyFile(own_key_path(path))
    first = own.newest()
    assert own.path.stat().st_mode & 0o777 == 0o600

    def registered() -> bytes | None:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            row = connection.execute("SELECT credential_key FROM fetchwork.host_identity").fetchone()
        return row[0] if row else None

    await agent.start()
    await until_async(lambda: registered() == first, "the registration")
    before = read_identity(path)
    assert before is not None
    await agent.stop()
    # as after two thirds of its life
    write_identity(path, type(before)(before.role, before.password, 1, 0, 1))
    await agent.start()
    await until_async(lambda: registered() not in (None, first), "another key")
    assert registered() == own.newest()

    # another agent has the pool's key
    with Database(conninfo) as database, psycopg.connect(conninfo, autocommit=True) as connection:
        database.run(credential_calls.publish_credential_key(public_key=pool_key.newest()))
        put(database, pool_key, b"token")
        keeper = make_agent("keeper", directory="keeper")
        text = keeper.file.read_text()
        with_key, times = re.subn(
            r"^(?=.?conninfo)", f'credential_key = "{pool_key.path}"\n', text, count=1, flags=re.M
        )
        assert times == 1, text
        keeper.file.write_text(with_key)
        assert config.load(keeper.file).databases["main"].credential_key == pool_key.path
        await keeper.start()
        connection.execute(
            "INSERT INTO fetchwork.host_credential (host_id, owner, name)"
            " SELECT i.host_id, 'nobody', 'box' FROM fetchwork.host_identity AS i"
        )
        copy = "SELECT sealed FROM fetchwork.host_credential WHERE sealed IS NOT NULL"
        await until_async(lambda: connection.execute(copy).fetchone() is not None, "the copy")
        row = connection.execute(copy).fetchone()
    assert row is not None
    opened = own.open(row[0], key_id(own.newest()))
    assert decode(opened, "nobody", "box").content == b"token"
    run_host(conninfo, "revoke", "vm")
    assert registered() is None
