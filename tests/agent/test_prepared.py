"""Calls by prepared statements: directly, and through poolers with and without support for them."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg.conninfo import conninfo_to_dict

from fetchwork.db import pool as db_pool
from fetchwork.db.calls import matching
from fetchwork.db.calls.call import Call
from fetchwork.db.database import Json
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseRefused, DatabaseUnavailable, SchemaMismatch
from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue.events.reader import Reader
from fetchwork.queue.session import AsyncSession
from tests.agent.conftest import Jobs
from tests.support.by_name import scalar
from tests.support.pgbouncer import PgBouncer, later_program, program
from tests.support.waiting import PATIENCE_S, until_async

TRACKING = "max_prepared_statements = 50\n"


@dataclass(frozen=True, slots=True)
class Echo(Call[Any]):
    """A call of a statement that is no function of fetchwork."""

    sql: str = ""

    def statement(self) -> tuple[str, list[object]]:
        return self.sql, list(self.arguments.values())


def echo(sql: str, *values: object) -> Echo:
    return Echo("", {str(n): value for n, value in enumerate(values)}, lambda rows: rows, None, sql)


async def kept(pool: AsyncDatabase, like: str = "%") -> int:
    """The number of prepared statements of the one connection's server process whose text matches."""
    sql = "SELECT count(*)::int AS n FROM pg_prepared_statements WHERE statement LIKE %s"
    return int((await pool.query(sql, [like]))[0]["n"])


@pytest.fixture
async def pool(conninfo: str) -> AsyncIterator[AsyncDatabase]:
    async with AsyncDatabase(conninfo, size=1) as pool:
        yield pool


async def test_second_call_of_a_connection_prepares_and_all_others_use_that(pool: AsyncDatabase) -> None:
    for n in range(20):
        rows = await pool.run(echo("SELECT %s::int + 0 AS n", n * 10_000), timeout_s=PATIENCE_S + n)
        assert rows == [{"n": n * 10_000}]
        # one for the time limit
        assert await kept(pool) == (0 if n == 0 else 2)


async def test_a_statement_that_is_asked_often_is_kept_and_others_are_not(pool: AsyncDatabase) -> None:
    for n in range(3):
        assert await pool.query("SELECT %s::int AS n", [n], kept=True) == [{"n": n}]
        assert await pool.query("SELECT %s::bigint AS n", [n]) == [{"n": n}]
    assert await kept(pool, "%::int AS n") == 1
    assert await kept(pool, "%::bigint AS n") == 0


async def test_readers_of_all_events_keep_their_statement_and_see_the_same(
    pool: AsyncDatabase, jobs: Jobs
) -> None:
    session = AsyncSession(pool)
    reader = Reader()
    seen: list[str] = []
    for n in range(5):
        scalar(jobs.database, "submit", cmd="/bin/true", owner="alice")
        async for event in session.each(reader.events(0)):
            seen.append(f"{event.cluster}.{event.proc} {event.type_number}")
        assert seen[-1:] == [f"{n + 1}.0 0"]
    assert len(seen) == 5
    assert await kept(pool, "%event_window%") == 1
    # the statement for some jobs' events has another text
    async for _ in session.each(Reader(job="1").events(0)):
        pass
    assert await kept(pool, "%event_window%") == 1


async def test_values_arrive_as_their_types(pool: AsyncDatabase) -> None:
    sql = (
        "SELECT %s::jsonb AS one, %s::jsonb AS many, %s::jsonb[] AS each, %s::text[] AS texts,"
        " %s::text AS none, %s::bigint AS large, %s::float8 AS number, %s::boolean AS yes, %s::uuid AS id,"
        " %s::bigint[] AS ids, %s::timestamptz AS at, %s::float8[] AS gaps, %s::text AS text"
    )
    token = UUID(int=4711)
    at = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
    values: list[object] = [
        {"a": "it's \\ \n"}, Json([1, {"b": None}]), [{"c": 1}, {}], ["x,y", '"'], None,
        2**40, 0.1, True, token, [1, 2**40], at, [0.5, None], "%s $1 'ä'",
    ]  # fmt: skip
    text, prepared = [await pool.run(echo(sql, *values)) for _ in range(2)]
    assert await kept(pool, "%jsonb[]%") == 1
    assert prepared == text
    assert list(prepared[0].values()) == [{"a": "it's \\ \n"}, [1, {"b": None}], *values[2:]]


async def test_a_function_has_one_statement_whatever_its_values_are(pool: AsyncDatabase) -> None:
    for offer_s, hints in ((60, [0]), (0.5, [2**40]), (1e300, [7]), (60, [])):
        claim = matching.claim_many(
            host_id=0,
            autoclusters=[1] * len(hints),
            prios=[-3] * len(hints),
            hints=hints,
            slots=[],
            offer_s=offer_s,
            lease_s=1800.0,
        )
        assert await pool.run(claim) == []
    assert await kept(pool, "%claim_many%") == 1


async def test_server_ends_what_takes_too_long_and_the_statement_stays(
    pool: AsyncDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    # no matter how slowly the server answers
    monkeypatch.setattr(db_pool, "SERVER_S", PATIENCE_S)
    slow = "SELECT pg_sleep(%s::float8)::text AS slept, pg_backend_pid() AS pid"
    pids = {(await pool.run(echo(slow, 0)))[0]["pid"] for _ in range(2)}
    with pytest.raises(DatabaseUnavailable, match="statement timeout"):
        await pool.run(echo(slow, 60), timeout_s=0.2)
    assert {(await pool.run(echo(slow, 0)))[0]["pid"]} == pids
    assert await kept(pool, "%pg_sleep%") == 1
    assert await pool.run(echo("SELECT current_setting('statement_timeout') AS now")) != [{"now": "0"}]


async def test_time_limit_does_not_outlive_its_call(conninfo: str, jobs: Jobs) -> None:
    # a call without a limit has the role's own
    jobs.database.query("ALTER ROLE CURRENT_USER SET statement_timeout = '77s'")
    try:
        async with AsyncDatabase(conninfo, size=1) as pool:
            for _ in range(3):
                await pool.run(echo("SELECT 1"), timeout_s=PATIENCE_S)
            carried = await pool.carry(echo("SELECT current_setting('statement_timeout') AS now"))
    finally:
        jobs.database.query("ALTER ROLE CURRENT_USER RESET statement_timeout")
    assert carried == [{"now": "77s"}]


async def test_call_that_fails_is_undone_as_a_whole_and_the_next_goes_on(
    pool: AsyncDatabase, jobs: Jobs
) -> None:
    jobs.database.query("CREATE TABLE t (n integer PRIMARY KEY)")
    insert = "WITH one AS (INSERT INTO t VALUES (%s) RETURNING n) SELECT 1 / n AS n FROM one"
    assert [await pool.run(echo(insert, n)) for n in (1, 2)] == [[{"n": 1}], [{"n": 0}]]
    with pytest.raises(DatabaseRefused, match="division by zero"):
        await pool.run(echo(insert, 0))
    with pytest.raises(DatabaseRefused, match="invalid input syntax"):
        await pool.run(echo(insert, "x"))
    with pytest.raises(DatabaseRefused, match="NUL"):
        await pool.run(echo(insert, "\0"))
    assert await pool.run(echo(insert, 3)) == [{"n": 0}]
    assert jobs.database.query("SELECT n FROM t ORDER BY n") == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert await kept(pool, "%INSERT INTO t%") == 1


async def test_what_cannot_be_prepared_is_not_taken_for_kept(pool: AsyncDatabase, jobs: Jobs) -> None:
    sql = "SELECT * FROM fetchwork.not_yet(%s)"
    for _ in range(3):
        with pytest.raises(SchemaMismatch, match="not_yet"):
            await pool.run(echo(sql, 1))
    jobs.database.query("CREATE FUNCTION fetchwork.not_yet(n integer, OUT n2 integer) RETURN n * 2")
    assert [await pool.run(echo(sql, n)) for n in (1, 2)] == [[{"n2": 2}], [{"n2": 4}]]


async def test_function_that_an_upgrade_gives_more_columns_is_called_all_the_same(
    pool: AsyncDatabase, jobs: Jobs
) -> None:
    jobs.database.query("CREATE FUNCTION fetchwork.grows(n integer, OUT a integer) RETURN n")
    grows = echo("SELECT * FROM fetchwork.grows(n => %s)", 1)
    assert [await pool.run(grows) for _ in range(3)] == [[{"a": 1}]] * 3
    jobs.database.query(
        "DROP FUNCTION fetchwork.grows;"
        "CREATE FUNCTION fetchwork.grows(n integer, OUT a integer, OUT b integer)"
        " LANGUAGE sql AS 'SELECT n, 2'"
    )
    # the refused call changed nothing, so even a call that must not be repeated is sent again
    assert [await pool.run(grows, again=False) for _ in range(3)] == [[{"a": 1, "b": 2}]] * 3


async def test_more_than_the_socket_takes_at_once_goes_and_comes(pool: AsyncDatabase) -> None:
    large = "x" * 20_000_000
    for _ in range(2):
        (row,) = await pool.run(echo("SELECT %s::text AS large", large), timeout_s=PATIENCE_S)
        assert row["large"] == large


async def test_connection_that_ends_in_a_call_is_replaced_if_the_call_may_be_repeated(
    pool: AsyncDatabase, jobs: Jobs
) -> None:
    locked = "SELECT pg_advisory_xact_lock(%s)::text AS locked, pg_backend_pid() AS pid"
    (pid,) = {(await pool.run(echo(locked, 7)))[0]["pid"] for _ in range(2)}
    waits = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%advisory%%'"
    jobs.database.query("SELECT pg_advisory_lock(7)")
    calling = asyncio.ensure_future(pool.run(echo(locked, 7), timeout_s=PATIENCE_S))
    await until_async(lambda: jobs.database.query(waits) == [{"pid": pid}])
    jobs.database.query("SELECT pg_terminate_backend(%s, 60000)", [pid], timeout_s=PATIENCE_S)
    jobs.database.query("SELECT pg_advisory_unlock(7)")
    assert (await calling)[0]["pid"] != pid


async def test_connection_that_is_given_up_is_closed_and_nothing_is_kept_of_it(
    pool: AsyncDatabase, jobs: Jobs
) -> None:
    def is_over(pid: int) -> bool:
        return not jobs.database.query("SELECT pid FROM pg_stat_activity WHERE pid = %s", [pid])

    gone: list[weakref.ref[object]] = []
    for way in ("it ends", "its call can't be sent") * 2:
        for _ in range(2):
            ((pid,),) = [row.values() for row in await pool.run(echo("SELECT pg_backend_pid() AS pid"))]
        gone.append(weakref.ref(pool._idle[0]))
        if way == "it ends":
            jobs.database.query("SELECT pg_terminate_backend(%s, 60000)", [pid])
        else:
            with pytest.raises(UnicodeEncodeError):
                await pool.run(echo("SELECT pg_backend_pid() AS pid WHERE %s <> ''", "\ud800"))
        await until_async(partial(is_over, pid))
    await pool.query("SELECT 1")
    gc.collect()
    assert [way for way in gone if way() is not None] == []


@pytest.fixture(params=["tracked", "untracked"])
def bouncer(
    request: pytest.FixtureRequest, postgres: PostgresServer, public_directory: Callable[[], Path]
) -> Iterator[PgBouncer]:
    """A pooler of two server connections that tracks prepared statements, and one that does not."""
    command, settings = None, ""
    if request.param == "tracked":
        settings = TRACKING
        try:
            command = later_program()
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no PgBouncer that keeps track of statements: {error}")
    elif program() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs PgBouncer: apt-get install pgbouncer")
        pytest.skip("no PgBouncer on this machine")
    bouncer = PgBouncer(public_directory(), postgres, pool_size=2, command=command, settings=settings)
    bouncer.start()
    yield bouncer
    bouncer.stop()


@pytest.fixture
def pooled(bouncer: PgBouncer, conninfo: str) -> str:
    """The database through the pooler."""
    return bouncer.conninfo(str(conninfo_to_dict(conninfo)["dbname"]))


class Sharers:
    """More clients than the pooler has server connections, which make the same call at the same time."""

    def __init__(self, conninfo: str) -> None:
        self.pools = [AsyncDatabase(conninfo, size=1) for _ in range(6)]
        self.pids: set[int] = set()

    async def call(self, times: int) -> None:
        sql = "SELECT %s::int AS n, pg_backend_pid() AS pid, pg_sleep(0.002)::text AS slept"
        for _ in range(times):
            rows = await asyncio.gather(
                *(pool.run(echo(sql, n), timeout_s=PATIENCE_S) for n, pool in enumerate(self.pools))
            )
            assert [row[0]["n"] for row in rows] == list(range(6))
            self.pids |= {row[0]["pid"] for row in rows}

    async def names(self) -> set[str]:
        """The names of the prepared statements on the servers."""
        sql = "SELECT name, pg_sleep(0.002)::text AS slept FROM pg_prepared_statements"
        rows = await asyncio.gather(*(pool.query(sql) for _ in range(5) for pool in self.pools))
        return {row["name"] for each in rows for row in each}

    async def __aenter__(self) -> Sharers:
        return self

    async def __aexit__(self, *_: object) -> None:
        for pool in self.pools:
            await pool.close()


async def test_statements_are_kept_through_a_pooler_that_keeps_track_alone(
    bouncer: PgBouncer, pooled: str
) -> None:
    async with Sharers(pooled) as sharers:
        await sharers.call(20)
        # the pooler makes its second connection while calls wait for the first one
        async with asyncio.timeout(PATIENCE_S):
            while len(sharers.pids) < 2:
                await sharers.call(1)
        names = await sharers.names()
    assert len(sharers.pids) == 2
    if TRACKING in bouncer.settings:
        # the time limit, the call and the probe's query, once for all clients
        assert len(names) == 3
        assert all(name.startswith("PGBOUNCER_") for name in names)
    else:
        assert names == set()


@pytest.mark.parametrize("bouncer", ["tracked"], indirect=True)
async def test_pooler_that_ceases_to_keep_track_costs_no_call(bouncer: PgBouncer, pooled: str) -> None:
    async with Sharers(pooled) as sharers:
        await sharers.call(5)
        bouncer.reload("max_prepared_statements = 0\n")
        await until_async(lambda: "SIGHUP" in bouncer.log.read_text())
        await sharers.call(20)


@pytest.mark.parametrize("bouncer", ["tracked"], indirect=True)
async def test_upgrade_behind_a_pooler_that_keeps_track_costs_no_call(pooled: str, jobs: Jobs) -> None:
    make = (
        "DROP FUNCTION IF EXISTS fetchwork.grows; CREATE FUNCTION fetchwork.grows({})"
        " LANGUAGE sql AS 'SELECT {}'"
    )
    jobs.database.query(make.format("OUT a integer", "1"))
    pools = [AsyncDatabase(pooled, size=1) for _ in range(4)]
    grows = echo("SELECT * FROM fetchwork.grows()")
    for columns, select, row in (
        ("OUT a integer", "1", {"a": 1}),
        ("OUT a integer, OUT b integer", "1, 2", {"a": 1, "b": 2}),
    ):
        jobs.database.query(make.format(columns, select))
        for _ in range(5):
            rows = await asyncio.gather(*(pool.run(grows, timeout_s=PATIENCE_S) for pool in pools))
            assert rows == [[row]] * 4
    for pool in pools:
        await pool.close()
