"""What a slot's ad says of the slot: whether it may be given a job now, and what is left of it."""

from __future__ import annotations

from typing import Literal

from fetchwork.classad.values import ClassAd, evaluate, number

#: why a slot can't be given a job now
NotNow = Literal["claimed_by_schedd", "busy", "not_idle"]


def why_not(slot: ClassAd) -> NotNow | None:
    """Why a slot can't be given a job now; None if it can, "busy" if it can once its job has ended."""
    if "RemoteScheddName" in slot or "ClientMachine" in slot:
        return "claimed_by_schedd"
    if is_idle(slot):
        return None
    busy = (slot.get("State"), slot.get("Activity")) == ("Claimed", "Busy")
    return "busy" if busy else "not_idle"


def is_idle(slot: ClassAd) -> bool:
    """Tell whether the slot has no job: Unclaimed, Owner, or Claimed/Idle."""
    state, activity = slot.get("State"), slot.get("Activity")
    return state in ("Unclaimed", "Owner") or (state == "Claimed" and activity == "Idle")


def slot_resources(slot: ClassAd) -> dict[str, float | None]:
    """What is left of a slot, as ``candidates`` wants it; None where the ad does not tell."""
    resources: dict[str, float | None] = {}
    for parameter, name in (
        ("cpus", "Cpus"),
        ("memory_mib", "Memory"),
        ("disk_kib", "Disk"),
        ("gpus", "GPUs"),
    ):
        resources[parameter] = number(evaluate(slot, name), finite=False)
    if resources["gpus"] is None:
        # a machine without GPUs does not mention them
        resources["gpus"] = 0.0
    return resources
