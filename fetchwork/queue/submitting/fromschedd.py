"""Plans the move of a schedd's jobs, by their ads: which of them can move into the queue, and how."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fetchwork.codes import STATUS_NAMES, JobStatus
from fetchwork.errors import FetchworkError
from fetchwork.queue.reading.views import Json
from fetchwork.queue.submitting.jobads import without_domain

#: attributes that a schedd writes into an ad, and that submit does not drop by itself
_SCHEDDS = frozenset(
    {
        "autoclusterattrs", "diskusage_raw", "executablesize_raw", "imagesize_raw", "numckpts_raw",
        "submitversion", "jobstatus", "clusterid", "procid", "globaljobid", "qdate",
    }
)  # fmt: skip


@dataclass(frozen=True)
class ScheddCluster:
    """The idle jobs of one of a schedd's clusters that are to move."""

    cluster: int
    #: their ids at the schedd, and their ads as they are submitted here
    jobs: list[str]
    ads: list[Json]
    #: the key of this move, so that it is made only once
    key: str


@dataclass
class Move:
    """The jobs that are to move, and those that stay."""

    clusters: list[ScheddCluster] = field(default_factory=list)
    #: the number of jobs that are not idle, by state
    others: dict[str, int] = field(default_factory=dict)
    #: idle jobs that can't move: their id, and the reason
    stay: list[tuple[str, str]] = field(default_factory=list)

    @property
    def number(self) -> int:
        """The number of jobs that move."""
        return sum(len(cluster.ads) for cluster in self.clusters)


def is_schedds(ads: Sequence[Mapping[str, object]]) -> bool:
    """Whether these are ads of a schedd's jobs, as ``condor_q -long`` prints them."""
    return bool(ads) and all("GlobalJobId" in ad and "ClusterId" in ad for ad in ads)


def planned(ads: Sequence[Json], check: Callable[[list[Json]], None]) -> Move:
    """Plan the move of a schedd's jobs; ``check`` raises FetchworkError for ads that submit refuses."""
    move = Move()
    clusters: dict[int, list[Json]] = {}
    for ad in ads:
        status = ad.get("JobStatus")
        if status != JobStatus.IDLE:
            name = STATUS_NAMES.get(status, str(status)).lower() if isinstance(status, int) else "unknown"
            move.others[name] = move.others.get(name, 0) + 1
        elif reason := _reason_to_stay(ad):
            move.stay.append((_id(ad), reason))
        else:
            clusters.setdefault(int(ad["ClusterId"]), []).append(ad)
    for cluster, members in sorted(clusters.items()):
        members.sort(key=lambda ad: int(ad.get("ProcId", 0)))
        come = list(_accepted(members, check, move.stay))
        if come:
            names = "\n".join(str(ad["GlobalJobId"]) for ad in come)
            key = f"schedd {hashlib.sha256(names.encode()).hexdigest()}"
            ids = [_id(ad) for ad in come]
            move.clusters.append(ScheddCluster(cluster, ids, [as_submitted(ad) for ad in come], key))
    return move


def as_submitted(ad: Json) -> Json:
    """An ad without the schedd's attributes and without a tie to the schedd's file system."""
    return without_domain({name: value for name, value in ad.items() if name.lower() not in _SCHEDDS})


def _accepted(
    ads: Sequence[Json], check: Callable[[list[Json]], None], stay: list[tuple[str, str]]
) -> Iterator[Json]:
    """A cluster's ads that submit accepts; if it refuses some, each half is tried on its own."""
    try:
        check([as_submitted(ad) for ad in ads])
    except FetchworkError as error:
        if len(ads) == 1:
            stay.append((_id(ads[0]), str(error)))
            return
        middle = len(ads) // 2
        yield from _accepted(ads[:middle], check, stay)
        yield from _accepted(ads[middle:], check, stay)
    else:
        yield from ads


def _reason_to_stay(ad: Json) -> str | None:
    if "JobMaterializeLimit" in ad or "JobMaterializeDigestFile" in ad:
        return "its cluster makes its jobs as it goes (max_materialize), and the others are not in the queue"
    if "StageInFinish" in ad or "StageInStart" in ad:
        return "its input files are in the schedd's spool"
    return None


def _id(ad: Json) -> str:
    return f"{ad['ClusterId']}.{ad.get('ProcId', 0)}"
