"""The slot's resources that PREPARE_JOB gives a job, and its answer if the slot is not known."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fetchwork.classad.ads import parse_old
from fetchwork.handlers.requests import start
from tests.agent.conftest import Hooks, attributes_of, slot_ad
from tests.support.waiting import PATIENCE_S
from tests.unit.test_slotad import tool

GPU_SLOT: dict[str, Any] = {
    "Cpus": 2,
    "GPUs": 1,
    "MachineResources": "Cpus Memory GPUs",
    "AssignedGPUs": "GPU-a0223334",
}
RULES = "CUDA_VISIBLE_DEVICES=/CUDA//"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for HTCondor's commands, empty at first."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def configured(tools: Path) -> None:
    values = ["23.9.6", "OMP_NUM_THREADS", "", str(tools / "none"), "", "", RULES, "", "", "10000"]
    text = "\\037".join(value.replace("%", "%%") for value in values)
    tool(tools, "condor_config_val", f"#!/bin/sh\nprintf '{text}\\n'\n")


async def test_a_job_with_devices_does_not_start_where_they_are_not_known(hooks: Hooks, tools: Path) -> None:
    job = hooks.submit(request_gpus=1)
    for _ in range(5):
        ad = await hooks.fetch(slot_ad(**GPU_SLOT))
        answer = await hooks.start(ad)
        assert answer.reply.code == "failed"
        assert "condor_config_val" in answer.reply.message
        assert (await hooks.exit(ad, "evict")).outcome == "withdrawn"
    # the job did not cause it
    assert (hooks.job_of(job)["jobstatus"], hooks.job_of(job)["numjobstarts"]) == (1, 0)


async def test_a_job_without_devices_starts_all_the_same(hooks: Hooks, tools: Path) -> None:
    hooks.submit()
    answer = await hooks.start(await hooks.fetch(slot_ad(**GPU_SLOT)))
    assert (answer.outcome, answer.reply.body) == ("started", b"")


async def test_a_fault_of_our_own_stops_no_job_without_devices(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> bytes:
        raise RuntimeError("a defect")

    monkeypatch.setattr(start, "provided", fail)
    for gpus, outcome in ((0, "started"), (1, "failed")):
        hooks.submit(request_gpus=gpus)
        answer = await hooks.start(await hooks.fetch(slot_ad(**GPU_SLOT, Name=f"slot{gpus}@vm")))
        assert (answer.outcome, answer.reply.body) == (outcome, b"")


async def test_a_job_is_told_its_devices_its_threads_and_both_ads(hooks: Hooks, tools: Path) -> None:
    configured(tools)
    hooks.submit(request_gpus=1, environment="A=1", priority=4)
    fetched = await hooks.fetch(slot_ad(**GPU_SLOT))
    answer = await hooks.start(fetched)
    assert answer.outcome == "started"
    changes, machine, job = answer.reply.body.split(b"-----\n")
    words = str(attributes_of(changes)["Environment"]).split()
    assert words == [
        "A=1",
        "OMP_NUM_THREADS=2",
        "CUDA_VISIBLE_DEVICES=GPU-a0223334",
        "_CONDOR_AssignedGPUs=GPU-a0223334",
        "NVIDIA_VISIBLE_DEVICES=none",
    ]
    assert (parse_old(machine)["Cpus"], parse_old(machine)["GPUs"]) == (2, 1)
    known = parse_old(job)
    assert (known["JobPrio"], known["NumJobStarts"], known["CpusProvisioned"]) == (4, 0, 2)
    assert "QDate" in known
    assert "FetchWorkToken" not in known


async def test_a_job_that_asks_for_more_devices_than_there_are_does_not_start(
    hooks: Hooks, tools: Path
) -> None:
    configured(tools)
    hooks.submit(request_gpus=1)
    ad = await hooks.fetch(slot_ad(**GPU_SLOT))
    answer = await hooks.start(ad.replace(b"RequestGPUs = 1", b"RequestGPUs = 2"))
    assert (answer.outcome, answer.reply.exit) == ("could_not_start", 1)
    assert "asks for 2 GPUs" in attributes_of(answer.reply.body)["HookStatusMessage"]


async def test_the_startd_is_asked_about_a_slot_that_was_carved_for_the_job(
    hooks: Hooks, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the commands are programs, which start late on a busy machine
    monkeypatch.setattr(start, "SLOT_S", PATIENCE_S)
    configured(tools)
    carved = 'Name = "slot1_1@vm"\nMachineResources = "Cpus Memory GPUs"\nCpus = 3\nGPUs = 0\n'
    tool(tools, "condor_status", f"#!/bin/sh\ncat <<END\n{carved}\nEND\n")
    hooks.submit()
    whole = slot_ad("25.14.1-fetch_work-pslot-unclaimed")
    ad = await hooks.fetch(whole)
    answer = await hooks.ask("prepare_job", ad, slot="slot1_1")
    changes = attributes_of(answer.reply.body.split(b"-----\n")[0])
    assert set(str(changes["Environment"]).split()) == {
        "OMP_NUM_THREADS=3",
        "CUDA_VISIBLE_DEVICES=10000",
        "_CONDOR_AssignedGPUs=10000",
        "NVIDIA_VISIBLE_DEVICES=none",
    }


@pytest.mark.parametrize("gpus", [0, 1])
async def test_a_startd_that_does_not_answer_keeps_back_jobs_with_devices_only(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch, gpus: int
) -> None:
    async def never(*_: object) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(start, "SLOT_S", 0.1)
    monkeypatch.setattr(hooks.context.slot_ads, "of", never)
    hooks.submit(request_gpus=gpus)
    answer = await hooks.start(await hooks.fetch(slot_ad(**GPU_SLOT)))
    if gpus:
        assert (answer.reply.code, "did not say in time" in answer.reply.message) == ("failed", True)
    else:
        assert (answer.outcome, answer.reply.body) == ("started", b"")
