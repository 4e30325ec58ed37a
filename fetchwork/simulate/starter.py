"""One starter: the hooks of one job, and its process.

    UPDATE_JOB_INFO #1 and PREPARE_JOB at the same time; PREPARE_JOB decides
    the job runs; UPDATE_JOB_INFO after the first interval, then after each
    last UPDATE_JOB_INFO, and JOB_EXIT 3 to 15 ms after it; the slot is busy until JOB_EXIT has ended

A killed starter takes its job along and calls no hook. A starter that can't begin ends in silence.
"""

import asyncio
import random
import signal
import time
from typing import Protocol

from fetchwork.simulate.family import Actor
from fetchwork.simulate.hookcalls import FetchingSlot, Outcome
from fetchwork.simulate.job import VirtualJob
from fetchwork.simulate.ledger import Execution
from fetchwork.simulate.textad import TextAd
from fetchwork.simulate.world import World

#: a claim of an HTCondor before 25.4 ends after so long, unless the job's ad says otherwise
_CLAIM_LEASE_S = 1200.0


class ClaimedSlot(FetchingSlot, Protocol):
    """The slot that a starter runs in."""

    def job_began(self, at: float) -> None:
        """A job's process is there."""


class Starter:
    """Runs one fetched job in a slot; ``run`` ends when the starter exits."""

    def __init__(self, world: World, slot: ClaimedSlot, ad: TextAd) -> None:
        self.world = world
        self.slot = slot
        self.ad = ad
        self.job = VirtualJob.read(ad, world.behaviour)
        self.execution: Execution | None = None
        self._actor: Actor | None = None
        self._job_pid = 0
        self._updates: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._evicted: str | None = None
        self._end_signal: int | None = None
        self._stopped_at: float | None = None
        self._stood_still_s = 0.0

    # ---- from outside

    def vacate(self, reason: str = "Claim vacated by the administrator", fast: bool = False) -> None:
        """HTCondor evicts the job: SIGTERM and its vacate time, or SIGKILL at once."""
        self._evicted = reason
        self.signal_job(signal.SIGKILL if fast else signal.SIGTERM)

    def suspend(self, on: bool = True) -> None:
        """Stop the job, or let it go on, which then takes so much longer."""
        now = self.world.clock.now()
        if on and self._stopped_at is None:
            self._stopped_at = now
        elif not on and self._stopped_at is not None:
            self._stood_still_s += now - self._stopped_at
            self._stopped_at = None
        self._wake.set()

    def signal_job(self, number: int) -> None:
        """The job's process gets a signal that it does not catch."""
        self._end_signal = number
        self._wake.set()

    # ---- its life

    async def run(self) -> None:
        """Run the starter from its spawn to its exit; a kill cancels this."""
        timing = self.world.timing
        try:
            await self.world.clock.sleep(timing.starter_start_s)
            if self.job.silent:
                self.world.ledger.counts["silent starters"] += 1
                return
            if self.world.family is not None:
                self._actor = await self.world.family.fork()
            if await self._prepared():
                await self._run_job()
        finally:
            # a starter that is killed takes its hooks and its job along
            for update in self._updates:
                update.cancel()
            if self._actor is not None:
                self._actor.kill()
            if self.execution is not None and self.execution.ended is None and not self.world.orphans:
                self.execution.ended = time.time()

    async def _prepared(self) -> bool:
        """Whether the job may start; if not, JOB_EXIT has been called."""
        self._update(self.ad)
        outcome = await self._call("prepare_job", self.ad)
        if not _success(outcome):
            self.world.ledger.counts["refused by prepare_job"] += 1
            await self._exit_hook(self.ad, "evict")
            return False
        changes = TextAd.parse(outcome.stdout)
        if changes is not None:
            self.ad.update(changes)
        if self._evicted is not None or self.job.cannot_exec:
            await self._exit_hook(self.ad, "evict")
            return False
        return True

    async def _run_job(self) -> None:
        clock, timing = self.world.clock, self.world.timing
        self._job_pid = await self._actor.fork_job() if self._actor is not None else self.world.job_pid()
        # not before the process is there: a crash between the two starts nothing
        self.execution = self.world.ledger.start(
            self.job.name, self.job.run_id, self.world.name, self.slot.name
        )
        self.slot.job_began(self.execution.started)
        began = clock.now()
        job_start = clock.wall()
        lease_end = began + self._lease_s()
        update_at = began + timing.starter_initial_update_interval_s
        while self._end_signal is None and clock.now() < self._end(began):
            if clock.now() >= update_at:
                self._update(self._used(began, job_start))
                update_at = clock.now() + timing.starter_update_interval_s
            if clock.now() >= lease_end:
                self.vacate("claim lease expired", fast=True)
                break
            left = (min(self._end(began), update_at, lease_end) - clock.now()) / clock.scale
            self._wake.clear()
            try:
                async with asyncio.timeout(max(0.0, left)):
                    await self._wake.wait()
            except TimeoutError:
                continue
        self.execution.ended = time.time()
        await self._job_ended(began, job_start)

    def _end(self, began: float) -> float:
        if self._stopped_at is not None:
            return float("inf")
        return began + self.job.seconds + self._stood_still_s

    async def _job_ended(self, began: float, job_start: int) -> None:
        assert self.execution is not None
        if self._actor is not None:
            self._actor.end_job()
        last = self._used(began, job_start)
        self._update(last)
        await self.world.clock.sleep(random.uniform(0.003, 0.015))  # noqa: S311 - no secret
        final = last.copy()
        final.put_text("JobState", "Exited")
        final.put("NumPids", "0")
        final.put("JobDuration", f"{self.world.clock.now() - began:.6f}")
        killed = self._end_signal or self.job.exit_signal
        if killed:
            final.put("ExitBySignal", "true")
            final.put("ExitSignal", str(killed))
            final.put_text("ExitReason", f"died on signal {killed}")
            self.execution.exit_signal = killed
        else:
            final.put("ExitBySignal", "false")
            final.put("ExitCode", str(self.job.exit_code))
            self.execution.exit_code = self.job.exit_code
        if self._evicted is not None and self.world.behaviour.tells_vacate_reason:
            final.put_text("VacateReason", self._evicted)
            final.put("VacateReasonCode", "1010")
            final.put("VacateReasonSubCode", "0")
        reason = "exit" if self._evicted is None else "evict"
        self.execution.hook_reason = reason
        outcome = await self._exit_hook(final, reason)
        if outcome is not None and outcome.answered_by != "none":
            self.execution.reported = "spool" if outcome.answered_by == "spool" else "agent"

    def _lease_s(self) -> float:
        lease = _CLAIM_LEASE_S if self.job.lease_s is None else self.job.lease_s
        if self.world.behaviour.lease_kills or lease == 0:
            return lease
        return float("inf")

    # ---- hooks

    async def _exit_hook(self, ad: TextAd, reason: str) -> Outcome | None:
        """Call JOB_EXIT; None if the starter killed it at its timeout."""
        self.world.ledger.counts[f"job_exit {reason}"] += 1
        try:
            async with asyncio.timeout(self.world.timing.job_exit_timeout_s):
                return await self._call("job_exit", ad, reason)
        except TimeoutError:
            self.world.ledger.counts["job_exit timed out"] += 1
            return None

    def _update(self, ad: TextAd) -> None:
        async def update() -> None:
            outcome = await self._call("update_job_info", ad)
            # the hook sends it only to the process that its ad names
            if outcome.signal and outcome.pid == self._job_pid and self._job_pid:
                self.world.ledger.counts["jobs signalled"] += 1
                self.signal_job(outcome.signal)

        task = asyncio.create_task(update())
        self._updates.add(task)
        task.add_done_callback(self._updates.discard)

    async def _call(self, name: str, ad: TextAd, arg: str = "") -> Outcome:
        return await self.world.hooks.call(
            name,
            bytes(ad),
            slot=self.slot,
            arg=arg,
            starter_slot=self.slot.name.split("@")[0],
            parent=self._actor,
        )

    def _used(self, began: float, job_start: int) -> TextAd:
        ad = self.ad.copy()
        seconds = max(0.0, self.world.clock.now() - began)
        ad.put_text("JobState", "Suspended" if self._stopped_at is not None else "Running")
        ad.put("JobPid", str(self._job_pid))
        ad.put("JobStartDate", str(job_start))
        ad.put("NumPids", "1")
        ad.put("ImageSize", "5292")
        ad.put("ResidentSetSize", "3256")
        ad.put("MemoryUsage", "((ResidentSetSize + 1023) / 1024)")
        ad.put("RemoteUserCpu", f"{seconds:.1f}")
        ad.put("RemoteSysCpu", "0.0")
        ad.put("StatsLifetime", str(int(seconds)))
        return ad


def _success(outcome: Outcome) -> bool:
    printed = TextAd.parse(outcome.stdout)
    code = printed.number("HookStatusCode") if printed is not None else None
    # its output wins over its exit status
    return code == 0 if code is not None else outcome.exit == 0
