"""The counts of condor_q: jobs by state, and a job's run time in seconds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fetchwork.condor.jobtable import JobTable
from fetchwork.condor.printedad import PrintedAd

if TYPE_CHECKING:
    from fetchwork.queue.views import Json


@dataclass
class Counts:
    """The number of jobs by state; jobs of the scheduler universe are counted apart."""

    jobs: dict[int, int] = field(default_factory=dict)
    scheduler: dict[int, int] = field(default_factory=dict)

    def add(self, ad: PrintedAd) -> None:
        """Count a job."""
        status = ad.integer("JobStatus") or 0
        status = 2 if status == 6 else status
        of = self.scheduler if ad.integer("JobUniverse") == 7 else self.jobs
        of[status] = of.get(status, 0) + 1

    def add_table(self, table: JobTable) -> None:
        """Count the jobs of a table."""
        statuses, universes = table.integers("JobStatus"), table.integers("JobUniverse")
        if statuses is None or universes is None:
            for ad in table.ads():
                self.add(PrintedAd(ad))
            return
        for (status, universe), number in Counter(zip(statuses, universes, strict=True)).items():
            of = self.scheduler if universe == 7 else self.jobs
            status = 2 if status == 6 else status  # noqa: PLW2901 - it runs
            of[status] = of.get(status, 0) + number

    def summary(self) -> Json:
        """The ad of totals."""
        names = {"Idle": 1, "Running": 2, "Removed": 3, "Completed": 4, "Held": 5}
        made: Json = {name: self.jobs.get(status, 0) for name, status in names.items()}
        made["Suspended"] = self.jobs.get(7, 0)
        made["Jobs"] = sum(made.values())
        of_scheduler = {f"Scheduler{name}": self.scheduler.get(status, 0) for name, status in names.items()}
        return {**made, **of_scheduler, "SchedulerJobs": sum(of_scheduler.values()), "MyType": "Summary"}


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
