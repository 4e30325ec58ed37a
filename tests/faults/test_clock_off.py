"""Clocks that are off, or are set: leases and fences are the database's, so nothing goes wrong."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest

from fetchwork.db import schema
from fetchwork.deploy import hooks as hookinstall
from fetchwork.hook.spool import Spool
from fetchwork.pool.postgres import PostgresServer
from tests.faults.conftest import SETTINGS
from tests.faults.harness import UNTIL_TOLD, Pool
from tests.support.clocks import DAY_S, Clock, needs_library
from tests.support.waiting import PATIENCE_S

LEASE_S = 6
HOUR_S = 3600
#: put before an agent's program: the file has the seconds by which its wall clock is ahead now
_JUMPING = """
import time
_steady, _steady_ns = time.time, time.time_ns
def _ahead_s():
    with open({path!r}) as file:
        return float(file.read() or 0)
time.time = lambda: _steady() + _ahead_s()
time.time_ns = lambda: _steady_ns() + int(_ahead_s() * 10**9)
"""


async def test_hosts_whose_clocks_are_off_work_like_the_others(pool: Pool) -> None:
    pool.agent = {"lease_s": LEASE_S}
    await pool.add_host("right", slots=2)
    await pool.add_host("ahead", slots=2, clock_ahead_s=HOUR_S)
    await pool.add_host("behind", slots=2, clock_ahead_s=-HOUR_S)
    pool.submit([0.2] * 12)
    pool.submit([LEASE_S + 2.0] * 6)
    await pool.until_done()
    assert pool.faults() == []
    assert pool.overlaps() == []
    assert pool.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome <> 'completed'") == 0
    by_host = dict(
        pool.rows(
            "SELECT h.name, count(*) FROM fetchwork.run_history AS r JOIN fetchwork.host AS h USING (host_id)"
            " GROUP BY h.name"
        )
    )
    assert min(by_host.get(name, 0) for name in ("right", "ahead", "behind")) >= 2
    # times on record are the database's
    assert pool.value(
        "SELECT bool_and(ended_at BETWEEN now() - interval '3 minutes' AND now()) FROM fetchwork.run_history"
    )


async def test_a_clock_that_is_set_while_jobs_run_loses_none_and_runs_none_twice(
    pool: Pool, tmp_path: Path
) -> None:
    ahead = tmp_path / "ahead"
    ahead.write_text("0")
    pool.agent = {"lease_s": LEASE_S}
    await pool.add_host(slots=4, prelude=_JUMPING.format(path=str(ahead)))
    pool.submit([UNTIL_TOLD] * 2)
    await pool.until_running(2)
    runs = pool.rows("SELECT run_id FROM fetchwork.run ORDER BY run_id")
    renewed = "SELECT lease_until > clock_timestamp() + interval '2 s' FROM fetchwork.host"
    for seconds in (HOUR_S, -HOUR_S, 0):
        ahead.write_text(str(seconds))
        pool.submit([0.1] * 6)
        await pool.until(lambda: pool.left() == 2)
        # the lease is renewed after the jump, and the runs go on
        pool.value("UPDATE fetchwork.host SET lease_until = clock_timestamp() + interval '1 s' RETURNING 1")
        await pool.until(lambda: pool.value(renewed))
        assert pool.rows("SELECT run_id FROM fetchwork.run ORDER BY run_id") == runs
    pool.end_jobs()
    await pool.until_done()
    assert pool.faults() == []
    assert pool.overlaps() == []
    assert pool.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome <> 'completed'") == 0


class _ClockedServer(PostgresServer):
    """A server under a clock of its own."""

    clock: Clock

    def _run(self, command: list[object], failure: str) -> None:
        wrapper = self.clock.wrapper if command[-1] == "start" or "start" in command else []
        super()._run([*wrapper, *command], failure)


@pytest.fixture
async def clocked(
    public_directory: Callable[[], Path], server_directory: Callable[[], Path], clock: Clock
) -> AsyncIterator[Pool]:
    """A pool whose database is under the clock."""
    server = _ClockedServer(server_directory() / "clocked", settings=SETTINGS, durable=False)
    server.clock = clock
    server.start()
    try:
        server.create_database("pool")
        schema.init(server.conninfo("pool"))
        async with Pool(server, server.conninfo("pool"), public_directory()) as pool:
            yield pool
    finally:
        server.stop("immediate")


@needs_library
@pytest.mark.parametrize("days", [1, -1])
async def test_a_host_s_clock_that_is_set_by_a_day_loses_no_job(pool: Pool, clock: Clock, days: int) -> None:
    pool.agent = {"lease_s": LEASE_S}
    host = await pool.add_host(slots=4, wrapper=clock.wrapper)
    pool.submit([UNTIL_TOLD] * 2)
    await pool.until_running(2)
    runs = pool.rows("SELECT run_id FROM fetchwork.run ORDER BY run_id")
    clock.set(days * DAY_S)
    pool.submit([0.1] * 6)
    await pool.until(lambda: pool.left() == 2)
    # its spool, too, under the new clock
    host.agent.spool.joinpath("1.report").write_bytes(b"rubbish")
    await pool.until(lambda: host.reports() == [])
    assert pool.rows("SELECT run_id FROM fetchwork.run ORDER BY run_id") == runs
    pool.end_jobs()
    await pool.until_done()
    assert pool.overlaps() == []
    assert pool.violations() == []
    assert pool.value("SELECT count(*) FROM fetchwork.run_history WHERE outcome <> 'completed'") == 0


@needs_library
@pytest.mark.parametrize("days", [1, -1])
async def test_a_database_s_clock_that_is_set_by_a_day_loses_no_job(
    clocked: Pool, clock: Clock, days: int
) -> None:
    pool = clocked
    pool.agent = {"lease_s": LEASE_S}
    await pool.add_host(slots=2, family=True, through_proxy=False)
    await pool.add_host(slots=2, family=True, through_proxy=False)
    pool.submit([UNTIL_TOLD] * 2)
    await pool.until_running(2)
    clock.set(days * DAY_S)
    with psycopg.connect(pool.conninfo) as connection:
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
    assert row is not None
    assert abs(float(row[0]) - time.time() - days * DAY_S) < DAY_S / 2
    # ahead, leases are over at once: the runs are given up, and their jobs may run elsewhere before their
    # hosts have heard of it at their next beats
    pool.submit([0.1] * 8)
    await pool.until(lambda: pool.value("SELECT count(*) FROM fetchwork.job_history") == 8)

    def over() -> bool:
        pool.end_jobs()
        return pool.left() == 0

    await pool.until(over)
    # the clock is right again
    clock.set(0)
    pool.submit([0.1] * 4)
    await pool.until_done()
    assert pool.violations() == []
    completed = "SELECT count(*) FROM fetchwork.job_history WHERE job_status = 4 AND exit_code = 0"
    assert pool.value(completed) == 14


@needs_library
@pytest.mark.parametrize("days", [1, -1])
def test_a_hook_under_a_clock_that_is_a_day_off_spools_its_report(
    public_directory: Callable[[], Path], clock: Clock, days: int
) -> None:
    directory = public_directory()
    Spool(str(directory / "spool")).make()
    hookinstall.install(
        directory / "hooks",
        keyword="FETCHWORK",
        socket=directory / "nobody.sock",
        spool=directory / "spool",
        python=sys.executable,
    )
    clock.set(days * DAY_S)
    subprocess.run(
        [directory / "hooks" / "job_exit", "exit"],
        input=b"ExitCode = 3\n",
        check=True,
        timeout=PATIENCE_S,
        env={**os.environ, **clock.environment},
    )
    [report] = Spool(str(directory / "spool")).read().reports
    assert report.request.body == b"ExitCode = 3\n"
    assert report.request.written is not None
    assert abs(report.request.written - time.time() - days * DAY_S) < DAY_S / 2
