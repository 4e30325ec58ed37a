"""``htcondor``, the first version of the bindings, over the queue: its ads, enums and exceptions."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, SupportsInt, TypeVar

from fetchwork.classad import bindings
from fetchwork.classad.jsonform import to_json
from fetchwork.classad.values import ClassAd
from fetchwork.modules.common import (
    NO_DAEMON,
    Ad,
    absent,
    keeps_logs,
    of_daemons,
    ping_ad,
    raising,
    refuse_others,
    refusing,
    said,
    startd,
    with_time,
)
from fetchwork.queue.collector import Collector as QueueCollector
from fetchwork.queue.synchronous import Queue

if TYPE_CHECKING:
    from fetchwork.queue.reading.selecting import JobSpec
    from fetchwork.queue.submitting.submission import SubmitResult

Named = TypeVar("Named")


def _named(enum: type[Named], value: object) -> Named:
    """Return the second version's enum value with the name of the first version's."""
    found: Named = getattr(enum, getattr(value, "name", None) or str(value).rpartition(".")[2])
    return found


class Transaction:
    """The object that ``Schedd.transaction`` gives to ``Submit.queue``; each cluster commits by itself."""

    def __init__(self, submit: Callable[..., SubmitResult], query: Callable[[str], list[object]]) -> None:
        #: the Schedd's methods
        self.submit, self.query = submit, query

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def classes(module: ModuleType) -> dict[str, object]:
    """Return the names in ``htcondor`` that replace HTCondor's own."""
    make = module.classad.ClassAd
    failed = module.HTCondorIOError

    def first(ad: ClassAd) -> Ad:
        made: Ad = make(repr(ad))
        return made

    def expression(value: object) -> str | bool | None:
        return value if value is None or isinstance(value, str | bool) else str(value)

    def spec(jobs: object) -> JobSpec:
        return jobs if isinstance(jobs, str | int | list | tuple) else str(jobs)

    class Submit(module.Submit):  # type: ignore[misc, name-defined]
        """``htcondor.Submit``, whose ``queue`` puts jobs into the queue."""

        def queue(self, txn: Transaction, count: int = 0, ad_results: list[object] | None = None) -> int:
            result = txn.submit(self, count=count)
            if ad_results is not None:
                constraint = f"ClusterId == {result.cluster()}"
                ad_results += txn.query(constraint)
            return int(result.cluster())

        def queue_with_itemdata(
            self,
            txn: Transaction,
            count: int = 1,
            itemdata: Iterable[str | Mapping[str, str]] | None = None,
            spool: bool = False,
        ) -> SubmitResult:
            return txn.submit(self, count=count, itemdata=itemdata, spool=spool)

    class Schedd:
        """``htcondor.Schedd``: the queue."""

        def __init__(self, location_ad: object = None) -> None:
            self._queue = Queue()

        def submit(
            self,
            description: object,
            count: int = 0,
            spool: bool = False,
            ad_results: list[object] | None = None,
            itemdata: Iterable[str | Mapping[str, str]] | None = None,
        ) -> SubmitResult:
            described: Any = ClassAd(repr(description)) if isinstance(description, make) else description
            with raising(failed):
                result = self._queue.submit(described, count, spool, itemdata)
            if ad_results is not None:
                ad_results += self.query(f"ClusterId == {result.cluster()}")
            return result

        def submitMany(  # noqa: N802 - HTCondor's name
            self,
            cluster_ad: object,
            proc_ads: Sequence[tuple[object, int]],
            spool: bool = False,
            ad_results: list[object] | None = None,
        ) -> int:
            common = {"Owner": getpass.getuser(), **to_json(ClassAd(repr(cluster_ad)))}
            procs = [
                {**common, **to_json(ClassAd(repr(ad)))} for ad, number in proc_ads for _ in range(number)
            ]
            with raising(failed):
                made = self._queue.submit(procs, spool=spool).cluster()
            if ad_results is not None:
                ad_results += self.query(f"ClusterId == {made}")
            return int(made)

        @contextlib.contextmanager
        def transaction(self, flags: int = 0, continue_txn: bool = False) -> Iterator[Transaction]:
            yield Transaction(self.submit, self.query)

        def query(
            self,
            constraint: object = "true",
            projection: Sequence[str] = (),
            callback: Callable[[Ad], object] | None = None,
            limit: int = -1,
            opts: SupportsInt = 0,
        ) -> list[object]:
            with raising(failed):
                ads = [
                    first(ad)
                    for ad in self._queue.xquery(
                        expression(constraint), with_time(projection, int(opts)), limit, int(opts)
                    )
                ]
            if callback is None:
                return [*ads]
            return [made for ad in ads if (made := callback(ad)) is not None]

        def xquery(
            self,
            constraint: object = "true",
            projection: Sequence[str] = (),
            limit: int = -1,
            opts: SupportsInt = 0,
            name: str | None = None,
            *,
            requirements: object = None,
        ) -> Iterator[Ad]:
            asked = expression(constraint if requirements is None else requirements)
            with raising(failed):
                names = with_time(projection, int(opts))
                yield from map(first, self._queue.xquery(asked, names, limit, int(opts)))

        def history(
            self,
            constraint: object = None,
            projection: Sequence[str] = (),
            match: int = -1,
            since: object = None,
        ) -> Iterator[Ad]:
            return self._ended(self._queue.history, constraint, projection, match, since)

        def jobEpochHistory(
            self,
            constraint: object = None,
            projection: Sequence[str] = (),
            match: int = -1,
            since: object = None,
        ) -> Iterator[Ad]:
            return self._ended(self._queue.jobEpochHistory, constraint, projection, match, since)

        def _ended(
            self,
            read: Callable[..., Iterable[ClassAd]],
            constraint: object,
            projection: Sequence[str],
            match: int,
            since: object,
        ) -> Iterator[Ad]:
            with raising(failed):
                found = read(
                    expression(constraint), projection, match, None if since is None else spec(since)
                )
            return map(first, found)

        def act(self, action: object, job_spec: object, reason: str | tuple[str, int] | None = None) -> Ad:
            text, subcode = said(reason)
            with raising(failed):
                asked = _named(bindings.JobAction, action)
                return first(self._queue.act(asked, spec(job_spec), text, subcode))

        def edit(self, job_spec: object, attr: str, value: object, flags: int = 0) -> int:
            text = value if isinstance(value, str | int | float) else str(value)
            with raising(failed):
                return self._queue.edit(spec(job_spec), attr, text)

        def retrieve(self, job_spec: object) -> None:
            with raising(failed):
                self._queue.retrieve(spec(job_spec))

        def reschedule(self) -> None:
            with raising(failed):
                self._queue.reschedule()

    refuse_others(module, "Schedd", Schedd)

    class Collector:
        """``htcondor.Collector``: the queue as a schedd, hosts and slots as startds."""

        def __init__(self, pool: object = None) -> None:
            self._collector = QueueCollector(None)

        def query(
            self,
            ad_type: object = None,
            constraint: object = True,
            projection: Sequence[str] = (),
            statistics: str | None = None,
        ) -> list[Ad]:
            wanted = bindings.AdType.Any if ad_type is None else _named(bindings.AdType, ad_type)
            asked = "true" if constraint in (True, "") else expression(constraint)
            with raising(failed):
                return [first(ad) for ad in self._collector.query(wanted, asked, projection)]

        def locate(self, daemon_type: object, name: str | None = None) -> Ad:
            with raising(module.HTCondorLocateError):
                return first(self._collector.locate(_named(bindings.DaemonType, daemon_type), name))

        def locateAll(self, daemon_type: object) -> list[Ad]:  # noqa: N802 - HTCondor's name
            with raising(failed):
                return [
                    first(ad) for ad in self._collector.locateAll(_named(bindings.DaemonType, daemon_type))
                ]

        def directQuery(  # noqa: N802 - HTCondor's name
            self, daemon_type: object, name: str = "", projection: Sequence[str] = (), statistics: str = ""
        ) -> Ad:
            with raising(module.HTCondorLocateError):
                asked = _named(bindings.DaemonType, daemon_type)
                return first(self._collector.directQuery(asked, name or None, projection))

        def advertise(self, *_: object, **__: object) -> None:
            raise module.HTCondorException(
                "agents report their slots themselves; nothing else can be advertised"
            )

    class SecMan:
        """``htcondor.SecMan``, as far as programs use it to check their authorization."""

        def __enter__(self) -> SecMan:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def ping(self, *_: object) -> Ad:
            return ping_ad(make)

        def __getattr__(self, name: str) -> Callable[..., None]:
            if name.startswith("set"):
                # it sets properties of connections to daemons, which a queue does not have
                return lambda *_: None
            raise module.HTCondorException(
                f"htcondor.SecMan.{name} has no meaning in a fetchwork queue: there are no daemons"
            )

    found: dict[str, object] = {
        "Collector": Collector,
        "Schedd": Schedd,
        "SecMan": SecMan,
        "Submit": Submit,
        "Transaction": Transaction,
    }
    found["Startd"] = startd(module, lambda: Collector().locate(module.DaemonTypes.Startd))
    found.update(of_daemons(module, Queue, first))
    for name in ("send_command", "send_alive"):
        found[name] = refusing(module, name, "there are no daemons to send a command to")
    if not keeps_logs():
        from fetchwork.following.eventlog import JobEventLog

        found["JobEventLog"] = JobEventLog
    for name, reason in NO_DAEMON.items():
        if hasattr(module, name):
            found[name] = absent(module, name, reason)
    return found
