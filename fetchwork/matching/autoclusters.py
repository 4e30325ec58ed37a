"""The autoclusters that this process has read: their ads, and their conditions on slots.

The cache is bounded, and its content may be dropped at any time.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from fetchwork.classad.ads import parse_expr
from fetchwork.classad.values import ClassAd
from fetchwork.codes import Universe
from fetchwork.matching.containers import needs

#: most autoclusters kept; a parsed ad takes a few kilobytes
MAX_AUTOCLUSTERS = 10_000

# HTCondor adds these to a fetched ad that lacks them
_USER = parse_expr('strcat(MY.Owner, "@", TARGET.UidDomain)')
REQUEST_DEFAULTS = {"RequestCpus": 1, "RequestMemory": 1, "RequestDisk": 1}


class AutoclusterRow(Protocol):
    """A row of ``fetchwork.autocluster_ads``."""

    @property
    def autocluster_id(self) -> int: ...
    @property
    def submitter(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def ad(self) -> Mapping[str, object]: ...


@dataclass(frozen=True, slots=True)
class Autocluster:
    """An autocluster; ``text`` is its ad for matching, as JSON that only the matchmaker reads."""

    autocluster_id: int
    submitter: str
    owner: str
    queue: str
    text: str
    #: the ad's FetchWorkFiles, about the jobs' files
    files: object = None
    #: its jobs need credentials (OAuthServicesNeeded)
    credentials: bool = False
    #: lines that a slot's ad must have for the jobs' container
    needs: tuple[bytes, ...] = ()

    @property
    def has_conditions(self) -> bool:
        """Whether some hosts or slots are barred from its jobs before anything is evaluated."""
        return isinstance(self.files, str) or self.credentials or bool(self.needs)


def as_offered(ad: ClassAd, owner: str) -> None:
    """Add the attributes that the fetched ad will have too: a slot's START may refer to them."""
    for name, value in REQUEST_DEFAULTS.items():
        ad.setdefault(name, value)
    ad.setdefault("JobUniverse", Universe.VANILLA)
    ad.setdefault("Owner", owner)
    ad["OsUser"] = owner
    ad["User"] = _USER


class Autoclusters:
    """The autoclusters that this process has read. They never change."""

    def __init__(self, limit: int = MAX_AUTOCLUSTERS) -> None:
        self._autoclusters: OrderedDict[int, Autocluster] = OrderedDict()
        self._limit = limit

    def __len__(self) -> int:
        return len(self._autoclusters)

    def missing(self, ids: Iterable[int]) -> list[int]:
        """Return the ``ids`` whose ads have to be read."""
        return sorted({number for number in ids if number not in self._autoclusters})

    def add(self, rows: Iterable[AutoclusterRow]) -> None:
        """Keep rows of ``fetchwork.autocluster_ads``."""
        for row in rows:
            self._autoclusters[row.autocluster_id] = Autocluster(
                row.autocluster_id,
                row.submitter,
                row.owner,
                row.queue,
                json.dumps(row.ad),
                row.ad.get("FetchWorkFiles"),
                bool(row.ad.get("OAuthServicesNeeded")),
                needs(row.ad),
            )

    def get(self, autocluster_id: int) -> Autocluster | None:
        """Return the autocluster, or None if it is not kept."""
        return self._autoclusters.get(autocluster_id)

    @property
    def known(self) -> Mapping[int, Autocluster]:
        """All autoclusters; a caller reports the ones it uses with ``used``."""
        return self._autoclusters

    def used(self, ids: Iterable[int]) -> None:
        """Note that these were used. Nothing is noted while the cache is at most half full."""
        if len(self._autoclusters) > self._limit // 2:
            for number in ids:
                if number in self._autoclusters:
                    self._autoclusters.move_to_end(number)

    def trim(self) -> None:
        """Drop the least recently used beyond the limit; call it when no list of ids is in use."""
        while len(self._autoclusters) > self._limit:
            self._autoclusters.popitem(last=False)
