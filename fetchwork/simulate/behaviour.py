"""Differences between versions of HTCondor, and the settings that decide when slots fetch."""

import asyncio
import time
from dataclasses import dataclass

#: the number that HTCondor reads as "never"
NEVER = 2147483647.0


@dataclass(frozen=True)
class Behaviour:
    """One version of HTCondor, as observed."""

    version: str
    #: file of this package with the attributes of a slot ad that no simulation changes
    slot_ad: str
    #: a slot whose job has ended fetches at once; else at its timer or the next poll
    fetches_at_job_end: bool
    #: the first fetch comes with the startd's first update of the collector; else after a second
    first_fetch_with_update: bool
    #: resources and START are checked for static slots too
    checks_static_slots: bool
    #: the starter fails without a message if the job ad has none of these
    user_attributes: tuple[str, ...]
    #: a run is killed at the end of the claim's lease; the starters of newer versions renew the lease
    lease_kills: bool
    #: the ad of JOB_EXIT has the reason of an eviction
    tells_vacate_reason: bool


BEHAVIOURS = {
    "23.9": Behaviour("23.9.6", "slot-23.9.ad", True, False, False, ("Owner",), True, False),
    "25.14": Behaviour("25.14.1", "slot-25.14.ad", False, True, True, ("OsUser", "User"), False, True),
}


@dataclass(frozen=True)
class Timing:
    """HTCondor's settings of time in seconds, by default as ``fetchwork config`` writes them or quicker."""

    #: FetchWorkDelay by State and Activity
    unclaimed_delay_s: float = 10.0
    claimed_idle_delay_s: float = 0.0
    busy_delay_s: float = NEVER
    other_delay_s: float = NEVER
    update_interval_s: float = 1.0
    polling_interval_s: float = 5.0
    starter_initial_update_interval_s: float = 8.0
    starter_update_interval_s: float = 60.0
    job_exit_timeout_s: float = 30.0
    #: bytes of a hook's output that are read (PIPE_BUFFER_MAX)
    pipe_buffer_max: int = 65536
    #: interpreter start of a hook
    hook_start_s: float = 0.02
    #: from the reply's start to the starter's first hooks
    starter_start_s: float = 0.03

    def fetch_delay_s(self, state: str, activity: str) -> float:
        """FetchWorkDelay of a slot in this state."""
        if state in ("Unclaimed", "Owner"):
            return self.unclaimed_delay_s
        if state == "Claimed" and activity == "Idle":
            return self.claimed_idle_delay_s
        if state == "Claimed" and activity == "Busy":
            return self.busy_delay_s
        return self.other_delay_s


class Clock:
    """Seconds since the start; ``scale`` of them pass in one real second.

    Agent and database take their real time: only the waits of the simulated HTCondor and its jobs are
    shortened. ``ahead_s`` is the error of the host's wall clock.
    """

    def __init__(self, scale: float = 1.0, ahead_s: float = 0.0) -> None:
        self.scale = scale
        self._ahead_s = ahead_s
        self._start = time.monotonic()

    def now(self) -> float:
        """Simulated seconds since the start."""
        return (time.monotonic() - self._start) * self.scale

    def wall(self) -> int:
        """The host's wall clock: seconds since 1970."""
        return int(time.time() + self._ahead_s)

    async def sleep(self, seconds: float) -> None:
        """Wait so many simulated seconds."""
        await asyncio.sleep(max(0.0, seconds) / self.scale)
