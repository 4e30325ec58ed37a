"""A slot's state by its ad: whether it may be given a job now, and its free resources."""

from __future__ import annotations

from typing import Literal, TypedDict

from fetchwork.classad.values import ClassAd, evaluate, number

#: the reason why a slot can't be given a job now
NotNow = Literal["claimed_by_schedd", "busy", "not_idle"]


def why_not(slot: ClassAd) -> NotNow | None:
    """Return why a slot can't be given a job now; None if it can, "busy" if it can once its job has ended."""
    if "RemoteScheddName" in slot or "ClientMachine" in slot:
        return "claimed_by_schedd"
    if is_idle(slot):
        return None
    busy = (slot.get("State"), slot.get("Activity")) == ("Claimed", "Busy")
    return "busy" if busy else "not_idle"


def is_idle(slot: ClassAd) -> bool:
    """Whether the slot has no job: Unclaimed, Owner, or Claimed/Idle."""
    state, activity = slot.get("State"), slot.get("Activity")
    return state in ("Unclaimed", "Owner") or (state == "Claimed" and activity == "Idle")


class Resources(TypedDict):
    """A slot's free resources, as ``fetchwork.candidates`` takes them; None if the ad does not give one."""

    cpus: float | None
    memory_mib: float | None
    disk_kib: float | None
    gpus: float | None


def slot_resources(slot: ClassAd) -> Resources:
    """Return the slot's free resources."""
    gpus = number(evaluate(slot, "GPUs"))
    return {
        "cpus": number(evaluate(slot, "Cpus")),
        "memory_mib": number(evaluate(slot, "Memory")),
        "disk_kib": number(evaluate(slot, "Disk")),
        # a machine without GPUs does not mention them
        "gpus": 0.0 if gpus is None else gpus,
    }
