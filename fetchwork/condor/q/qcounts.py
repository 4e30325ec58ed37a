"""The counts of condor_q: jobs by state, and a job's run time in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fetchwork.condor.printing.jobtable import JobTable, cells_of
from fetchwork.condor.printing.printedad import PrintedAd

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json


@dataclass
class Counts:
    """The number of jobs by state; jobs of the scheduler universe are counted apart."""

    jobs: Counter[int] = field(default_factory=Counter)
    scheduler: Counter[int] = field(default_factory=Counter)

    def add(self, table: JobTable) -> None:
        """Count the jobs of a table."""
        for (scheduler, states), number in Counter(_states(table)).items():
            for status, jobs in states:
                of = self.scheduler if scheduler else self.jobs
                of[2 if status == 6 else status] += number * jobs

    def summary(self) -> Json:
        """The ad of totals."""
        names = {"Idle": 1, "Running": 2, "Removed": 3, "Completed": 4, "Held": 5}
        made: Json = {name: self.jobs[status] for name, status in names.items()}
        made["Suspended"] = self.jobs[7]
        made["Jobs"] = sum(made.values())
        of_scheduler = {f"Scheduler{name}": self.scheduler[status] for name, status in names.items()}
        return {**made, **of_scheduler, "SchedulerJobs": sum(of_scheduler.values()), "MyType": "Summary"}


def _states(table: JobTable) -> Iterable[tuple[bool, tuple[tuple[int, int], ...]]]:
    """Return, for each row, whether its jobs are of the scheduler universe, and their numbers by state."""
    if table.clusters is None:
        return cells_of(table, lambda ad: (_is_scheduler(ad), ((ad.integer("JobStatus") or 0, 1),)))
    states = (tuple(cluster.states.items()) for cluster in table.clusters)
    return zip(cells_of(table, _is_scheduler), states, strict=True)


def _is_scheduler(ad: PrintedAd) -> bool:
    return ad.integer("JobUniverse") == 7


#: the attributes of a job's times
OF_TIME = (
    "JobStatus", "ServerTime", "RemoteUserCpu", "RemoteWallClockTime", "LastRemoteWallClockTime",
    "ShadowBday", "JobCurrentStartDate",
)  # fmt: skip


def wall_clock_time(ad: PrintedAd, *, current_run: bool) -> float:
    """Seconds that a job ran: in the present run, or in the last one, or in all runs."""
    now = ad.integer("ServerTime")
    if not now:
        return -1.0
    used = 0.0 if current_run else ad.real("RemoteWallClockTime") or 0.0
    status = ad.integer("JobStatus")
    born = ad.integer("ShadowBday")
    if born is None and status != 6:
        # the queue's own ads have the start of the run, which is over when outputs are brought back
        born = ad.integer("JobCurrentStartDate")
    if status in (2, 6, 7) and born:
        return used + now - born
    if current_run and status in (1, 5, 9):
        return ad.real("LastRemoteWallClockTime") or 0.0
    return used
