"""Submits jobs that start at a time: `python timing.py MODULE QUESTION`, with MODULE htcondor2 or fetchwork.

The standard input is JSON, and so is the answer. It runs by itself, in a place where no module of these tests
can be imported.
"""

import importlib
import json
import sys
import time
from typing import Any

PATIENCE_S = 240
ALL = """
executable = /bin/sh
initialdir = /tmp
transfer_executable = false
should_transfer_files = NO
"""


def schedules(bindings: Any, schedd: Any) -> list[int]:
    """The first start time of each job; the standard input has the fields of their cron schedules."""
    clusters = [
        schedd.submit(
            bindings.Submit(
                ALL
                + "requirements = false\n"
                + "".join(f"cron_{field} = {value}\n" for field, value in fields.items())
            )
        ).cluster()
        for fields in json.load(sys.stdin)
    ]
    times: dict[int, int] = {}
    end = time.monotonic() + PATIENCE_S
    while len(times) < len(clusters) and time.monotonic() < end:
        time.sleep(0.5)
        for ad in schedd.query("true", ["ClusterId", "DeferralTime"]):
            if "DeferralTime" in ad.keys():  # noqa: SIM118 - an ad of the bindings
                times[ad["ClusterId"]] = ad["DeferralTime"]
    schedd.act(bindings.JobAction.Remove, "true")
    return [times.get(cluster, 0) for cluster in clusters]


def starts(bindings: Any, schedd: Any) -> dict[str, list[float]]:
    """The time that each job asked for; the job writes its actual start into the named file.

    One job is removed as soon as its starter waits for its time, with a preparation of 4000 s.
    The standard input has, by that file, each job's lead time in seconds and its description.
    """
    asked: dict[str, list[float]] = {}
    for path, (ahead, text) in json.load(sys.stdin).items():
        at = int(time.time()) + ahead
        job = bindings.Submit(
            f"{ALL}arguments = \"-c 'date +%s.%N > {path}'\"\n{text.replace('AT', str(at))}\n"
        )
        schedd.submit(job)
        asked[path] = [at]
    end = time.monotonic() + PATIENCE_S
    waits = "JobStatus == 2 && DeferralPrepTime == 4000"
    while not schedd.query(waits) and time.monotonic() < end:
        time.sleep(0.5)
    schedd.act(bindings.JobAction.Remove, waits)
    while left := schedd.query("true"):
        if time.monotonic() > end:
            raise SystemExit(f"jobs did not end: {[ad['ClusterId'] for ad in left]}")
        time.sleep(0.5)
    return asked


if __name__ == "__main__":
    module = importlib.import_module("htcondor2")
    print(json.dumps(globals()[sys.argv[2]](module, module.Schedd())))
