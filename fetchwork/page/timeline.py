"""A job's life as one line: its states from its submission to now, from its runs and its events."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fetchwork.codes import EventType, JobStatus
from fetchwork.page import questions
from fetchwork.page.acting import ActingSession
from fetchwork.queue.reading.phases import ENDS, MOST_RUNS, RUNS, Phase, phases
from fetchwork.queue.reading.views import Json, Row

#: units of the drawing: the width of the line, and that of its shortest state
WIDE = 1000
LEAST = 4


def life(session: ActingSession, *, job: str) -> Json:
    """A job for its page: ``questions.job``, with its phases and its usage; raises Problem."""
    answer = questions.job(session, job=job)
    ad, events = answer["ad"], answer["events"]
    # the last runs, the oldest first, with the exact times of their states
    found = session.database.query(RUNS, [ad["ClusterId"], ad["ProcId"], MOST_RUNS])
    runs = list(reversed(found))
    return {**answer, "line": phases(ad, runs, events), "usage": usage(ad, runs, events)}


def drawn(line: Sequence[Phase]) -> list[tuple[Phase, float, float]]:
    """The phases with their x and width in a drawing of ``WIDE`` units; a short one is wide enough to see."""
    lasting = [phase for phase in line if phase.state not in ENDS]
    whole = sum(phase.end - phase.begin for phase in lasting) or 1.0
    room = max(WIDE - LEAST * len(lasting), WIDE / 2)
    widths = [LEAST + room * (phase.end - phase.begin) / whole for phase in lasting]
    unit = WIDE / sum(widths)
    placed, at = [], 0.0
    for phase, width in zip(lasting, widths, strict=True):
        placed.append((phase, round(at, 1), round(width * unit, 1)))
        at += width * unit
    return placed


def usage(ad: Json, runs: Sequence[Row], events: Sequence[Json]) -> list[Json]:
    """The resources of a job: name, ``used``, ``asked``, unit, and values over time."""
    sizes = [event for event in events if event["EventTypeNumber"] == EventType.IMAGE_SIZE]
    memory = [float(event["MemoryUsage"]) for event in sizes if _is_number(event.get("MemoryUsage"))]
    wall = float(ad.get("RemoteWallClockTime") or 0)
    if ad["JobStatus"] in (JobStatus.RUNNING, JobStatus.SUSPENDED) and runs and runs[-1]["started"]:
        wall += time.time() - runs[-1]["started"]
    cpu = float(ad.get("RemoteUserCpu") or 0) + float(ad.get("RemoteSysCpu") or 0)
    disk = ad.get("DiskUsage_RAW", ad.get("DiskUsage"))
    rows: list[Json] = [
        {"name": "Memory", "used": ad.get("MemoryUsage"), "asked": ad.get("RequestMemory"), "unit": "MiB"},
        {
            "name": "Cores, on average",
            "used": round(cpu / wall, 2) if wall >= 1 and cpu else None,
            "asked": ad.get("RequestCpus"),
            "unit": "",
        },
        {"name": "Disk", "used": disk, "asked": ad.get("RequestDisk"), "unit": "KiB"},
    ]
    for row in rows:
        row["values"] = memory if row["name"] == "Memory" and len(memory) > 1 else []
        row["asked"] = row["asked"] if _is_number(row["asked"]) else None
    return [row for row in rows if _is_number(row["used"])]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
