"""A disk that is full under the spool: real hooks on a small file system."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fetchwork.deploy import hooks as hookinstall
from fetchwork.errors import FetchworkError
from fetchwork.hook.spool import Spool, write_report
from fetchwork.hook.wire import Request
from tests.faults.harness import UNTIL_TOLD, Pool
from tests.support.small_disk import fill
from tests.support.waiting import PATIENCE_S

REPORT = Request("job_exit", b"ExitCode = 3\n" + b"A = 1\n" * 2000, keyword="FETCHWORK", arg="exit")


def test_report_that_does_not_fit_is_refused_in_one_line_and_leaves_nothing(small_disk: Path) -> None:
    spool = Spool(str(small_disk / "spool"))
    spool.make()
    filler = fill(small_disk)
    with pytest.raises(FetchworkError, match=r"cannot write a report to spool '.*': No space left on device"):
        write_report(spool.directory, REPORT)
    assert spool.read().reports == []
    assert [path.name for path in (small_disk / "spool").iterdir()] == ["bad"]
    filler.unlink()
    write_report(spool.directory, REPORT)
    [report] = spool.read().reports
    assert report.request.body == REPORT.body


def test_hook_without_agent_and_without_space_fails_aloud(small_disk: Path) -> None:
    hooks = small_disk.parent / "hooks"
    Spool(str(small_disk / "spool")).make()
    hookinstall.install(
        hooks,
        keyword="FETCHWORK",
        socket=small_disk.parent / "nobody.sock",
        spool=small_disk / "spool",
        python=sys.executable,
    )
    fill(small_disk)
    ended = subprocess.run(
        [hooks / "job_exit", "exit"], input=REPORT.body, capture_output=True, timeout=PATIENCE_S
    )
    assert ended.returncode == 1
    assert b"No space left on device" in ended.stderr
    assert ended.stderr.count(b"\n") == 1


async def test_agent_goes_on_when_its_disk_is_full(pool: Pool, small_disk: Path) -> None:
    pool.agent = {"spool": str(small_disk / "spool"), "log": str(small_disk / "agent.log")}
    host = await pool.add_host(slots=3)
    filler = fill(small_disk)
    pool.submit([0.2] * 9)
    await pool.until_done()
    filler.unlink()
    # and earlier reports in the spool are still delivered
    pool.submit([UNTIL_TOLD])
    await pool.until_running()
    await asyncio.to_thread(pool.server.stop, "immediate")
    pool.end_jobs()
    await pool.until(lambda: os.listdir(small_disk / "spool") != ["bad"])
    await asyncio.to_thread(pool.server.start)
    await pool.until_done()
    assert pool.faults() == []
    assert host.agent.running
