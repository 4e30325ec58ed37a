"""The two ads that a job finds in its scratch directory, .machine.ad and .job.ad, as PREPARE_JOB writes them.

HTCondor's starter has written them before: the first is empty for a fetched job, the second is the ad that
was fetched. What a schedd's job finds in them more, of its slot and of the queue, is added here.
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
#: the secret of the run is none of the job's business
_LEFT_OUT = ("fetchworktoken", "starteruserlog", "fetchworkcredentials", "fetchworkscratch")


def ad_files(job: bytes, slot_ad: bytes, slot: ClassAd, facts: Mapping[str, object]) -> bytes:
    """What follows the changes to the job's ad in the answer of PREPARE_JOB: the slot's ad, then the job's.

    ``job`` is the ad that the hook has brought, ``facts`` what it does not say, or not any more: the startd
    rounds requests up.
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
        # this one is among them
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
