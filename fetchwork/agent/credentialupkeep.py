"""Keeps the credentials of running jobs valid: writes new and renewed versions into the jobs' directories.

The database knows the versions of each run and their directory (``note_credentials``), so an agent that
starts later goes on. An owner's slow issuer or file system delays only that owner's runs.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path

from fetchwork.agent.credentialsealer import SEAL_S, CredentialSealer
from fetchwork.agent.periodic import every
from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.db.calls import credentials
from fetchwork.errors import CredentialError, DatabaseUnavailable, SchemaMismatch
from fetchwork.handlers.host import accounts
from fetchwork.handlers.host.hostcredentials import DATABASE_S, EARLY_S, HostCredentials, Opened
from fetchwork.log import event

log = logging.getLogger(__name__)

#: seconds between two looks whether something is due
LOOK_S = 1.0
#: HTCondor's own starter checks every 300 s (SEC_CREDENTIAL_REFRESH)
ROUND_S = 60.0
#: seconds after a run's start in which its PREPARE_JOB may still be writing
SETTLED_S = 30.0
#: seconds for all runs of one owner
OWNER_S = 45.0


def periodic(host: HostCredentials, rights: SignalRights, uid: int | None) -> list[Awaitable[None]]:
    """Return the periodic work with the credentials of one database; ``uid`` as of ``CredentialUpkeep``."""
    work: list[Awaitable[None]] = [every(LOOK_S, CredentialUpkeep(host, rights, uid).look)]
    if host.keys is not None:
        work.append(every(SEAL_S, CredentialSealer(host).look))
    return work


class CredentialUpkeep:
    """The credentials of a database's runs here; ``uid``: of all jobs, None if each job has its owner's."""

    def __init__(self, host: HostCredentials, rights: SignalRights, uid: int | None) -> None:
        self._host = host
        self._rights = rights
        self._uid = uid
        #: monotonic time at which the next round is due
        self._due = 0.0
        #: the last problem logged of each credential; forgotten once the credential is well
        self._said: dict[tuple[int, str], str] = {}

    async def look(self) -> None:
        """Register this host's key, and make a round if one is due: the first at once, then one each minute.

        Raises DatabaseUnavailable.
        """
        await self._host.register()
        now = time.monotonic()
        if self._host.session.greeting is not None and now >= self._due:
            self._due = now + random.uniform(0.8, 1.2) * ROUND_S  # noqa: S311
            await self.round()

    async def round(self) -> None:
        """Replace the credentials that have changed; raises DatabaseUnavailable."""
        session = self._host.session
        greeting = session.greeting
        if greeting is None or not self._host.usable():
            return
        rows = await session.database.run(
            credentials.changed_credentials(host_id=greeting.host_id, within_s=EARLY_S, settled_s=SETTLED_S),
            timeout_s=DATABASE_S,
        )
        owners: defaultdict[str, list[credentials.ChangedCredential]] = defaultdict(list)
        for row in rows:
            owners[row.owner].append(row)
        seen = {(row.run_id, row.name) for row in rows}
        self._said = {key: text for key, text in self._said.items() if key in seen}
        ended = await asyncio.gather(
            *(self._within_time(of_owner) for of_owner in owners.values()), return_exceptions=True
        )
        # raise only after all owners are done
        for problem in ended:
            if problem is not None:
                raise problem

    async def _within_time(self, rows: list[credentials.ChangedCredential]) -> None:
        try:
            async with asyncio.timeout(OWNER_S):
                await self._replace_all(rows)
        except TimeoutError:
            event(log, logging.WARNING, "credentials_late", person=rows[0].owner, owner=rows[0].owner)

    async def _replace_all(self, rows: list[credentials.ChangedCredential]) -> None:
        """Replace the credentials of one owner's runs, one after the other."""
        renewed: dict[str, Opened] = {}
        written: dict[int, dict[str, int]] = {}
        for row in rows:
            versions = written.setdefault(row.run_id, dict(row.versions))
            try:
                opened = renewed.get(row.name) or await self._current(row)
                renewed[row.name] = opened
                if opened.version == versions.get(row.name):
                    continue
                await self._put(row, opened)
                versions[row.name] = opened.version
                await self._host.session.database.run(
                    credentials.note_credentials(
                        run_id=row.run_id, token=row.token, directory=row.directory, versions=versions
                    ),
                    timeout_s=DATABASE_S,
                )
            except (DatabaseUnavailable, SchemaMismatch):
                raise
            except Exception as error:
                # the content comes from the submitter: a bad one must not delay the others
                self._complain(row, error)
                continue
            self._said.pop((row.run_id, row.name), None)
            event(log, logging.INFO, "credential_replaced", run=row.run_id, name=row.name, owner=row.owner)

    async def _current(self, row: credentials.ChangedCredential) -> Opened:
        if self._host.own is not None and self._host.lacks_key([row]) is not None:
            copies = await self._host.rows(row.run_id, row.token)
            opened = next((self._host.open(copy) for copy in copies if copy.name == row.name), None)
        else:
            opened = self._host.open(row)
        if opened is None:
            raise CredentialError(f"credential '{row.name}' is not stored")
        if opened.is_to_be_renewed(datetime.now(UTC)):
            try:
                fresh = await self._host.renew(row.run_id, row.token, opened)
            except CredentialError as error:
                # the stored version may still be newer than the job's
                self._complain(row, error)
                fresh = None
            return fresh or opened
        return opened

    async def _put(self, row: credentials.ChangedCredential, opened: Opened) -> None:
        uid = self._uid
        if uid is None:
            await accounts.known([row.owner])
            uid = accounts.uid_of(row.owner)
        if uid is None:
            raise CredentialError(f"there is no account {row.owner} on this host")
        await self._rights.put_credential(Path(row.directory), row.name, opened.secret.content, uid)

    def _complain(self, row: credentials.ChangedCredential, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if self._said.get((row.run_id, row.name)) != text:
            self._said[row.run_id, row.name] = text
            where = {"run": row.run_id, "name": row.name}
            event(log, logging.WARNING, "credential_not_replaced", person=row.owner, **where, problem=text)
