"""Job ads as they are submitted: those of one cluster, and those that a file has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fetchwork.classad.ads import parse_old
from fetchwork.classad.jsonform import to_json
from fetchwork.errors import ClassAdError, SubmitError
from fetchwork.queue.views import Json


@dataclass(frozen=True)
class Jobs:
    """The jobs of one cluster: job n has the ad ``{**common, **own[n]}``, both in HTCondor's JSON form."""

    common: Json
    own: Iterable[Json]


def from_ads(ads: Sequence[Json]) -> Jobs:
    """A list of ads as jobs of one cluster; raises SubmitError for a NUL in one."""
    for number, ad in enumerate(ads, 1):
        # without a value's own backslashes, \\u0000 can only be an escape
        if "\\u0000" in json.dumps(ad).replace(r"\\", ""):
            raise SubmitError(f"ad {number} has a NUL in a name or a value; allowed: any other character")
    common = dict(ads[0]) if ads else {}
    for ad in ads[1:]:
        common = {name: value for name, value in common.items() if name in ad and _same(ad[name], value)}
    return Jobs(common, [{k: v for k, v in ad.items() if k not in common} for ad in ads])


def _same(one: object, other: object) -> bool:
    # in Python True is 1 and 1 is 1.0, in an ad they differ
    return type(one) is type(other) and bool(one == other)


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
