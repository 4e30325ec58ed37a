"""PostgreSQL's notification queue, which any role that may connect can fill: no job depends on it."""

import asyncio
import os
import pwd
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from fetchwork.agent import client
from fetchwork.db import schema
from fetchwork.db.pool import AsyncDatabase
from fetchwork.hook.wire import Request
from fetchwork.pool.postgres import PostgresServer, server_version, wheel_programs
from fetchwork.queue import Queue
from fetchwork.simulate.agents import AgentProcess
from tests.agent.conftest import slot_ad
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S, until
from tests.support.waiting import until_async as until_then

STRANGER = "fw_stranger"
#: the smallest queue that PostgreSQL 17 and later can have: 64 pages of 8 KiB
SETTINGS = {"max_notify_queue_pages": "64"}


@pytest.fixture(scope="module")
def server(server_directory: Callable[[], Path]) -> Iterator[PostgresServer]:
    if server_version(wheel_programs()) < "17":
        pytest.skip("the queue of notifications of an older PostgreSQL can't be made small")
    server = PostgresServer(server_directory() / "postgres", settings=SETTINGS, durable=False)
    server.start()
    schema.init(server.conninfo("postgres"))
    server.query(f"CREATE ROLE {STRANGER} LOGIN PASSWORD 'x'")
    server.create_database("elsewhere")
    yield server
    server.stop("immediate")


@pytest.fixture
def queue(server: PostgresServer) -> Iterator[DirectQueue]:
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
        yield DirectQueue(connection)


def fill(conninfo: str) -> psycopg.Connection:
    """A session that listens and reads nothing, so that the queue fills."""
    reader = psycopg.connect(conninfo)
    reader.execute("LISTEN anything")
    reader.commit()
    reader.execute("SELECT 1")  # this open transaction keeps every notification that follows
    full = pytest.raises(psycopg.errors.ProgramLimitExceeded)
    with psycopg.connect(conninfo, autocommit=True) as writer, full:
        for number in range(1000):
            writer.execute("SELECT pg_notify('anything', %s || repeat('x', 7000))", [str(number)])
    return reader


def usage(queue: DirectQueue) -> float:
    return float(queue.value("SELECT pg_notification_queue_usage()"))


@pytest.fixture
def stranger(server: PostgresServer, queue: DirectQueue) -> Iterator[psycopg.Connection]:
    """A role whose only right is to connect to another database of the server has filled the queue."""
    reader = fill(server.conninfo("elsewhere", user=STRANGER, password="x"))
    assert usage(queue) > 0.9
    yield reader
    reader.close()
    until(lambda: usage(queue) < 0.1, "the queue is empty again")


@pytest.mark.usefixtures("stranger")
def test_submits_claims_and_ends_go_on_while_the_queue_of_notifications_is_full(queue: DirectQueue) -> None:
    queue.submit()
    assert queue.finish(queue.started(), ExitCode=0) == "completed"
    job = queue.submit()
    live = queue.started()
    for act in ("hold", "release", "remove"):
        queue.act(act, job)
    queue.finish(live, "evict")
    assert queue.status(job) == 3
    queue.call("set_queue", name="default")
    queue.call("set_limit", name="x", maximum=1)
    queue.call("maintain_queue")


def test_notifications_are_sent_again_once_their_reader_is_gone(
    server: PostgresServer, queue: DirectQueue, stranger: psycopg.Connection
) -> None:
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as listener:
        listener.execute("LISTEN fetchwork_work")
        queue.submit()
        assert not list(listener.notifies(timeout=0))
        stranger.close()
        until(lambda: usage(queue) < 0.1, "the queue is empty again")
        with Queue(server.conninfo("postgres")) as people:
            people.reschedule()
        assert [note.payload for note in listener.notifies(timeout=PATIENCE_S, stop_after=1)] == [""]


def test_only_a_session_that_can_hold_the_queue_is_ended(
    server: PostgresServer, queue: DirectQueue, stranger: psycopg.Connection
) -> None:
    def end(session: psycopg.Connection) -> bool:
        return bool(queue.scalar("end_notification_reader", pid=session.info.backend_pid))

    with psycopg.connect(server.conninfo("postgres", user=STRANGER, password="x")) as young:
        young.execute("SELECT 1")
        assert not end(young)  # its transaction has just begun
        young.commit()
        assert not end(young)  # it is in no transaction
    with psycopg.connect(server.conninfo("postgres")) as superuser:
        superuser.execute("SELECT 1")
        until(
            lambda: queue.value(
                "SELECT xact_start < clock_timestamp() - interval '6 s' FROM pg_stat_activity WHERE pid = %s",
                superuser.info.backend_pid,
            )
        )
        assert not end(superuser)
    assert end(stranger)
    until(lambda: usage(queue) < 0.5)
    with psycopg.connect(server.conninfo("postgres", user=STRANGER, password="x")) as old:
        old.execute("SELECT 1")
        assert not end(old)  # the queue has room


@pytest.fixture
async def agent(server: PostgresServer, public_directory: Callable[[], Path]) -> AsyncIterator[AgentProcess]:
    directory = public_directory()
    # a name of its own, because the lease of an agent that was killed goes on
    agent = AgentProcess(
        directory,
        directory.name.replace("_", "-"),
        server.conninfo("postgres"),
        agent={"log_level": "debug"},
        keyword={"max_fetch_wait_s": 600},
        keyword_name="FW",
    )
    await agent.start()
    await until_then(lambda: client.status(agent.socket, PATIENCE_S)["databases"]["main"]["listening"])
    yield agent
    agent.signal(signal.SIGKILL)


async def test_agent_finds_work_without_notifications(
    server: PostgresServer, queue: DirectQueue, agent: AgentProcess
) -> None:
    # a superuser's session, which is not terminated
    reader = await asyncio.to_thread(fill, server.conninfo("elsewhere"))
    try:
        request = Request("fetch_work", slot_ad(), keyword="FW", deadline_ms=600_000)
        fetch = asyncio.ensure_future(asyncio.to_thread(client.ask, agent.socket, request, 600))
        await until_then(lambda: client.status(agent.socket, PATIENCE_S)["waiting_fetches"] == 1)
        queue.submit(Owner=pwd.getpwuid(os.geteuid() or 65534).pw_name)
        assert (await asyncio.wait_for(fetch, PATIENCE_S)).body
        await until_then(lambda: "notification_queue" in agent.log.read_text())
    finally:
        reader.close()
    await until_then(lambda: "sent=True" in agent.log.read_text())


async def test_leader_ends_the_session_that_holds_the_queue(
    server: PostgresServer, queue: DirectQueue, agent: AgentProcess
) -> None:
    conninfo = server.conninfo("elsewhere", user=STRANGER, password="x")
    reader = await asyncio.to_thread(fill, conninfo)
    pid = reader.info.backend_pid
    bystander = psycopg.connect(conninfo)
    bystander.execute("SELECT 1")
    try:
        await until_then(lambda: usage(queue) < 0.1, "the queue is empty again")
        with pytest.raises(psycopg.OperationalError):
            reader.execute("SELECT 1")
        bystander.execute("SELECT 1")
        # the queue is empty before the agent has its answer
        await until_then(lambda: f"pid={pid} ended=True" in agent.log.read_text())
    finally:
        reader.close()
        bystander.close()


def test_the_slowest_listener_is_named(server: PostgresServer, stranger: psycopg.Connection) -> None:
    async def named() -> int | None:
        async with AsyncDatabase(server.conninfo("postgres")) as database:
            return await database.slowest_listener()

    # PostgreSQL warns once in five seconds
    until(lambda: asyncio.run(named()) == stranger.info.backend_pid)
