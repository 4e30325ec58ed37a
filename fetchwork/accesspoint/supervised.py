"""The request to a supervisor, made from the ad of a scheduler-universe job."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from fetchwork.accesspoint import jobargs
from fetchwork.dag import environment, status
from fetchwork.db.calls.scheduler import SchedulerClaim
from fetchwork.ipc.frames import Json


def request(claim: SchedulerClaim, access_point: Path) -> Json:
    """Return the request to start a job of the access point that listens at this socket.

    Raises FetchworkError for an ad from which no program can be started.
    """
    ad = claim.ad
    cwd = str(ad.get("Iwd") or "/")
    command = str(ad.get("Cmd"))
    arguments = jobargs.arguments(ad)
    asked = jobargs.environment(ad)
    dagman = environment.is_dagman(command)
    starts = ad.get("NumJobStarts")
    return {
        "executable": os.path.join(cwd, command),  # noqa: PTH118 - unlike Path it keeps ".."
        "name": os.path.basename(command),  # noqa: PTH119
        "arguments": arguments,
        "env": {
            **asked,
            "CONDOR_ID": f"{claim.cluster_id}.{claim.proc_id}",
            "FETCHWORK_ACCESS_POINT": str(access_point),
        },
        "cwd": cwd,
        "in": str(ad.get("In") or os.devnull),
        "out": str(ad.get("Out") or os.devnull),
        "err": str(ad.get("Err") or os.devnull),
        "fresh": not isinstance(starts, int) or starts == 0,
        "kill_signal": jobargs.signal_number(ad.get("KillSig"), signal.SIGTERM),
        "dagman": dagman,
        "lock": environment.lock_file(arguments) if dagman else None,
        "run": str(claim.run_id),
        "dag_log": status.log_file(asked) if dagman else None,
    }
