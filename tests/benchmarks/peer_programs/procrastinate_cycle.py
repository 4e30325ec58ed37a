"""procrastinate: one worker, jobs one by one."""

import asyncio
import sys
import time

import procrastinate

url, jobs, concurrency = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=url, min_size=2, max_size=concurrency + 2)
)


@app.task(name="noop")
async def noop(n: int) -> None:
    pass


async def main() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        begin = time.perf_counter()
        for first in range(0, jobs, 1000):
            await noop.batch_defer_async(*({"n": n} for n in range(first, min(jobs, first + 1000))))
        print("ready", time.perf_counter() - begin, flush=True)
        sys.stdin.readline()
        await app.run_worker_async(concurrency=concurrency, wait=False, install_signal_handlers=False)
    print("done", flush=True)


asyncio.run(main())
