"""The credentials of jobs on this host: opened with its keys, renewed by their issuers before they expire.

The agent of a host on which a job uses a credential renews it: only agents can open credentials, and an agent
without such a job has no use for them. One agent at a time renews a credential (``begin_renewal``). It has at
most one thread for each owner, which counts until it has ended: a name service may be silent for long. So an
issuer that does not answer delays only its own users' jobs, however many ask it, and no other threads' work.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit
from uuid import UUID

from fetchwork.credentials import renewing
from fetchwork.credentials.keys import KeyFile, seal
from fetchwork.credentials.secret import Secret, decode
from fetchwork.db.calls import credentials
from fetchwork.errors import CredentialError, DatabaseUnavailable
from fetchwork.handlers.host.session import HostSession
from fetchwork.log import event

log = logging.getLogger(__name__)

#: seconds before its expiry at which a token is renewed
EARLY_S = 600.0
#: seconds for a call
DATABASE_S = 8.0
#: the most owners with requests to one issuer at a time, and to all issuers together
MOST_OF_ISSUER = 8
MOST_ASKED = 64
#: seconds for which storing an issuer's answer is retried, and between two tries
KEEP_S = 300.0
PAUSE_S = 2.0


#: a credential with a new token, and the token's expiry
_Renewed = tuple[Secret, datetime | None]


@dataclass(frozen=True, slots=True)
class Opened:
    """A credential that was opened, with its version and expiry in the database."""

    secret: Secret
    version: int
    expires_at: datetime | None

    def is_good(self, now: datetime) -> bool:
        """Whether a job can use it now."""
        return bool(self.secret.content) and not (self.expires_at and self.expires_at <= now)

    def is_to_be_renewed(self, now: datetime) -> bool:
        """Whether its issuer must be asked for a new token."""
        if self.secret.renewal is None:
            return False
        soon = self.expires_at is not None and self.expires_at <= now + timedelta(seconds=EARLY_S)
        return soon or not self.secret.content


class HostCredentials:
    """Opens and renews the credentials of one database on one host."""

    def __init__(self, session: HostSession, keys: KeyFile) -> None:
        self.session = session
        self.keys = keys
        self._problem: str | None = None
        #: the issuers that are being asked, by owner
        self._asked: dict[str, str] = {}
        #: tasks that store an issuer's answer
        self._storing: set[asyncio.Future[Opened | None]] = set()

    def usable(self) -> bool:
        """Whether this host can open credentials: otherwise it gets no jobs with credentials."""
        problem = self.keys.problem()
        if problem != self._problem:
            self._problem = problem
            if problem is not None:
                event(log, logging.ERROR, "credential_key", database=self.session.name, problem=problem)
        return problem is None

    def open(self, row: credentials.RunCredential | credentials.ChangedCredential) -> Opened | None:
        """Return the opened credential of a row; None if the row has no content. Raises CredentialError."""
        if row.sealed is None or row.key_id is None or row.version is None:
            return None
        secret = decode(self.keys.open(row.sealed, row.key_id), row.owner, row.name)
        return Opened(secret, row.version, row.expires_at)

    def lacks_key(self, rows: Iterable[credentials.RunCredential]) -> str | None:
        """Return why this host can't open credentials that another host could open; None if it can."""
        try:
            known = self.keys.key_ids()
        except CredentialError as error:
            return str(error)
        missing = {row.key_id for row in rows if row.key_id is not None} - set(known)
        return f"'{self.keys.path}' lacks key {min(missing)}" if missing else None

    async def renew(self, run_id: int, token: str | UUID, opened: Opened) -> Opened | None:
        """Get a new token and store it; None if this has to wait, because another agent asks, for instance.

        Raises CredentialError, DatabaseUnavailable.
        """
        secret = opened.secret
        issuer = _issuer(secret)
        asked = list(self._asked.values())
        if secret.owner in self._asked or asked.count(issuer) >= MOST_OF_ISSUER or len(asked) >= MOST_ASKED:
            return None
        database = self.session.database
        self._asked[secret.owner] = issuer
        storing: asyncio.Future[Opened | None] | None = None
        try:
            begun = await database.run(
                credentials.begin_renewal(
                    run_id=run_id, token=token, name=secret.name, version=opened.version
                ),
                timeout_s=DATABASE_S,
                again=False,
            )
            if not begun:
                return None
            key = await database.run(credentials.sealing_key(), timeout_s=DATABASE_S)
            if key is None:
                raise CredentialError("there is no key to seal a new token to")
            asking = _asking(secret)
            storing = asyncio.ensure_future(self._keep(run_id, token, opened.version, key, asking))
            self._storing.add(storing)
            storing.add_done_callback(self._stored)
            answered, _ = await asyncio.wait((asking,), timeout=renewing.TIME_S)
            if not answered:
                raise CredentialError(f"the issuer of credential '{secret.name}' did not answer in time")
            stored, _ = await asyncio.wait((storing,), timeout=DATABASE_S)
            if not stored:
                raise DatabaseUnavailable("the database does not answer; a new token is kept until it does")
            return storing.result()
        finally:
            if storing is None or storing.done():
                del self._asked[secret.owner]
            else:
                storing.add_done_callback(lambda _: self._asked.pop(secret.owner))

    async def _keep(
        self,
        run_id: int,
        token: str | UUID,
        version: int,
        key: credentials.SealingKey,
        asking: asyncio.Future[_Renewed],
    ) -> Opened | None:
        """Store the issuer's answer, even if no caller waits any more: the old refresh token may be void."""
        fresh, expires_at = await asking
        call = credentials.renew_credential(
            run_id=run_id,
            token=token,
            name=fresh.name,
            version=version,
            key_id=key.key_id,
            sealed=seal(fresh.encode(), key.public_key),
            expires_at=expires_at,
        )
        end = time.monotonic() + KEEP_S
        while True:
            try:
                stored = await self.session.database.run(call, timeout_s=DATABASE_S)
                break
            except DatabaseUnavailable:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(PAUSE_S)
        event(log, logging.INFO, "credential_renewed", name=fresh.name, owner=fresh.owner, run=run_id)
        return None if stored is None else Opened(fresh, stored, expires_at)

    def _stored(self, storing: asyncio.Future[Opened | None]) -> None:
        self._storing.discard(storing)
        # the caller may have gone: a failure counts as retrieved
        if not storing.cancelled():
            storing.exception()


def _issuer(secret: Secret) -> str:
    """The name of the host that issues new tokens; raises CredentialError if the secret can't be renewed."""
    if secret.renewal is None:
        raise CredentialError(f"credential '{secret.name}' can't be renewed")
    secret.renewal.check()
    return urlsplit(secret.renewal.token_url).hostname or ""


def _asking(secret: Secret) -> asyncio.Future[_Renewed]:
    """Ask the issuer in a daemon thread: it may outlive the request, but not the agent."""
    answer: Future[_Renewed] = Future()

    def ask() -> None:
        try:
            answer.set_result(renewing.renewed(secret, datetime.now(UTC)))
        except BaseException as error:
            answer.set_exception(error)

    asking = asyncio.wrap_future(answer)
    # the caller may have gone: a failure counts as retrieved
    asking.add_done_callback(lambda done: done.cancelled() or done.exception())
    threading.Thread(target=ask, daemon=True, name="issuer").start()
    return asking
