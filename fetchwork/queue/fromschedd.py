"""Jobs of a schedd, from their ads: which of them can come into the queue, and what comes with them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fetchwork.codes import STATUS_NAMES, JobStatus
from fetchwork.errors import FetchworkError
from fetchwork.queue.jobads import without_domain
from fetchwork.queue.views import Json

#: what a schedd writes into an ad, and submit does not drop by itself
_SCHEDDS = frozenset(
    {
        *("autoclusterattrs", "diskusage_raw", "executablesize_raw", "imagesize_raw", "numckpts_raw"),
        *("submitversion", "jobstatus", "clusterid", "procid", "globaljobid", "qdate"),
    }
)


@dataclass(frozen=True)
class ScheddCluster:
    """The idle jobs of one cluster of a schedd that are to come over."""

    cluster: int
    #: their ids there, and their ads as they are submitted here
    jobs: list[str]
    ads: list[Json]
    #: names this move, so that it is made once
    key: str


@dataclass
class Move:
    """What is to come over, and what stays."""

    clusters: list[ScheddCluster] = field(default_factory=list)
    #: jobs that are not idle, by what they are
    others: dict[str, int] = field(default_factory=dict)
    #: idle jobs that can't come: their id, and why
    stay: list[tuple[str, str]] = field(default_factory=list)

    @property
    def number(self) -> int:
        """How many jobs come."""
        return sum(len(cluster.ads) for cluster in self.clusters)


def is_schedds(ads: Sequence[Mapping[str, object]]) -> bool:
    """Whether ads are those of a schedd's jobs, as ``condor_q -long`` prints them."""
    return bool(ads) and all("GlobalJobId" in ad and "ClusterId" in ad for ad in ads)


def planned(ads: Sequence[Json], check: Callable[[list[Json]], None]) -> Move:
    """What comes over of a schedd's jobs; ``check`` raises FetchworkError for ads that submit refuses."""
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
    """An ad without what the schedd made of it, and that does not tie the job to the schedd's file system."""
    return without_domain({name: value for name, value in ad.items() if name.lower() not in _SCHEDDS})


def _accepted(
    ads: Sequence[Json], check: Callable[[list[Json]], None], stay: list[tuple[str, str]]
) -> Iterator[Json]:
    """The ads of a cluster that submit takes; halves of those that it refuses are tried on their own."""
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
