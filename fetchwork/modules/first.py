"""``htcondor``, the first version of the bindings, over the queue: its ads, enums and exceptions."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, SupportsInt, TypeVar

from fetchwork.classad import bindings
from fetchwork.classad.jsonform import to_json
from fetchwork.classad.values import ClassAd
from fetchwork.modules.common import Ad, ping_ad, raising, replaced, said, startd, with_time
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


def _expression(value: object) -> str | bool | None:
    return value if value is None or isinstance(value, str | bool) else str(value)


def _spec(jobs: object) -> JobSpec:
    return jobs if isinstance(jobs, str | int | list | tuple) else str(jobs)


class Series:
    """HTCondor's module, and what makes its ads of the queue's."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.make = module.classad.ClassAd
        self.failed: type[Exception] = module.HTCondorIOError

    def ad(self, ad: ClassAd) -> Ad:
        """Return an ad of the first version."""
        made: Ad = self.make(repr(ad))
        return made


class Transaction:
    """The object that ``Schedd.transaction`` gives to ``Submit.queue``; each cluster commits by itself."""

    def __init__(self, submit: Callable[..., SubmitResult], query: Callable[[str], list[object]]) -> None:
        #: the Schedd's methods
        self.submit, self.query = submit, query

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Schedd:
    """``htcondor.Schedd``: the queue."""

    _series: ClassVar[Series]

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
        described: Any = (
            ClassAd(repr(description)) if isinstance(description, self._series.make) else description
        )
        with raising(self._series.failed):
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
        procs = [{**common, **to_json(ClassAd(repr(ad)))} for ad, number in proc_ads for _ in range(number)]
        with raising(self._series.failed):
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
        with raising(self._series.failed):
            ads = [
                self._series.ad(ad)
                for ad in self._queue.xquery(
                    _expression(constraint), with_time(projection, int(opts)), limit, int(opts)
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
        asked = _expression(constraint if requirements is None else requirements)
        with raising(self._series.failed):
            names = with_time(projection, int(opts))
            yield from map(self._series.ad, self._queue.xquery(asked, names, limit, int(opts)))

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
        with raising(self._series.failed):
            found = read(_expression(constraint), projection, match, None if since is None else _spec(since))
        return map(self._series.ad, found)

    def act(self, action: object, job_spec: object, reason: str | tuple[str, int] | None = None) -> Ad:
        text, subcode = said(reason)
        with raising(self._series.failed):
            asked = _named(bindings.JobAction, action)
            return self._series.ad(self._queue.act(asked, _spec(job_spec), text, subcode))

    def edit(self, job_spec: object, attr: str, value: object, flags: int = 0) -> int:
        text = value if isinstance(value, str | int | float) else str(value)
        with raising(self._series.failed):
            return self._queue.edit(_spec(job_spec), attr, text)

    def retrieve(self, job_spec: object) -> None:
        with raising(self._series.failed):
            self._queue.retrieve(_spec(job_spec))

    def reschedule(self) -> None:
        with raising(self._series.failed):
            self._queue.reschedule()


class Collector:
    """``htcondor.Collector``: the queue as a schedd, hosts and slots as startds."""

    _series: ClassVar[Series]

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
        asked = "true" if constraint in (True, "") else _expression(constraint)
        with raising(self._series.failed):
            return [self._series.ad(ad) for ad in self._collector.query(wanted, asked, projection)]

    def locate(self, daemon_type: object, name: str | None = None) -> Ad:
        with raising(self._series.module.HTCondorLocateError):
            return self._series.ad(self._collector.locate(_named(bindings.DaemonType, daemon_type), name))

    def locateAll(self, daemon_type: object) -> list[Ad]:  # noqa: N802 - HTCondor's name
        with raising(self._series.failed):
            return [
                self._series.ad(ad)
                for ad in self._collector.locateAll(_named(bindings.DaemonType, daemon_type))
            ]

    def directQuery(  # noqa: N802 - HTCondor's name
        self, daemon_type: object, name: str = "", projection: Sequence[str] = (), statistics: str = ""
    ) -> Ad:
        with raising(self._series.module.HTCondorLocateError):
            asked = _named(bindings.DaemonType, daemon_type)
            return self._series.ad(self._collector.directQuery(asked, name or None, projection))

    def advertise(self, *_: object, **__: object) -> None:
        raise self._series.module.HTCondorException(
            "agents report their slots themselves; nothing else can be advertised"
        )


class SecMan:
    """``htcondor.SecMan``, as far as programs use it to check their authorization."""

    _series: ClassVar[Series]

    def __enter__(self) -> SecMan:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ping(self, *_: object) -> Ad:
        return ping_ad(self._series.make)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("set"):
            # it sets properties of connections to daemons, which a queue does not have
            return lambda *_: None
        raise self._series.module.HTCondorException(
            f"htcondor.SecMan.{name} has no meaning in a fetchwork queue: there are no daemons"
        )


def _submit(module: ModuleType) -> type:
    """Return ``htcondor.Submit``, whose ``queue`` puts jobs into the queue."""

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

    return Submit


def classes(module: ModuleType) -> dict[str, object]:
    """Return the names in ``htcondor`` that replace HTCondor's own."""
    series = Series(module)
    own = {
        one.__name__: type(one.__name__, (one,), {"__doc__": one.__doc__, "_series": series})
        for one in (Collector, Schedd, SecMan)
    }
    return {
        **own,
        "Startd": startd(module, lambda: own["Collector"]().locate(module.DaemonTypes.Startd)),
        "Submit": _submit(module),
        "Transaction": Transaction,
        **replaced(module, own["Schedd"], series.ad),
    }
