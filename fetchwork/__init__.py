"""fetchwork: a PostgreSQL job queue for HTCondor's fetch-work hooks.

The public names are imported on first use, because the hooks import this package and may not pay for
psycopg or classad2.
"""

# not from typing, which would cost every hook 4 ms of CPU
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

# where each public name lives; those of HTCondor's bindings are there so that a program which uses htcondor2
# needs another import and nothing else
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
# names of HTCondor's bindings for what fetched work does not have
_ABSENT = {
    "Negotiator": "agents match jobs to slots; see Queue.submitters",
    "Startd": "hosts fetch their work; see Queue.slots and the command slots",
    "Credd": "fetched work has no credentials",
    "CredType": "fetched work has no credentials",
    "CredTypes": "fetched work has no credentials",
    "SecurityContext": "the database's roles decide what a program may do",
    "RemoteParam": "settings are in the database; see the command db setting",
    "DAGMan": "fetched work has no DAGs",
    "dags": "fetched work has no DAGs",
    "send_command": "there are no daemons to send a command to",
    "send_alive": "there are no daemons to send a command to",
    "ping": "there are no daemons to send a command to",
    "DrainType": "see the command queues, which drains queues",
    "DrainTypes": "see the command queues, which drains queues",
}
__all__ = ["Schedd", "__version__", *_HOMES]  # noqa: PLE0604  # its keys are strings


def __getattr__(name: str) -> "Any":
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
