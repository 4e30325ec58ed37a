"""What a slot's next fetch says of the offer before, where no REPLY_FETCH tells the startd's verdict.

HTCondor runs REPLY_FETCH for each offer, and condor_procd looks at all processes for each hook. Where the
agent updates running jobs itself, undivided slots are configured without it (``HostConfig.is_told_replies``).
A start counts as an accept there, and a slot whose starter failed before any hook asks again as a claimed
one, or as one that has changed its state since the offer. A slot that refused has no claim then, nor had one
since, but for one that it gave up with the refusal (Resource::tryFetchWork of 23.9 and 25.14).
"""

from __future__ import annotations

from fetchwork.classad.values import ClassAd


def was_taken(offered_to: ClassAd, asks: ClassAd) -> bool:
    """Whether a slot has taken what was offered to it, by its ad then and by that of its next fetch."""
    if asks.get("State") == "Claimed":
        return True
    had_claim = offered_to.get("State") == "Claimed"
    return not had_claim and offered_to.get("EnteredCurrentState") != asks.get("EnteredCurrentState")
