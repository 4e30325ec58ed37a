"""``htcondor2`` over the queue."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fetchwork.classad.bindings import DaemonType
from fetchwork.classad.values import ClassAd
from fetchwork.errors import NotFound
from fetchwork.modules.common import ping_ad, replaced, said, startd, with_time
from fetchwork.queue.collector import Collector as QueueCollector
from fetchwork.queue.synchronous import Queue

if TYPE_CHECKING:
    from fetchwork.queue.reading.selecting import ConstraintSpec, JobSpec


class Collector(QueueCollector):
    """``htcondor2.Collector``: the queue as a schedd, hosts and slots as startds.

    ``pool`` would name an HTCondor collector, which does not exist here: the environment of this process, or
    the access point, names the queue.
    """

    def __init__(self, pool: object = None) -> None:
        super().__init__(None)

    def locate(self, daemon_type: DaemonType, name: str | None = None) -> Any:
        """The ad of the named daemon, by default the first; None if there is no daemon of that name."""
        try:
            return super().locate(daemon_type, name)
        except NotFound:
            if name is None:
                raise
            return None


def classes(module: ModuleType) -> dict[str, object]:
    """Return the names in ``htcondor2`` that replace HTCondor's own."""

    class Schedd(Queue):
        """``htcondor2.Schedd``: the queue."""

        def __init__(self, location: object = None) -> None:
            if location is not None and not isinstance(location, ClassAd):
                raise TypeError("location must be a ClassAd")
            super().__init__(location)

        def query(
            self,
            constraint: ConstraintSpec = "true",
            projection: Sequence[str] = (),
            callback: Any = None,
            limit: int = -1,
            opts: int = 0,
        ) -> Any:
            names = with_time(projection, int(opts))
            return super().query(constraint, names, callback=callback, limit=limit, opts=opts)

        def act(  # type: ignore[override]
            self, action: Any, job_spec: JobSpec, reason: str | tuple[str, int] | None = None
        ) -> ClassAd:
            text, subcode = said(reason)
            return super().act(action, job_spec, text, subcode)

    return {
        "Schedd": Schedd,
        "Collector": Collector,
        "Startd": startd(module, lambda: Collector().locate(DaemonType.Startd)),
        "ping": lambda *_, **__: ping_ad(ClassAd),
        **replaced(module, Schedd, lambda ad: ad),
    }
