"""Seals credentials to the keys of joined hosts, for the runs that these were given.

Only an agent with the pool's private key can: one that shares the agents' password, or one whose host was
invited as trusted. One agent at a time does it for the pool, as a leader task; the others ask now and then
whether it still does. It looks for wanted copies at a short interval, because jobs wait for them to start.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time

from fetchwork import leadertasks
from fetchwork.db.calls import credentials
from fetchwork.handlers.host.hostcredentials import DATABASE_S, HostCredentials
from fetchwork.log import event

log = logging.getLogger(__name__)

#: seconds between two looks for copies that are wanted
SEAL_S = 0.5
#: seconds for which an agent has the task; another one asks for it at the second interval times the agents
TAKE_S = 10.0
ASK_EACH_S = 2.0
LONGEST_ASK_S = 60.0
#: copies that are sealed before the database is told
MOST = 100


class CredentialSealer:
    """The sealing for one database; ``host`` has the file of the pool's keys."""

    def __init__(self, host: HostCredentials) -> None:
        self._host = host
        self._seals = False
        #: monotonic time at which it asks for the task again
        self._take_at = 0.0

    async def look(self) -> None:
        """Seal the copies that are wanted, if the task is this agent's; raises DatabaseUnavailable."""
        session = self._host.session
        if session.greeting is None or not self._host.has_pool_key():
            self._seals = False
            return
        if time.monotonic() >= self._take_at:
            self._seals = await leadertasks.take(session.database, "seal", TAKE_S)
            pause_s = TAKE_S
            if not self._seals:
                pause_s = min(LONGEST_ASK_S, max(TAKE_S, ASK_EACH_S * session.demand.agents))
                pause_s *= random.uniform(0.7, 1.3)  # noqa: S311
            # from the answer on: the database counts from before it
            self._take_at = time.monotonic() + pause_s
        while self._seals and await self._seal() == MOST:
            pass

    async def _seal(self) -> int:
        """Seal some copies; return how many were wanted."""
        database = self._host.session.database
        call = credentials.credentials_to_seal(most=MOST)
        # not repeated: a second call would find them taken, and they come again
        wanted = await database.run(call, timeout_s=DATABASE_S, again=False)
        for copy, sealed in await asyncio.to_thread(self._sealed, wanted):
            stored = await database.run(
                credentials.put_host_credential(
                    host_id=copy.host_id,
                    public_key=copy.public_key,
                    owner=copy.owner,
                    name=copy.name,
                    version=copy.version,
                    sealed=sealed,
                ),
                timeout_s=DATABASE_S,
            )
            if stored:
                self._log(copy, logging.INFO, "credential_sealed")
        return len(wanted)

    def _sealed(self, wanted: list[credentials.WantedCopy]) -> list[tuple[credentials.WantedCopy, bytes]]:
        sealed = []
        for copy in wanted:
            try:
                sealed.append((copy, self._host.sealed_for(copy)))
            except Exception as error:
                # a host may register a key to which nothing can be sealed; the others are not to wait for it
                self._log(copy, logging.WARNING, "credential_not_sealed", str(error) or type(error).__name__)
        return sealed

    def _log(self, copy: credentials.WantedCopy, level: int, name: str, problem: str | None = None) -> None:
        # the host decides how often it asks
        of = {"host": copy.host_id, "owner": copy.owner, "credential": copy.name}
        event(log, level, name, person=copy.host_id, problem=problem, **of)
