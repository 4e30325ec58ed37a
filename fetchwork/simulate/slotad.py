"""A slot as its ad describes it: its size, its state, and the ad itself."""

import functools
from dataclasses import dataclass
from importlib.resources import files

from fetchwork.simulate.behaviour import Behaviour
from fetchwork.simulate.textad import TextAd


@dataclass(frozen=True)
class SlotSpec:
    """A slot as a host's configuration describes it."""

    cpus: int = 1
    memory_mib: int = 1024
    disk_kib: int = 1_000_000
    gpus: int = 0
    partitionable: bool = False


class SlotState:
    """The state that the ad of a slot shows: static, partitionable, or dynamic (with its parent's number)."""

    def __init__(self, machine: str, number: int, spec: SlotSpec, parent_number: int | None = None) -> None:
        self.machine = machine
        self.number = number
        self.spec = spec
        self.parent_number = parent_number
        slot = f"slot{number}" if parent_number is None else f"slot{parent_number}_{number}"
        self.name = f"{slot}@{machine}"
        self.state, self.activity = "Unclaimed", "Idle"
        #: time at which it entered its state, in seconds since the epoch; 0 for its first state
        self.state_since = 0
        #: its free resources
        self.cpus, self.memory_mib, self.disk_kib = spec.cpus, spec.memory_mib, spec.disk_kib

    @property
    def children_names(self) -> list[str]:
        """The names of the dynamic slots of a partitionable one."""
        return []

    @property
    def job_name(self) -> str | None:
        """The job that runs in it."""
        return None


def slot_ad(slot: SlotState, behaviour: Behaviour, now: int, total_slots: int) -> TextAd:
    """The ad that describes a slot to its hooks."""
    ad = _unchanging(behaviour.slot_ad).copy()
    dynamic = slot.parent_number is not None
    texts = {
        "Name": slot.name,
        "Machine": slot.machine,
        "UtsnameNodename": slot.machine,
        "FileSystemDomain": slot.machine,
        "UidDomain": slot.machine,
        "State": slot.state,
        "Activity": slot.activity,
        "SlotType": "Partitionable" if slot.spec.partitionable else "Dynamic" if dynamic else "Static",
    }
    for name, text in texts.items():
        ad.put_text(name, text)
    numbers = {
        "SlotID": slot.number if slot.parent_number is None else slot.parent_number,
        "SlotTypeID": 1,
        "Cpus": slot.cpus,
        "Memory": slot.memory_mib,
        "Disk": slot.disk_kib,
        "GPUs": slot.spec.gpus,
        "TotalSlotCpus": slot.spec.cpus,
        "TotalSlotMemory": slot.spec.memory_mib,
        "TotalSlots": total_slots,
        "CurrentRank": 0,
        "MyCurrentTime": now,
        "EnteredCurrentState": slot.state_since,
        "LastFetchWorkSpawned": now,
    }
    for name, number in numbers.items():
        ad.put(name, str(number))
    if dynamic:
        ad.put("DSlotId", str(slot.number))
        ad.put("DynamicSlot", "true")
    if slot.spec.partitionable:
        children = slot.children_names
        ad.put("PartitionableSlot", "true")
        ad.put("NumDynamicSlots", str(len(children)))
        names = ", ".join(f'"{name}"' for name in children)
        ad.put("ChildName", "{ " + names + " }")
    if slot.job_name is not None:
        ad.put_text("JobId", slot.job_name)
    return ad


@functools.cache
def _unchanging(file: str) -> TextAd:
    ad = TextAd.parse(files(__package__).joinpath(file).read_bytes())
    assert ad is not None, f"{file} is part of this package"
    return ad
