"""Inspections of running jobs: one after the other, so that the later ones may have ended meanwhile."""

import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fetchwork.agent.runs import orphans, usage
from fetchwork.agent.runs.inspections import Inspections, Running
from fetchwork.agent.runs.usage import DiskWatch, MemoryWatch
from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.handlers import retrying
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.process import Process


def run_of(number: int) -> LiveRun:
    return LiveRun(
        run_id=number,
        token="",
        context=cast("Any", None),
        slot="slot1",
        job=f"{number}.0",
        owner="alice",
        state="running",
        starter=Process.find(os.getpid()),
        has_policy=False,
        disk_kib=1,
        memory_mib=1,
    )


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    process = SimpleNamespace(owner=1000, pid=0)
    monkeypatch.setattr(orphans, "child_of", lambda starter: process)
    monkeypatch.setattr(usage, "_limit_and_peak", lambda job: None)
    monkeypatch.setattr(usage, "family", lambda job: [job])
    monkeypatch.setattr(usage, "_resident", lambda process: 2**30)


async def test_a_job_that_ended_while_others_were_looked_at_is_left_alone() -> None:
    runs = [run_of(1), run_of(2), run_of(3), run_of(4)]
    seen = []

    async def look(one: Running) -> None:
        seen.append(one.run.run_id)
        # its JOB_EXIT has arrived completely
        runs[1].exiting, runs[2].state = 1, "ended"

    watch = Inspections(cast("WatchedRuns", runs), "not_watched")
    watch.begin(lambda run: True, look)
    await watch.over()
    assert seen == [1, 4]


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("kind", [DiskWatch, MemoryWatch])
async def test_a_job_whose_end_is_reported_is_not_held_for_what_it_used(
    kind: type[DiskWatch | MemoryWatch], ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(1)
    settled = []

    class Runs(list[LiveRun]):
        rights = SimpleNamespace()

    async def count(*_: object) -> int:
        run.exiting = int(ends)
        return 2**30

    async def settle(run: LiveRun, *_: object) -> retrying.Settled:
        settled.append(run.run_id)
        return retrying.Settled(False, None)

    runs = Runs([run])
    runs.rights.disk_used = count
    monkeypatch.setattr(usage, "proportional", count)
    monkeypatch.setattr(retrying, "settle_overuse", settle)
    watch = kind(cast("WatchedRuns", runs))
    await watch.round()
    await watch.inspected()
    assert settled == ([] if ends else [1])
