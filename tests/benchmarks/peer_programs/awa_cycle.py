"""awa-pg: one client with its worker, which chooses its batches."""

import asyncio
import sys
import time
from dataclasses import dataclass

import awa

url, jobs, concurrency = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


@dataclass
class Noop:
    n: int


async def main() -> None:
    client = awa.AsyncClient(url)
    await client.migrate()
    await client.install_queue_storage()
    begin = time.perf_counter()
    for first in range(0, jobs, 1000):
        await client.enqueue_many_copy([Noop(n) for n in range(first, min(jobs, first + 1000))], queue="noop")
    print("ready", time.perf_counter() - begin, flush=True)
    sys.stdin.readline()
    count = 0
    all_run = asyncio.Event()

    @client.task(Noop, queue="noop")
    async def noop(job: object) -> None:
        nonlocal count
        count += 1
        if count == jobs:
            all_run.set()

    await client.start([("noop", concurrency)])
    await all_run.wait()
    # writes the outstanding ends
    await client.shutdown()
    print("done", flush=True)


asyncio.run(main())
