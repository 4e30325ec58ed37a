"""PgQueuer: one worker; BATCH jobs are taken, and their ends written, at a time."""

import asyncio
import sys
import time

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

url, jobs, concurrency, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])


async def main() -> None:
    async with asyncpg.create_pool(url, min_size=2, max_size=concurrency + 2) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        await queries.install()
        begin = time.perf_counter()
        for first in range(0, jobs, 1000):
            count = min(1000, jobs - first)
            await queries.enqueue(["noop"] * count, [b"{}"] * count, [0] * count)
        print("ready", time.perf_counter() - begin, flush=True)
        sys.stdin.readline()
        queue = PgQueuer(driver)

        @queue.entrypoint("noop")
        async def noop(job: object) -> None:
            pass

        await queue.run(
            batch_size=batch,
            mode=QueueExecutionMode.drain,
            max_concurrent_tasks=max(concurrency, 2 * batch),
        )
    print("done", flush=True)


asyncio.run(main())
