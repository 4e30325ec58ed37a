"""``htcondor2`` over the queue."""

from __future__ import annotations

from types import ModuleType

from fetchwork.classad.values import ClassAd
from fetchwork.modules.common import (
    NO_DAEMON,
    NO_METHOD,
    absent,
    keeps_logs,
    of_daemons,
    ping_ad,
    refusing,
)
from fetchwork.queue.collector import Collector as QueueCollector
from fetchwork.queue.synchronous import Queue


class Collector(QueueCollector):
    """``htcondor2.Collector``: the queue as a schedd, hosts and slots as startds.

    ``pool`` would name an HTCondor collector, which does not exist here: the environment of this process, or
    the access point, names the queue.
    """

    def __init__(self, pool: object = None) -> None:
        super().__init__(None)


def classes(module: ModuleType) -> dict[str, object]:
    """Return the names in ``htcondor2`` that replace HTCondor's own."""

    class Schedd(Queue):
        """``htcondor2.Schedd``: the queue."""

        def __init__(self, location: object = None) -> None:
            super().__init__(location if isinstance(location, ClassAd) else None)

    for name, reason in NO_METHOD.items():
        if hasattr(module.Schedd, name):
            setattr(Schedd, name, refusing(module, f"Schedd.{name}", reason))
    found: dict[str, object] = {"Schedd": Schedd, "Collector": Collector}
    found.update(of_daemons(module, Queue, lambda ad: ad))
    found["ping"] = lambda *_, **__: ping_ad(ClassAd)
    for name in ("send_command", "send_alive"):
        found[name] = refusing(module, name, "there are no daemons to send a command to")
    if not keeps_logs():
        from fetchwork.following.eventlog import JobEventLog

        found["JobEventLog"] = JobEventLog
    for name, reason in NO_DAEMON.items():
        if hasattr(module, name):
            found[name] = absent(module, name, reason)
    return found
