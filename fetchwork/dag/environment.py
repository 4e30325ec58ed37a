"""The environment of condor_dagman, its scripts and its commands when it runs over this queue.

DAGMan's settings come from HTCondor's configuration, which environment variables ``_CONDOR_NAME`` override.
DAGMan must reach no schedd: it would change the ad of a schedd's job that has our DAG's number, and recovery
would ask the schedd for nodes that it never had.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAM = "condor_dagman"
#: value of CONDOR_CONFIG with which HTCondor reads no file
NO_FILES = "ONLY_ENV"
CONFIG_FILES = ("/etc/condor/condor_config", "/usr/local/etc/condor_config")

#: faster than HTCondor's defaults: a scan of the log each second finds events within that second
_PACE = {
    "_CONDOR_DAGMAN_USER_LOG_SCAN_INTERVAL": "1",
    "_CONDOR_DAGMAN_MAX_SUBMITS_PER_INTERVAL": "100",
    # do not ask to keep claims: this queue keeps no claims for jobs
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
    """Whether a job's program is condor_dagman."""
    return os.path.basename(command) == PROGRAM  # noqa: PTH119 - every job's submission comes here


def lock_file(arguments: Sequence[str]) -> str | None:
    """The lock file in a condor_dagman's arguments; None without one."""
    words = [argument.lower() for argument in arguments]
    if "-lockfile" not in words[:-1]:
        return None
    return arguments[words.index("-lockfile") + 1]


def of_dagman(asked: Mapping[str, str], commands: Path, cwd: str) -> dict[str, str]:
    """Return the environment of a condor_dagman whose job wants ``asked``; ``commands`` has condor_submit."""
    path = asked.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    config = {}
    if "CONDOR_CONFIG" not in asked and not any(Path(file).exists() for file in CONFIG_FILES):
        config["CONDOR_CONFIG"] = NO_FILES
    return {
        **_PACE,
        **asked,
        **config,
        **_NO_SCHEDD,
        # DAGMan changes to this directory once, when it starts
        "_CONDOR_LOG": cwd,
        # for scripts that submit jobs themselves
        "PATH": f"{commands}:{path}",
        "_CONDOR_DAGMAN_USE_DIRECT_SUBMIT": "False",
        "_CONDOR_DAGMAN_CONDOR_SUBMIT_EXE": str(commands / "condor_submit"),
        "_CONDOR_DAGMAN_CONDOR_RM_EXE": str(commands / "condor_rm"),
        # condor_submit itself waits for an access point or a database that is away; a refusal is final
        "_CONDOR_DAGMAN_MAX_SUBMIT_ATTEMPTS": "1",
        # a nodes log under /tmp is fine here: it is on this host's disk
        "_CONDOR_DAGMAN_AVOID_SLASH_TMP": "False",
    }


def of_submit_dag(asked: Mapping[str, str], commands: Path) -> dict[str, str]:
    """Return the environment of HTCondor's condor_submit_dag, which runs condor_submit from PATH."""
    found = {
        **asked,
        **_NO_SCHEDD,
        "_CONDOR_DAGMAN_USE_DIRECT_SUBMIT": "False",
        "PATH": f"{commands}:{asked.get('PATH', '')}",
    }
    if "CONDOR_CONFIG" not in asked and not any(Path(file).exists() for file in CONFIG_FILES):
        found["CONDOR_CONFIG"] = NO_FILES
    return found
