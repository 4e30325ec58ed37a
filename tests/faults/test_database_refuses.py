"""A database that answers but takes no writes: read-only, without a free connection, on a full disk.

Each begins while jobs run, and lasts until their results are known to wait in the spool. Agents survive, the
jobs go on to their ends, their reports are delivered afterwards, and no job runs twice.
"""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psycopg
import pytest

from fetchwork.db import schema
from fetchwork.pool.postgres import PostgresServer
from tests.faults.conftest import SETTINGS
from tests.faults.harness import PATIENT, UNTIL_TOLD, Pool
from tests.support.waiting import PATIENCE_S

SLOTS = 4
EXIT_CODE = 7
DISK_MIB = 160

Refusing = Callable[[Pool], AbstractAsyncContextManager[None]]


def _alter_system(pool: Pool, *statements: str) -> None:
    with pool.connection() as connection:
        # in any of these faults, the superuser's session may undo it
        connection.execute("SET default_transaction_read_only = off")
        for statement in (*statements, "SELECT pg_reload_conf()"):
            connection.execute(statement)


@contextlib.asynccontextmanager
async def read_only(pool: Pool) -> AsyncIterator[None]:
    """Every transaction is read-only unless it sets another mode."""
    _alter_system(pool, "ALTER SYSTEM SET default_transaction_read_only = on")
    try:
        # a new session gets the setting after the sessions that exist
        await pool.until(lambda: pool.value("SHOW default_transaction_read_only") == "on")
        yield
    finally:
        _alter_system(pool, "ALTER SYSTEM RESET default_transaction_read_only")


@contextlib.asynccontextmanager
async def no_connection(pool: Pool) -> AsyncIterator[None]:
    """Other sessions take all connections, also those that the agents lose."""
    held: list[psycopg.Connection] = []
    has_begun, over = asyncio.Event(), asyncio.Event()

    def hold_all(first: psycopg.Connection) -> bool:
        """Whether all were held before: a session of an agent that begins has no name yet."""
        before = len(held)
        ended = first.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'fetchwork%'"
        ).fetchall()
        with contextlib.suppress(psycopg.OperationalError):
            while True:
                held.append(psycopg.connect(pool.conninfo, connect_timeout=int(PATIENCE_S)))
        return not ended and len(held) == before > 0

    async def keep_all(first: psycopg.Connection) -> None:
        while not over.is_set():
            if await asyncio.to_thread(hold_all, first):
                has_begun.set()
            await asyncio.sleep(0.1)

    with pool.connection() as first:
        holding = asyncio.create_task(keep_all(first))
        try:
            await asyncio.wait_for(has_begun.wait(), PATIENCE_S)
            yield
        finally:
            over.set()
            await holding
            for each in held:
                each.close()


@contextlib.asynccontextmanager
async def full_disk(pool: Pool) -> AsyncIterator[None]:
    """A file takes all free space of the file system that has the server's data."""
    filler = pool.server.directory / "filler"

    def fill() -> None:
        with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"\0" * size)

    has_begun, over = asyncio.Event(), asyncio.Event()

    async def keep_full() -> None:
        # space that the server frees is taken too
        while not over.is_set():
            await asyncio.to_thread(fill)
            has_begun.set()
            await asyncio.sleep(0.05)

    filling = asyncio.create_task(keep_full())
    try:
        await asyncio.wait_for(has_begun.wait(), PATIENCE_S)
        yield
    finally:
        over.set()
        await filling
        filler.unlink()


async def refused_and_delivered(pool: Pool, refusing: Refusing) -> None:
    """Jobs are running when the database begins to refuse, and end while it does; others wait."""
    # each must start once, no matter how slowly
    pool.deadlines_s = PATIENT
    host = await pool.add_host(slots=SLOTS)
    pool.submit([UNTIL_TOLD] * SLOTS + [0.2] * SLOTS, SimulatedExitCode=EXIT_CODE)
    await pool.until_running(SLOTS)
    await pool.until(lambda: pool.value("SELECT count(*) FROM fetchwork.job WHERE job_status = 2") == SLOTS)
    pid = host.agent.pid
    async with refusing(pool):
        pool.end_jobs()
        await pool.until(lambda: pool.ledger.counts["job_exit exit"] >= SLOTS)
        # the first jobs have ended, and their reports are only in the spool
        await pool.until(lambda: len(pool.left_in_spool()) >= SLOTS)
        assert pool.ledger.running == 0
    await pool.until_done()
    await pool.until(lambda: not pool.left_in_spool())
    assert (host.agent.running, host.agent.pid) == (True, pid)
    once = "SELECT count(*) FROM fetchwork.job_history WHERE exit_code = %s AND num_starts = 1"
    assert pool.value(once, EXIT_CODE) == 2 * SLOTS
    assert len(pool.ledger.executions) == 2 * SLOTS
    assert pool.faults() == []
    assert pool.overlaps() == []


async def test_read_only_database_gets_all_results_afterwards(pool: Pool) -> None:
    await refused_and_delivered(pool, read_only)


async def test_database_without_a_free_connection_gets_all_results_afterwards(pool: Pool) -> None:
    await refused_and_delivered(pool, no_connection)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
async def test_database_on_a_full_disk_gets_all_results_afterwards(
    public_directory: Callable[[], Path],
) -> None:
    directory = public_directory()
    disk = directory / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "fetchwork-test", disk], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted: {mounted.stderr.decode().strip()}")
    disk.chmod(0o755)
    server = PostgresServer(disk / "postgres", settings=SETTINGS, durable=False)
    try:
        server.start()
        server.create_database("pool")
        schema.init(server.conninfo("pool"))
        async with Pool(server, server.conninfo("pool"), public_directory()) as pool:
            await refused_and_delivered(pool, full_disk)
    finally:
        server.stop("immediate")
        subprocess.run(["umount", "-l", disk], check=True)
