"""fetchwork: a PostgreSQL job queue for HTCondor's fetch-work hooks.

The public names are imported on first use: the hooks import this package and must not pay for psycopg or
classad2.
"""

import sys

# not from typing, which would cost every hook 4 ms of CPU
TYPE_CHECKING = False
if TYPE_CHECKING:
    from fetchwork.classad.bindings import (
        AdType,
        DaemonType,
        HTCondorException,
        JobAction,
        JobEventType,
        QueryOpts,
        Submit,
    )
    from fetchwork.following.eventlog import JobEventLog
    from fetchwork.personal import PersonalPool
    from fetchwork.queue import AsyncQueue, Queue
    from fetchwork.queue.collector import Collector
    from fetchwork.queue.events.jobevents import JobEvent
    from fetchwork.queue.submitting.submission import SubmitResult

__all__ = [
    "AdType",
    "AsyncQueue",
    "Collector",
    "DaemonType",
    "HTCondorException",
    "JobAction",
    "JobEvent",
    "JobEventLog",
    "JobEventType",
    "PersonalPool",
    "QueryOpts",
    "Queue",
    "Submit",
    "SubmitResult",
    "__version__",
]
__version__ = "0.2.0"

# the modules of the public names that are not HTCondor's own
_HOMES = {
    "AsyncQueue": "fetchwork.queue",
    "Collector": "fetchwork.queue.collector",
    "JobEvent": "fetchwork.queue.events.jobevents",
    "JobEventLog": "fetchwork.following.eventlog",
    "PersonalPool": "fetchwork.personal",
    "Queue": "fetchwork.queue",
    "SubmitResult": "fetchwork.queue.submitting.submission",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'fetchwork' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "fetchwork.classad.bindings")), name)


# 'fetchwork env' puts its own htcondor2, a layer over the queue, first in the path. htcondor2 needs this
# package's modules whole, so it is imported before any of them; our own commands don't need it
if "htcondor2" not in sys.modules and any(entry.endswith("/fetchwork/modules") for entry in sys.path):
    if getattr(sys, "argv", [""])[0].endswith("/fetchwork"):
        sys.path = [entry for entry in sys.path if not entry.endswith("/fetchwork/modules")]
    else:
        import htcondor2  # noqa: F401
