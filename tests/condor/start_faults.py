"""Submits jobs that cannot start, and reports their hold reasons: `python start_faults.py MODULE faults`.

MODULE is ``htcondor2`` or ``fetchwork``; the standard input has the descriptions, the answer is JSON. It runs
by itself, in a place where no module of these tests can be imported.
"""

import importlib
import json
import os
import sys
import time
from typing import Any

PATIENCE_S = 480
ALL = """
executable = /bin/true
initialdir = /tmp
transfer_executable = false
should_transfer_files = IF_NEEDED
"""


HOLD = ("HoldReason", "HoldReasonCode", "HoldReasonSubCode")


def faults(bindings: Any, schedd: Any) -> dict[str, dict[str, object]]:
    """The facts about each job once it is held or has left the queue."""
    given = json.load(sys.stdin)
    # these directories must exist at submission, and not when the job starts
    for directory in given["gone"]:
        os.mkdir(directory)
    clusters = {
        name: schedd.submit(bindings.Submit(f"{ALL}hold = true\n{description}\n")).cluster()
        for name, description in given["jobs"].items()
    }
    for directory in given["gone"]:
        os.rmdir(directory)
    _edit(schedd, clusters, given["edits"])
    schedd.act(bindings.JobAction.Release, "true")
    found: dict[str, dict[str, object]] = {}
    end = time.monotonic() + PATIENCE_S
    while len(found) < len(clusters) and time.monotonic() < end:
        time.sleep(0.3)
        ads = {ad["ClusterId"]: ad for ad in schedd.query("JobStatus == 5 && HoldReasonCode != 15")}
        for name, cluster in clusters.items():
            if name not in found and (ad := ads.get(cluster)) is not None:
                found[name] = {attribute: ad.get(attribute) for attribute in (*HOLD, "NumJobStarts")}
    schedd.act(bindings.JobAction.Remove, "true")
    return found


def tries(bindings: Any, schedd: Any) -> dict[str, dict[str, object]]:
    """The facts about each job once it is held, has been tried twice, or has ended."""
    given = json.load(sys.stdin)
    clusters = {
        name: schedd.submit(bindings.Submit(f"{ALL}{description}\n")).cluster()
        for name, description in given["jobs"].items()
    }
    _edit(schedd, clusters, given.get("edits", {}))
    found: dict[str, dict[str, object]] = {}
    end = time.monotonic() + PATIENCE_S
    while len(found) < len(clusters) and time.monotonic() < end:
        time.sleep(0.3)
        ads = {ad["ClusterId"]: ad for ad in schedd.query()}
        for name, cluster in clusters.items():
            if name in found:
                continue
            ad = ads.get(cluster) or next(iter(schedd.history(f"ClusterId == {cluster}", [], 1)), None)
            if ad is not None and (ad["JobStatus"] in (4, 5) or ad.get("NumShadowStarts", 0) >= 2):
                wanted = ("JobStatus", "ExitCode", "NumShadowStarts", *HOLD)
                found[name] = {attribute: ad.get(attribute) for attribute in wanted}
    schedd.act(bindings.JobAction.Remove, "true")
    return found


def _edit(schedd: Any, clusters: dict[str, int], edits: dict[str, dict[str, str]]) -> None:
    for name, changes in edits.items():
        for attribute, value in changes.items():
            schedd.edit(str(clusters[name]), attribute, value)


if __name__ == "__main__":
    module = importlib.import_module("htcondor2")
    print(json.dumps(globals()[sys.argv[2]](module, module.Schedd())))
