"""A job's credentials in PREPARE_JOB: they are opened, renewed, and sent to the hook.

A job without the credentials that it needs does not start: it is held as a shadow would hold it, since its
submitter has to store them. If only this host lacks the key, or an issuer does not answer, it is retried.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from fetchwork.codes import HoldCode
from fetchwork.db.calls import credentials
from fetchwork.errors import ClassAdError, CredentialError, DatabaseUnavailable, FetchworkError, one_line
from fetchwork.handlers.context import Task
from fetchwork.handlers.host.hostcredentials import DATABASE_S, HostCredentials, Opened
from fetchwork.handlers.host.starterlog import Fault
from fetchwork.handlers.runad import RunKey
from fetchwork.handlers.starterad import Reader
from fetchwork.log import event
from fetchwork.sandbox.credentials import DIRECTORY
from fetchwork.sandbox.offered import CREDENTIALS

log = logging.getLogger(__name__)

#: seconds to wait for another agent's renewal
OTHERS_S = 6.0
PAUSE_S = 0.5
#: text of the shadow (NTreceivers.cpp), with code 4
_TEXT = "Job credentials are not available"
_SECTION = b"-----credentials\n"
_AD = Reader((CREDENTIALS, "FetchWorkScratch"))
_PATH = re.compile(r"/[^\n\"\\\0]{0,3000}")


class Lacking(FetchworkError):
    """The job does not start; ``fault`` has the reason, and whether the job is held."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


@dataclass(frozen=True, slots=True, repr=False)
class Brought:
    """The credentials of a run, on their way into ``directory`` of its host."""

    directory: str
    files: dict[str, bytes]
    versions: dict[str, int]

    def section(self) -> bytes:
        """The last section of the hook's answer, from which it makes the files."""
        lines = (f"{name} {content.hex()}\n" for name, content in self.files.items())
        return _SECTION + "".join(lines).encode("ascii")


def are_needed(task: Task) -> bool:
    """Whether the job needs credentials; the offer has put this into its ad."""
    return _AD.read(task.request.body).get(CREDENTIALS) is True


async def brought(task: Task, key: RunKey) -> Brought:
    """Return all credentials that the job needs; raises Lacking, DatabaseUnavailable, ClassAdError."""
    host = task.context.credentials
    if host is None:
        raise DatabaseUnavailable("no agent with a key: credentials come by one only")
    scratch = _AD.read(task.request.body).get("FetchWorkScratch")
    if not isinstance(scratch, str) or not _PATH.fullmatch(scratch):
        raise ClassAdError("the ad does not say which scratch directory the credentials are for")
    files, versions = {}, {}
    for row in await host.rows(key.run_id, key.token, task.left()):
        opened = await _usable(task, key, host, row)
        files[row.name], versions[row.name] = opened.secret.content, opened.version
    return Brought(f"{scratch}/{DIRECTORY}", files, versions)


async def note(task: Task, key: RunKey, brought: Brought) -> None:
    """Record the credentials, so that this agent or the next replaces them; raises DatabaseUnavailable."""
    await task.context.session.database.run(
        credentials.note_credentials(
            run_id=key.run_id, token=key.token, directory=brought.directory, versions=brought.versions
        ),
        timeout_s=task.left(DATABASE_S),
    )


async def _usable(task: Task, key: RunKey, host: HostCredentials, row: credentials.RunCredential) -> Opened:
    """Return a credential that is valid for a while, after a renewal if necessary; raises Lacking."""
    now = datetime.now(UTC)
    opened = _opened(host, row)
    if not opened.is_to_be_renewed(now):
        if not opened.is_good(now):
            raise _held(f"credential '{row.name}' expired at {opened.expires_at:%Y-%m-%d %H:%M:%S} UTC")
        return opened
    end = time.monotonic() + min(OTHERS_S, task.left())
    while True:
        try:
            renewed = await host.renew(key.run_id, key.token, opened)
        except CredentialError as error:
            event(
                log,
                logging.WARNING,
                "credential_not_renewed",
                person=task.caller.uid,
                run=key.run_id,
                problem=error,
            )
            if opened.is_good(now):
                return opened
            raise Lacking(Fault(f"{_TEXT}: {one_line(str(error), 400)}")) from None
        if renewed is not None:
            return renewed
        if opened.is_good(now):
            # another agent renews it, and the running job gets the new token later
            return opened
        if time.monotonic() > end:
            raise Lacking(Fault(f"{_TEXT}: credential '{row.name}' is being renewed"))
        await asyncio.sleep(PAUSE_S)
        again = {row.name: row for row in await host.rows(key.run_id, key.token, task.left())}
        if row.name not in again:
            raise Lacking(Fault(f"{_TEXT}: the run is over"))
        opened = _opened(host, again[row.name])


def _opened(host: HostCredentials, row: credentials.RunCredential) -> Opened:
    problem = host.lacks_key([row])
    if problem is not None:
        # another host may have the key
        raise Lacking(Fault(f"{_TEXT}: {one_line(problem, 400)}"))
    try:
        opened = host.open(row)
    except CredentialError as error:
        raise _held(str(error)) from None
    if opened is None:
        raise _held(f"credential '{row.name}' is not stored: fetchwork credential add {row.name}")
    return opened


def _held(cause: str) -> Lacking:
    return Lacking(Fault(f"{_TEXT}: {one_line(cause, 400)}", HoldCode.CORRUPTED_CREDENTIAL))
