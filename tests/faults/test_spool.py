"""The spool's content when the database comes back: reports, copies of reports, forgeries and rubbish."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest

from fetchwork.hook.spool import AT_ONCE, Spool, write_report
from fetchwork.hook.wire import Request
from tests.faults.harness import PATIENT, UNTIL_TOLD, Pool, SimulatedHost

JOBS = 6
STRANGER = 4711


@pytest.fixture
async def host(pool: Pool) -> SimulatedHost:
    """A host whose jobs have all ended while there was no database; their reports are in the spool."""
    # each must start once, no matter how slowly
    pool.deadlines_s = PATIENT
    host = await pool.add_host(slots=JOBS)
    pool.submit([UNTIL_TOLD] * JOBS, SimulatedExitCode=3)
    await pool.until_running(JOBS)
    await asyncio.to_thread(pool.server.stop, "immediate")
    pool.end_jobs()
    await pool.until(lambda: len(host.reports()) == JOBS)
    return host


async def _delivered(pool: Pool, host: SimulatedHost) -> None:
    await asyncio.to_thread(pool.server.start)
    await pool.until(lambda: not host.reports())


async def test_rubbish_is_moved_aside_and_told_and_blocks_nothing(pool: Pool, host: SimulatedHost) -> None:
    spool = host.agent.spool
    # both before and behind the reports in their order
    for name, data in {
        "0.report": b"\0" * 5000,
        "1.report": b"",
        "zz.report": b"fetchwork/1 fetch_work\nlength: 0\n\n",
        "zzz.report": b"fetchwork/1 job_exit\narg: exit\nlength: 100\n\nExitCode = 3\n",
        "notes.txt": b"hello",
    }.items():
        (spool / name).write_bytes(data)
    (spool / "directory.report").mkdir()
    (spool / "link.report").symlink_to("/etc/passwd")
    await _delivered(pool, host)
    await pool.until_done()
    assert (
        pool.value("SELECT count(*) FROM fetchwork.job_history WHERE exit_code = 3 AND num_starts = 1")
        == JOBS
    )
    rubbish = {"0.report", "1.report", "zz.report", "zzz.report", "notes.txt", "link.report"}
    # files that are not reports may be moved aside after the last report
    await pool.until(lambda: {path.name for path in (spool / "bad").iterdir()} == rubbish)
    # an empty directory is not worth keeping
    assert not (spool / "directory.report").exists()
    # the agent's log line follows the event
    await pool.until(lambda: all(name in host.agent.log.read_text() for name in rubbish))
    assert pool.violations() == []


async def test_report_that_is_there_twice_counts_once(pool: Pool, host: SimulatedHost) -> None:
    for number, report in enumerate(host.reports()):
        shutil.copy(report, host.agent.spool / f"{number:020d}-copy.report")
    await _delivered(pool, host)
    await pool.until_done()
    assert pool.faults() == []
    assert pool.value("SELECT count(*) FROM fetchwork.event WHERE event_type = 5") == JOBS


async def test_report_of_another_account_is_not_believed(pool: Pool, host: SimulatedHost) -> None:
    # the agent may hold reports that it has read
    host.agent.signal(signal.SIGKILL)
    [first, *others] = host.reports()
    # it knows the run's token, but is not the job's user
    data = first.read_bytes()
    first.unlink()
    forged = host.agent.spool / "00-forged.report"
    forged.write_bytes(data.replace(b"ExitCode = 3", b"ExitCode = 0"))
    os.chown(forged, STRANGER, STRANGER)
    await asyncio.to_thread(pool.server.start)
    await host.agent.start()
    await pool.until(lambda: not host.reports())
    assert [path.name for path in (host.agent.spool / "bad").iterdir()] == ["00-forged.report"]
    assert pool.value("SELECT count(*) FROM fetchwork.run_history WHERE report ->> 'ExitCode' = '0'") == 0
    assert pool.value("SELECT count(*) FROM fetchwork.job_history WHERE exit_code = 3") >= len(others)


async def test_agent_that_starts_delivers_what_lies_there(pool: Pool, host: SimulatedHost) -> None:
    host.agent.signal(signal.SIGKILL)
    await asyncio.to_thread(pool.server.start)
    await host.agent.start()
    await pool.until_done()
    assert pool.value("SELECT count(*) FROM fetchwork.job_history WHERE num_starts = 1") == JOBS
    await pool.until(lambda: not pool.left_in_spool())
    assert pool.faults() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two accounts")
def test_a_report_behind_100_000_files_of_another_account_is_read_in_the_first_round(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"))
    spool.make()
    for number in range(100_000):
        descriptor = os.open(f"{spool.directory}/{number:020d}.report", os.O_WRONLY | os.O_CREAT)
        os.fchown(descriptor, STRANGER, STRANGER)
        os.close(descriptor)
    request = Request("job_exit", b"ExitCode = 3\n", keyword="FETCHWORK", arg="exit")
    write_report(spool.directory, request)
    names = spool.waiting()
    assert len(names) == AT_ONCE
    reading = spool.read(names)
    assert [report.request.body for report in reading.reports] == [request.body]
    assert len(reading.rejected) == AT_ONCE - 1
