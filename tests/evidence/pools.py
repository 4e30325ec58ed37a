"""Histories of pools: real agents, simulated startds, people and readers, under the fault suite's faults.

Agents and clients write files of their own, which the checker reads as one history.
"""

import asyncio
import os
import random
import time
from pathlib import Path
from typing import Any, cast

from fetchwork.pool.postgres import PostgresServer
from tests.evidence.history import Recorder
from tests.evidence.recording import prelude
from tests.evidence.workload import Clients, People, Reader, RecordedServer, settle
from tests.faults.harness import AGENT, Pool
from tests.faults.proxy import DatabaseProxy
from tests.faults.seeded import SeededRun

_SUBMISSIONS = 25
_FAULTS = 6


class _RecordedRun(SeededRun):
    """A run of the fault suite whose agents record their calls; the people are the evidence's own."""

    def __init__(self, server: RecordedServer, pool: Pool, seed: int, planted: str, chains: bool) -> None:
        super().__init__(cast(PostgresServer, server), pool, seed, 0, _FAULTS, chains=chains)
        self._planted = planted

    def prelude(self, host: str) -> str:
        return self._planted + prelude(self.pool.directory / f"{host}.jsonl", host)

    def submit(self) -> None:
        """Others submit."""

    async def _people(self, _: Any) -> str:
        return "people change jobs all the time"


def has_chains(seed: int) -> bool:
    """Whether the jobs of a pool may run in chains, which an agent begins only as root."""
    return seed % 6 == 3 and os.geteuid() == 0


async def play(
    server: PostgresServer, conninfo: str, directory: Path, seed: int, planted: str = ""
) -> list[Path]:
    """Write the history of one seed; its files. ``planted`` is executed by each agent before it begins."""
    random.seed(seed)
    chosen = random.Random(f"pool {seed}")
    recorder = Recorder(directory / "clients.jsonl", seed=seed, lease_s=AGENT["lease_s"])
    clients = Clients(recorder, conninfo, chosen)

    def attributes() -> dict[str, Any]:
        seconds = chosen.uniform(0.01, 0.3) if chosen.random() < 0.8 else chosen.uniform(0.5, 2.0)
        return {"Iwd": "/", "SimulatedSeconds": seconds}

    chains = has_chains(seed)
    keyword = {"chain_s": chosen.choice([1, 3, 60])} if chains else None
    async with (
        Pool(server, conninfo, directory, keyword=keyword) as pool,
        DatabaseProxy(server.port) as proxy,
    ):
        people = People(clients, proxy, attributes)
        readers = [Reader(clients, name, proxy) for name in ("reader 1", "reader 2", "last reader")]
        run = _RecordedRun(RecordedServer(server, recorder), pool, seed, planted, chains)
        await run.set_up()
        background = [
            asyncio.create_task(work) for work in (people.act(), *(one.read() for one in readers[:2]))
        ]
        try:
            # jobs have to wait, or no chain goes on
            await asyncio.gather(people.submit_all(_SUBMISSIONS, 1.0 if chains else 5.0), _break(run))
            background[0].cancel()
            await settle(people, readers[-1])
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await asyncio.gather(people.close(), *(reader.close() for reader in readers))
        _record_executions(pool, recorder)
    recorder.close()
    return [directory / "clients.jsonl", *directory.glob("sim*.jsonl")]


async def _break(run: SeededRun) -> None:
    for _ in range(run.number_of_faults):
        await asyncio.sleep(run.random.uniform(0.1, 0.6))
        await run.next_fault()
    await run.heal()


def _record_executions(pool: Pool, recorder: Recorder) -> None:
    """The simulation's ledger has the times of the wall; a history has those of the monotonic clock."""
    ahead_s = time.time() - time.monotonic()
    for execution in pool.ledger.executions:
        ended = None if execution.ended is None else execution.ended - ahead_s
        recorder.executed(execution.host, execution.job, execution.run_id, execution.started - ahead_s, ended)
