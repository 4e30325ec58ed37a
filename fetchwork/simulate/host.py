"""One simulated host: a startd with its slots, and the ways in which it fails."""

import asyncio
import functools
import itertools
import random
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path

from fetchwork.simulate.behaviour import BEHAVIOURS, Behaviour, Timing
from fetchwork.simulate.clock import Clock
from fetchwork.simulate.family import Actor
from fetchwork.simulate.hooks import Connect, Hooks, Watch
from fetchwork.simulate.ledger import Ledger
from fetchwork.simulate.startd import Slot, SlotSpec
from fetchwork.simulate.textad import TextAd

#: Linux gives out no number as high
_FIRST_VIRTUAL_PID = 1 << 23
#: a master starts a dead startd again after so long
_RESTART_S = 10.0


class Host:
    """A startd whose slots fetch from one agent.

    ``family`` gives each starter, hook and job a process of its own, as the agent's detectors want to see
    them; without it everything is virtual, and the agent's peer is this process.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        slots: Iterable[SlotSpec],
        *,
        keyword: str = "FETCHWORK",
        spool: Path | None = None,
        behaviour: Behaviour = BEHAVIOURS["25.14"],
        timing: Timing | None = None,
        clock: Clock | None = None,
        ledger: Ledger | None = None,
        watch: Watch | None = None,
        deadlines_s: dict[str, float] | None = None,
        family: Actor | None = None,
        refuses: Callable[[TextAd], bool] = lambda ad: False,
    ) -> None:
        self.name = name
        self.behaviour = behaviour
        self.timing = timing or Timing()
        self.clock = clock or Clock()
        self.ledger = ledger if ledger is not None else Ledger()
        self.family = family
        self.refuses = refuses
        self.draining = False
        #: jobs outlive their starters, as after the death of the master
        self.orphans = False
        self.hooks = Hooks(
            connect,
            keyword=keyword,
            spool=spool,
            clock=self.clock,
            ledger=self.ledger,
            start_s=self.timing.hook_start_s,
            deadlines_s=deadlines_s,
            watch=watch,
        )
        self._specs = list(slots)
        self._pids = itertools.count(_FIRST_VIRTUAL_PID)
        self.slots: list[Slot] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._polling_since = self.clock.now() - random.uniform(0, self.timing.polling_interval_s)  # noqa: S311

    # ---- its life

    def start(self) -> None:
        """Start the startd."""
        self.orphans = self.draining = False
        self.slots = []
        for number, spec in enumerate(self._specs, start=1):
            self.add(Slot(self, number, spec))

    def add(self, slot: Slot) -> None:
        """Let a slot fetch."""
        self.slots.append(slot)
        task = asyncio.create_task(self._run(slot))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, slot: Slot) -> None:
        await slot.run()
        self.slots.remove(slot)

    async def shut_down(self) -> None:
        """Stop as condor_off does: jobs are evicted, JOB_EXIT is waited for, fetches in flight are killed."""
        await self._stop_fetching()
        for slot in self.slots:
            if slot.starter is not None:
                slot.starter.vacate("The startd was shutdown")
        await asyncio.gather(*(slot.finished() for slot in self.slots))
        await self.vanish()

    async def vanish(self) -> None:
        """Lose power: everything is gone and nothing is told."""
        await self._stop_fetching()
        await asyncio.gather(*(slot.stop() for slot in self.slots))
        self.slots = []

    async def crash_startd(self, restart_s: float = _RESTART_S) -> None:
        """kill -9 of the startd: jobs and starters go with it, and the master starts another."""
        self.ledger.counts["startds killed"] += 1
        await self.vanish()
        await self.clock.sleep(restart_s)
        self.start()

    async def lose_master(self) -> None:
        """kill -9 of the master: startd and starters give up, the jobs go on, and no hook reports them."""
        self.orphans = True
        await self.vanish()

    async def _stop_fetching(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def drain(self, on: bool = True) -> None:
        """condor_drain, or its -cancel."""
        self.draining = on
        for slot in list(self.slots):
            slot.drain(on)

    def busy(self) -> list[Slot]:
        """Slots with a starter."""
        return [slot for slot in self.slots if slot.starter is not None]

    # ---- what slots ask

    def until_poll(self) -> float:
        """Seconds to the startd's next look at all its slots."""
        interval = self.timing.polling_interval_s
        return interval - (self.clock.now() - self._polling_since) % interval

    def job_pid(self) -> int:
        """The pid of a virtual job, which no process can have: an agent that looks finds it gone."""
        return next(self._pids)

    def slot_ad(self, slot: Slot) -> TextAd:
        """The ad that describes a slot to its hooks."""
        ad = _unchanging(self.behaviour.slot_ad).copy()
        now = self.clock.wall()
        slot_type = "Partitionable" if slot.spec.partitionable else "Dynamic" if slot.parent else "Static"
        texts = {
            "Name": slot.name,
            "Machine": self.name,
            "UtsnameNodename": self.name,
            "FileSystemDomain": self.name,
            "UidDomain": self.name,
            "State": slot.state,
            "Activity": slot.activity,
            "SlotType": slot_type,
        }
        for name, text in texts.items():
            ad.put_text(name, text)
        numbers = {
            "SlotID": slot.parent.number if slot.parent else slot.number,
            "SlotTypeID": 1,
            "Cpus": slot.cpus,
            "Memory": slot.memory_mib,
            "Disk": slot.disk_kib,
            "GPUs": slot.spec.gpus,
            "TotalSlotCpus": slot.spec.cpus,
            "TotalSlotMemory": slot.spec.memory_mib,
            "TotalSlots": len(self.slots),
            "CurrentRank": 0,
            "MyCurrentTime": now,
            "LastFetchWorkSpawned": now,
        }
        for name, number in numbers.items():
            ad.put(name, str(number))
        if slot.parent is not None:
            ad.put("DSlotId", str(slot.number))
            ad.put("DynamicSlot", "true")
        if slot.spec.partitionable:
            ad.put("PartitionableSlot", "true")
            ad.put("NumDynamicSlots", str(len(slot.children)))
            names = ", ".join(f'"{child.name}"' for child in slot.children.values())
            ad.put("ChildName", "{ " + names + " }")
        if slot.starter is not None:
            ad.put_text("JobId", slot.starter.job.name)
        return ad


@functools.cache
def _unchanging(file: str) -> TextAd:
    ad = TextAd.parse(files(__package__).joinpath(file).read_bytes())
    assert ad is not None, f"{file} is part of this package"
    return ad
