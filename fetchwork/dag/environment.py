"""The environment in which condor_dagman runs over this queue, and in which its scripts and commands do.

DAGMan's settings come from HTCondor's configuration, where an environment variable ``_CONDOR_NAME`` has the
last word. No schedd is to be reached: one that has a job of our DAG's number would have that job's ad
changed, and recovery would ask it for nodes that it never had.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAM = "condor_dagman"
#: HTCondor then reads no file
NO_FILES = "ONLY_ENV"
CONFIG_FILES = ("/etc/condor/condor_config", "/usr/local/etc/condor_config")

#: what HTCondor's own defaults leave slow here: a scan of the log each second finds what is there within it
_PACE = {
    "_CONDOR_DAGMAN_USER_LOG_SCAN_INTERVAL": "1",
    "_CONDOR_DAGMAN_MAX_SUBMITS_PER_INTERVAL": "100",
    # nothing is kept for a queue that keeps no claim for anybody
    "_CONDOR_DAGMAN_HOLD_CLAIM_TIME": "0",
}
_NO_SCHEDD = {
    "_CONDOR_SCHEDD_HOST": "nowhere",
    "_CONDOR_SCHEDD_NAME": "nowhere",
    "_CONDOR_COLLECTOR_HOST": "127.0.0.1:1",
    "_CONDOR_SCHEDD_ADDRESS_FILE": "/nonexistent/.schedd_address",
    "_CONDOR_SCHEDD_DAEMON_AD_FILE": "/nonexistent/.schedd_classad",
    "_CONDOR_DAGMAN_CHECK_QUEUE_INTERVAL": "0",
}


def is_dagman(command: str) -> bool:
    """Is the program of a job condor_dagman?"""
    return os.path.basename(command) == PROGRAM  # noqa: PTH119 - on the way of every job


def lock_file(arguments: Sequence[str]) -> str | None:
    """The lock file that the arguments of a condor_dagman name."""
    words = [argument.lower() for argument in arguments]
    if "-lockfile" not in words[:-1]:
        return None
    return arguments[words.index("-lockfile") + 1]


def of_dagman(asked: Mapping[str, str], commands: Path, cwd: str) -> dict[str, str]:
    """The environment of a condor_dagman whose job asks for ``asked``; ``commands`` has condor_submit."""
    path = asked.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    config = {}
    if "CONDOR_CONFIG" not in asked and not any(Path(file).exists() for file in CONFIG_FILES):
        config["CONDOR_CONFIG"] = NO_FILES
    return {
        **_PACE,
        **asked,
        **config,
        **_NO_SCHEDD,
        # DAGMan changes to it once, when it starts
        "_CONDOR_LOG": cwd,
        # of a script that submits by itself
        "PATH": f"{commands}:{path}",
        "_CONDOR_DAGMAN_USE_DIRECT_SUBMIT": "False",
        "_CONDOR_DAGMAN_CONDOR_SUBMIT_EXE": str(commands / "condor_submit"),
        "_CONDOR_DAGMAN_CONDOR_RM_EXE": str(commands / "condor_rm"),
        # condor_submit waits for an access point or a database that is away; what it refuses is refused
        "_CONDOR_DAGMAN_MAX_SUBMIT_ATTEMPTS": "1",
        # a nodes log under /tmp is as good as another here: it is on this host's disk
        "_CONDOR_DAGMAN_AVOID_SLASH_TMP": "False",
    }


def of_submit_dag(asked: Mapping[str, str], commands: Path) -> dict[str, str]:
    """The environment of HTCondor's condor_submit_dag, which runs condor_submit from PATH."""
    found = {
        **asked,
        **_NO_SCHEDD,
        "_CONDOR_DAGMAN_USE_DIRECT_SUBMIT": "False",
        "PATH": f"{commands}:{asked.get('PATH', '')}",
    }
    if "CONDOR_CONFIG" not in asked and not any(Path(file).exists() for file in CONFIG_FILES):
        found["CONDOR_CONFIG"] = NO_FILES
    return found
