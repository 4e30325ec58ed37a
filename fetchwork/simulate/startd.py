"""One slot of a startd: the times of its fetches, and the life of a fetched job.

A slot makes one FETCH_WORK at a time. After each it arms a timer with FetchWorkDelay; a poll checks all
slots at intervals. The output of FETCH_WORK is used when it has exited: an ad that the slot can't take is
rejected, an ad that it takes is answered with "accept" before there is a claim or a starter. When the job has
ended the slot is Claimed/Idle and fetches once more under the same claim; without an ad the claim ends.
"""

import asyncio
import time
from collections.abc import Callable

from fetchwork.simulate.behaviour import NEVER
from fetchwork.simulate.slotad import SlotSpec, SlotState
from fetchwork.simulate.starter import Starter
from fetchwork.simulate.textad import TextAd
from fetchwork.simulate.world import World

#: from a job's end to the next fetch, if the end itself starts the fetch
_AT_JOB_END_S = 0.025


class Slot(SlotState):
    """A static, partitionable or dynamic slot; ``add`` lets a dynamic slot that it makes fetch."""

    def __init__(
        self,
        world: World,
        number: int,
        spec: SlotSpec,
        add: Callable[["Slot"], None],
        parent: "Slot | None" = None,
    ) -> None:
        super().__init__(world.name, number, spec, parent.number if parent is not None else None)
        self.world = world
        self.parent = parent
        self._add = add
        self.starter: Starter | None = None
        self.children: dict[int, Slot] = {}
        self._starting: asyncio.Task[None] | None = None
        self._replies: set[asyncio.Task[object]] = set()
        self._changed = asyncio.Event()
        self._job_ended_at: float | None = None

    @property
    def children_names(self) -> list[str]:
        """The names of the dynamic slots of a partitionable one."""
        return [child.name for child in self.children.values()]

    @property
    def job_name(self) -> str | None:
        """The job that runs in it."""
        return self.starter.job.name if self.starter is not None else None

    # ---- when it fetches

    async def run(self) -> None:
        """Fetch for ever; a dynamic slot until it is given back."""
        clock, timing = self.world.clock, self.world.timing
        if self.parent is None:
            late = self.world.behaviour.first_fetch_with_update
            await clock.sleep(timing.update_interval_s + 1.3 if late else 1.0)
        else:
            await self._pause_of_dynamic_slot()
        while not self._given_back:
            await self._fetch()
            if not self._given_back:
                await self._wait()

    @property
    def _given_back(self) -> bool:
        return self.parent is not None and self.state == "Unclaimed"

    async def _pause_of_dynamic_slot(self) -> None:
        """A slot that never fetched is due at any delay but the one that means never."""
        if self._delay() < NEVER:
            await self.world.clock.sleep(self.world.until_poll())
        else:
            await self._wait()

    def _delay(self) -> float:
        return self.world.timing.fetch_delay_s(self.state, self.activity)

    async def _wait(self) -> None:
        """Wait until the next fetch is due."""
        clock = self.world.clock
        done_at = clock.now()
        # the timer is set when a fetch has completed, to the delay of that moment; 0 counts as a second
        timer = done_at + max(1.0, self._delay())
        while not self._given_back:
            self._changed.clear()
            changed = await self._sleep_until(min(timer, clock.now() + self.world.until_poll()))
            delay = self._delay()
            if changed:
                # only the older startd fetches at once when a claim has become idle
                if self.world.behaviour.fetches_at_job_end and delay <= 0:
                    await clock.sleep(_AT_JOB_END_S)
                    return
            elif delay < NEVER and clock.now() >= done_at + delay:
                return
            elif clock.now() >= timer:
                timer = done_at + delay

    async def _sleep_until(self, at: float) -> bool:
        clock = self.world.clock
        try:
            async with asyncio.timeout(max(0.001, (at - clock.now()) / clock.scale)):
                await self._changed.wait()
                return True
        except TimeoutError:
            return False

    # ---- its fetches

    async def _fetch(self) -> None:
        self.world.ledger.counts["fetch_work"] += 1
        body = bytes(self.world.slot_ad(self))
        # FETCH_WORK is a child of the startd
        outcome = await self.world.hooks.call("fetch_work", body, slot=self, parent=self.world.family)
        printed = outcome.stdout[: self.world.timing.pipe_buffer_max]
        if not printed.strip():
            self.world.ledger.counts["no work"] += 1
            self._drop_idle_claim()
            return
        ad = TextAd.parse(printed)
        if ad is None:
            # not even a reply; the claim stays
            self.world.ledger.counts["bad ads"] += 1
            return
        willing = self._takes(ad)
        self._reply(ad, willing)
        if willing:
            self._claim(ad)
        else:
            self._drop_idle_claim()

    def _takes(self, ad: TextAd) -> bool:
        if self.world.draining or self.world.refuses(ad):
            return False
        if not (self.state in ("Unclaimed", "Owner") or (self.state, self.activity) == ("Claimed", "Idle")):
            return False
        static = self.parent is None and not self.spec.partitionable
        if static and not self.world.behaviour.checks_static_slots:
            return True
        return (
            (ad.number("RequestCpus") or 1) <= self.cpus
            and (ad.number("RequestMemory") or 1) <= self.memory_mib
            and (ad.number("RequestDisk") or 1) <= self.disk_kib
            and self.cpus > 0
        )

    def _reply(self, ad: TextAd, willing: bool) -> None:
        """Nothing waits for REPLY_FETCH, not even the starter's first hooks."""
        answer = "accept" if willing else "reject"
        self.world.ledger.counts[answer] += 1
        if not self.world.calls_reply_fetch:
            return
        slot_ad = self.world.slot_ad(self)
        if willing:
            slot_ad.put_text("ClaimId", f"<127.0.0.1:9618>#1795220817#1#{'0' * 40}")
        body = bytes(ad) + b"-----\n" + bytes(slot_ad)
        task: asyncio.Task[object] = asyncio.create_task(
            self.world.hooks.call("reply_fetch", body, slot=self, arg=answer, parent=self.world.family)
        )
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)

    def _claim(self, ad: TextAd) -> None:
        if not self.spec.partitionable:
            self.start(ad)
            return
        number = next(n for n in range(1, len(self.children) + 2) if n not in self.children)
        spec = SlotSpec(
            int(ad.number("RequestCpus") or 1),
            int(ad.number("RequestMemory") or 1),
            int(ad.number("RequestDisk") or 1),
        )
        child = Slot(self.world, number, spec, self._add, self)
        self.children[number] = child
        self.cpus -= spec.cpus
        self.memory_mib -= spec.memory_mib
        self.disk_kib -= spec.disk_kib
        child.start(ad)
        self._add(child)

    def _drop_idle_claim(self) -> None:
        if (self.state, self.activity) != ("Claimed", "Idle"):
            return
        self._enter("Unclaimed", "Idle")
        self._job_ended_at = None
        if self.parent is not None:
            del self.parent.children[self.number]
            self.parent.cpus += self.spec.cpus
            self.parent.memory_mib += self.spec.memory_mib
            self.parent.disk_kib += self.spec.disk_kib
            self.parent._changed.set()

    # ---- its job

    def start(self, ad: TextAd) -> None:
        """Claim the slot and spawn a starter."""
        self._enter("Claimed", "Busy")
        self.starter = Starter(self.world, self, ad)
        self._starting = asyncio.create_task(self.starter.run())
        self._starting.add_done_callback(self._starter_exited)

    def _starter_exited(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
        self.starter = None
        self._job_ended_at = time.time()
        if self.state == "Claimed":
            self._enter("Claimed", "Idle")

    def job_began(self, at: float) -> None:
        """Note that a job's process has started, and the gap since the job before."""
        if self._job_ended_at is not None:
            self.world.ledger.gaps.append(at - self._job_ended_at)

    def kill_starter(self) -> None:
        """SIGKILL to the starter: job and hooks are gone, none reports; the slot fetches again."""
        if self._starting is not None:
            self.world.ledger.counts["starters killed"] += 1
            self._starting.cancel()

    async def finished(self) -> None:
        """Wait until its starter, if it has one, has exited."""
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)

    async def stop(self) -> None:
        """Kill everything that runs here, without a hook."""
        tasks = [task for task in (self._starting, *self._replies) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def drain(self, on: bool) -> None:
        """Enter or leave the state Drained; a job is evicted first."""
        if on and self.starter is not None:
            self.starter.vacate("draining")
        if on and self.starter is None:
            self._enter("Drained", "Idle")
        elif not on and self.state == "Drained":
            self._enter("Unclaimed", "Idle")

    def _enter(self, state: str, activity: str) -> None:
        if self.world.draining and (state, activity) in (("Claimed", "Idle"), ("Unclaimed", "Idle")):
            state, activity = "Drained", "Idle"
        if state != self.state:
            self.state_since = self.world.clock.wall()
        self.state, self.activity = state, activity
        self._changed.set()
