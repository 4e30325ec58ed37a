"""PgBouncer's transaction pooling: every test of the hooks again, the agent, and the Python API.

Without Debian's package the tests are skipped; under CI they fail.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from fetchwork.agent import client
from fetchwork.db.database import Database
from fetchwork.db.pool import AsyncDatabase
from fetchwork.hook.wire import Reply, Request
from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue
from fetchwork.simulate.agents import PROGRAM
from tests.agent.conftest import Jobs, MakeAgent, slot_ad

# these tests are collected here again, with another "conninfo"
from tests.agent.test_run_hooks import *  # noqa: F403
from tests.support.pgbouncer import PgBouncer, program
from tests.support.waiting import PATIENCE_S, until_async


@pytest.fixture(scope="session")
def bouncer(postgres: PostgresServer, public_directory: Callable[[], Path]) -> Iterator[PgBouncer]:
    if program() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs PgBouncer: apt-get install pgbouncer")
        pytest.skip("no PgBouncer on this machine")
    bouncer = PgBouncer(public_directory(), postgres, pool_size=2)
    bouncer.start()
    yield bouncer
    bouncer.stop()


@pytest.fixture
def conninfo(bouncer: PgBouncer, new_database: Callable[[], str]) -> str:
    """A new database, through PgBouncer."""
    return bouncer.conninfo(str(conninfo_to_dict(new_database())["dbname"]))


async def test_more_callers_than_connections_wait_for_each_other_and_leave_no_settings(conninfo: str) -> None:
    sql = "SELECT pg_backend_pid() AS pid, %s::int AS n, pg_sleep(0.01)"
    pools = [AsyncDatabase(conninfo, size=2) for _ in range(5)]
    rows = await asyncio.gather(*(pools[n % 5].query(sql, [n], timeout_s=PATIENCE_S) for n in range(50)))
    for pool in pools:
        await pool.close()
    assert sorted(row[0]["n"] for row in rows) == list(range(50))
    assert len({row[0]["pid"] for row in rows}) <= 2
    with Database(conninfo) as database:
        assert database.query("SHOW statement_timeout") == [{"statement_timeout": "0"}]
        assert database.query("SELECT count(*) AS n FROM pg_prepared_statements") == [{"n": 0}]


async def test_agent_notices_that_no_notifications_come_and_looks_each_second(
    make_agent: MakeAgent, jobs: Jobs
) -> None:
    # so that only notifications make it act, not a poll
    program = f"from fetchwork.agent import main\nmain.LOOK_S = 1e6\n{PROGRAM}"
    agent = make_agent(max_fetch_wait_s=600, program=program)
    await agent.start()
    try:
        request = Request("fetch_work", slot_ad(), keyword="FW", deadline_ms=700_000)
        fetch = asyncio.ensure_future(asyncio.to_thread(_ask, agent.socket, request))
        await until_async(lambda: client.status(agent.socket, PATIENCE_S)["waiting_fetches"] == 1)
        await until_async(
            lambda: client.status(agent.socket, PATIENCE_S)["databases"]["main"]["state"] == "up"
        )
        assert not (await agent.status())["databases"]["main"]["listening"]
        await asyncio.to_thread(jobs.submit)
        assert (await asyncio.wait_for(fetch, PATIENCE_S)).body
    finally:
        await agent.stop()


def _ask(path: Path, request: Request) -> Reply:
    return client.ask(path, request, 700)


def test_python_api_works(conninfo: str) -> None:
    with Queue(conninfo) as queue:
        queue.submit({"Cmd": "/bin/true", "Owner": "alice"})
        assert [job["Owner"] for job in queue.query()] == ["alice"]
