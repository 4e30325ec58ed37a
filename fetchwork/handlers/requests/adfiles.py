"""The two ads that a job finds in its scratch directory, .machine.ad and .job.ad, as PREPARE_JOB writes them.

HTCondor's starter has written them before: for a fetched job the first is empty, the second the fetched ad.
This module adds the attributes of the slot and of the queue that a schedd's job finds in them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from fetchwork.classad.ads import print_old
from fetchwork.classad.values import ClassAd
from fetchwork.codes import JobStatus

#: between the changes to the job's ad and the ads for the files; no value has such a line
SEPARATOR = b"-----\n"
#: attributes that the job must not see: the run's secret, and fetchwork's own paths
_LEFT_OUT = ("fetchworktoken", "starteruserlog", "fetchworkcredentials", "fetchworkscratch")


def ad_files(job: bytes, slot_ad: bytes, slot: ClassAd, facts: Mapping[str, object]) -> bytes:
    """Return the part of PREPARE_JOB's answer after the changes to the job's ad: the slot's and the job's ad.

    ``job`` is the ad that the hook has sent. ``facts`` are attributes that it lacks or that the startd has
    changed: it rounds requests up.
    """
    now = int(time.time())
    added = ClassAd()
    for name, value in facts.items():
        added[name] = value
    added["JobStatus"] = JobStatus.RUNNING
    added["EnteredCurrentStatus"] = added["JobCurrentStartDate"] = now
    added.setdefault("JobStartDate", now)
    starts = facts.get("NumJobStarts")
    if isinstance(starts, int):
        # NumJobStarts does not count this start yet
        added["NumShadowStarts"] = added["JobRunCount"] = starts + 1
    for name, other in (("RemoteHost", "Name"), ("RemoteSlotID", "SlotID"), ("UidDomain", "UidDomain")):
        _copy(slot, other, added, name)
    resources = slot.get("MachineResources")
    if isinstance(resources, str):
        added["ProvisionedResources"] = resources
        for name in re.findall(r"\w+", resources):
            _copy(slot, name, added, f"{name}Provisioned")
            _copy(slot, f"Assigned{name}", added, f"Assigned{name}")
    replaced = {name.lower() for name in added}
    kept = [
        line
        for line in job.split(b"\n")
        if line
        and (name := line.partition(b"=")[0].strip().lower().decode("utf-8", "replace")) not in replaced
        and name not in _LEFT_OUT
    ]
    lines = b"".join(line + b"\n" for line in kept)
    return SEPARATOR + slot_ad + SEPARATOR + lines + print_old(added).encode()


def _copy(slot: ClassAd, name: str, added: ClassAd, other: str) -> None:
    value = slot.get(name)
    if isinstance(value, str | int | float):
        added[other] = value
