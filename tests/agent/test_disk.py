"""Jobs whose scratch directory exceeds their slot's disk: found, killed, held or tried again."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from fetchwork.agent.runs.usage import DiskWatch
from fetchwork.handlers import overuse
from fetchwork.process import Process
from tests.support.waiting import PATIENCE_S

from .conftest import WatchingHooks, slot_ad
from .test_memory import killed
from .test_updates import StartJob, job_process, starter_of

__all__ = ["starter_of"]

SLEEPER = ["sh", "-c", "echo ready; exec sleep 600"]
LIMIT_KIB = 1024
SLOT = slot_ad(Disk=LIMIT_KIB)


async def look(agent: WatchingHooks, watch: DiskWatch | None = None) -> None:
    watch = watch or DiskWatch(agent.runs)
    await watch.round()
    await watch.inspected()


def fill(directory: Path, kib: int) -> None:
    (directory / "filled").write_bytes(os.urandom(kib * 1024))


async def test_job_that_uses_too_much_is_killed_and_held(
    agent: WatchingHooks, starter_of: StartJob, tmp_path: Path
) -> None:
    starter = starter_of(SLEEPER, tmp_path)
    process = job_process(starter)
    agent.submit(request_disk=10)
    job = await agent.begin(starter, SLOT)
    fill(tmp_path, LIMIT_KIB - 100)
    await look(agent)
    assert process.alive
    fill(tmp_path, LIMIT_KIB + 100)
    await look(agent)
    assert process.wait(PATIENCE_S)
    answer = await agent.exit(job, starter=starter, **killed(process))
    assert answer.outcome == "held"
    held = agent.job_of("1.0")
    assert (held["jobstatus"], held["holdreasoncode"], held["holdreasonsubcode"]) == (5, 34, 104)
    assert held["holdreason"] == (
        "Job has exceeded allocated disk (1.00 MB). Consider increasing the value of request_disk."
    )


async def test_job_that_says_so_is_tried_again_with_more(
    agent: WatchingHooks, starter_of: StartJob, tmp_path: Path
) -> None:
    starter = starter_of(SLEEPER, tmp_path)
    process = job_process(starter)
    agent.submit(request_disk=10)
    job = await agent.begin(starter, SLOT)
    # as retry_request_disk sets it
    changes = {"TransformOnEvict": "RequestDisk", "TransformBody_RequestDisk": "SET RequestDisk 5000"}
    agent.call("edit", jobs=["1.0"], changes=changes)
    fill(tmp_path, LIMIT_KIB + 100)
    await look(agent)
    assert process.wait(PATIENCE_S)
    answer = await agent.exit(job, starter=starter, **killed(process))
    assert answer.outcome == "vacated"
    found = agent.job_of("1.0")
    assert (found["jobstatus"], found["ad"]["RequestDisk"]) == (1, 5000)
    assert found["facts"]["VacateReasonSubCode"] == 104


async def test_what_an_account_makes_slow_is_waited_for_by_nobody_and_not_begun_twice(
    agent: WatchingHooks, starter_of: StartJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.submit(request_disk=10)
    await agent.begin(starter_of(SLEEPER, tmp_path), SLOT)
    looked = []
    go_on = asyncio.Event()

    async def slow(starter: Process, uid: int) -> int:
        looked.append(uid)
        await go_on.wait()
        return 0

    monkeypatch.setattr(agent.runs.rights, "disk_used", slow)
    # even if the count is fast here, the backoff is longer than the test
    monkeypatch.setattr("fetchwork.agent.runs.usage.BACKOFF", 1e9)
    watch = DiskWatch(agent.runs)
    for _ in range(3):
        # the round returns, though no inspection ends
        await watch.round()
        await asyncio.sleep(0)
    assert looked == [os.geteuid()]
    go_on.set()
    await look(agent, watch)
    # a slow count makes the backoff longer
    await look(agent, watch)
    assert looked == [os.geteuid()]


async def test_a_starter_that_has_gone_says_nothing_about_its_job(
    agent: WatchingHooks, starter_of: StartJob, tmp_path: Path
) -> None:
    starter = starter_of(SLEEPER, tmp_path)
    process = job_process(starter)
    with pytest.raises(ProcessLookupError):
        await agent.runs.rights.disk_used(Process(starter.pid, starter.start_ticks + 1), os.geteuid())
    agent.submit(request_disk=10)
    await agent.begin(starter, SLOT)
    fill(tmp_path, LIMIT_KIB + 100)
    process.signal(signal.SIGKILL)
    assert process.wait(PATIENCE_S)
    await look(agent)
    assert agent.job_of("1.0")["jobstatus"] == 2


@pytest.mark.parametrize(
    ("job", "slot", "limit"),
    [
        (b"RequestDisk = 100\n", b'Disk = 5000\nSlotType = "Static"\n', 5000),
        (b"RequestDisk = 100\n", b'Disk = 9000000\nSlotType = "Partitionable"\n', 1024),
        (b"RequestDisk = 1025\n", b'TotalDisk = 7\nSlotType = "Partitionable"\n', 2048),
        (b"RequestDisk = DiskUsage\n", b'SlotType = "Partitionable"\nDisk = 9\n', None),
        (b"", b"TotalDisk = 7\n", None),
    ],
)
def test_limit_is_what_a_job_of_a_schedd_would_have(job: bytes, slot: bytes, limit: int | None) -> None:
    assert overuse.disk_limit(job, slot) == limit


@pytest.mark.parametrize(
    ("kib", "words"), [(500, "500.00 KB"), (1536, "1.50 MB"), (3 << 20, "3.00 GB"), (5 << 40, "5120.00 TB")]
)
def test_the_limit_is_told_in_htcondors_words(kib: int, words: str) -> None:
    assert f"({words})" in overuse.over_disk(kib).reason
