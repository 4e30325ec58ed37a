"""The HTCondor settings that give each slot its hook keyword.

A slot looks for ``SLOT<N>_JOB_HOOK_KEYWORD``, then for ``STARTD_JOB_HOOK_KEYWORD``. A dynamic slot looks
for ``SLOT<N>_<M>_JOB_HOOK_KEYWORD``, then for ``STARTD_JOB_HOOK_KEYWORD``: it inherits nothing from its
partitionable slot, and ``SLOT_TYPE_<N>_JOB_HOOK_KEYWORD`` has no effect. So the startd's keyword is that of
the partitionable slots if these agree, and static slots, whose numbers are fixed, are named one by one.
"""

from collections import Counter

from fetchwork.config import HostConfig, Slot

# A keyword without hooks: a slot that has it fetches nothing. With an empty SLOT<N>_JOB_HOOK_KEYWORD HTCondor
# would use STARTD_JOB_HOOK_KEYWORD.
FETCHES_NOTHING = "FETCHES_NOTHING"


def startd_keyword(config: HostConfig) -> str | None:
    """Return the keyword of all slots without one of their own; None if only named slots fetch."""
    slots = config.slot_list()
    if not slots:
        return _keyword(config.slots.default)
    deciding = [slot for slot in slots if slot.type.partitionable] or list(slots)
    common = Counter(slot.keyword for slot in deciding)
    return max(common, key=lambda keyword: (common[keyword], keyword == config.slots.default))


def slot_keywords(config: HostConfig) -> dict[str, str]:
    """Return ``SLOT<N>`` or ``SLOT<N>_<M>`` -> keyword for the slots that differ from the startd's."""
    default = startd_keyword(config)
    named: dict[str, str] = {}
    for slot in config.slot_list():
        if slot.keyword == default:
            continue
        keyword = slot.keyword or FETCHES_NOTHING
        named[f"SLOT{slot.number}"] = keyword
        if slot.type.partitionable:
            named.update(
                {f"SLOT{slot.number}_{child}": keyword for child in range(1, dynamic_slots(slot) + 1)}
            )
    return named


def dynamic_slots(slot: Slot) -> int:
    """Return the number of dynamic slots to name for a partitionable slot.

    It is twice the slot's cores: a job may ask for no core, and an old slot's id is not always free again.
    """
    return 2 * (slot.type.cpus or 0)


def _keyword(name: str | None) -> str | None:
    return None if name == "none" else name
