"""Backoff of owners and autoclusters whose claimed jobs could not be printed, so that others get the slots.

An ad that can't be printed, or is larger than HTCondor reads, is noticed only after its job has been claimed.
Such a job is Held; but every one of them costs a claim, and its submitter may have thousands.
"""

from __future__ import annotations

from fetchwork.matching.autoclusters import Autocluster

#: backoff of an autocluster after such a job, and of an owner after the last of too many
REST_S = 5.0
#: an owner backs off after so many such jobs of different autoclusters in that time
OWNERS_JOBS = 3


class Unprintable:
    """The autoclusters and owners that back off; times are monotonic.

    The owner backs off, not the submitter: an accounting group has members who did nothing.
    """

    def __init__(self) -> None:
        self._autoclusters: dict[int, float] = {}
        #: number of their jobs in the present backoff, and its end
        self._owners: dict[str, tuple[int, float]] = {}
        #: the end of the last backoff
        self._until = float("-inf")

    def failed(self, autocluster: Autocluster, now: float) -> None:
        """Note that a claimed job of this autocluster could not be printed."""
        # drop what is over
        self._autoclusters = {number: until for number, until in self._autoclusters.items() if until > now}
        self._owners = {owner: backoff for owner, backoff in self._owners.items() if backoff[1] > now}
        self._autoclusters[autocluster.autocluster_id] = now + REST_S
        self._until = now + REST_S
        jobs, _ = self._owners.get(autocluster.owner, (0, 0.0))
        self._owners[autocluster.owner] = jobs + 1, now + REST_S

    def any_rest(self, now: float) -> bool:
        """Whether any owner or autocluster backs off."""
        return now < self._until

    def rest_s(self, autocluster: Autocluster, now: float) -> float:
        """Seconds for which no job of this autocluster may be claimed; 0 if one may be now."""
        if not self.any_rest(now):
            return 0.0
        until = self._autoclusters.get(autocluster.autocluster_id, now)
        jobs, owners_until = self._owners.get(autocluster.owner, (0, now))
        if jobs >= OWNERS_JOBS:
            until = max(until, owners_until)
        return max(0.0, until - now)
