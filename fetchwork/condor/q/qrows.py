"""condor_q's batch table: the jobs of a cluster, of a batch and of a DAG, folded into one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fetchwork.condor.printing.columns import ALTERNATIVES, Cell, PrintMask, Row
from fetchwork.condor.printing.jobtable import Cluster
from fetchwork.condor.printing.printedad import PrintedAd
from fetchwork.condor.printing.renderers import SCHEDULER

# the columns of the batch table
OWNER, BATCH_NAME, SUBMITTED, DONE, RUN, IDLE, HOLD, TOTAL, JOB_IDS = range(9)

_IDLE, _RUNNING, _HELD, _TRANSFERRING, _SUSPENDED = 1, 2, 5, 6, 7


class Fold(NamedTuple):
    """The facts of a job's ad that folding needs."""

    #: the cluster of its DAG
    dag: int | None = None
    scheduler: bool = False
    #: the name of its batch, with its owner
    batch: tuple[str, str] | None = None
    status: int = 0
    owner: str | None = None


@dataclass(slots=True)
class JobRow:
    """The row of a job, or of the first job of a cluster, and its keys for folding."""

    cluster: int
    proc: int
    row: Row
    of: Fold
    #: the jobs of the cluster, if the row stands for all
    jobs: Cluster | None = None
    children: list[JobRow] = field(default_factory=list)
    siblings: list[JobRow] = field(default_factory=list)
    depth: int = 0
    folded: bool = False
    #: the number of jobs of its batch by JobStatus
    states: Mapping[int, int] = field(default_factory=dict)
    shown: bool = True

    @property
    def id(self) -> tuple[int, int]:
        """Its place in the order of jobs."""
        return self.cluster, self.proc


def fold_of(ad: PrintedAd) -> Fold:
    """Read the facts that folding needs from an ad."""
    dag, owner = _dag_of(ad), ad.string("Owner")
    batch = None
    if dag is None:
        name = ad.string("JobBatchName")
        if name is None and "DAGManJobId" in ad:
            node = ad.string("DAGNodeName")
            name = None if node is None else f"NODE: {node}"
        if name is not None:
            batch = (name, owner or "")
    return Fold(dag, ad.integer("JobUniverse") == SCHEDULER, batch, ad.integer("JobStatus") or 0, owner)


def _dag_of(ad: PrintedAd) -> int | None:
    if "DAGManJobId" not in ad:
        return None
    number = ad.integer("DAGManJobId")
    if number is None:
        digits = (ad.string("DAGManJobId") or "").partition(".")[0]
        number = int(digits) if digits.isdecimal() else None
    return number if number is not None and number > 0 else None


def clusters_of(jobs: Iterable[JobRow]) -> dict[tuple[int, int], JobRow]:
    """The first row of each cluster, which then stands for all its jobs, from rows in order."""
    firsts: dict[int, JobRow] = {}
    for job in jobs:
        jobs_of = job.jobs or Cluster({job.of.status: 1}, job.proc)
        first = firsts.setdefault(job.cluster, job)
        if first is not job and first.jobs is not None:
            states = Counter(first.jobs.states)
            states.update(jobs_of.states)
            jobs_of = Cluster(states, jobs_of.last)
        first.jobs = jobs_of
    return {job.id: job for job in firsts.values()}


def link(jobs: dict[tuple[int, int], JobRow], *, batches: bool) -> None:
    """Tie together the jobs of a cluster, of a DAG (to its dagman), and of a batch (to its first cluster)."""
    first_of_batch: dict[tuple[str, str], JobRow] = {}
    previous: JobRow | None = None
    for job in jobs.values():
        first = previous is None or previous.cluster != job.cluster
        if previous is not None and job.of.dag is not None:
            parent = jobs.get((job.of.dag, 0))
            if parent is not None and parent.of.owner != job.of.owner:
                # a job's submitter wrote this: the DAG of another owner is not its DAG
                job.of = job.of._replace(dag=None)
            elif parent is not None:
                job.depth = parent.depth + 1
                if not parent.children or first:
                    parent.children.append(job)
        elif batches and job.of.batch is not None and (first or previous is None):
            oldest = first_of_batch.setdefault(job.of.batch, job)
            if oldest is not job and not job.of.scheduler:
                oldest.siblings.append(job)
        previous = job


@dataclass
class _Progress:
    total: int = 0
    done: int = 0
    unknown: int = 0
    first: tuple[int, int] | None = None
    last: tuple[int, int] = (0, 0)
    states: Counter[int] = field(default_factory=Counter)


def _number(cell: Cell) -> int | None:
    value = cell.value
    return int(value) if cell.valid and isinstance(value, int | float) else None


def _fold_cluster(progress: _Progress, job: JobRow, *, partial: bool) -> None:
    """Add a cluster's jobs, of which ``job`` is the first."""
    assert job.jobs is not None
    number = _number(job.row[TOTAL])
    if job.of.scheduler:
        progress.total += number or 0
        progress.done += _number(job.row[HOLD]) or 0
        return
    progress.states.update(job.jobs.states)
    if job.of.dag is None:
        progress.total += number or 0
        progress.unknown += not number
        if number and not partial:
            progress.done += number - sum(job.jobs.states.values())
    here = (job.cluster, job.proc)
    progress.first = here if progress.first is None else min(progress.first, here)
    progress.last = max(progress.last, (job.cluster, job.jobs.last))


def _fold(progress: _Progress, job: JobRow, *, partial: bool) -> None:
    for each in (job, *job.siblings):
        _fold_cluster(progress, each, partial=partial)
        each.folded = True
        for child in each.children:
            if not child.folded:
                _fold(progress, child, partial=partial)


def fold(
    jobs: dict[tuple[int, int], JobRow],
    mask: PrintMask,
    *,
    partial: bool,
    wide: bool,
    columns: int,
    zero: str,
) -> None:
    """Fold the rows: rows of batches stay, the others are hidden. Fit the columns.

    ``partial``: not all jobs of a cluster were asked for, so how many are done is not known. ``zero`` is the
    sign that stands for 0, as -batch:SIGN has it.
    """
    widest_owner = widest_batch = widest_ids = 0
    digits = dict.fromkeys((DONE, RUN, IDLE, HOLD, TOTAL), 0)
    any_held = False
    for job in jobs.values():
        if job.folded:
            job.shown = False
            continue
        progress = _Progress()
        _fold(progress, job, partial=partial)
        states = progress.states
        numbers = {
            DONE: 0 if progress.unknown else progress.done,
            RUN: states[_RUNNING] + states[_TRANSFERRING],
            IDLE: states[_IDLE] + states[_SUSPENDED],
            HOLD: states[_HELD],
            TOTAL: 0 if progress.unknown else progress.total,
        }
        any_held = any_held or numbers[HOLD] > 0
        for column, number in numbers.items():
            job.row[column] = Cell(number, number > 0)
            digits[column] = max(digits[column], len(str(max(number, 0))))
        owner = job.row[OWNER].value
        widest_owner = max(widest_owner, len(owner) if type(owner) is str else 0)
        name = job.row[BATCH_NAME].value
        if not job.of.scheduler and not (job.row[BATCH_NAME].valid and type(name) is str):
            name = f"ID: {job.cluster}"
            job.row[BATCH_NAME] = Cell(name, True)
        widest_batch = max(widest_batch, len(name) if type(name) is str else 0)
        first, last = progress.first or (0, 0), progress.last
        ids = f"{first[0]}.{first[1]}"
        if first != last:
            ids += f"-{last[1]}" if first[0] == last[0] else f" ... {last[0]}.{last[1]}"
        job.row[JOB_IDS] = Cell(ids, True)
        job.states = progress.states
        widest_ids = max(widest_ids, len(ids))
    if not wide:
        widest_owner, widest_batch = _squeezed(widest_owner, widest_batch, widest_ids, columns)
    _fit(mask, widest_owner, widest_batch, digits, any_held=any_held)
    if zero:
        for number in digits:
            mask.columns[number].alternative = ALTERNATIVES["b?*.-_#z".index(zero)]


def _squeezed(owner: int, batch: int, ids: int, columns: int) -> tuple[int, int]:
    """The widths of owner and batch name where all three do not fit into a line."""
    room = columns - 50
    if batch + owner + ids <= room:
        return owner, batch
    # 8 columns for an owner, 10 for a batch, 9 for ids at least; what is left is divided
    spare = int((room - 27) / 3)
    batch_spare = owner_spare = ids_spare = spare
    if ids_spare < ids:
        needed = batch + owner - (batch_spare + owner_spare + 18)
        if needed > 7 and batch_spare < 10:
            ids //= 2
    if ids_spare + 9 > ids:
        more = ids_spare + 9 - ids
        owner_spare += more // 2
        batch_spare += more - more // 2
    if batch_spare + 10 > batch:
        more = batch_spare + 10 - batch
        owner_spare = min(8 + owner_spare + more, owner) - 8
    if owner_spare + 8 > owner:
        more = owner_spare + 8 - owner
        batch_spare = min(10 + batch_spare + more, batch) - 10
    return min(owner, owner_spare + 8), min(batch, batch_spare + 10)


def _fit(mask: PrintMask, owner: int, batch: int, digits: dict[int, int], *, any_held: bool) -> None:
    column = mask.columns[OWNER]
    if owner < column.width:
        column.width, column.truncate, column.grows = max(8, owner), True, False
    else:
        column.width = owner
    column = mask.columns[BATCH_NAME]
    column.width, column.left = max(10, batch), True
    for number, count in digits.items():
        if count > 6:
            mask.columns[number].width = min(count, 9)
    mask.columns[HOLD].hidden = not any_held


def fold_holds(rows: Mapping[tuple[int, int], JobRow], keys: dict[str, tuple[int, int]]) -> None:
    """Merge rows with the same codes into one, under the key of the first."""
    last: tuple[object, object] | None = None
    first: JobRow | None = None
    for key in sorted(keys):
        job = rows[keys[key]]
        code, subcode = job.row[1], job.row[2]
        if not isinstance(code.value, int) or isinstance(code.value, bool) or not code.valid:
            continue
        these = (code.value, subcode.value if subcode.valid else -1)
        if these == last and first is not None:
            count = first.row[3].value
            first.row[3] = Cell(count + 1 if isinstance(count, int) else 1, True)
            del keys[key]
        else:
            last, first = these, job
            job.row[3] = Cell(1, job.row[3].valid)
