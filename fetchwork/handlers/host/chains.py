"""Chains: short jobs that one starter runs one after the other, without a claim of its slot for each.

A chain begins with an offer. The startd gets a *carrier*: the ad of the chain's first job, with the runner
(``fetchwork/hook/compiled/runner.c``) as its program. The runner asks for that job, and after its end for the
next one. Each job is a run of its own. The next job is the one that a fetch of the slot would be offered now.
If that job may not follow the first under the same starter, the chain ends, and the slot fetches.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from fetchwork.classad.values import ClassAd, changing_word
from fetchwork.handlers.starterend import NEEDS_HOOK
from fetchwork.matching.autoclusters import Autocluster

#: attributes by which a starter treats a job's process, or that decide whose job it is: all jobs of a chain
#: have the same values. In lower case
_SAME = (
    "owner", "accountinggroup", "acctgroup", "acctgroupuser", "jobuniverse", "requestcpus",
    "requestmemory", "requestdisk", "requestgpus", "jobmaxvacatetime", "killsigtimeout", "coresize",
    "stacksize", "jobniceincrement", "allowedexecuteduration", "remoteiwd", "fetchworkfiles",
    "encryptexecutedirectory", "jobleaseduration", "containerservicenames",
)  # fmt: skip
#: attributes of jobs that can't be part of a chain: the runner does not do as the starter would
_NEVER = (
    *NEEDS_HOOK, "env", "envdelim", "wantremotesyscalls", "wantioproxy", "iwdflushnfscache",
    "x509userproxy", "streamin", "streamout", "streamerr", "jobadinformationattrs",
    "runasowner", "loadprofile", "notifyjobscheduler", "outputdestination", "wantdelayedupdates",
    "postarguments", "prearguments", "jobstarterdebug", "starterlog", "tooldaemoncmd",
    "suspendjobatexec", "rlimitas",
)  # fmt: skip
#: the attributes that ``next_runs`` compares with those of the first job
COMPARED: tuple[str, ...] = tuple(sorted({*_SAME, *_NEVER}))
_START = re.compile(rb"^Start[ \t]*=([^\n]*)", re.I | re.M)
#: a slot that gives no further job to its present starter
_LEAVING = re.compile(
    rb'^(?:State[ \t]*=[ \t]*"(?:Preempting|Drained)"|Activity[ \t]*=[ \t]*"(?:Retiring|Vacating)")', re.M
)


def common_part(ad: Mapping[str, object]) -> dict[str, object] | None:
    """Return what all jobs of a chain have in common with the job of an ad; None if it can't begin one."""
    part = {name.lower(): value for name, value in ad.items() if name.lower() in COMPARED}
    return None if any(part.get(name) not in (None, False, "") for name in _NEVER) else part


def allows(slot_ad: bytes) -> bool:
    """Whether a slot's START depends on the job alone, by the ad of its fetch."""
    found = _START.search(slot_ad)
    return found is not None and changing_word(found[1].decode("utf-8", "replace")) is None


def is_leaving(slot_ad: bytes) -> bool:
    """Whether a slot will take no further job from its present starter."""
    return _LEAVING.search(slot_ad) is not None


def requests_of(autocluster: Autocluster) -> frozenset[str]:
    """The requests of an autocluster's jobs, as lines of text."""
    return frozenset(re.findall(r'"[Rr][Ee][Qq][Uu][Ee][Ss][Tt]\w*": *(?:"[^"]*"|[^,}]*)', autocluster.text))


@dataclass(slots=True, eq=False)
class Chain:
    """A chain that this process knows; ``first`` is the id of its first run."""

    first: int
    slot: str
    #: the ad of the fetch that was offered the first job
    slot_ad: bytes
    #: monotonic time after which no further job begins
    end: float
    same: Mapping[str, object]
    #: of the first job's autocluster
    submitter: str
    requests: frozenset[str]
    #: the text of the present job for the runner, without .job.ad
    job: bytes
    #: the slot's ad at the start, as text and parsed; None if it is unknown
    slot_now: tuple[bytes, ClassAd] | None = None
    #: the answer to the end of this run, for a runner that repeats its request
    answered: tuple[int, str, bytes] | None = None
    #: the slot takes no further job from its present starter
    leaving: bool = False
    #: one request at a time
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def begun_before(cls, first: int, slot: str) -> Chain:
        """Return a chain that an earlier agent began: its job goes on, and no further job begins."""
        return cls(first, slot, b"", time.monotonic(), {}, "", frozenset(), b"")

    @property
    def over(self) -> bool:
        """Whether no further job begins."""
        return time.monotonic() >= self.end

    def finish(self) -> None:
        """Let no further job begin."""
        self.end = min(self.end, time.monotonic())

    def takes(self, autocluster: Autocluster) -> bool:
        """Whether jobs of an autocluster may follow, as far as it shows."""
        return autocluster.submitter == self.submitter and requests_of(autocluster) == self.requests
