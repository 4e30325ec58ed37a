"""What the matchmaker is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fetchwork.codes import HoldCode
from fetchwork.errors import ClassAdError
from fetchwork.matchmaker.policy import Verdict


@dataclass(frozen=True, slots=True)
class Look:
    """A slot that may be given a job, and what waits for one, in the order of preference."""

    slot: bytes
    #: ids; the same one may stand at several places
    autoclusters: Sequence[int]
    #: ads of other slots that wait: jobs whose Rank prefers one of those are left to it
    others: Sequence[bytes] = ()
    limit: int = 64
    #: it is asked which verdicts last (``Seen.weights`` and ``misfits``)
    learns: bool = False


@dataclass(slots=True)
class Match:
    """An autocluster that may run on the slot; one with a problem fits each slot, to be held there."""

    #: its place in the look's ``autoclusters``
    index: int
    weight: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one ``Look``."""

    matches: tuple[Match, ...]
    #: some jobs were left to other slots
    yielded: bool = False
    #: some autoclusters were not evaluated, for their submitters have used up their time, or enough fits
    postponed: bool = False
    #: why the slot's ad can't be read
    problem: str | None = None
    #: what a second of the slot costs autoclusters that fit, and those that do not: this holds as long as the
    #: slot's ad says the same but for its clocks
    weights: Mapping[int, float] = field(default_factory=dict)
    misfits: Sequence[int] = ()
    #: some verdict on this slot may be so
    lasts: bool = True


@dataclass(frozen=True, slots=True)
class Printed:
    """The ad of a claimed run, as FETCH_WORK prints it."""

    text: bytes
    #: what the job's own ad is to remember of the slot's values in it, in HTCondor's JSON form
    remembered: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """What came of all looks of a request, and what went wrong with single autoclusters on the way."""

    seen: list[Seen]
    #: autoclusters whose evaluation failed or took too much on a slot: their reason
    faults: dict[int, str] = field(default_factory=dict)
    #: autoclusters whose own ad can't be read on any slot: their reason
    problems: dict[int, str] = field(default_factory=dict)
    #: seconds after which what was postponed may be evaluated; None where nothing was
    again_s: float | None = None

    @property
    def left_to_others(self) -> bool:
        """Whether some jobs were left to other slots, which they prefer."""
        return any(seen.yielded for seen in self.seen)

    @property
    def postponed(self) -> bool:
        """Whether there is more to look at, once there is time for it (``again_s``)."""
        return any(seen.postponed for seen in self.seen)


@dataclass(frozen=True, slots=True)
class Job:
    """A job whose policy is asked for; ``ad`` is the whole of it, in HTCondor's JSON form."""

    ad: Mapping[str, object]
    report: Mapping[str, object] = field(default_factory=dict)
    at_exit: bool = False
    #: with which code and subcode it would be held because it used too much: what it asks for next is wanted
    evicted_with: tuple[int, int] | None = None

    @property
    def ends(self) -> bool:
        """Whether its run is over in any case."""
        return self.at_exit or self.evicted_with is not None

    @property
    def owner(self) -> str:
        """Whose time its policy takes."""
        return str(self.ad.get("Owner"))


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a job's policy wants (None: nothing), or why it can't be evaluated.

    The policy of a submitter who has used up his time is not evaluated now: that wants nothing.
    """

    verdict: Verdict | None
    problem: str | None = None

    def hold(self) -> Verdict | None:
        """The verdict on a job whose policy can't be evaluated: it is unknown what the policy wants."""
        if self.problem is None:
            return None
        reason = f"policy can't be evaluated: {self.problem}"
        return Verdict("hold", reason, HoldCode.JOB_POLICY_UNDEFINED)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an autocluster may not run on a slot (None: it may), and the slot's Rank of it."""

    reason: str | None
    rank: float


def sentence(error: Exception) -> str:
    """What an error says, in one short line that any reader can print."""
    text = str(error) if isinstance(error, ClassAdError) else f"{type(error).__name__}: {error}"
    return " ".join(text.encode("utf-8", "replace").decode().split())[:500]
