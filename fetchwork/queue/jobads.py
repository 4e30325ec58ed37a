"""Job ads as they are submitted: those of one cluster, and those that a file has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from fetchwork.classad.ads import parse_old
from fetchwork.classad.jsonform import to_json
from fetchwork.errors import ClassAdError, SubmitError
from fetchwork.queue.views import Json


@dataclass(frozen=True)
class Jobs:
    """The jobs of one cluster: job n has the ad ``{**common, **own[n]}``, both in HTCondor's JSON form."""

    common: Json
    own: Iterable[Json]


#: the value of an attribute that is not there
_MISSING = object()
#: ads that are printed at once: by itself, a small one takes three times as long
_BATCH = 50


def batches(ads: Iterable[Json]) -> Iterator[list[Json]]:
    """Lists of some ads each, as they come: what is done with all of a list at once is done faster."""
    rest = iter(ads)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def from_ads(ads: Sequence[Json]) -> Jobs:
    """A list of ads as jobs of one cluster; raises SubmitError for a NUL in one."""
    _refuse_nul(ads)
    others = ads[1:]
    first = ads[0] if ads else {}
    common = {name: value for name, value in first.items() if _all_have(others, name, value)}
    shared = len(common)
    # most have nothing else
    own = [{k: v for k, v in ad.items() if k not in common} if len(ad) > shared else {} for ad in ads]
    return Jobs(common, own)


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
    # without a value's own backslashes, \\u0000 can only be an escape
    return "\\u0000" in json.dumps(what).replace(r"\\", "")


def _may_have_nul(batch: list[Json]) -> bool:
    try:
        return _has_nul(batch)
    except (TypeError, ValueError, RecursionError):
        # JSON can't say one of them, which may stand behind the one with a NUL
        return True


def _all_have(ads: Sequence[Json], name: str, value: object) -> bool:
    """Does each of them have this attribute with this value?"""
    # in Python True is 1 and 1 is 1.0, in an ad they differ
    wanted = type(value)
    for ad in ads:
        its = ad.get(name, _MISSING)
        if type(its) is not wanted or its != value:
            return False
    return True


def read_ads(text: str) -> list[Json]:
    """The job ads of a file: JSON (an ad, or a list), or old-syntax ads with blank lines between them."""
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
#: how the clause begins that HTCondor adds behind that for a job that starts at a time
_DEFERRED = " && TARGET.HasJobDeferral && "


def without_domain(ad: Json) -> Json:
    """An ad whose Requirements do not ask for the file system domain of the machine it was submitted on.

    HTCondor adds that to each job without file transfer. Here it would let such a job wait for ever on hosts
    of another domain; a domain counts where the description names one.
    """
    requirements = ad.get("Requirements")
    if isinstance(requirements, str):
        before, added, behind = requirements.rpartition(_SAME_DOMAIN)
        if added and (behind == ")/" or behind.startswith(_DEFERRED)):
            return {**ad, "Requirements": before + behind}
    return ad
