"""One starter: the hooks of one job, and its process; and the runner of a chain, which runs several.

    UPDATE_JOB_INFO #1 and PREPARE_JOB at the same time; PREPARE_JOB decides
    the job runs; UPDATE_JOB_INFO after the first interval, then after each
    last UPDATE_JOB_INFO, and JOB_EXIT 3 to 15 ms after it; the slot is busy until JOB_EXIT has ended

A killed starter takes its job along and calls no hook. A starter that can't begin ends in silence.

If the job is a chain's runner, the starter calls PREPARE_JOB alone, and ends with the runner (PROTOCOL.md,
"Chains"). If the agent learns a job's end from the starter's log (STATES.md), the starter writes that log,
and calls no JOB_EXIT. The agent would update such jobs; here the simulation does, as for all others.
"""

import asyncio
import contextlib
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Protocol

from fetchwork.simulate.family import Actor
from fetchwork.simulate.hookcalls import KILLED, FetchingSlot, Outcome
from fetchwork.simulate.job import VirtualJob
from fetchwork.simulate.ledger import Execution
from fetchwork.simulate.textad import TextAd
from fetchwork.simulate.world import World

#: a claim of an HTCondor before 25.4 ends after so long, unless the job's ad says otherwise
_CLAIM_LEASE_S = 1200.0
#: the variable of a runner with the id and token of its chain's first run
_CHAIN = re.compile(r"FETCHWORK_CHAIN=([0-9]+):([0-9a-f-]+)")


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
        self._chain = _CHAIN.fullmatch(ad.text("Environment") or "")
        # not needed for the command's --help, and slow to import
        from fetchwork.config import PLAIN

        #: it calls no JOB_EXIT: its log tells the end
        self._plain = self._chain is None and (ad.text("HookKeyword") or "").endswith(PLAIN)
        self._runner_killed = False
        self._end_signal: int | None = None
        self._stopped_at: float | None = None
        self._stood_still_s = 0.0

    # ---- from outside

    def vacate(self, reason: str = "Claim vacated by the administrator", fast: bool = False) -> None:
        """HTCondor evicts the job: SIGTERM and its vacate time, or SIGKILL at once."""
        if fast and self._chain is not None:
            self.kill_runner()
            return
        self._evicted = reason
        self.signal_job(signal.SIGKILL if fast else signal.SIGTERM)

    def kill_runner(self) -> None:
        """SIGKILL to a chain's runner: the starter ends what is left of its job, and nothing reports it."""
        if self._chain is not None:
            self.world.ledger.counts["runners killed"] += 1
            self._runner_killed = True
            self.signal_job(signal.SIGKILL)

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
            prepared = await self._prepared()
            if self._chain is not None:
                if prepared:
                    await self._run_chain(self._chain)
            elif prepared:
                await self._run_job()
            elif not self._plain:
                await self._exit_hook(self.ad, "evict")
        finally:
            # a starter that is killed takes its hooks and its job along
            for update in self._updates:
                update.cancel()
            if self._actor is not None:
                self._actor.kill()
            if self.execution is not None and self.execution.ended is None and not self.world.orphans:
                self.execution.ended = time.time()

    async def _prepared(self) -> bool:
        """Whether the job may start."""
        if self._chain is None:
            self._update(self.ad)
        outcome = await self._call("prepare_job", self.ad)
        if not _success(outcome):
            self.world.ledger.counts["refused by prepare_job"] += 1
            return False
        changes = TextAd.parse(outcome.stdout)
        if changes is not None:
            self.ad.update(changes)
        return self._evicted is None and (self._chain is not None or not self.job.cannot_exec)

    async def _run_job(self) -> None:
        now = self.world.clock.now()
        final = await self._run_process(now + self._lease_s())
        reason = "exit" if self._evicted is None else "evict"
        if self._plain:
            self._log_end()
        else:
            _reported(self.execution, reason, await self._exit_hook(final, reason))

    def _log_end(self) -> None:
        """Write the events of a job's start and end to the starter's log."""
        assert self.execution is not None
        end = "005 (1) Normal termination (return value {exit_code})"
        if self._evicted is not None:
            end = "004 (0) Job was evicted"
        elif self.execution.exit_signal is not None:
            end = "005 (0) Abnormal termination (signal {exit_signal})"
        number, _, text = end.format(**vars(self.execution)).partition(" ")
        log = Path(self.ad.text("StarterUserLog") or "/dev/null")
        # the agent has made it, and removes it when the run is over
        with contextlib.suppress(FileNotFoundError), log.open("r+") as file:
            file.seek(0, os.SEEK_END)
            file.write(f"001 ({self.job.name}) executing\n...\n{number} ({self.job.name})\n\t{text}\n...\n")

    async def _run_chain(self, first: re.Match[str]) -> None:
        """Run one job after the other as the compiled runner does."""
        lease_end = self.world.clock.now() + self._lease_s()
        ended = TextAd()
        ended.put("FetchWorkRunId", first[1])
        ended.put_text("FetchWorkToken", first[2])
        outcome = await self._call("chain_first", ended)
        while outcome.stdout and not self._runner_killed:
            ad = TextAd.parse(outcome.stdout.partition(b"-----\n")[0])
            assert ad is not None, "the agent prints whole ads"
            self.ad, self.job = ad, VirtualJob.read(ad, self.world.behaviour)
            self.execution, check = None, ""
            if self._evicted is None:
                self._end_signal = None
            if self.job.cannot_exec:
                ended, check = ad, "Failed to execute '/x': (errno=2: 'No such file or directory')"
            else:
                ended = await self._run_process(lease_end)
            if self._runner_killed:
                return
            reason = "exit" if self._evicted is None else "evict"
            outcome = await self._call("chain_next", ended, reason, check)
            if outcome.exit == KILLED:
                return
            if outcome.answered_by == "none":
                # it becomes JOB_EXIT, which has its own time and the spool
                outcome = await self._exit_hook(ended, reason) or outcome
            else:
                self.world.ledger.counts[f"chain_next {reason}"] += 1
            _reported(self.execution, reason, outcome)
            if self._evicted is not None:
                return

    async def _run_process(self, lease_end: float) -> TextAd:
        """Run a job's process to its end; return the report of that."""
        clock, timing = self.world.clock, self.world.timing
        self._job_pid = await self._actor.fork_job() if self._actor is not None else self.world.job_pid()
        # not before the process is there: a crash between the two starts nothing
        self.execution = self.world.ledger.start(
            self.job.name, self.job.run_id, self.world.name, self.slot.name
        )
        self.slot.job_began(self.execution.started)
        began = clock.now()
        job_start = clock.wall()
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
        return await self._job_ended(self.execution, began, job_start)

    def _end(self, began: float) -> float:
        if self._stopped_at is not None:
            return float("inf")
        return began + self.job.seconds + self._stood_still_s

    async def _job_ended(self, execution: Execution, began: float, job_start: int) -> TextAd:
        if self._actor is not None:
            self._actor.end_job()
        last = self._used(began, job_start)
        if self._chain is None:
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
            execution.exit_signal = killed
        else:
            final.put("ExitBySignal", "false")
            final.put("ExitCode", str(self.job.exit_code))
            execution.exit_code = self.job.exit_code
        if self._evicted is not None and self._chain is None and self.world.behaviour.tells_vacate_reason:
            final.put_text("VacateReason", self._evicted)
            final.put("VacateReasonCode", "1010")
            final.put("VacateReasonSubCode", "0")
        return final

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

    async def _call(self, name: str, ad: TextAd, arg: str = "", check: str = "") -> Outcome:
        return await self.world.hooks.call(
            name,
            bytes(ad),
            slot=self.slot,
            arg=arg,
            check=check,
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


def _reported(execution: Execution | None, reason: str, outcome: Outcome | None) -> None:
    """Note the way of an execution's report."""
    if execution is not None:
        execution.hook_reason = reason
        if outcome is not None and outcome.answered_by != "none":
            execution.reported = "spool" if outcome.answered_by == "spool" else "agent"


def _success(outcome: Outcome) -> bool:
    printed = TextAd.parse(outcome.stdout)
    code = printed.number("HookStatusCode") if printed is not None else None
    # its output wins over its exit status
    return code == 0 if code is not None else outcome.exit == 0
