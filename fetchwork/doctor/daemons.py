"""HTCondor's daemons: do the master and the startd run that read this configuration?"""

import os
from collections.abc import Iterator
from pathlib import Path

from fetchwork.doctor.line import Line, failed, ok
from fetchwork.process import Process, processes

MASTER, STARTD = "condor_master", "condor_startd"
_MACHINES_CONFIG = "/etc/condor/condor_config"


def running() -> set[str]:
    """The names of those daemons that run with the configuration that we read, too.

    A daemon whose environment we may not read counts as the machine's own.
    """
    return {process.name for process in _found()}


def accounts() -> set[int]:
    """The numbers of the accounts that they run as: 0 where HTCondor runs as root."""
    return {owner for process in _found() if (owner := process.owner) is not None}


def _found() -> set[Process]:
    ours = Path(os.environ.get("CONDOR_CONFIG") or _MACHINES_CONFIG).resolve()
    found = {process for process in processes() if process.name in (MASTER, STARTD)}
    return {process for process in found if _config_file(process).resolve() == ours}


def check(daemons: set[str]) -> Iterator[Line]:
    """Yield whether they run; ``daemons`` are the names of those that do."""
    if daemons >= {MASTER, STARTD}:
        yield ok("daemons", f"{MASTER} and {STARTD} run")
    elif MASTER in daemons:
        yield failed(
            "daemons",
            f"{MASTER} runs, but no {STARTD}, so no slot fetches",
            "MasterLog and StartLog in HTCondor's LOG say why; STARTD must be in DAEMON_LIST",
        )
    else:
        named = os.environ.get("CONDOR_CONFIG")
        which = f"with CONDOR_CONFIG '{named}'" if named else "with this configuration"
        yield failed(
            "daemons",
            f"no {MASTER} runs {which}, so nothing of HTCondor does",
            f"{MASTER}, or systemctl start condor, with CONDOR_CONFIG as in the shell of this command",
        )


def _config_file(process: Process) -> Path:
    """The configuration file that a daemon was started with."""
    name = b"CONDOR_CONFIG="
    values = [word.removeprefix(name) for word in process.environment() if word.startswith(name)]
    return Path(os.fsdecode(values[-1]) if values else _MACHINES_CONFIG)
