"""A host that joins while its jobs run: neither the jobs nor the startd notice."""

from pathlib import Path

from fetchwork import config
from fetchwork.config.identity import read_identity, write_identity
from tests.faults.harness import Pool
from tests.support.joining import invite, join, run_host
from tests.support.waiting import until_async

SLOTS = 4


async def test_no_running_job_notices_that_its_host_joins_and_renews(pool: Pool) -> None:
    host = await pool.add_host("ep1", slots=SLOTS, through_proxy=False)
    pool.submit([3600] * SLOTS, SimulatedExitCode=3)
    await pool.until_running(SLOTS)
    conninfo = _join(pool, host.agent.file)
    host.agent.file.write_text(host.agent.file.read_text().replace(pool.conninfo, conninfo))
    # the next start reads the host file
    await host.kill_agent()
    run_host(pool.conninfo, "require-join")
    await _renew(pool, host.agent.log)
    pool.end_jobs()
    # the jobs that ran at the join end, and new ones follow
    pool.submit([0.3] * SLOTS, SimulatedExitCode=3)
    await pool.until_done()
    assert pool.faults() == []
    assert pool.overlaps() == []
    once = "SELECT count(*) FROM fetchwork.job_history WHERE exit_code = 3 AND num_starts = 1"
    assert pool.value(once) == 2 * SLOTS


def _join(pool: Pool, host_file: Path) -> str:
    """The connection string of the host's own identity."""
    assert pool.conninfo in host_file.read_text()
    invitation = invite(pool.conninfo, "--name", "ep1")
    joined = join(pool.conninfo, invitation, pool.directory)
    return config.load(joined).databases["main"].conninfo


async def _renew(pool: Pool, log: Path) -> None:
    """Let the agent renew its identity, as after two thirds of its life."""
    path = pool.directory / "id" / "main.pgpass"
    now = read_identity(path)
    assert now is not None
    write_identity(path, type(now)(now.role, now.password, now.generation, 0, 1))
    await until_async(lambda: "identity_renewed" in log.read_text(), "its renewal")
