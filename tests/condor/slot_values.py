"""Submits jobs with $$(...) in them, and reports the values that they saw: `python slot_values.py MODULE
expansions`.

MODULE is ``htcondor2`` or ``fetchwork``; the standard input has the descriptions, the answer is JSON. It runs
by itself, in a place where no module of these tests can be imported.
"""

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 240
ALL = """
executable = /tmp/show
initialdir = /tmp
transfer_executable = false
should_transfer_files = NO
"""


def _plain(value: Any) -> Any:
    """A value of an ad as JSON."""
    return value if isinstance(value, int | float | str) else str(value)


def expansions(bindings: Any, schedd: Any) -> dict[str, dict[str, object]]:
    """The hold reason of each job that is held, and the match attributes in its ad.

    The standard input has groups of jobs: each is submitted when those before it have ended, the n-th of all
    jobs with the output DIRECTORY/n.
    """
    directory = Path("/tmp") / f"slot-values-{sys.argv[1]}"
    found: dict[str, dict[str, object]] = {}
    number = 0
    for group in json.load(sys.stdin):
        clusters: dict[str, int] = {}
        for name, description in group.items():
            text = description.replace("OUTPUTS", str(directory))
            job = bindings.Submit(f"{ALL}output = {directory}/{number}\n{text}\n")
            clusters[name] = schedd.submit(job).cluster()
            number += 1
        _follow(schedd, clusters, found)
    schedd.act(bindings.JobAction.Remove, "true")
    return found


def _follow(schedd: Any, clusters: dict[str, int], found: dict[str, dict[str, object]]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not clusters.keys() <= found.keys() and time.monotonic() < end:
        time.sleep(0.3)
        ads = {ad["ClusterId"]: ad for ad in schedd.query("true")}
        for name, cluster in clusters.items():
            ad = ads.get(cluster)
            if name in found or (ad is not None and ad.get("JobStatus") != 5):
                continue
            if ad is None:
                (ad,) = schedd.history(f"ClusterId == {cluster}", [], 1)
            found[name] = {
                attribute: _plain(ad.lookup(attribute) if hasattr(ad, "lookup") else ad[attribute])
                for attribute in sorted(ad.keys())
                if attribute.startswith(("MATCH_", "HoldReason"))
            }


if __name__ == "__main__":
    module = importlib.import_module("htcondor2")
    print(json.dumps(globals()[sys.argv[2]](module, module.Schedd())))
