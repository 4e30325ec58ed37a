"""Servers that may be stopped and killed, and pools of simulated hosts on them."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from fetchwork.pool.personal import DBNAME
from fetchwork.pool.postgres import PostgresServer
from tests.faults.harness import Pool
from tests.support.copies import begin_as_copy
from tests.support.nursery import forked_processes

__all__ = ["forked_processes"]

#: commits reach the kernel, so a killed server loses none; the machine itself stays up
SETTINGS = {"synchronous_commit": "on", "max_connections": "100", "timezone": "UTC", "log_checkpoints": "off"}

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def fragile_server(server_directory: Callable[[], Path]) -> Iterator[PostgresServer]:
    """A PostgreSQL server for these tests only."""
    settings = {**SETTINGS, "max_wal_size": "128MB"}
    server = PostgresServer(server_directory() / "postgres", settings=settings, durable=False)
    begin_as_copy(server).start()
    yield server
    server.stop("immediate")


def new_database(server: PostgresServer) -> str:
    """Make a database that has only the schema; return its connection string."""
    server.start()
    name = f"pool_{next(_numbers)}"
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {DBNAME}")
    return server.conninfo(name)


@pytest.fixture
async def pool(fragile_server: PostgresServer, public_directory: Callable[[], Path]) -> AsyncIterator[Pool]:
    """A database, with no hosts yet."""
    conninfo = new_database(fragile_server)
    async with Pool(fragile_server, conninfo, public_directory()) as pool:
        yield pool
    fragile_server.start()
    # sessions that are still connected belong to a pool that has ended
    with psycopg.connect(fragile_server.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(
            f"DROP DATABASE {psycopg.conninfo.conninfo_to_dict(conninfo)['dbname']} WITH (FORCE)"
        )
