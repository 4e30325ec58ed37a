"""One simulated host: a startd with its slots, and the ways in which it fails."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from fetchwork.simulate.behaviour import BEHAVIOURS, Behaviour, Clock, Timing
from fetchwork.simulate.family import Actor
from fetchwork.simulate.hookcalls import Connect, Hooks, Watch
from fetchwork.simulate.ledger import Ledger
from fetchwork.simulate.slotad import SlotSpec
from fetchwork.simulate.startd import Slot
from fetchwork.simulate.textad import TextAd
from fetchwork.simulate.world import World

#: a master starts a dead startd again after so long
_RESTART_S = 10.0


class Host(World):
    """A startd whose slots fetch from one agent.

    ``family`` gives each starter, hook and job a process of its own, as the agent's detectors want to see
    them; without it everything is virtual, and the agent's peer is this process. Without REPLY_FETCH in its
    configuration (``calls_reply_fetch``) a startd does not report its decision on an offer. ``chains``: jobs
    may run in chains, if the agent's keyword lets them (``chain_s``).
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
        calls_reply_fetch: bool = True,
        chains: bool = False,
        refuses: Callable[[TextAd], bool] = lambda ad: False,
    ) -> None:
        timing = timing or Timing()
        clock = clock or Clock()
        ledger = ledger if ledger is not None else Ledger()
        hooks = Hooks(
            connect,
            keyword=keyword,
            spool=spool,
            clock=clock,
            ledger=ledger,
            start_s=timing.hook_start_s,
            deadlines_s=deadlines_s,
            watch=watch,
        )
        super().__init__(
            name,
            behaviour=behaviour,
            timing=timing,
            clock=clock,
            ledger=ledger,
            hooks=hooks,
            family=family,
            calls_reply_fetch=calls_reply_fetch,
            chains=chains,
            refuses=refuses,
        )
        self._specs = list(slots)
        self.slots: list[Slot] = []
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- its life

    def start(self) -> None:
        """Start the startd."""
        self.orphans = self.draining = False
        self._forget_slots()
        for number, spec in enumerate(self._specs, start=1):
            self.add(Slot(self, number, spec, self.add))

    def add(self, slot: Slot) -> None:
        """Let a slot fetch."""
        self.slots.append(slot)
        self.total_slots = len(self.slots)
        task = asyncio.create_task(self._run(slot))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, slot: Slot) -> None:
        await slot.run()
        self.slots.remove(slot)
        self.total_slots = len(self.slots)

    def _forget_slots(self) -> None:
        self.slots = []
        self.total_slots = 0

    async def shut_down(self) -> None:
        """Stop as condor_off does: jobs are evicted, JOB_EXIT is waited for, fetches in flight are killed."""
        await self._stop_fetching()
        for slot in self.slots:
            if slot.starter is not None:
                slot.starter.vacate("The startd was shutdown")
        await asyncio.gather(*(slot.finished() for slot in self.slots))
        await self.vanish()

    async def vanish(self) -> None:
        """Lose power: everything is gone and nothing is reported."""
        await self._stop_fetching()
        await asyncio.gather(*(slot.stop() for slot in self.slots))
        self._forget_slots()

    async def crash_startd(self, restart_s: float = _RESTART_S) -> None:
        """Kill -9 of the startd: jobs and starters go with it, and the master starts another."""
        self.ledger.counts["startds killed"] += 1
        await self.vanish()
        await self.clock.sleep(restart_s)
        self.start()

    async def lose_master(self) -> None:
        """Kill -9 of the master: startd and starters give up, the jobs go on, and no hook reports them."""
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
