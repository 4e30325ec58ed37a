"""A backup is restored in place while jobs run that it does not know."""

import asyncio
from pathlib import Path

import psycopg
import pytest

from tests.faults.harness import Pool
from tests.support.client_programs import program


async def restore(pool: Pool, way: str, dump: Path) -> None:
    """As an administrator would: into a new database, or over the existing one."""
    if way == "database made anew":
        name = psycopg.conninfo.conninfo_to_dict(pool.conninfo)["dbname"]
        with psycopg.connect(pool.server.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}"')
        await asyncio.to_thread(program, pool.server, "pg_restore", pool.conninfo, str(dump))
    else:
        options = ["--clean", "--if-exists", "-1", str(dump)]
        for last in (False, False, True):
            try:
                await asyncio.to_thread(program, pool.server, "pg_restore", pool.conninfo, *options)
                break
            except AssertionError as error:
                # with an agent's statement; nothing was restored
                if last or "deadlock detected" not in str(error):
                    raise


@pytest.mark.parametrize("way", ["database made anew", "tables made anew"])
async def test_no_job_runs_twice_at_a_time_and_no_id_is_given_twice(
    pool: Pool, tmp_path: Path, way: str
) -> None:
    dump = tmp_path / "dump"
    await pool.add_host(slots=8, family=True, through_proxy=False)
    await pool.add_host(slots=8, family=True, through_proxy=False)
    await pool.until(lambda: pool.value("SELECT count(*) = 2 FROM fetchwork.host"))
    pool.submit([60.0] * 2)
    await pool.until_running(2)
    pool.value("SELECT fetchwork.set_queue('default', '{\"paused\": true}')::text")
    pool.submit([60.0] * 6)
    await asyncio.to_thread(program, pool.server, "pg_dump", pool.conninfo, "-Fc", "-f", str(dump))
    pool.value("SELECT fetchwork.set_queue('default', '{\"paused\": false}')::text")
    await pool.until_running(8)
    pool.submit([0.1])
    given = {job for (job,) in pool.rows("SELECT DISTINCT cluster_id FROM fetchwork.event")}
    runs = {execution.run_id for execution in pool.ledger.executions}
    await restore(pool, way, dump)
    # six of the eight running jobs wait in this database, and only the restore keeps slots from them
    pool.value(
        "SELECT fetchwork.edit(ARRAY(SELECT cluster_id || '.' || proc_id FROM fetchwork.job),"
        " '{\"SimulatedSeconds\": 0.2}')::text"
    )
    pool.value("SELECT fetchwork.set_queue('default', '{\"paused\": false}')::text")
    pool.submit([0.1] * 4)
    await pool.until(lambda: pool.ledger.counts["started"] >= 8 + 6 + 4)
    assert pool.overlaps() == []
    pool.end_jobs()
    await pool.until_done()
    assert pool.overlaps() == []
    assert pool.violations() == []
    later = {job for (job,) in pool.rows("SELECT DISTINCT cluster_id FROM fetchwork.job_history")}
    # two of the backup, and a new one
    assert len(later) == 3
    assert len(later - given) == 1
    again = [execution.run_id for execution in pool.ledger.executions[8:]]
    assert not runs & set(again)
