"""``htcondor``, the first version of the bindings, over the queue: its ads, enums and exceptions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from fetchwork.classad import bindings
from fetchwork.classad.values import ClassAd
from fetchwork.modules.common import NO_DAEMON, NO_METHOD, absent, keeps_logs, ping_ad, raising, refusing
from fetchwork.queue.collector import Collector as QueueCollector
from fetchwork.queue.synchronous import Queue


def _named(enum: Any, value: object) -> Any:
    """A value of an enum of the second version, by its name in the first."""
    return getattr(enum, getattr(value, "name", None) or str(value).rpartition(".")[2])


class Transaction:
    """What ``Schedd.transaction`` gives to ``Submit.queue``; each cluster is committed by itself."""

    def __init__(self, schedd: Any) -> None:
        self.schedd = schedd

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def classes(module: ModuleType) -> dict[str, Any]:
    """What stands in ``htcondor`` in place of HTCondor's own."""
    make = module.classad.ClassAd
    failed = module.HTCondorIOError

    def first(ad: ClassAd) -> Any:
        return make(repr(ad))

    def expression(value: object) -> Any:
        return value if value is None or isinstance(value, str | bool) else str(value)

    def spec(jobs: Any) -> Any:
        return jobs if isinstance(jobs, str | int | list | tuple) else str(jobs)

    class Submit(module.Submit):  # type: ignore[misc, name-defined]
        """``htcondor.Submit``, whose ``queue`` puts jobs into the queue."""

        def queue(self, txn: Transaction, count: int = 0, ad_results: list[Any] | None = None) -> int:
            result = txn.schedd.submit(self, count=count)
            if ad_results is not None:
                constraint = f"ClusterId == {result.cluster()}"
                ad_results += txn.schedd.query(constraint)
            return int(result.cluster())

        def queue_with_itemdata(
            self, txn: Transaction, count: int = 1, itemdata: Iterable[Any] | None = None, spool: bool = False
        ) -> Any:
            return txn.schedd.submit(self, count=count, itemdata=itemdata, spool=spool)

    class Schedd:
        """``htcondor.Schedd``: the queue."""

        def __init__(self, location_ad: object = None) -> None:
            self._queue = Queue()

        def submit(
            self,
            description: Any,
            count: int = 0,
            spool: bool = False,
            ad_results: list[Any] | None = None,
            itemdata: Iterable[str | Mapping[str, str]] | None = None,
        ) -> Any:
            if isinstance(description, make):
                description = ClassAd(repr(description))
            with raising(failed):
                result = self._queue.submit(description, count, spool, itemdata)
            if ad_results is not None:
                ad_results += self.query(f"ClusterId == {result.cluster()}")
            return result

        @contextlib.contextmanager
        def transaction(self, flags: int = 0, continue_txn: bool = False) -> Iterator[Transaction]:
            yield Transaction(self)

        def query(
            self,
            constraint: Any = "true",
            projection: Sequence[str] = (),
            callback: Callable[[Any], Any] | None = None,
            limit: int = -1,
            opts: Any = 0,
        ) -> list[Any]:
            with raising(failed):
                ads = [
                    first(ad)
                    for ad in self._queue.xquery(expression(constraint), projection, limit, int(opts))
                ]
            if callback is None:
                return ads
            return [made for ad in ads if (made := callback(ad)) is not None]

        def xquery(
            self,
            constraint: Any = "true",
            projection: Sequence[str] = (),
            limit: int = -1,
            opts: Any = 0,
            name: str | None = None,
            *,
            requirements: Any = None,
        ) -> Iterator[Any]:
            asked = expression(constraint if requirements is None else requirements)
            with raising(failed):
                yield from map(first, self._queue.xquery(asked, projection, limit, int(opts)))

        def history(
            self, constraint: Any = None, projection: Sequence[str] = (), match: int = -1, since: Any = None
        ) -> Iterator[Any]:
            with raising(failed):
                found = self._queue.history(
                    expression(constraint), projection, match, None if since is None else spec(since)
                )
            return map(first, found)

        def jobEpochHistory(
            self, constraint: Any = None, projection: Sequence[str] = (), match: int = -1, since: Any = None
        ) -> Iterator[Any]:
            with raising(failed):
                found = self._queue.jobEpochHistory(
                    expression(constraint), projection, match, None if since is None else spec(since)
                )
            return map(first, found)

        def act(self, action: Any, job_spec: Any, reason: str | None = None) -> Any:
            with raising(failed):
                return first(self._queue.act(_named(bindings.JobAction, action), spec(job_spec), reason))

        def edit(self, job_spec: Any, attr: str, value: Any, flags: int = 0) -> Any:
            text = value if isinstance(value, str | int | float) else str(value)
            with raising(failed):
                return self._queue.edit(spec(job_spec), attr, text)

        def reschedule(self) -> None:
            with raising(failed):
                self._queue.reschedule()

    for name, reason in NO_METHOD.items():
        if hasattr(module.Schedd, name):
            setattr(Schedd, name, refusing(module, f"Schedd.{name}", reason))

    class Collector:
        """``htcondor.Collector``: the queue as a schedd, hosts and slots as startds."""

        def __init__(self, pool: object = None) -> None:
            self._collector = QueueCollector(None)

        def query(
            self,
            ad_type: Any = None,
            constraint: Any = True,
            projection: Sequence[str] = (),
            statistics: str | None = None,
        ) -> list[Any]:
            wanted = bindings.AdType.Any if ad_type is None else _named(bindings.AdType, ad_type)
            asked = "true" if constraint in (True, "") else expression(constraint)
            with raising(failed):
                return [first(ad) for ad in self._collector.query(wanted, asked, projection)]

        def locate(self, daemon_type: Any, name: str | None = None) -> Any:
            with raising(module.HTCondorLocateError):
                return first(self._collector.locate(_named(bindings.DaemonType, daemon_type), name))

        def locateAll(self, daemon_type: Any) -> list[Any]:  # noqa: N802 - HTCondor's name
            with raising(failed):
                return [
                    first(ad) for ad in self._collector.locateAll(_named(bindings.DaemonType, daemon_type))
                ]

        def directQuery(  # noqa: N802 - HTCondor's name
            self, daemon_type: Any, name: str = "", projection: Sequence[str] = (), statistics: str = ""
        ) -> Any:
            with raising(module.HTCondorLocateError):
                asked = _named(bindings.DaemonType, daemon_type)
                return first(self._collector.directQuery(asked, name or None, projection))

        def advertise(self, *_: object, **__: object) -> None:
            raise module.HTCondorException(
                "agents report their slots themselves; nothing else can be advertised"
            )

    class SecMan:
        """``htcondor.SecMan``, as far as programs ask whether they may."""

        def __enter__(self) -> SecMan:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def ping(self, *_: object) -> Any:
            return ping_ad(make)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("set"):
                # what it sets is about daemons, of which there are none
                return lambda *_: None
            raise module.HTCondorException(
                f"htcondor.SecMan.{name} has no meaning in a fetchwork queue: there are no daemons"
            )

    found: dict[str, Any] = {
        "Collector": Collector,
        "Schedd": Schedd,
        "SecMan": SecMan,
        "Submit": Submit,
        "Transaction": Transaction,
    }
    for name in ("send_command", "send_alive"):
        found[name] = refusing(module, name, "there are no daemons to send a command to")
    if not keeps_logs():
        from fetchwork.following.eventlog import JobEventLog

        found["JobEventLog"] = JobEventLog
    for name, reason in NO_DAEMON.items():
        if hasattr(module, name):
            found[name] = absent(module, name, reason)
    return found
