"""The slots that HTCondor's configuration makes on this host, and the time that it takes to fill one."""

import re

from fetchwork.classad.ads import parse_expr, parse_old
from fetchwork.classad.values import evaluate, number
from fetchwork.config import HostConfig
from fetchwork.deploy.condorconfig import CondorConfig, Settings
from fetchwork.errors import ClassAdError

_WITH_ROOM = """\
State = "Unclaimed"
Activity = "Idle"
SlotID = 1
SlotType = "Partitionable"
PartitionableSlot = true
Cpus = 1
Memory = 1024
"""


def shortage(config: HostConfig, condor: CondorConfig) -> str | None:
    """The cores or memory that the slots of a host file ask for and HTCondor does not have here.

    The startd would not start. None if they fit, or HTCondor does not say.
    """
    for setting, of_condor in (("cpus", "NUM_CPUS"), ("memory_mib", "MEMORY")):
        asked = sum(each.count * (getattr(each, setting) or 0) for each in config.slots.type)
        # the file's own setting was compared with it when the file was read
        if not asked or getattr(config.host, setting):
            continue
        has = condor.value(of_condor) or condor.value(f"DETECTED_{of_condor}") or ""
        # 0 if it is unknown
        if has.isdigit() and 0 < int(has) < asked:
            return f"asks for {asked} {setting}, and HTCondor has {has} here ({of_condor})"
    return None


def slots_in_words(settings: Settings) -> tuple[str, bool] | None:
    """The slots in words, and whether one is partitionable; None if only HTCondor knows."""
    if settings.get("NUM_SLOTS"):
        return None
    counts = {
        match[1]: value
        for name, value in settings.items()
        if (match := re.fullmatch(r"NUM_SLOTS_TYPE_(\d+)", name)) and value
    }
    if not counts:
        return "one partitionable slot, HTCondor's default", True
    if not all(count.isdigit() for count in counts.values()):
        return None
    static = partitionable = 0
    for type_number, count in counts.items():
        if settings.get(f"SLOT_TYPE_{type_number}_PARTITIONABLE", "").lower() in ("true", "t", "yes", "1"):
            partitionable += int(count)
        else:
            static += int(count)
    parts = [
        f"{count} {what}" for count, what in ((static, "static"), (partitionable, "partitionable")) if count
    ]
    return " and ".join(parts), partitionable > 0


def delay_of_a_slot_with_room(condor: CondorConfig) -> float | None:
    """Seconds between two fetches of a partitionable slot that can make a dynamic one, by FetchWorkDelay."""
    text = condor.value("FetchWorkDelay")
    if not text:
        return None
    try:
        return number(evaluate(parse_old(_WITH_ROOM), parse_expr(text)))
    except ClassAdError:
        return None
