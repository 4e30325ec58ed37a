"""Outputs that another process changes during delivery: the run ends all the same, and its job is held."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fetchwork.agent.files import outputs as outputs_module
from fetchwork.agent.files.outputs import Outputs
from fetchwork.agent.files.parked import OutputSpool
from fetchwork.db.calls.call import Call
from fetchwork.db.calls.files import CHUNK_BYTES
from fetchwork.db.pool import AsyncDatabase
from fetchwork.hook.wire import Request, encode_request
from fetchwork.sandbox.outputs import Output
from fetchwork.sandbox.parking import Parking
from tests.agent.conftest import Hooks, with_attributes
from tests.support.waiting import PATIENCE_S

T = TypeVar("T")
LARGE = os.urandom(2 * CHUNK_BYTES + 1)


class Meddling(AsyncDatabase):
    """A database that lets a test meddle before each call that does not only read."""

    meddle: Callable[[], None]

    async def run(self, call: Call[T], **more: Any) -> T:
        self.meddle()
        return await super().run(call, **more)


@pytest.fixture
def spool(tmp_path: Path) -> OutputSpool:
    made = OutputSpool(tmp_path / "spool.outputs")
    made.make()
    return made


async def ended(hooks: Hooks, spool: OutputSpool, home: Path) -> tuple[str, str]:
    """A job that has left a large file; its number, and the directory in which the file is staged."""
    job = hooks.submit()
    ad = await hooks.started_job()
    (home / "large").write_bytes(LARGE)
    parking = Parking(str(spool.directory))
    assert parking.take([Output("large", str(home / "large"), 0o644, len(LARGE))]) is None
    body = with_attributes(ad, JobState="Exited", JobPid=7, ExitBySignal=False, ExitCode=0)
    report = encode_request(Request("job_exit", body, keyword="FW", arg="exit", slot="slot1"))
    return job, parking.finish(report, "output", None, seconds=0.1)


async def deliver(
    hooks: Hooks, conninfo: str, spool: OutputSpool, name: str, meddle: Callable[[], None]
) -> None:
    """Deliver a directory as the agent does, until the delivery is complete."""
    database = Meddling(conninfo)
    database.meddle = meddle
    async with database:
        session = hooks.context.session
        outputs = Outputs(
            spool, {"fw": hooks.context}, hooks.runs, frozenset([os.geteuid()]), {session: database}
        )
        await outputs.deliver(name)
        async with asyncio.timeout(PATIENCE_S):
            while outputs.waiting:
                await asyncio.sleep(0.01)
        assert outputs.bytes_of(os.geteuid()) == 0


async def test_a_file_that_goes_on_changing_holds_the_job(
    hooks: Hooks, conninfo: str, spool: OutputSpool, tmp_path: Path
) -> None:
    job, name = await ended(hooks, spool, tmp_path)

    def change() -> None:
        with (spool.directory / name / "0").open("r+b") as stream:
            stream.seek(CHUNK_BYTES)
            stream.write(os.urandom(8))

    await deliver(hooks, conninfo, spool, name, change)
    held = hooks.job_of(job)
    assert (held["jobstatus"], held["holdreasoncode"], held["holdreasonsubcode"]) == (5, 12, 5)
    assert "file 'large' changed while it was sent" in held["holdreason"]
    assert spool.names() == []


async def test_a_file_that_changes_once_is_sent_as_it_is_then(
    hooks: Hooks, conninfo: str, spool: OutputSpool, tmp_path: Path
) -> None:
    job, name = await ended(hooks, spool, tmp_path)
    calls = 0

    def change() -> None:
        nonlocal calls
        calls += 1
        # after the content was first read and before its upload begins
        if calls == 2:
            with (spool.directory / name / "0").open("r+b") as stream:
                stream.seek(CHUNK_BYTES)
                stream.write(b"changed")

    await deliver(hooks, conninfo, spool, name, change)
    assert hooks.job_of(job)["jobstatus"] == 4


async def test_a_parked_file_with_a_second_name_holds_the_job(
    hooks: Hooks, conninfo: str, spool: OutputSpool, tmp_path: Path
) -> None:
    job, name = await ended(hooks, spool, tmp_path)
    (tmp_path / "other").hardlink_to(spool.directory / name / "0")
    await deliver(hooks, conninfo, spool, name, lambda: None)
    held = hooks.job_of(job)
    assert (held["jobstatus"], held["holdreasoncode"]) == (5, 12)
    assert "has more than one name" in held["holdreason"]


async def test_a_fault_of_our_own_costs_the_files_and_not_the_end_of_the_run(
    hooks: Hooks, conninfo: str, spool: OutputSpool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(outputs_module, "send", fail)
    monkeypatch.setattr(outputs_module, "MAX_FAILURES", 1)
    job, name = await ended(hooks, spool, tmp_path)
    await deliver(hooks, conninfo, spool, name, lambda: None)
    held = hooks.job_of(job)
    assert (held["jobstatus"], held["holdreasoncode"]) == (5, 12)
    assert "RuntimeError: a defect" in held["holdreason"]


@pytest.mark.parametrize(("forged", "uploading"), [(False, "outputs"), (True, None)])
async def test_a_directory_without_the_token_of_its_run_changes_nothing_for_the_run(
    hooks: Hooks, spool: OutputSpool, tmp_path: Path, forged: bool, uploading: str | None
) -> None:
    await ended(hooks, spool, tmp_path)
    (run,) = hooks.runs
    if forged:
        run.token = "00000000-0000-0000-0000-000000000000"
    outputs = Outputs(spool, {"fw": hooks.context}, hooks.runs, frozenset(), {})
    await outputs.look()
    assert run.uploading == uploading
    await outputs.close()
