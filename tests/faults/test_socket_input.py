"""The agent answers or cuts every request at its socket, stays small, and goes on serving others."""

import asyncio
import contextlib
import random
import socket
import uuid
from collections.abc import AsyncIterator

import pytest

from fetchwork.agent import client
from fetchwork.errors import AgentUnavailable
from fetchwork.hook.wire import HOOKS, MAX_HEAD, Reply, ReplyReader, Request, encode_request
from fetchwork.simulate.agents import AgentProcess
from fetchwork.simulate.family import Actor
from tests.faults.harness import OWNER, Pool
from tests.support.there import there
from tests.support.waiting import PATIENCE_S, until_async

#: additional memory over that of an idle agent
MOST_MEMORY_MIB = 120
NOBODY = 65534


@pytest.fixture
async def agent(pool: Pool) -> AsyncIterator[AgentProcess]:
    agent = AgentProcess(pool.directory, "ep1", pool.conninfo, keyword={"max_fetch_wait_s": 0})
    await agent.start()
    before = _memory_mib(agent)
    yield agent
    await agent.status()
    assert _memory_mib(agent) < before + MOST_MEMORY_MIB
    await agent.stop()


@pytest.fixture
async def stranger() -> AsyncIterator[Actor]:
    """A process of an account that has no part in HTCondor."""
    family = Actor.startd()
    someone = await family.fork(uid=NOBODY)
    yield someone
    someone.kill()
    family.kill()


def _memory_mib(agent: AgentProcess) -> int:
    with open(f"/proc/{agent.pid}/status") as file:
        [line] = [line for line in file if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


async def _send(agent: AgentProcess, data: bytes, timeout_s: float = PATIENCE_S) -> Reply | None:
    """The agent's answer, None if it closed the connection without one."""
    async with asyncio.timeout(timeout_s):
        incoming, outgoing = await asyncio.open_unix_connection(str(agent.socket))
        try:
            with contextlib.suppress(ConnectionError):
                outgoing.write(data)
                await outgoing.drain()
            reader = ReplyReader()
            with contextlib.suppress(ConnectionError):
                while answer := await incoming.read(65536):
                    reader.feed(answer)
                    if (reply := reader.next_reply()) is not None:
                        return reply
            return None
        finally:
            outgoing.close()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"fetchwork/2 status\n\n",
        b"fetchwork/1 status\nlength: -1\n\n",
        b"fetchwork/1 status\nlength: 99999999999999\n\n",
        b"fetchwork/1 status\nlength: 17000000\n\n",
        b"fetchwork/1 job_exit\nkeyword: \xff\xfe\nlength: 0\n\n",
        b"fetchwork/1 job_exit\nlength: 1\nlength: 2\n\n",
        b"fetchwork/1 \0\0\n\n",
        b"x" * (MAX_HEAD + 1),
        b"fetchwork/1 status\n" + b"a: b\n" * MAX_HEAD,
    ],
)
async def test_bytes_that_are_no_request_are_answered_and_cut(agent: AgentProcess, data: bytes) -> None:
    reply = there(await _send(agent, data))
    assert reply.code == "bad_request"
    assert reply.message


async def test_unknown_request_gets_an_error(agent: AgentProcess) -> None:
    reply = there(await _send(agent, encode_request(Request("make_coffee", keyword="FETCHWORK"))))
    assert reply.code == "unknown_request"


async def test_truncated_requests_leave_nothing_behind(agent: AgentProcess) -> None:
    whole = encode_request(Request("job_exit", b"A = 1\n" * 100, keyword="FETCHWORK", arg="exit"))
    for end in range(0, len(whole), 7):
        _, outgoing = await asyncio.open_unix_connection(str(agent.socket))
        outgoing.write(whole[:end])
        await outgoing.drain()
        outgoing.close()
    await agent.status()


async def test_slow_client_is_cut_and_keeps_nobody_waiting(agent: AgentProcess) -> None:
    whole = encode_request(Request("status", b"A = 1\n" * 100))
    incoming, outgoing = await asyncio.open_unix_connection(str(agent.socket))

    async def drip() -> int:
        sent = 0
        with contextlib.suppress(ConnectionError):
            for byte in whole:
                outgoing.write(bytes([byte]))
                await outgoing.drain()
                sent += 1
                await asyncio.sleep(0.25)
        return sent

    dripping = asyncio.create_task(drip())
    for _ in range(20):
        await agent.status()
        assert not dripping.done()
    assert await asyncio.wait_for(dripping, PATIENCE_S) < len(whole)
    outgoing.close()
    with contextlib.suppress(ConnectionError):
        assert await incoming.read() == b""


async def test_client_that_reads_nothing_is_cut(agent: AgentProcess) -> None:
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, str(agent.socket))
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                await loop.sock_sendall(client, encode_request(Request("status")) * 100)
    client.close()
    await agent.status()


async def test_thousands_of_connections_are_refused_and_forgotten(agent: AgentProcess) -> None:
    streams: list[asyncio.StreamWriter] = []
    told: list[bytes] = []

    async def read(incoming: asyncio.StreamReader) -> None:
        # connections that are silent for too long are cut without an answer, before all are made on a slow
        # machine
        with contextlib.suppress(ConnectionError):
            told.append(await incoming.read())

    try:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as readers:
            while not any(b"error unavailable" in answer for answer in told):
                try:
                    incoming, outgoing = await asyncio.open_unix_connection(str(agent.socket))
                except BlockingIOError:
                    # many wait until the agent comes to accept them
                    await asyncio.sleep(0.01)
                    continue
                streams.append(outgoing)
                readers.create_task(read(incoming))
            for outgoing in streams:
                outgoing.close()
    finally:
        for outgoing in streams:
            outgoing.close()

    def serves() -> bool:
        with contextlib.suppress(AgentUnavailable):
            client.status(agent.socket, PATIENCE_S)
            return True
        return False

    # it learns of the ends one by one
    await until_async(serves, "the agent's answer")


async def test_account_without_trust_gets_few_connections(agent: AgentProcess, stranger: Actor) -> None:
    held = [await stranger.connect(agent.socket) for _ in range(70)]
    try:
        incoming, outgoing = await asyncio.open_unix_connection(sock=held[-1])
        answer = await asyncio.wait_for(incoming.read(), PATIENCE_S)
        assert b"too many connections" in answer
        outgoing.close()
        # others are served
        await agent.status()
    finally:
        for each in held:
            each.close()


async def test_each_runner_of_an_account_is_served_and_the_connection_that_waits_longest_makes_room(
    agent: AgentProcess, stranger: Actor
) -> None:
    ad = f'FetchWorkRunId = 1\nFetchWorkToken = "{uuid.uuid4()}"\n'.encode()
    request = encode_request(Request("chain_first", ad, keyword="FETCHWORK"))
    runners: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(number: int) -> bytes:
        incoming, outgoing = runners[number]
        outgoing.write(request)
        return await asyncio.wait_for(incoming.read(65536), PATIENCE_S)

    for number in range(70):
        sock = await stranger.connect(agent.socket)
        runners.append(await asyncio.open_unix_connection(sock=sock))
        assert b"denied" in await ask(number)
        if number == 60:
            # the first one is in use
            assert b"denied" in await ask(0)
    assert b"denied" in await ask(0)
    for number in range(1, 7):
        assert await asyncio.wait_for(runners[number][0].read(), PATIENCE_S) == b""
    assert b"denied" in await ask(7)
    for _, outgoing in runners:
        outgoing.close()


async def test_large_requests_of_one_account_do_not_take_all_of_the_agent_s_time(
    agent: AgentProcess, stranger: Actor
) -> None:
    request = encode_request(Request("update_job_info", b"A = 1\n" * 150_000, keyword="FETCHWORK"))

    async def ask() -> bytes:
        incoming, outgoing = await asyncio.open_unix_connection(sock=await stranger.connect(agent.socket))
        outgoing.write(request)
        answer = await asyncio.wait_for(incoming.read(65536), PATIENCE_S)
        outgoing.close()
        return answer

    answers = await asyncio.gather(*(ask() for _ in range(60)))
    refused = sum(b"too many requests of uid" in answer for answer in answers)
    # the others were handled, some of them after a backoff
    assert 0 < sum(b"bad_request" in answer for answer in answers) == 60 - refused < 60
    await agent.status()


@pytest.mark.parametrize("name", ["fetch_work", "reply_fetch", "evict_claim", "reload"])
async def test_jobs_account_may_not_play_the_startd_or_the_administrator(
    agent: AgentProcess, stranger: Actor, name: str
) -> None:
    incoming, outgoing = await asyncio.open_unix_connection(sock=await stranger.connect(agent.socket))
    outgoing.write(encode_request(Request(name, b'Name = "slot1@ep1"\n', keyword="FETCHWORK")))
    reader = ReplyReader()
    reader.feed(await incoming.read(65536))
    reply = there(reader.next_reply())
    assert reply.code == "denied"
    outgoing.close()


async def test_random_ads_get_an_answer_from_every_hook(agent: AgentProcess, pool: Pool) -> None:
    pool.submit([1.0] * 600)
    draw = random.Random(7)
    bad = [
        b"-----", b"\n\n", b"\0", b"\xff\xfe\xfd", b"= = =", b"a" * 3000, b'X = "' + b"\\" * 999,
        b'Requirements = "', b"X = " + b"(" * 1000, b"X = " + b"1+" * 5000 + b"1", b"X = " + b"[a=" * 300,
    ]  # fmt: skip
    odd = [
        b"Memory = 1/0", b"Disk = undefined", b"Cpus = -1e308", b"GPUs = {}", b"JobPid = 1.5e300",
        b"FetchWorkRunId = 99999999999999999999", b"FetchWorkRunId = -1", b"FetchWorkRunId = 9e99",
        b'FetchWorkToken = "x"', b"FetchWorkToken = 7", b'FetchWorkToken = "' + b"0" * 32 + b'"',
        *(
            b"ExitCode = 3.7",
            b"ExitBySignal = 7",
            b"JobDuration = -1",
            b"RemoteUserCpu = error",
            b"ExitCode = 1e99",
        ),
        *(
            b"Owner = {1,2,{3}}",
            b'Name = "\xe2\x82\xac"',
            b"State = Activity",
            b"Activity = State",
            b"X = X + 1",
        ),
        *(
            b"Requirements = strcat(Requirements)",
            b"Rank = 1/0",
            b'SlotType = "Partitionable"',
            b"SlotWeight = [a=1]",
        ),
    ]  # fmt: skip
    usual = [
        b"FetchWorkRunId = 1", b'FetchWorkToken = "00000000-0000-0000-0000-000000000000"', b"Cpus = 1",
        b'Name = "slot1@ep1"', b'State = "Unclaimed"', b'Activity = "Idle"', b"Memory = 9", b"Disk = 9",
    ]  # fmt: skip
    codes = set()
    for _ in range(600):
        lines = draw.sample(usual, k=draw.randint(4, len(usual))) + draw.sample(odd, k=draw.randint(0, 4))
        lines += draw.sample(bad, k=draw.choice([0, 0, 0, 1, 5]))
        body = b"\n".join([*draw.sample(lines, k=len(lines)), *draw.choice([[], [b"-----", *lines]])])
        name = draw.choice(HOOKS)
        arg = draw.choice(["", "accept", "reject", "exit", "evict", "x" * 50])
        check = draw.choice(["", "Cmd is not there", "\u20ac" * 200])
        data = encode_request(
            Request(name, body, keyword="FETCHWORK", arg=arg, slot="slot1", deadline_ms=60_000, check=check)
        )
        reply = await _send(agent, data)
        assert reply is not None, (name, body[:200])
        codes.add(reply.code)
    assert codes <= {"", "bad_request", "denied"}, codes
    # some of it was a good fetch, but no run was touched
    assert pool.value("SELECT count(*) FROM fetchwork.job WHERE job_status = 1") == 600
    assert pool.value("SELECT count(*) FROM fetchwork.run WHERE accepted_at IS NOT NULL") == 0
    assert pool.violations() == []


async def test_requests_of_16_mib_are_read_and_forgotten(agent: AgentProcess) -> None:
    body = b"A = 1\n" * 2_700_000
    for _ in range(4):
        reply = await _send(agent, encode_request(Request("update_job_info", body, keyword="FETCHWORK")))
        assert reply is not None
        assert reply.code in ("bad_request", "denied")


async def test_newline_in_a_value_adds_no_attribute(agent: AgentProcess, pool: Pool) -> None:
    """A job cannot forge attributes of the ad that the startd reads."""
    pool.submit([0.0], Note='x\nOwner = "root"\nHookKeyword = "EVIL"')
    slot = b'Name = "slot1@ep1"\nState = "Unclaimed"\nActivity = "Idle"\nCpus = 1\nMemory = 99\nDisk = 99\n'
    reply = await _send(
        agent, encode_request(Request("fetch_work", slot, keyword="FETCHWORK", deadline_ms=60_000))
    )
    assert reply is not None
    lines = reply.body.decode().splitlines()
    assert [line for line in lines if line.startswith("Owner")] == [f'Owner = "{OWNER}"']
    assert [line for line in lines if line.startswith("HookKeyword")] == ['HookKeyword = "FETCHWORK"']
