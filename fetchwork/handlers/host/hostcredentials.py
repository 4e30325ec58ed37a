"""The credentials of jobs on this host: opened with its keys, renewed by their issuers before they expire.

A host with the pool's key opens them as they are stored. A host that joined has a key of its own, and waits
for copies that a host with the pool's key seals to it (``sealed_for``).

The agent of a host on which a job uses a credential renews it: only agents can open credentials, and an agent
without such a job has no use for them. One agent at a time renews a credential (``begin_renewal``). It has at
most one thread for each owner, which counts until it has ended: a name service may be silent for long. So an
issuer that does not answer delays only its own users' jobs, however many ask it, and no other threads' work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

from fetchwork.config.identity import own_key_path, write_private
from fetchwork.credentials import renewing
from fetchwork.credentials.keys import KeyFile, own_key_text, seal
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
#: seconds between two registrations of a host's own key, and for which the last answer holds
REGISTER_S = 30.0
HOLDS_S = 90.0
#: seconds to wait for copies that are sealed to this host's key, and without one until the next try
SEAL_S = 6.0
REST_S = 60.0
LOOK_S = 0.25


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
    """Opens and renews the credentials of one database on one host.

    ``keys``: the file with the pool's keys, None without one; ``identity``: the file of a joined host's
    identity, beside which is that with the key of this host alone (``own``), None for other hosts.
    """

    def __init__(self, session: HostSession, keys: KeyFile | None, identity: Path | None = None) -> None:
        self.session = session
        self.keys = keys
        self.own = KeyFile(own_key_path(identity)) if identity is not None else None
        self._identity = identity
        self._problem: str | None = None
        #: monotonic times: of the next registration of the own key, and until which copies are sealed to it
        self._register_at = 0.0
        self._sealed_until = 0.0
        #: the issuers that are being asked, by owner
        self._asked: dict[str, str] = {}
        #: tasks that store an issuer's answer
        self._storing: set[asyncio.Future[Opened | None]] = set()

    def usable(self) -> bool:
        """Whether this host can open credentials: otherwise it gets no jobs with credentials."""
        return self.has_pool_key() or time.monotonic() < self._sealed_until

    def has_pool_key(self) -> bool:
        """Whether this host opens credentials as they are stored."""
        if self.keys is None:
            return False
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
        secret = decode(self._open(row.sealed, row.key_id), row.owner, row.name)
        return Opened(secret, row.version, row.expires_at)

    def _open(self, sealed: bytes, key: str) -> bytes:
        *others, last = self._files()
        for file in others:
            with contextlib.suppress(CredentialError):
                if key in file.key_ids():
                    return file.open(sealed, key)
        return last.open(sealed, key)

    def _files(self) -> list[KeyFile]:
        return [file for file in (self.own, self.keys) if file is not None]

    def lacks_key(
        self, rows: Iterable[credentials.RunCredential | credentials.ChangedCredential]
    ) -> str | None:
        """Return why this host can't open credentials that another host could open; None if it can."""
        missing = {row.key_id for row in rows if row.key_id is not None}
        problem = None
        for file in self._files():
            try:
                missing -= set(file.key_ids())
            except CredentialError as error:
                problem = str(error)
        if not missing:
            return None
        if self.keys is None:
            return problem or "no host with the pool's key has sealed them to this host's key"
        return problem or f"'{self.keys.path}' lacks key {min(missing)}"

    # -- the key of this host alone

    async def register(self) -> None:
        """Register the public key of this host if that is due; raises DatabaseUnavailable.

        The key is a new one if the identity's password is newer.
        """
        now = time.monotonic()
        if (
            self.own is None
            or self._identity is None
            or self.session.greeting is None
            or now < self._register_at
        ):
            return
        self._register_at = now + random.uniform(0.8, 1.2) * REGISTER_S  # noqa: S311
        try:
            if not self.own.path.exists() or _is_older(self.own.path, self._identity):
                write_private(self.own.path, own_key_text())
            public = self.own.newest()
        except (CredentialError, OSError) as error:
            event(log, logging.ERROR, "host_key", database=self.session.name, problem=error)
            return
        call = credentials.register_host_key(public_key=public)
        is_sealed = await self.session.database.run(call, timeout_s=DATABASE_S)
        self._sealed_until = now + HOLDS_S if is_sealed else 0.0

    async def rows(
        self, run_id: int, token: str | UUID, within_s: float = DATABASE_S + SEAL_S
    ) -> list[credentials.RunCredential]:
        """Return the credentials that a run's job needs; waits for copies that only this host can open.

        If none come, this host gets no jobs with credentials for a while. Raises DatabaseUnavailable.
        """
        end = time.monotonic() + within_s
        call = credentials.run_credentials(run_id=run_id, token=token)

        async def asked() -> list[credentials.RunCredential]:
            left = max(0.1, min(DATABASE_S, end - time.monotonic()))
            return await self.session.database.run(call, timeout_s=left)

        rows = await asked()
        if self.own is None or self.lacks_key(rows) is None:
            return rows
        # the file may have a newer key than the database
        self._register_at = 0.0
        await self.register()
        await self.session.database.run(
            credentials.want_credentials(run_id=run_id, token=token), timeout_s=DATABASE_S
        )
        last = min(end, time.monotonic() + SEAL_S)
        while self.lacks_key(rows) is not None:
            if time.monotonic() > last:
                self._sealed_until, self._register_at = 0.0, time.monotonic() + REST_S
                break
            await asyncio.sleep(LOOK_S)
            rows = await asked()
        return rows

    def sealed_for(self, copy: credentials.WantedCopy) -> bytes:
        """Seal a stored credential to another host's key; raises CredentialError if this host can't open it.

        One that no host can use is sealed without content: its job is held there, as it would be here.
        """
        if self.keys is None or copy.key_id not in self.keys.key_ids():
            raise CredentialError(f"this host lacks key {copy.key_id}")
        try:
            data = self.keys.open(copy.sealed, copy.key_id)
            decode(data, copy.owner, copy.name)
        except CredentialError:
            data = b""
        return seal(data, copy.public_key)

    # -- renewal

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


def _is_older(file: Path, other: Path) -> bool:
    return file.stat().st_mtime_ns < other.stat().st_mtime_ns


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
