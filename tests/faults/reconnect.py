"""Many agents lose the same database at the same moment: their return.

An agent here is the agent's own pool of connections, with its backoffs, and a call of ``beat`` each second;
hundreds of them fit into one process.
"""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from fetchwork.db.calls import hosts
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import FetchworkError
from fetchwork.pool.postgres import PostgresServer

BEAT_S = 1.0


@dataclass
class Comeback:
    """Seconds from the server's return to each agent's first answer, and another client's waits."""

    answered_s: list[float] = field(default_factory=list)
    stranger_s: list[float] = field(default_factory=list)
    stranger_first_s: float = float("inf")
    refused: int = 0

    @property
    def busiest_second(self) -> int:
        """The number of agents that came back within the busiest second."""
        times = sorted(self.answered_s)
        return max(sum(1 for other in times if time <= other < time + 1.0) for time in times)


class _Agent:
    def __init__(self, conninfo: str, name: str, comeback: Comeback) -> None:
        self.database = AsyncDatabase(conninfo, size=1)
        self.name = name
        self.agent_id = str(uuid.uuid4())
        self.comeback = comeback
        self.host_id = 0
        self.back = asyncio.Event()

    async def run(self, since: list[float]) -> None:
        while True:
            try:
                if not self.host_id:
                    hello = hosts.hello(host=self.name, agent_version="1", agent_id=self.agent_id)
                    greeting = await self.database.run(hello, timeout_s=30)
                    self.host_id = greeting.host_id
                beat = hosts.beat(host_id=self.host_id, alive=[], tokens=[], agent_id=self.agent_id)
                await self.database.run(beat, timeout_s=5)
            except FetchworkError:
                self.comeback.refused += bool(since)
            else:
                if since and not self.back.is_set():
                    self.back.set()
                    self.comeback.answered_s.append(time.monotonic() - since[0])
            await asyncio.sleep(BEAT_S)


async def lose_and_regain(
    server: PostgresServer, conninfo: str, agents: int, outage_s: float = 3.0
) -> Comeback:
    """Connect this many agents, kill the server, start it again, and wait until all are back."""
    comeback = Comeback()
    since: list[float] = []
    crowd = [_Agent(conninfo, f"host{number}", comeback) for number in range(agents)]
    tasks = [asyncio.create_task(agent.run(since)) for agent in crowd]
    try:
        async with asyncio.timeout(300):
            while not all(agent.host_id for agent in crowd):
                await asyncio.sleep(0.1)
        await asyncio.to_thread(server.crash)
        await asyncio.sleep(outage_s)
        await asyncio.to_thread(server.start)
        since.append(time.monotonic())
        stranger = asyncio.create_task(_ask_now_and_then(conninfo, comeback, since[0]))
        async with asyncio.timeout(300):
            await asyncio.gather(*(agent.back.wait() for agent in crowd))
        stranger.cancel()
        await _all_ended([stranger])
    finally:
        for task in tasks:
            task.cancel()
        await _all_ended(tasks)
        for agent in crowd:
            await agent.database.close()
    return comeback


async def _ask_now_and_then(conninfo: str, comeback: Comeback, since: float) -> None:
    """A client unrelated to the agents, which connects anew each time."""
    while True:
        began = time.monotonic()
        database = AsyncDatabase(conninfo, size=1, application_name="stranger")
        try:
            with contextlib.suppress(FetchworkError):
                await database.query("SELECT 1", timeout_s=10)
                now = time.monotonic()
                comeback.stranger_s.append(now - began)
                comeback.stranger_first_s = min(comeback.stranger_first_s, now - since)
        finally:
            await database.close()
        await asyncio.sleep(0.2)


async def _all_ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
