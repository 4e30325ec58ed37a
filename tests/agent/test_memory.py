"""Jobs that use more memory than their run may: found, killed, and held as HTCondor holds them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs import usage
from fetchwork.agent.runs.usage import MemoryWatch, proportional
from fetchwork.handlers import retrying
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.overuse import memory_limit
from fetchwork.process import Process, family
from tests.support.waiting import PATIENCE_S, until, until_async

from .conftest import WatchingHooks, slot_ad, with_attributes
from .test_updates import StartJob, job_process, starter_of

__all__ = ["starter_of"]

#: 150 MiB, in one process, and in two that share them
LARGE = "held = bytearray(150 << 20)"
ONE = ["python3", "-c", f"import time; {LARGE}; print('ready', flush=True); time.sleep(600)"]
SHARED = [
    "python3", "-c",
    f"import os, time; {LARGE}; os.fork() and print('ready', flush=True); time.sleep(600)",
]  # fmt: skip


async def started(agent: WatchingHooks, starter: Process, slot: bytes | None = None) -> bytes:
    agent.submit(request_memory=100)
    return await agent.begin(starter, slot)


def killed(process: Process) -> dict[str, Any]:
    """The memory that JOB_EXIT reports for the process."""
    return {"JobPid": process.pid, "JobState": "Exited", "ExitBySignal": True, "ExitSignal": 9}


async def look(agent: WatchingHooks) -> None:
    watch = MemoryWatch(agent.runs)
    await watch.round()
    await watch.inspected()


async def test_job_that_uses_too_much_is_killed_and_held(agent: WatchingHooks, starter_of: StartJob) -> None:
    starter = starter_of(ONE)
    process = job_process(starter)
    job = await started(agent, starter, slot_ad(Memory=120))
    await look(agent)
    assert process.wait(PATIENCE_S)
    answer = await agent.exit(job, starter=starter, **killed(process))
    assert answer.outcome == "held"
    held = agent.job_of("1.0")
    assert (held["jobstatus"], held["holdreasoncode"], held["holdreasonsubcode"]) == (5, 34, 102)
    assert held["holdreason"].startswith(
        "Job has gone over memory limit of 120 megabytes. Last measured usage: 1"
    )


def ask_for_more(agent: WatchingHooks, *, memory: int) -> None:
    """As retry_request_memory sets it; an edited job gets the values of a job that was submitted so."""
    changes = {
        "TransformOnEvict": "RequestMemory",
        "TransformBody_RequestMemory": f"SET RequestMemory {memory}",
    }
    agent.call("edit", jobs=["1.0"], changes=changes)


async def test_job_that_says_so_is_killed_and_tried_again_with_more_and_held_at_the_end(
    agent: WatchingHooks, starter_of: StartJob
) -> None:
    for limit_mib, status in ((120, 1), (130, 5)):
        starter = starter_of(ONE)
        process = job_process(starter)
        if status == 1:
            job = await started(agent, starter, slot_ad(Memory=limit_mib))
            ask_for_more(agent, memory=125)
        else:
            job = await agent.begin(starter, slot_ad(Memory=limit_mib))
        await look(agent)
        assert process.wait(PATIENCE_S)
        answer = await agent.exit(job, starter=starter, **killed(process))
        assert answer.outcome == ("vacated" if status == 1 else "held")
        found = agent.job_of("1.0")
        assert (found["jobstatus"], found["ad"]["RequestMemory"]) == (status, 125)
        assert found["facts"]["VacateReasonSubCode"] == 102
    assert found["holdreasonsubcode"] == 102


@pytest.mark.parametrize(("command", "limit_mib"), [(ONE, 500), (SHARED, 220)])
async def test_what_a_job_may_use_is_left_to_it_and_shared_memory_counts_once(
    agent: WatchingHooks, starter_of: StartJob, command: list[str], limit_mib: int
) -> None:
    starter = starter_of(command)
    await started(agent, starter, slot_ad(Memory=limit_mib))
    await look(agent)
    assert job_process(starter).alive


async def test_proportional_size_is_that_of_the_family_together(starter_of: StartJob) -> None:
    job = job_process(starter_of(SHARED))
    until(lambda: len(family(job)) == 2)
    assert 150 <= await proportional(family(job), SignalRights()) / 2**20 < 200
    gone = Process(job.pid, job.start_ticks + 1)
    job.signal(signal.SIGKILL)
    job.wait(PATIENCE_S)
    assert await proportional([gone], SignalRights()) == 0


async def test_account_that_is_slow_to_look_at_is_waited_for_a_while(
    starter_of: StartJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account can stop the agent's reader that runs as that account, for each of its processes."""
    monkeypatch.setattr(usage, "ACCOUNT_S", 0.3)
    looked: list[Path] = []

    async def slow(path: Path, uid: int) -> int:
        looked.append(path)
        await asyncio.sleep(0.2)
        raise TimeoutError

    rights = SignalRights()
    monkeypatch.setattr(rights, "open", slow)
    job = job_process(starter_of(SHARED))
    assert await proportional([job] * 50, rights) == 0
    assert 0 < len(looked) <= 2


async def test_an_account_whose_jobs_take_long_to_settle_holds_up_no_other(
    agent: WatchingHooks, starter_of: StartJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = []
    for number in range(3):
        starter = starter_of(ONE)
        jobs.append(job_process(starter))
        await started(agent, starter, slot_ad(Memory=120, Name=f"slot{number + 2}@vm"))
    # two jobs of one account, one of another
    owners = {job.pid: uid for job, uid in zip(jobs, (4001, 4001, 4002), strict=True)}
    monkeypatch.setattr(Process, "owner", property(lambda process: owners.get(process.pid, 0)))
    settle, asked, go_on = retrying.settle_overuse, [], asyncio.Event()

    async def slow(run: LiveRun, *rest: Any) -> Any:
        asked.append(run.run_id)
        if run.run_id != 3:
            await go_on.wait()
        return await settle(run, *rest)

    monkeypatch.setattr(retrying, "settle_overuse", slow)
    watch = MemoryWatch(agent.runs)
    for _ in range(3):
        # the round returns, though the inspection of the first account does not end
        await watch.round()
        await asyncio.sleep(0)
    await until_async(lambda: not jobs[2].alive, "the other account's job")
    assert sorted(asked) == [1, 3]
    go_on.set()
    await watch.inspected()
    assert sorted(asked) == [1, 2, 3]
    for job in jobs:
        assert job.wait(PATIENCE_S)


@pytest.fixture
async def chains(conninfo: str) -> AsyncIterator[WatchingHooks]:
    """One host whose keyword lets jobs run in chains; its starters' child stands for the runner."""
    agent = WatchingHooks(conninfo, chain_s=600.0, runner="/bin/true")
    yield agent
    await agent.close()


#: a runner whose job is ONE
CHAINED = ["sh", "-c", f'python3 -c "{ONE[2]}" & wait; exec sleep 600']


async def test_job_of_a_chain_that_uses_too_much_is_killed_without_its_runner_and_held(
    chains: WatchingHooks, starter_of: StartJob
) -> None:
    starter = starter_of(CHAINED)
    runner = job_process(starter)
    (process,) = runner.children()
    carrier = await started(chains, starter, slot_ad(FetchWorkPlain=True, Memory=120))
    assert b"FETCHWORK_CHAIN" in carrier
    await look(chains)
    assert process.wait(PATIENCE_S)
    assert runner.alive
    answer = await chains.ask(
        "chain_next", with_attributes(carrier, **killed(process)), "exit", slot="slot1", starter=starter
    )
    assert answer.outcome == "held"
    held = chains.job_of("1.0")
    assert (held["jobstatus"], held["holdreasoncode"], held["holdreasonsubcode"]) == (5, 34, 102)


async def test_peak_of_a_chains_cgroup_is_not_the_jobs(
    chains: WatchingHooks, starter_of: StartJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job before may have used more; this one was killed by a person."""
    starter = starter_of(CHAINED)
    (process,) = job_process(starter).children()
    monkeypatch.setattr(usage, "_limit_and_peak", lambda job: (400 << 20, 399 << 20))
    carrier = await started(chains, starter, slot_ad(FetchWorkPlain=True, Memory=400))
    await look(chains)
    process.signal(signal.SIGKILL)
    answer = await chains.ask(
        "chain_next", with_attributes(carrier, **killed(process)), "exit", slot="slot1", starter=starter
    )
    assert answer.outcome == "completed"
    assert chains.job_of("1.0")["exitsignal"] == 9


async def test_a_job_that_was_lost_runs_again_without_a_chain(chains: WatchingHooks) -> None:
    """If the kernel has killed it for memory, with all processes of its cgroup, its own starter tells so."""
    chains.submit()
    slot = slot_ad(FetchWorkPlain=True)
    assert b"FETCHWORK_CHAIN" in await chains.fetch(slot)
    (run,) = chains.runs
    assert run.chain is not None
    chains.database.query("SELECT fetchwork.lose_run(r, 'test') FROM fetchwork.run AS r")
    chains.runs.ended(chains.context.session, run.run_id)
    chains.wait_longer()
    ad = await chains.fetch(slot)
    assert ad
    assert b"FETCHWORK_CHAIN" not in ad
    (again,) = chains.runs
    assert again.chain is None
    assert "FetchWorkNumLost" not in again.facts


async def test_job_that_was_held_or_removed_meanwhile_is_left_to_its_own_end(
    agent: WatchingHooks, starter_of: StartJob
) -> None:
    starter = starter_of(ONE)
    await started(agent, starter, slot_ad(Memory=120))
    agent.call("remove", jobs=["1.0"])
    await look(agent)
    assert job_process(starter).alive


@pytest.mark.parametrize("more", [False, True])
async def test_job_that_the_kernel_killed_at_its_limit_is_held_or_tried_again_with_more(
    agent: WatchingHooks, starter_of: StartJob, more: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starter = starter_of(ONE)
    process = job_process(starter)
    groups = Path(f"/proc/{process.pid}/cgroup").read_text().splitlines()
    ours = [line.removeprefix("0::") for line in groups if line.startswith("0::")]
    if not ours:
        pytest.skip("no cgroup of version 2")
    monkeypatch.setattr(usage, "CGROUPS", str(tmp_path))
    cgroup = Path(f"{tmp_path}{ours[0]}")
    cgroup.mkdir(parents=True, exist_ok=True)
    (cgroup / "memory.max").write_text(f"{120 << 20}\n")
    (cgroup / "memory.peak").write_text(f"{119 << 20}\n")
    job = await started(agent, starter, slot_ad(Memory=120))
    await look(agent)
    # the kernel decides
    assert process.alive
    if more:
        ask_for_more(agent, memory=300)
    process.signal(signal.SIGKILL)
    await agent.exit(job, starter=starter, **killed(process))
    found = agent.job_of("1.0")
    if more:
        assert (found["jobstatus"], found["ad"]["RequestMemory"]) == (1, 300)
    else:
        assert (found["jobstatus"], found["holdreasoncode"], found["holdreasonsubcode"]) == (5, 34, 102)


async def test_signal_9_without_a_limit_of_the_kernel_says_nothing_of_memory(
    agent: WatchingHooks, starter_of: StartJob
) -> None:
    starter = starter_of(ONE)
    process = job_process(starter)
    job = await started(agent, starter, slot_ad(Memory=155))
    await agent.exit(job, starter=starter, MemoryUsage=154, **killed(process))
    assert agent.job_of("1.0")["jobstatus"] == 4


@pytest.mark.parametrize(
    ("job", "slot", "limit"),
    [
        (b"RequestMemory = 100\n", b'Memory = 512\nSlotType = "Static"\n', 512),
        (b"RequestMemory = 100\n", b'Memory = 9000\nSlotType = "Partitionable"\n', 128),
        (b"RequestMemory = 128\n", b'SlotType = "Partitionable"\nMemory = 9000\n', 128),
        (b"requestmemory = 129.5\n", b'SlotType = "Partitionable"\n', 256),
        (b"RequestMemory = 2 * 100\n", b'SlotType = "Partitionable"\nMemory = 9000\n', None),
        (b'A = "\\nRequestMemory = 1"\n', b'SlotType = "Partitionable"\n', None),
        (b"", b"", None),
    ],
)
def test_limit_is_what_a_job_of_a_schedd_would_have(job: bytes, slot: bytes, limit: int | None) -> None:
    assert memory_limit(job, slot) == limit


def test_own_file_is_opened_and_a_link_is_not(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("x")
    link.symlink_to(file)
    os.close(asyncio.run(SignalRights().open(file, os.geteuid())))
    with pytest.raises(OSError, match="symbolic links"):
        asyncio.run(SignalRights().open(link, os.geteuid()))
