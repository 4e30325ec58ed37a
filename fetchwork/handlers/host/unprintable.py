"""Whose jobs were claimed for nothing lately: they rest on this host, so that others are given its slots.

That the ad of a job can't be printed, or is larger than HTCondor reads, comes out when the job has been
claimed. Such a job is Held; but every one of them costs a claim, and its submitter may have thousands.
"""

from __future__ import annotations

from fetchwork.matching.autoclusters import Autocluster

#: how long an autocluster rests after such a job, and an owner after the last one that was too many
REST_S = 5.0
#: such jobs of one owner, each of another autocluster, in that time
OWNERS_JOBS = 3


class Unprintable:
    """The autoclusters and owners that rest; times are monotonic.

    It is the owner and not the submitter that rests: an accounting group has members who did nothing.
    """

    def __init__(self) -> None:
        self._autoclusters: dict[int, float] = {}
        #: their jobs in the present time of rest, and when that ends
        self._owners: dict[str, tuple[int, float]] = {}
        #: when the last rest ends
        self._until = float("-inf")

    def failed(self, autocluster: Autocluster, now: float) -> None:
        """A claimed job of this autocluster could not be printed."""
        # what is over is nobody's any more
        self._autoclusters = {number: until for number, until in self._autoclusters.items() if until > now}
        self._owners = {owner: one for owner, one in self._owners.items() if one[1] > now}
        self._autoclusters[autocluster.autocluster_id] = now + REST_S
        self._until = now + REST_S
        jobs, _ = self._owners.get(autocluster.owner, (0, 0.0))
        self._owners[autocluster.owner] = jobs + 1, now + REST_S

    def any_rest(self, now: float) -> bool:
        """Whether anybody's jobs rest."""
        return now < self._until

    def rest_s(self, autocluster: Autocluster, now: float) -> float:
        """Seconds for which nothing of this autocluster is to be claimed; 0 if it may be."""
        if not self.any_rest(now):
            return 0.0
        until = self._autoclusters.get(autocluster.autocluster_id, now)
        jobs, owners_until = self._owners.get(autocluster.owner, (0, now))
        if jobs >= OWNERS_JOBS:
            until = max(until, owners_until)
        return max(0.0, until - now)
