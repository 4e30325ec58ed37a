"""Plans the move of a schedd's jobs, by their ads: which of them can move into the queue, and how."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from fetchwork.classad.bindings import JobAction
from fetchwork.classad.schedd import ScheddQueue
from fetchwork.codes import STATUS_NAMES, JobStatus, Universe
from fetchwork.errors import FetchworkError
from fetchwork.queue.reading.views import Json
from fetchwork.queue.submitting.jobads import without_domain

#: attributes that a schedd and its shadows write into an ad, and that submit does not drop by itself
_SCHEDDS = frozenset(
    {
        "autoclusterattrs", "diskusage_raw", "executablesize_raw", "imagesize_raw", "numckpts_raw",
        "submitversion", "shadowversion", "jobstatus", "initialjobstatus", "clusterid", "procid",
        "globaljobid", "qdate",
        # of the runs that a job has had there
        "exitreason", "executedirwasencrypted", "jobaborteventlogged", "jobcurrentreconnectattempt",
        "lastjobleaserenewal", "lastpublicclaimid", "lastremotepool", "myaddress", "numjobreconnects",
        "numshadowexceptions", "numvacates", "numvacatesbyreason", "origmaxhosts", "publicclaimid",
        "remotepool", "residentsetsize_raw", "shadowipaddr", "spooledoutputfiles", "startdipaddr",
        "startdprincipal", "starteripaddr", "statslifetimestarter", "recentstatslifetimestarter",
        "terminationpending", "transferinputfilecounts", "transferinputstats", "transferoutputstats",
        "transfersocket",
    }
)  # fmt: skip
_OF_RUNS = re.compile(
    "activation[a-z]*duration|recentblock(read|write)s?(kbytes)?|machineattr.*[0-9]|lastrejmatch[a-z]*"
    "|jobcurrentstart[a-z]*date|transfer(in|out)(queued|started|finished)"
)
#: the beginning of HoldReason of an original whose copy is perhaps not here yet; the key of the move follows
_MOVING = "moving to fetchwork: "
#: HTCondor's names of universes that a schedd may have jobs of (condor_utils/condor_universe.h)
_UNIVERSES = {7: "scheduler", 9: "grid", 10: "java", 11: "parallel", 12: "local", 13: "vm"}
#: ranges of ProcId in one constraint: a schedd evaluates a constraint recursively
_RANGES = 100


@dataclass(frozen=True)
class ScheddCluster:
    """Jobs of one of a schedd's clusters that move together."""

    cluster: int
    #: as the schedd has them
    ads: list[Json]
    #: the key of this move, so that it is made only once
    key: str
    #: whether an interrupted move has held them at the schedd already
    held: bool = False

    @property
    def procs(self) -> list[int]:
        """Their ProcIds at the schedd."""
        return [_proc(ad) for ad in self.ads]


@dataclass
class Move:
    """The jobs that are to move, and those that stay."""

    clusters: list[ScheddCluster] = field(default_factory=list)
    #: the jobs that are not idle, by state
    others: dict[str, list[str]] = field(default_factory=dict)
    #: idle jobs that can't move: their id, and the reason
    stay: list[tuple[str, str]] = field(default_factory=list)

    @property
    def number(self) -> int:
        """The number of jobs that move."""
        return sum(len(cluster.ads) for cluster in self.clusters)


class Originals:
    """The jobs of a living schedd that move: each is Held there before its copy is made, and so runs once.

    HoldReason has the state of the move. A schedd sets it with JobStatus in one transaction: "moving to
    fetchwork: KEY", where KEY is the key of the submission, and once the copy is committed "moved to cluster
    N of fetchwork".
    """

    def __init__(self, schedd: ScheddQueue, *, remove: bool) -> None:
        self._schedd = schedd
        self._remove = remove

    def hold(self, cluster: ScheddCluster) -> ScheddCluster:
        """Hold those of the jobs that are still idle; return the held ones, as they are now."""
        if cluster.held:
            return cluster
        held = replace(cluster, key=secrets.token_hex(16), held=True)
        spans = iter(ranges(cluster.procs))
        while some := list(islice(spans, _RANGES)):
            procs = " || ".join(f"ProcId >= {first} && ProcId <= {last}" for first, last in some)
            idle = f"ClusterId == {cluster.cluster} && JobStatus == 1 && ({procs})"
            self._schedd.act(JobAction.Hold, idle, _MOVING + held.key)
        return replace(held, ads=_sorted(self._schedd.jobs(_held(held))))

    def have_moved(self, held: ScheddCluster, here: int) -> None:
        """Mark or remove held jobs whose copies are committed as cluster ``here``."""
        reason = f"moved to cluster {here} of fetchwork"
        if self._remove:
            self._schedd.act(JobAction.Remove, _held(held), reason)
        else:
            self._schedd.edit(_held(held), "HoldReason", reason)

    def release(self, held: ScheddCluster) -> None:
        """Let held jobs run at the schedd, because the queue refused their copies."""
        self._schedd.act(JobAction.Release, _held(held), "fetchwork refused it")


def _held(cluster: ScheddCluster) -> str:
    """The constraint for the jobs that the move of a cluster has held."""
    # behind the reason the schedd names the account that held the job
    reason = f'regexp("^{_MOVING}{cluster.key}", HoldReason)'
    return f"ClusterId == {cluster.cluster} && JobStatus == 5 && {reason}"


def is_schedds(ads: Sequence[Mapping[str, object]]) -> bool:
    """Whether these are ads of a schedd's jobs, as ``condor_q -long`` prints them."""
    return bool(ads) and all("GlobalJobId" in ad and "ClusterId" in ad for ad in ads)


def planned(ads: Sequence[Json], check: Callable[[list[Json]], None]) -> Move:
    """Plan the move of a schedd's jobs; ``check`` raises FetchworkError for ads that submit refuses."""
    move = Move()
    clusters: dict[int, list[Json]] = {}
    interrupted: dict[tuple[int, str], list[Json]] = {}
    for ad in _sorted(ads):
        status = ad.get("JobStatus")
        if status == JobStatus.HELD and (key := _interrupted(ad)):
            interrupted.setdefault((int(ad["ClusterId"]), key), []).append(ad)
        elif status != JobStatus.IDLE:
            name = STATUS_NAMES.get(status, str(status)).lower() if isinstance(status, int) else "unknown"
            move.others.setdefault(name, []).append(_id(ad))
        elif reason := _reason_to_stay(ad):
            move.stay.append((_id(ad), reason))
        else:
            clusters.setdefault(int(ad["ClusterId"]), []).append(ad)
    for (cluster, key), members in interrupted.items():
        move.clusters.append(ScheddCluster(cluster, members, key, held=True))
    for cluster, members in clusters.items():
        come = list(_accepted(members, check, move.stay))
        if come:
            names = "\n".join(str(ad["GlobalJobId"]) for ad in come)
            move.clusters.append(ScheddCluster(cluster, come, hashlib.sha256(names.encode()).hexdigest()))
    return move


def _sorted(ads: Sequence[Json]) -> list[Json]:
    return sorted(ads, key=lambda ad: (int(ad["ClusterId"]), _proc(ad)))


def _interrupted(ad: Json) -> str | None:
    """The key of the interrupted move that holds this job; None if another reason does."""
    found = re.match(_MOVING + "([0-9a-f]{32})", str(ad.get("HoldReason")))
    return found and found[1]


def ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges, each with its first and its last."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def as_submitted(ad: Json) -> Json:
    """An ad without the schedd's attributes and without a tie to the schedd's file system."""
    dropped = {name for name in map(str.lower, ad) if name in _SCHEDDS or _OF_RUNS.fullmatch(name)}
    copy = without_domain({name: value for name, value in ad.items() if name.lower() not in dropped})
    disk, size = copy.get("RequestDisk"), ad.get("TransferInputSizeMB")
    if isinstance(disk, str) and size is not None:
        # the default of HTCondor 25 names this attribute, which submit drops
        copy["RequestDisk"] = re.sub(r"(?i)\bTransferInputSizeMB\b", str(size), disk)
    return copy


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
    """Why a schedd's idle job can't move, although submit would accept its ad."""
    universe = ad.get("JobUniverse", Universe.VANILLA)
    if universe != Universe.VANILLA:
        name = _UNIVERSES.get(universe, universe)
        return f"it is of the universe {name}; allowed: vanilla, and container"
    if "JobMaterializeLimit" in ad or "JobMaterializeDigestFile" in ad:
        return "its cluster makes its jobs as it goes (max_materialize), and the others are not in the queue"
    if "StageInFinish" in ad or "StageInStart" in ad:
        return "its input files are in the schedd's spool"
    if "DAGManJobId" in ad:
        return f"condor_dagman waits for it at the schedd, as job {ad['DAGManJobId']}"
    if ad.get("AcctGroup") == "nice-user":
        return "it has nice_user: use priority, or an accounting group with a large priority factor"
    if ad.get("SpooledOutputFiles") or ad.get("CheckpointNumber") is not None:
        return "it has run, and the schedd has the files that it saved"
    return None


def _id(ad: Json) -> str:
    return f"{ad['ClusterId']}.{_proc(ad)}"


def _proc(ad: Json) -> int:
    return int(ad.get("ProcId", 0))
