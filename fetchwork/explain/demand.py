"""The number of slots like a given one that the idle jobs would fill: for tools that start machines.

The slot need not exist: its ad may be a planned pilot's. An autocluster counts if slot and jobs accept each
other, evaluated as agents do. An undivided slot takes one job. A partitionable slot takes as many jobs as fit
by their requests; they are packed in the order of their size.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fetchwork.classad.values import ClassAd
from fetchwork.db.calls.call import Record
from fetchwork.db.calls.matching import AutoclusterAd
from fetchwork.explain.slot import explained_on
from fetchwork.matching.autoclusters import Autoclusters
from fetchwork.matching.slotstate import slot_resources

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession

#: reasons that idle jobs would not run on such a slot; the first that applies counts
REASONS = {
    "resources": "ask for more than the slot has",
    "job_refuses": "reject the slot by their Requirements",
    "slot_refuses": "are rejected by the slot's START or Requirements",
    "costly": "are too costly to evaluate",
}

#: the resources of a job or a slot: Cpus, MiB of Memory, KiB of Disk, GPUs
Size = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class _Idle(Record):
    """The idle jobs of an autocluster, and the resources that each requests."""

    autocluster_id: int
    idle: int
    cpus: float
    memory_mib: float
    disk_kib: float
    gpus: float

    @property
    def size(self) -> Size:
        return self.cpus, self.memory_mib, self.disk_kib, self.gpus


@dataclass(slots=True)
class Fill:
    """The number of slots that the idle jobs would fill."""

    #: slots that would get work
    slots: int = 0
    #: idle jobs that could run on such a slot
    jobs: int = 0
    #: idle jobs that could not, by reason
    passed_over: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """As ``--json`` prints it."""
        return dataclasses.asdict(self)


def fill(session: AnySession, slot: ClassAd, queues: list[str] | None = None) -> Fill:
    """Compute the slots with the ad ``slot`` that the idle jobs of some queues (None: of all) would fill."""
    rows = session.perform("idle", queues=queues)
    idle = [_Idle.from_row(row) for row in rows]
    autoclusters = Autoclusters(len(rows) + 1)
    autoclusters.add(AutoclusterAd.from_row(row) for row in rows)
    known = {
        each.autocluster_id: autocluster
        for each in idle
        if (autocluster := autoclusters.get(each.autocluster_id)) is not None
    }
    explained = asyncio.run(explained_on(slot, known))
    passed_over: Counter[str] = Counter()
    matching: Counter[Size] = Counter()
    for each in idle:
        reason = explained[each.autocluster_id].reason
        if reason is None:
            matching[each.size] += each.idle
        else:
            passed_over[reason] += each.idle
    jobs = matching.total()
    partitionable = slot.get("SlotType") == "Partitionable" or slot.get("PartitionableSlot") is True
    return Fill(
        slots=packed(matching, _size_of(slot)) if partitionable else jobs,
        jobs=jobs,
        passed_over={name: passed_over[name] for name in REASONS if passed_over[name]},
    )


def _size_of(slot: ClassAd) -> Size:
    """The slot's resources; a resource that its ad lacks is unlimited, except GPUs."""
    left = slot_resources(slot)
    cpus, memory, disk, gpus = left["cpus"], left["memory_mib"], left["disk_kib"], left["gpus"]
    return (
        math.inf if cpus is None else cpus,
        math.inf if memory is None else memory,
        math.inf if disk is None else disk,
        gpus or 0.0,
    )


def packed(jobs: Counter[Size], slot: Size) -> int:
    """The number of slots that the jobs, counted by size, fill if each slot takes the largest that still fit.

    Slots with equal contents are counted at once, so the cost depends on the number of sizes, not of jobs.
    Each job fits an empty slot.
    """
    left = {size: number for size, number in jobs.items() if number}
    slots = 0
    while left:
        room = slot
        taken: dict[Size, int] = {}
        for size in sorted(left, reverse=True):
            number = min(left[size], _times(room, size))
            if number:
                taken[size] = number
                room = (
                    room[0] - number * size[0],
                    room[1] - number * size[1],
                    room[2] - number * size[2],
                    room[3] - number * size[3],
                )
        if not taken:
            # the remaining jobs exceed the whole slot, though its expressions accept them: one slot each
            return slots + sum(left.values())
        alike = min(left[size] // number for size, number in taken.items())
        slots += alike
        for size, number in taken.items():
            left[size] -= alike * number
            if not left[size]:
                del left[size]
    return slots


def _times(room: Size, size: Size) -> int:
    """The number of times that a size fits into the room; sys.maxsize if nothing limits it."""
    most = min((room[n] / size[n] for n in range(len(size)) if size[n] > 0), default=math.inf)
    # a rounding error must not cost one
    return int(most + 1e-9) if most < sys.maxsize else sys.maxsize
