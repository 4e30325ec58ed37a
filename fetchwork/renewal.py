"""Renews the identity of a host or access point that joined (``config.identity``), at two thirds of its life.

A file beside the password file has the next password, from before the database is asked until it has
answered. So after a crash the password of one of the two files is right, and the next start finds out which.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from pathlib import Path

from fetchwork.config.identity import (
    IdentityFile,
    identity_path,
    new_password,
    next_path,
    read_identity,
    verifier_of,
    with_password,
    write_identity,
)
from fetchwork.db.calls import hosts
from fetchwork.db.database import Database
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NOT_NOW, DatabaseRefused, FetchworkError
from fetchwork.log import event

log = logging.getLogger(__name__)

#: seconds between two looks at the time
LOOK_S = 10.0
#: seconds after a try that failed
AGAIN_S = 60.0
CALL_S = 5.0


class Renewal:
    """The identity by which a process logs in; nothing to do for one with another password."""

    def __init__(self, name: str, conninfo: str, database: AsyncDatabase) -> None:
        #: the database's name, for the log
        self._name = name
        self._conninfo = conninfo
        self._database = database
        self._path = identity_path(conninfo)
        #: the time at which the file says that a renewal is due
        self._due = 0.0
        #: monotonic time of the next try after one that failed
        self._again_at = 0.0
        self._copied = False
        self._recovered = False

    def _recover(self) -> None:
        """At the start: use the next password if a crash came between the database and the file."""
        upcoming = read_identity(next_path(self._path)) if self._path is not None else None
        if self._path is None or upcoming is None:
            return
        with (
            contextlib.suppress(FetchworkError),
            Database(with_password(self._conninfo, upcoming.password)) as database,
        ):
            database.query("SELECT", timeout_s=CALL_S)
            next_path(self._path).rename(self._path)
            event(log, logging.INFO, "identity_recovered", database=self._name)

    async def keep(self) -> None:
        """Renew the identity whenever that is due, until this is cancelled."""
        while True:
            with contextlib.suppress(*NOT_NOW):
                await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Renew the identity if that is due; for calls again and again. Raises DatabaseUnavailable."""
        if not self._recovered:
            self._recovered = True
            await asyncio.to_thread(self._recover)
        if self._path is None or time.time() < self._due or time.monotonic() < self._again_at:
            return
        present = read_identity(self._path)
        if present is None or time.time() < present.due:
            self._due = present.due if present is not None else time.time() + AGAIN_S
            return
        self._again_at = time.monotonic() + random.uniform(0.5, 1.0) * AGAIN_S  # noqa: S311
        try:
            await self._renew(self._path, present)
        except DatabaseRefused as error:
            event(log, logging.ERROR, "identity", database=self._name, problem=error)
        except OSError as error:
            event(log, logging.ERROR, "identity", file=self._path, problem=error.strerror)

    async def _renew(self, path: Path, present: IdentityFile) -> None:
        upcoming = read_identity(next_path(path))
        if upcoming is None or upcoming.role != present.role:
            upcoming = IdentityFile(present.role, new_password(), present.generation, 0, 0)
            write_identity(next_path(path), upcoming)
        call = hosts.renew_identity(generation=present.generation, verifier=verifier_of(upcoming.password))
        renewed = await self._database.run(call, timeout_s=CALL_S)
        if renewed.copied:
            if not self._copied:
                problem = (
                    "another host has the same identity: neither is served; an administrator revokes it, or"
                    " lets it in again (`fetchwork host admit`)"
                )
                event(log, logging.ERROR, "identity_copied", database=self._name, problem=problem)
            self._copied = True
            return
        self._copied = False
        ends = int(renewed.valid_until.timestamp())
        write_identity(
            path,
            IdentityFile(present.role, upcoming.password, renewed.generation_now, int(time.time()), ends),
        )
        next_path(path).unlink(missing_ok=True)
        self._again_at = 0.0
        event(
            log,
            logging.INFO,
            "identity_renewed",
            database=self._name,
            generation=renewed.generation_now,
            until=renewed.valid_until.isoformat(timespec="seconds"),
        )
