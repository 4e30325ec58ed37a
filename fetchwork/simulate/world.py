"""State that the slots, starters and hooks of one simulated host share."""

import itertools
import random
from collections.abc import Callable

from fetchwork.simulate.behaviour import Behaviour, Clock, Timing
from fetchwork.simulate.family import Actor
from fetchwork.simulate.hookcalls import Hooks
from fetchwork.simulate.ledger import Ledger
from fetchwork.simulate.slotad import SlotState, slot_ad
from fetchwork.simulate.textad import TextAd

#: Linux gives out no number as high
_FIRST_VIRTUAL_PID = 1 << 23


class World:
    """The version of HTCondor, its settings, the clock, the hooks and the ledger of one host."""

    def __init__(
        self,
        name: str,
        *,
        behaviour: Behaviour,
        timing: Timing,
        clock: Clock,
        ledger: Ledger,
        hooks: Hooks,
        family: Actor | None,
        calls_reply_fetch: bool,
        chains: bool,
        refuses: Callable[[TextAd], bool],
    ) -> None:
        self.name = name
        self.behaviour = behaviour
        self.timing = timing
        self.clock = clock
        self.ledger = ledger
        self.hooks = hooks
        self.family = family
        self.calls_reply_fetch = calls_reply_fetch
        self.chains = chains
        #: whether the startd rejects a job
        self.refuses = refuses
        self.draining = False
        #: jobs outlive their starters, as after the death of the master
        self.orphans = False
        #: slots that fetch now
        self.total_slots = 0
        self._pids = itertools.count(_FIRST_VIRTUAL_PID)
        self._polling_since = self.clock.now() - random.uniform(0, self.timing.polling_interval_s)  # noqa: S311

    def until_poll(self) -> float:
        """Seconds to the startd's next poll of all its slots."""
        interval = self.timing.polling_interval_s
        return interval - (self.clock.now() - self._polling_since) % interval

    def job_pid(self) -> int:
        """The pid of a virtual job, which no process can have: an agent that checks finds no process."""
        return next(self._pids)

    def slot_ad(self, slot: SlotState) -> TextAd:
        """The ad that describes a slot to its hooks now."""
        ad = slot_ad(slot, self.behaviour, self.clock.wall(), self.total_slots)
        if self.chains:
            # an agent begins no chain where HTCondor lacks the keyword without JOB_EXIT
            ad.put("FetchWorkPlain", "true")
        return ad
