"""The matchmaker's questions and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fetchwork.codes import HoldCode
from fetchwork.errors import ClassAdError
from fetchwork.matchmaker.policy import Verdict


@dataclass(frozen=True, slots=True)
class Look:
    """A slot that may get a job, and the waiting autoclusters, in the order of preference."""

    slot: bytes
    #: ids, which may repeat
    autoclusters: Sequence[int]
    #: ads of other slots that wait: jobs whose Rank prefers one of those are left to it
    others: Sequence[bytes] = ()
    limit: int = 64
    #: the answer says which verdicts last (``Seen.weights`` and ``misfits``)
    learns: bool = False


@dataclass(slots=True)
class Match:
    """An autocluster that may run on the slot; an unreadable one fits each slot, so that its job is held."""

    #: its index in the look's ``autoclusters``
    index: int
    weight: float


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of one ``Look``."""

    matches: tuple[Match, ...]
    #: some jobs were left to other slots
    yielded: bool = False
    #: some autoclusters were not evaluated, because their submitters have used up their time, or enough fit
    postponed: bool = False
    #: why the slot's ad can't be read
    problem: str | None = None
    #: verdicts that hold until the slot's ad changes in more than its clocks: for autoclusters that fit, the
    #: cost of a second of the slot; and autoclusters that do not fit
    weights: Mapping[int, float] = field(default_factory=dict)
    misfits: Sequence[int] = ()
    #: verdicts on this slot may last
    lasts: bool = True


@dataclass(frozen=True, slots=True)
class Printed:
    """The ad of a claimed run, as FETCH_WORK prints it."""

    text: bytes
    #: attributes for the job's own ad, with the slot's values, in HTCondor's JSON form
    remembered: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """The result of each ``Look`` of a request, and the errors of single autoclusters."""

    seen: list[Seen]
    #: reasons for autoclusters whose evaluation failed or took too much on a slot
    faults: dict[int, str] = field(default_factory=dict)
    #: reasons for autoclusters whose own ad can't be read on any slot
    problems: dict[int, str] = field(default_factory=dict)
    #: seconds after which postponed autoclusters may be evaluated; None if nothing was postponed
    again_s: float | None = None

    @property
    def left_to_others(self) -> bool:
        """Whether some jobs were left to other slots that they prefer."""
        return any(seen.yielded for seen in self.seen)

    @property
    def postponed(self) -> bool:
        """Whether there is more to evaluate, once there is time for it (``again_s``)."""
        return any(seen.postponed for seen in self.seen)


@dataclass(frozen=True, slots=True)
class Job:
    """A job whose policy is to be judged; ``ad`` is its whole ad, in HTCondor's JSON form."""

    ad: Mapping[str, object]
    report: Mapping[str, object] = field(default_factory=dict)
    at_exit: bool = False
    #: code and subcode of the hold of a job that used too much: its transforms give its next request
    evicted_with: tuple[int, int] | None = None

    @property
    def ends(self) -> bool:
        """Whether its run is over in any case."""
        return self.at_exit or self.evicted_with is not None

    @property
    def owner(self) -> str:
        """The account whose time its policy takes."""
        return str(self.ad.get("Owner"))


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of a job's policy (None: no action), or why it can't be evaluated.

    The policy of an owner whose time is used up is not evaluated now, and asks for no action.
    """

    verdict: Verdict | None
    problem: str | None = None

    def hold(self) -> Verdict | None:
        """Return the hold of a job whose policy can't be evaluated, so that its verdict is unknown."""
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
    """Return an error's text as one short line that any reader can print."""
    text = str(error) if isinstance(error, ClassAdError) else f"{type(error).__name__}: {error}"
    return " ".join(text.encode("utf-8", "replace").decode().split())[:500]
