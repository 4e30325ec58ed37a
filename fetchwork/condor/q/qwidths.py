"""The widths of condor_q's columns for the jobs that they show."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fetchwork.condor.printing.columns import Cell, Column
from fetchwork.condor.q.qrows import JobRow


@dataclass(frozen=True)
class Table:
    """One of condor_q's tables: its name, and what it is printed on."""

    name: str
    wide: bool
    dag: bool
    #: of the terminal
    columns: int


def fit(
    jobs: Collection[JobRow], columns: Sequence[Column], table: Table, *, owner: int, memory: float
) -> None:
    """Widen the columns of ids and owners to what they show.

    ``owner`` is the length of the longest owner's name, ``memory`` the most that a job uses, in MB.
    """
    cluster = max(job.cluster for job in jobs)
    proc = max(job.proc for job in jobs)
    if table.dag:
        nested = (len(str(job.row[2].value)) + 2 + job.depth for job in jobs if job.depth > 1)
        owner = max([owner, *nested])
    owner_width = 17 if table.name == "dag" and not table.wide else 14
    if cluster < 9999 and proc < 999 and owner <= 14 and not table.dag:
        return
    if table.name != "holdcodes" and not (cluster < 9999 and proc < 999 and owner <= 14):
        digits = len(str(cluster))
        if 4 < digits <= 9:
            columns[0].format, columns[0].width = f"%{digits}d.", digits + 1
            columns[0].__post_init__()
        digits = len(str(proc))
        if 3 < digits <= 9:
            columns[1].format, columns[1].width, columns[1].left = f"%-{digits}d", digits, True
            columns[1].__post_init__()
        if not table.wide and owner > 14:
            most = 14 + table.columns - 80 + (3 if table.dag else 0)
            columns[2].width = max(columns[2].width, min(owner, most))
        for column in columns[3:]:
            if column.attribute == "ImageSize" and column.renderer is not None:
                column.width = max(column.width, len(f"{memory:.1f}"))
        owner_width = columns[2].width
    if table.dag:
        _indent_nodes(jobs, owner_width)


def _indent_nodes(jobs: Iterable[JobRow], width: int) -> None:
    for job in jobs:
        if job.of.dag is None:
            continue
        name = job.row[2].value
        if type(name) is str:
            indent = " " * job.depth + "|-"
            job.row[2] = Cell((indent + name)[: max(width, len(indent))], True)
