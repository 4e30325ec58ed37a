"""A host's session with one database: the connections, the answer to ``hello``, and what was read before."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping

from fetchwork import __version__
from fetchwork.db import schema
from fetchwork.db.calls import hosts, matching
from fetchwork.db.calls.hosts import Greeting
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseUnavailable, HostTaken, NotFound, SchemaMismatch
from fetchwork.handlers.host.chainreports import ChainReports
from fetchwork.handlers.host.chains import COMPARED
from fetchwork.handlers.host.reports import RunReports
from fetchwork.handlers.host.unprintable import Unprintable
from fetchwork.log import event
from fetchwork.matching.autoclusters import Autoclusters
from fetchwork.matching.choose import Orders
from fetchwork.matching.demand import Demand
from fetchwork.matching.positions import Positions
from fetchwork.matching.shares import Shares
from fetchwork.matching.slotmemory import SlotMemory
from fetchwork.matchmaker.client import Matchmaker

log = logging.getLogger(__name__)

#: effective priorities are read again after this long
SHARES_LIFE_S = 1.0
#: autoclusters in one answer, to bound its size
AUTOCLUSTERS_A_CALL = 1000


class HostSession:
    """A host's session with one database; ``agent_id`` is the host's agent."""

    def __init__(
        self,
        name: str,
        database: AsyncDatabase,
        host: str,
        *,
        agent_id: str,
        lease_s: float | None = None,
    ) -> None:
        self.name = name
        self.database = database
        self.host = host
        self.agent_id = agent_id
        #: for people: where the agent runs
        self.location: str | None = None
        #: the ids of earlier agents that are known to be dead
        self.replaces: list[str] = []
        #: whether the agent may stop jobs and let them go on
        self.signals_jobs = False
        #: connections for the lease alone, so that other calls can't delay its renewal
        self.lease_database = database.another()
        #: why another agent's lease keeps this agent from its host
        self.taken: str | None = None
        #: hooks' reports of runs
        self.reports = RunReports(database)
        #: the autoclusters with jobs that wait for this host's slots
        self.demand = Demand()
        self.autoclusters = Autoclusters()
        self.positions = Positions()
        #: requests of chains' runners
        self.chains = ChainReports(database, COMPARED, self.positions.hint, self.positions.took)
        self.orders = Orders()
        self.slots = SlotMemory()
        self.shares = Shares()
        #: the database knows the slots of this agent, so quotas of groups count them
        self.slots_are_known = False
        self._slots_are_counted = False
        #: set while a slot waits for that
        self.wants_slots_known = asyncio.Event()
        #: autoclusters and owners whose jobs could not be printed
        self.unprintable = Unprintable()
        #: evaluates users' expressions
        self.matchmaker = Matchmaker()
        #: attributes (in lower case) that stay in the database, for matching and policy
        self.kept: frozenset[str] = frozenset()
        #: a claim got no answer: the database may have runs of which this host knows nothing
        self.has_unheard_claim = False
        self._wanted_lease_s = lease_s
        self._greeting: Greeting | None = None
        self._greeting_lock = asyncio.Lock()
        #: monotonic time until which the database counts this agent as alive
        self.lease_until = float("inf")

    def __repr__(self) -> str:
        return f"<session with database {self.name}>"

    async def close(self) -> None:
        """End the matchmaker and close the connections; calls in flight fail."""
        await self.matchmaker.close()
        await self.reports.close()
        await self.chains.close()
        await self.lease_database.close()
        await self.database.close()

    @property
    def greeting(self) -> Greeting | None:
        """The database's answer to ``hello``, None before."""
        return self._greeting

    async def hello(self, timeout_s: float) -> Greeting:
        """Register this host, once; raises SchemaMismatch for a database of an earlier schema."""
        if self._greeting is not None:
            return self._greeting
        if self.taken is not None:
            # the task that keeps the lease asks again
            raise HostTaken(self.taken)
        try:
            async with asyncio.timeout(timeout_s + 0.5), self._greeting_lock:
                return self._greeting or await self.say_hello(timeout_s)
        except TimeoutError:
            raise DatabaseUnavailable("database does not answer") from None

    async def say_hello(self, timeout_s: float) -> Greeting:
        """Register this host now, as a new agent or one that lost its registration does."""
        asked_at = time.monotonic()
        try:
            greeting = await self.lease_database.run(
                hosts.hello(
                    host=self.host,
                    agent_version=__version__,
                    agent_id=self.agent_id,
                    wanted_lease_s=self._wanted_lease_s,
                    location=self.location,
                    replaces=self.replaces,
                    signals_jobs=self.signals_jobs,
                ),
                timeout_s=timeout_s,
            )
        except HostTaken as error:
            self.lose_host(error)
            raise
        self.taken = None
        if greeting.schema_version < schema.latest():
            raise SchemaMismatch(
                f"database '{self.name}' has schema {greeting.schema_version}, this fetchwork needs"
                f" {schema.latest()}: run 'fetchwork db upgrade'"
            )
        kept = await self.lease_database.query(
            "SELECT key FROM fetchwork.attribute WHERE rule = 'kept'", timeout_s=timeout_s
        )
        self.kept = frozenset(attribute["key"] for attribute in kept)
        self._greeting = greeting
        self.renewed(asked_at)
        self.demand.forget()
        self.slots.forget()
        return greeting

    async def beat(self, alive: Mapping[int, str], timeout_s: float) -> list[hosts.RunOrder]:
        """Renew the lease; return what to do with runs. ``alive`` has the token of each live run."""
        greeting = await self.hello(timeout_s)
        asked_at = time.monotonic()
        try:
            orders = await self.lease_database.run(
                hosts.beat(
                    host_id=greeting.host_id,
                    alive=list(alive),
                    tokens=list(alive.values()),
                    agent_id=self.agent_id,
                ),
                timeout_s=timeout_s,
            )
        except HostTaken as error:
            self.lose_host(error)
            raise
        except NotFound:
            # the database forgets a host after a month of silence: the next beat says hello
            self._greeting = None
            raise
        self.renewed(asked_at)
        return orders

    def lose_host(self, why: HostTaken) -> None:
        """Note that another agent has the host; nothing is fetched until that agent has gone."""
        self._greeting = None
        if self.taken is None:
            event(log, logging.ERROR, "host_taken", database=self.name, problem=why)
        self.taken = str(why)

    def renewed(self, asked_at: float) -> None:
        """Note that the database renewed the host's lease, in a call made at ``asked_at``."""
        if self._greeting is not None:
            self.lease_until = asked_at + self._greeting.lease_s

    @property
    def cut_off(self) -> bool:
        """Whether the lease is over, so that the database may have given this host's runs away."""
        return time.monotonic() > self.lease_until

    async def slot_is_free(self, slot: str, timeout_s: float) -> None:
        """End the runs that the database still has on a slot that is free and asks for work."""
        greeting = await self.hello(timeout_s)
        # whether the startd accepted them decides how they end
        await self.reports.write_accepts()
        await self.database.run(hosts.slot_is_free(host_id=greeting.host_id, slot=slot), timeout_s=timeout_s)

    async def host_runs(self, timeout_s: float) -> list[hosts.HostRun]:
        """Return the live runs of this host in the database."""
        greeting = await self.hello(timeout_s)
        return await self.database.run(hosts.host_runs(host_id=greeting.host_id), timeout_s=timeout_s)

    async def read_demand(self, queues: Iterable[str], timeout_s: float) -> None:
        """Read the demand of these queues, if the demand read before may be outdated."""
        greeting = await self.hello(timeout_s)
        since = self.demand.since(queues, time.monotonic())
        if since is None:
            return
        reading = self.demand.begin_reading(time.monotonic())
        row = None
        try:
            row = await self.database.run(
                matching.read_demand(host_id=greeting.host_id, queues=self.demand.queues, since=since),
                timeout_s=timeout_s,
            )
        finally:
            self.demand.end_reading(reading, row, time.monotonic())

    async def read_autoclusters(self, ids: Iterable[int], timeout_s: float) -> None:
        """Read the ads of autoclusters that are not known yet."""
        self.autoclusters.trim()
        missing = self.autoclusters.missing(ids)
        for first in range(0, len(missing), AUTOCLUSTERS_A_CALL):
            page = missing[first : first + AUTOCLUSTERS_A_CALL]
            self.autoclusters.add(
                await self.database.run(matching.autocluster_ads(ids=page), timeout_s=timeout_s)
            )

    async def report_faults(self, faults: Mapping[int, str], timeout_s: float) -> None:
        """Exclude these autoclusters on this host; their jobs are held once two hosts report the same."""
        greeting = await self.hello(timeout_s)
        await self.database.run(
            matching.report_faults(
                host_id=greeting.host_id, autoclusters=list(faults), reasons=list(faults.values())
            ),
            timeout_s=timeout_s,
        )
        # the demand read before still has them
        self.demand.forget()

    async def read_shares(self, timeout_s: float) -> None:
        """Read the submitters' shares, if the last ones are old."""
        now = time.monotonic()
        new_slots = self.slots_are_known and not self._slots_are_counted and self.shares.dues is not None
        if now - self.shares.asked_at > SHARES_LIFE_S or new_slots:
            # calls that come meanwhile go on with the old figures
            self.shares.asked_at = now
            shares = await self.database.run(matching.shares(), timeout_s=timeout_s)
            groups, host = [], 0
            if any(share.accounting_group is not None for share in shares):
                anew = self.slots_are_known and not self._slots_are_counted
                host = (await self.hello(timeout_s)).host_id
                asked = matching.read_groups(host_id=host, anew=anew)
                groups = await self.database.run(asked, timeout_s=timeout_s)
                self._slots_are_counted |= anew
            self.shares.update(shares, now, groups, host)
