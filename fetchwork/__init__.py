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
_HOMES = {
    "AsyncQueue": "fetchwork.queue",
    "JobAction": "fetchwork.classad.bindings",
    "JobEventLog": "fetchwork.following.eventlog",
    "JobEventType": "fetchwork.classad.bindings",
    "JobStatus": "fetchwork.classad.bindings",
    "PersonalPool": "fetchwork.pool",
    "QueryOpts": "fetchwork.classad.bindings",
    "Queue": "fetchwork.queue",
    "Submit": "fetchwork.classad.bindings",
}
__all__ = ["Schedd", "__version__", *_HOMES]  # noqa: PLE0604  # its keys are strings


def __getattr__(name: str) -> "Any":
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "Schedd":
        return __getattr__("Queue")
    raise AttributeError(f"module 'fetchwork' has no attribute {name!r}")
