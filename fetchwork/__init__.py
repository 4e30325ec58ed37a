"""fetchwork: a PostgreSQL job queue for HTCondor's fetch-work hooks.

The public names are imported on first use: the hooks import this package and must not pay for psycopg or
classad2.
"""

import sys

# not from typing, which would cost every hook 4 ms of CPU
TYPE_CHECKING = False
if TYPE_CHECKING:
    from fetchwork import personal as personal
    from fetchwork.classad.bindings import (
        AdType as AdType,
    )
    from fetchwork.classad.bindings import (
        AdTypes as AdTypes,
    )
    from fetchwork.classad.bindings import (
        DaemonType as DaemonType,
    )
    from fetchwork.classad.bindings import (
        DaemonTypes as DaemonTypes,
    )
    from fetchwork.classad.bindings import (
        FileTransferEventType as FileTransferEventType,
    )
    from fetchwork.classad.bindings import (
        HTCondorException as HTCondorException,
    )
    from fetchwork.classad.bindings import (
        JobAction as JobAction,
    )
    from fetchwork.classad.bindings import (
        JobEventType as JobEventType,
    )
    from fetchwork.classad.bindings import (
        JobStatus as JobStatus,
    )
    from fetchwork.classad.bindings import (
        LogLevel as LogLevel,
    )
    from fetchwork.classad.bindings import (
        QueryOpt as QueryOpt,
    )
    from fetchwork.classad.bindings import (
        QueryOpts as QueryOpts,
    )
    from fetchwork.classad.bindings import (
        Submit as Submit,
    )
    from fetchwork.classad.bindings import (
        SubmitMethod as SubmitMethod,
    )
    from fetchwork.classad.bindings import (
        SubsystemType as SubsystemType,
    )
    from fetchwork.classad.bindings import (
        TransactionFlag as TransactionFlag,
    )
    from fetchwork.classad.bindings import (
        TransactionFlags as TransactionFlags,
    )
    from fetchwork.classad.bindings import (
        disable_debug as disable_debug,
    )
    from fetchwork.classad.bindings import (
        enable_debug as enable_debug,
    )
    from fetchwork.classad.bindings import (
        enable_log as enable_log,
    )
    from fetchwork.classad.bindings import (
        param as param,
    )
    from fetchwork.classad.bindings import (
        platform as platform,
    )
    from fetchwork.classad.bindings import (
        reload_config as reload_config,
    )
    from fetchwork.classad.bindings import (
        set_subsystem as set_subsystem,
    )
    from fetchwork.classad.bindings import (
        version as version,
    )
    from fetchwork.following.eventlog import JobEventLog as JobEventLog
    from fetchwork.personal import PersonalPool as PersonalPool
    from fetchwork.queue import AsyncQueue as AsyncQueue
    from fetchwork.queue import Queue as Queue
    from fetchwork.queue import Queue as Schedd
    from fetchwork.queue.collector import Collector as Collector
    from fetchwork.queue.events import JobEvent as JobEvent
    from fetchwork.queue.submission import SubmitResult as SubmitResult

__version__ = "0.1.0"

# the module of each public name; the names of HTCondor's bindings are included so that a program that uses
# htcondor2 has to change its import alone
_BINDINGS = (
    *("AdType", "AdTypes", "DaemonType", "DaemonTypes", "FileTransferEventType", "HTCondorException"),
    *("JobAction", "JobEventType", "JobStatus", "LogLevel", "QueryOpt", "QueryOpts", "Submit"),
    *(
        "SubmitMethod",
        "SubsystemType",
        "TransactionFlag",
        "TransactionFlags",
        "disable_debug",
        "enable_debug",
    ),
    *("enable_log", "param", "platform", "reload_config", "set_subsystem", "version"),
)
_HOMES = {
    **dict.fromkeys(_BINDINGS, "fetchwork.classad.bindings"),
    "AsyncQueue": "fetchwork.queue",
    "Collector": "fetchwork.queue.collector",
    "JobEvent": "fetchwork.queue.events",
    "JobEventLog": "fetchwork.following.eventlog",
    "PersonalPool": "fetchwork.personal",
    "Queue": "fetchwork.queue",
    "SubmitResult": "fetchwork.queue.submission",
}
# names of HTCondor's bindings for things that fetched work does not have
_ABSENT = {
    "Negotiator": "agents match jobs to slots; see Queue.submitters",
    "Startd": "hosts fetch their work; see Queue.slots and the command slots",
    "Credd": "see Queue.add_credential and the command credential",
    "CredType": "see Queue.add_credential and the command credential",
    "CredTypes": "see Queue.add_credential and the command credential",
    "SecurityContext": "the database's roles decide what a program may do",
    "RemoteParam": "settings are in the database; see the command db setting",
    "DAGMan": "condor_dagman runs DAGs over the queue; see the command dag",
    "dags": "condor_dagman runs DAGs over the queue; see the command dag",
    "send_command": "there are no daemons to send a command to",
    "send_alive": "there are no daemons to send a command to",
    "ping": "there are no daemons to send a command to",
    "DrainType": "see the command queues, which drains queues",
    "DrainTypes": "see the command queues, which drains queues",
}
__all__ = ["Schedd", "__version__", *_HOMES]  # noqa: PLE0604  # its keys are strings


def __getattr__(name: str) -> object:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "Schedd":
        return __getattr__("Queue")
    if name == "personal":
        import importlib

        return importlib.import_module("fetchwork.personal")
    if name in _ABSENT:
        raise AttributeError(f"fetchwork has no {name}: {_ABSENT[name]}")
    raise AttributeError(f"module 'fetchwork' has no attribute {name!r}")


# 'fetchwork env' puts its own htcondor2, a layer over the queue, first in the path. htcondor2 needs this
# package's modules whole, so it is imported before any of them; our own commands don't need it
if "htcondor2" not in sys.modules and any(entry.endswith("/fetchwork/modules") for entry in sys.path):
    if getattr(sys, "argv", [""])[0].endswith("/fetchwork"):
        sys.path = [entry for entry in sys.path if not entry.endswith("/fetchwork/modules")]
    else:
        import htcondor2  # noqa: F401
