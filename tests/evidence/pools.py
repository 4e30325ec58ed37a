"""Histories of pools: real agents, simulated startds, people and readers, under the fault suite's faults.

Agents and clients write files of their own, which the checker reads as one history.
"""

import asyncio
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

    def __init__(self, server: RecordedServer, pool: Pool, seed: int, planted: str) -> None:
        super().__init__(cast(PostgresServer, server), pool, seed, 0, _FAULTS)
        self._planted = planted

    def prelude(self, host: str) -> str:
        return prelude(self.pool.directory / f"{host}.jsonl", host) + self._planted

    def submit(self) -> None:
        """Others submit."""

    async def _people(self, _: Any) -> str:
        return "people change jobs all the time"


async def play(
    server: PostgresServer, conninfo: str, directory: Path, seed: int, planted: str = ""
) -> list[Path]:
    """Write the history of one seed; its files. ``planted`` is executed by each agent before it begins."""
    random.seed(seed)
    chosen = random.Random(f"pool {seed}")
    recorder = Recorder(directory / "clients.jsonl", seed=seed, lease_s=AGENT["lease_s"])
    clients = Clients(recorder, conninfo, chosen)

    def attributes() -> dict[str, Any]:
        return {"Iwd": "/", "SimulatedSeconds": chosen.uniform(0.01, 0.3)}

    async with Pool(server, conninfo, directory) as pool, DatabaseProxy(server.port) as proxy:
        people = People(clients, proxy, attributes)
        readers = [Reader(clients, name, proxy) for name in ("reader 1", "reader 2", "last reader")]
        run = _RecordedRun(RecordedServer(server, recorder), pool, seed, planted)
        await run.set_up()
        background = [
            asyncio.create_task(work) for work in (people.act(), *(one.read() for one in readers[:2]))
        ]
        try:
            await asyncio.gather(people.submit_all(_SUBMISSIONS, 5.0), _break(run))
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
