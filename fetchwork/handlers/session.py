"""A database as a host's process knows it: the connections, what ``hello`` told, and what was read before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

from fetchwork import __version__
from fetchwork.db import schema
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseUnavailable, SchemaMismatch
from fetchwork.matching.autoclusters import Autoclusters
from fetchwork.matching.positions import Positions
from fetchwork.matching.shares import Shares

#: effective priorities are asked for again after this long
SHARES_LIFE_S = 1.0


@dataclass(frozen=True, slots=True)
class Greeting:
    """The answer to ``hello``."""

    host_id: int
    lease_s: float
    max_ad_bytes: int
    schema_version: int
    kept: frozenset[str]


class HostSession:
    """One database. ``agent_id`` is None in direct mode, which holds no lease for its host."""

    def __init__(
        self,
        name: str,
        database: AsyncDatabase,
        host: str,
        *,
        agent_id: str | None = None,
        lease_s: float | None = None,
    ) -> None:
        self.name = name
        self.database = database
        self.host = host
        self.agent_id = agent_id
        self.autoclusters = Autoclusters()
        self.positions = Positions()
        self.shares = Shares()
        self._wanted_lease_s = lease_s
        self._greeting: Greeting | None = None
        self._greeting_lock = asyncio.Lock()
        #: monotonic time until which the database counts this agent as alive
        self.lease_until = float("inf")

    def __repr__(self) -> str:
        return f"<session {self.name}>"

    @property
    def greeting(self) -> Greeting | None:
        """What the database said to ``hello``, None before."""
        return self._greeting

    async def hello(self, timeout_s: float) -> Greeting:
        """Make this host known, once; raises SchemaMismatch for a database that speaks otherwise."""
        if self._greeting is not None:
            return self._greeting
        try:
            async with asyncio.timeout(timeout_s + 0.5), self._greeting_lock:
                return self._greeting or await self.say_hello(timeout_s)
        except TimeoutError:
            raise DatabaseUnavailable("database does not answer") from None

    async def say_hello(self, timeout_s: float) -> Greeting:
        """Make this host known now, as an agent that has just come or come back."""
        asked_at = time.monotonic()
        row = (
            await self.database.call(
                "hello",
                timeout_s=timeout_s,
                host=self.host,
                agent_version=__version__ if self.agent_id else None,
                agent_id=self.agent_id,
                wanted_lease_s=self._wanted_lease_s,
            )
        )[0]
        if row["schema_version"] < schema.latest():
            raise SchemaMismatch(
                f"database '{self.name}' has schema {row['schema_version']}, this fetchwork needs"
                f" {schema.latest()}: run 'fetchwork db upgrade'"
            )
        kept = await self.database.query(
            "SELECT key FROM fetchwork.attribute WHERE rule = 'kept'", timeout_s=timeout_s
        )
        self._greeting = Greeting(
            row["host_id"],
            row["lease_s"],
            row["max_ad_bytes"],
            row["schema_version"],
            frozenset(attribute["key"] for attribute in kept),
        )
        self.renewed(asked_at)
        return self._greeting

    def renewed(self, asked_at: float) -> None:
        """The database has renewed the host's lease in answer to a call made at ``asked_at``."""
        if self._greeting is not None and self.agent_id is not None:
            self.lease_until = asked_at + self._greeting.lease_s

    @property
    def cut_off(self) -> bool:
        """True if the database has been silent for so long that it may have given this host's runs away."""
        return time.monotonic() > self.lease_until

    async def read_autoclusters(self, ids: Iterable[int], timeout_s: float) -> None:
        """Read the autoclusters that are not known yet."""
        self.autoclusters.trim()
        missing = self.autoclusters.missing(ids)
        # a thousand at a time, so that no answer grows without bound
        for at in range(0, len(missing), 1000):
            self.autoclusters.add(
                await self.database.call("autocluster_ads", timeout_s=timeout_s, ids=missing[at : at + 1000])
            )

    async def read_shares(self, timeout_s: float) -> None:
        """Read the submitters' shares, if what is known is old."""
        now = time.monotonic()
        if now - self.shares.asked_at > SHARES_LIFE_S:
            # those who come meanwhile go on with the old figures
            self.shares.asked_at = now
            self.shares.update(await self.database.call("shares", timeout_s=timeout_s), now)
