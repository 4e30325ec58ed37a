"""Job ads for submission: the ads of one cluster, and the ads in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from fetchwork import traceparent
from fetchwork.classad.ads import parse_old
from fetchwork.classad.jsonform import to_json
from fetchwork.errors import ClassAdError, SubmitError
from fetchwork.queue.reading.views import Json

#: the attribute of the common ad with the plan of a late cluster (begin_factory.sql)
PLAN = "FetchWorkFactory"


@dataclass(frozen=True)
class Jobs:
    """The jobs of one cluster: job n has the ad ``{**common, **own[n]}``, both in HTCondor's JSON form."""

    common: Json
    own: Iterable[Json]

    @property
    def late(self) -> Json | None:
        """The plan of a late cluster, whose ``own`` are items (``late``); None for any other."""
        plan: Json | None = self.common.get(PLAN)
        return plan

    def number(self, own: int) -> int:
        """The number of jobs, if there are so many own parts."""
        return own if self.late is None else int(self.late["jobs"])


#: the value of a missing attribute
_MISSING = object()
#: ads that are serialized at once: one small ad alone takes three times as long
_BATCH = 50


def batches(ads: Iterable[Json]) -> Iterator[list[Json]]:
    """Lists of some ads each: handling a whole list at once is faster."""
    rest = iter(ads)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def from_ads(ads: Sequence[Json]) -> Jobs:
    """A list of ads as jobs of one cluster; raises SubmitError if an ad has a NUL."""
    _refuse_nul(ads)
    others = ads[1:]
    first = ads[0] if ads else {}
    common = {name: value for name, value in first.items() if _all_have(others, name, value)}
    shared = len(common)
    # most ads have no other attributes
    own = [{k: v for k, v in ad.items() if k not in common} if len(ad) > shared else {} for ad in ads]
    return Jobs(common, own)


def traced(jobs: Jobs, environment: Mapping[str, str]) -> Jobs:
    """The jobs with the traceparent of an environment, which an own one overrides."""
    parent = traceparent.read(environment.get(traceparent.VARIABLE))
    if parent is None or any(name.lower() == traceparent.ATTRIBUTE.lower() for name in jobs.common):
        return jobs
    return replace(jobs, common={**jobs.common, traceparent.ATTRIBUTE: parent})


def _refuse_nul(ads: Sequence[Json]) -> None:
    before = 0
    for batch in batches(ads):
        if _may_have_nul(batch):
            for number, ad in enumerate(batch, before + 1):
                if _has_nul(ad):
                    raise SubmitError(
                        f"ad {number} has a NUL in a name or a value; allowed: any other character"
                    )
        before += len(batch)


def _has_nul(what: object) -> bool:
    # once a value's own backslashes are removed, \\u0000 can only be an escape
    return "\\u0000" in json.dumps(what).replace(r"\\", "")


def _may_have_nul(batch: list[Json]) -> bool:
    try:
        return _has_nul(batch)
    except (TypeError, ValueError, RecursionError):
        # JSON can't express one of the ads, which may come after the ad with the NUL
        return True


def _all_have(ads: Sequence[Json], name: str, value: object) -> bool:
    """Whether each of the ads has this attribute with this value."""
    # in Python True equals 1 and 1 equals 1.0; in an ad they differ
    wanted = type(value)
    for ad in ads:
        its = ad.get(name, _MISSING)
        if type(its) is not wanted or its != value:
            return False
    return True


def read_ads(text: str) -> list[Json]:
    """The job ads in a file: JSON (an ad, or a list), or old-syntax ads separated by blank lines."""
    start = text.lstrip()[:1]
    if start in ("[", "{"):
        try:
            data = json.loads(text)
        except ValueError as error:
            raise SubmitError(f"not JSON: {error}") from None
        ads = data if isinstance(data, list) else [data]
        for number, ad in enumerate(ads, 1):
            if not isinstance(ad, dict):
                raise SubmitError(f"ad {number} is not a JSON object")
        return ads
    parts = [part for part in re.split(r"\n[ \t]*(?:\n[ \t]*)+", text.strip("\n")) if part.strip()]
    ads = []
    for number, part in enumerate(parts, 1):
        try:
            ads.append(to_json(parse_old(part, strict=True)))
        except ClassAdError as error:
            raise SubmitError(f"ad {number}: {error}") from None
    return ads


#: the clause that HTCondor adds for `should_transfer_files = NO`
_SAME_DOMAIN = " && (TARGET.FileSystemDomain == MY.FileSystemDomain)"
#: the beginning of the clause that HTCondor adds after that for a job with a deferred start
_DEFERRED = " && TARGET.HasJobDeferral && "


def without_domain(ad: Json) -> Json:
    """The ad, without a requirement of the file system domain of its submit machine.

    HTCondor adds this requirement to each job without file transfer. Here it would make the job wait for ever
    on hosts of another domain. A domain that the description itself names stays.
    """
    requirements = ad.get("Requirements")
    if isinstance(requirements, str):
        before, added, behind = requirements.rpartition(_SAME_DOMAIN)
        if added and (behind == ")/" or behind.startswith(_DEFERRED)):
            return {**ad, "Requirements": before + behind}
    return ad
