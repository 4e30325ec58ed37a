"""``Collector``: the queue's knowledge of its pool, with the methods of ``htcondor2.Collector``."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fetchwork.classad.bindings import AdType, DaemonType, QueryOpts
from fetchwork.classad.values import ClassAd
from fetchwork.client.link import names_database
from fetchwork.errors import DatabaseUnavailable, NotFound
from fetchwork.queue import databases
from fetchwork.queue.remote import CONNINFO
from fetchwork.queue.synchronous import Queue

if TYPE_CHECKING:
    from fetchwork.queue.reading.selecting import ConstraintSpec


class Collector:
    """The ads of slots, of submitters and of the queue itself, which takes the place of a schedd.

    ``pool`` is a connection string, as for ``Queue``. Without one, each database that FETCHWORK_DATABASES
    lists is a schedd with its name; slots and submitters are those of the first. There are no other daemons,
    so a query for their ads finds none.
    """

    def __init__(self, pool: str | ClassAd | None = None) -> None:
        self._queue = Queue(pool)
        self._conninfo = pool if isinstance(pool, str) else None

    def query(
        self,
        ad_type: AdType = AdType.Any,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        statistics: str | None = None,
    ) -> list[ClassAd]:
        """The ads of one type that a constraint selects; ``statistics`` is ignored: there is no such data."""
        found: list[ClassAd] = []
        if ad_type.name in ("Any", "Slot", "Startd", "StartdPrivate"):
            found += self._queue.slots(constraint, projection)
        if ad_type in (AdType.Any, AdType.Schedd):
            found += _selected(list(self._schedds()), constraint, projection)
        if ad_type in (AdType.Any, AdType.Submitter):
            found += self._queue.submitters(constraint, projection)
        return found

    def directQuery(  # noqa: N802
        self,
        daemon_type: DaemonType,
        name: str | None = None,
        projection: Sequence[str] = (),
        statistics: str | None = None,
    ) -> ClassAd:
        """The ad of the named daemon, by default the first. Raises NotFound if it does not exist."""
        ads = {
            DaemonType.Schedd: AdType.Schedd,
            DaemonType.Startd: AdType.Startd,
        }
        if daemon_type not in ads:
            raise NotFound(f"there is no {daemon_type.name} daemon; allowed: Schedd, Startd")
        for ad in self.query(ads[daemon_type]):
            if name is None or name in (ad.get("Name"), ad.get("Machine")):
                (projected,) = _selected([ad], None, projection)
                return projected
        raise NotFound(f"there is no {daemon_type.name} daemon {name or 'in the queue'}")

    def locate(self, daemon_type: DaemonType, name: str | None = None) -> ClassAd:
        """As ``directQuery``; ``Queue`` accepts the ad of the schedd."""
        return self.directQuery(daemon_type, name)

    def locateAll(self, daemon_type: DaemonType) -> list[ClassAd]:  # noqa: N802
        """The ads of all daemons of a type."""
        with contextlib.suppress(NotFound):
            self.directQuery(daemon_type)
            return self.query(AdType.Schedd if daemon_type == DaemonType.Schedd else AdType.Startd)
        return []

    def advertise(self, ad_list: Sequence[ClassAd], command: str = "", use_tcp: bool = True) -> None:
        """Refused: only agents report slots."""
        raise NotImplementedError("agents report their slots themselves; nothing else can be advertised")

    def _schedds(self) -> Iterator[ClassAd]:
        named = databases.known() if self._conninfo is None and not names_database() else []
        if not named:
            yield self._schedd(self._queue, f"fetchwork@{socket.getfqdn()}", self._conninfo)
        for database in named:
            # HTCondor's collector has no ad of a daemon that is down
            with contextlib.suppress(DatabaseUnavailable), Queue(database.conninfo) as queue:
                yield self._schedd(queue, database.name, database.conninfo)

    def _schedd(self, queue: Queue, name: str, conninfo: str | None) -> ClassAd:
        ad = ClassAd()
        (counts,) = queue.query(opts=_SUMMARY)
        ad.update(
            {
                "MyType": "Scheduler",
                "Name": name,
                "MyAddress": NO_ADDRESS,
                # by which 'htcondor ap status' judges a schedd's health
                "RecentDaemonCoreDutyCycle": 0.0,
                "Machine": socket.getfqdn(),
                "TotalIdleJobs": counts["Idle"],
                "TotalRunningJobs": counts["Running"],
                "TotalHeldJobs": counts["Held"],
                "TotalRemovedJobs": counts["Removed"],
            }
        )
        if conninfo is not None:
            ad[CONNINFO] = conninfo
        return ad


#: HTCondor's form of an address at which no daemon listens
NO_ADDRESS = "<0.0.0.0:0>"
_SUMMARY = int(QueryOpts.SummaryOnly)


def _selected(ads: list[ClassAd], constraint: ConstraintSpec, projection: Sequence[str]) -> list[ClassAd]:
    from fetchwork.classad.ads import parse_expr
    from fetchwork.classad.values import evaluate, truth
    from fetchwork.queue.constraints.constraint import text_of

    condition = parse_expr(text_of(constraint), only_here=True)
    found = [ad for ad in ads if truth(evaluate(ad, condition)) is True]
    wanted = {name.lower() for name in projection}
    if not wanted:
        return found
    cut: list[ClassAd] = []
    for ad in found:
        part = ClassAd()
        part.update({name: ad.lookup(name) for name in ad if name.lower() in wanted})
        cut.append(part)
    return cut
