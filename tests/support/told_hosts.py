"""Hosts whose slots have reported their ads to a queue."""

import json
import time
from pathlib import Path

from fetchwork.classad.ads import parse_old
from fetchwork.classad.jsonform import to_json
from tests.support.direct_queue import DirectQueue

ADS = Path(__file__).parent.parent / "data" / "ads"


class Hosts:
    """Hosts whose slots have reported their ads."""

    def __init__(self, slots: DirectQueue) -> None:
        self.slots = slots

    def tell(
        self,
        name: str,
        *,
        ad: str = "25.14.1-fetch_work-static-unclaimed.ad",
        state: str = "Unclaimed",
        activity: str = "Idle",
        queues: tuple[str, ...] = ("default",),
        **attributes: object,
    ) -> None:
        """``name`` is slot@host; attributes in HTCondor's JSON form go over those of the file."""
        real = to_json(parse_old((ADS / ad).read_bytes()))
        whole = {**real, "Name": name, "State": state, "Activity": activity, **attributes}
        row = {
            "name": name,
            "state": state,
            "activity": activity,
            "slot_type": whole["SlotType"],
            "cpus": whole["Cpus"],
            "memory_mib": whole["Memory"],
            "disk_kib": whole["Disk"],
            "gpus": whole["GPUs"],
            "fetched_at": time.time(),
            "last_answer": "nothing",
            "queues": list(queues),
            "ad": whole,
        }
        host_id = self.slots.host(name.partition("@")[2])
        self.slots.connection.execute("SELECT fetchwork.report_slots(%s, %s)", [host_id, json.dumps([row])])
