"""Changes of the host file while its agent runs: the settings that it takes, and those that need a restart.

SIGHUP (condor_reconfig) and the request ``reload`` (``fetchwork config install``) make the agent read the
file again. If the file is wrong or can't be read, the agent keeps its settings and logs the reason.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from fetchwork.agent.client import HostFileStatus, stamp_of
from fetchwork.config import HostConfig, conninfo, load
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import ConfigError
from fetchwork.ipc.peer import uid_of
from fetchwork.log import event

log = logging.getLogger(__name__)

#: a setting; "*" stands for any name
Key = tuple[str, ...]

#: settings that a running agent takes
_TAKEN: tuple[Key, ...] = (
    ("agent", "log_level"),
    ("agent", "max_waiting_fetches"),
    ("files", "shared"),
    ("host", "pipe_buffer_max"),
    ("host", "uid_domain"),
    ("keywords", "*", "chain_s"),
    ("keywords", "*", "max_fetch_wait_s"),
    ("keywords", "*", "queues"),
    ("slots", "fetched_only"),
    ("slots", "initial_update_interval_s"),
    ("slots", "update_interval_s"),
)
#: settings for HTCondor's configuration or the hooks, which the agent does not read
_NOT_READ: tuple[Key, ...] = (
    ("agent", "venv"),
    ("host", "cpus"),
    ("host", "htcondor"),
    ("host", "memory_mib"),
    ("keywords", "*", "fetch_delay_s"),
    ("keywords", "*", "hooks"),
    ("keywords", "*", "job_exit_timeout_s"),
    ("slots", "default"),
    ("slots", "first_fetch_s"),
    ("slots", "hide_gpus"),
    ("slots", "keyword"),
    ("slots", "type"),
    ("workstation",),
)
#: parts of a conninfo that identify the database
_WHICH_DATABASE = ("host", "hostaddr", "port", "dbname", "service")


class HostFile:
    """The host file of a running agent and the result of its last reading; ``take`` changes settings."""

    def __init__(self, path: Path | None, config: HostConfig, take: Callable[[HostConfig], None]) -> None:
        self._path = path
        self._stamp = stamp_of(path)
        #: the reason why the agent keeps its earlier settings
        self._problem: str | None = None
        #: changed settings that a running agent does not take
        self._needs_restart: list[str] = []
        self._take = take
        #: the settings in force, except for ``_needs_restart``
        self._config = config
        self._started_with = config
        #: one reading at a time
        self._reading = asyncio.Lock()
        self._readings: set[asyncio.Task[None]] = set()

    def status(self) -> HostFileStatus:
        """Return the result of the last reading, for commands."""
        return {
            "path": str(self._path) if self._path else None,
            "stamp": self._stamp,
            "problem": self._problem,
            "needs_restart": self._needs_restart,
        }

    def reload_soon(self) -> None:
        """Reload in a task of its own."""
        reading = asyncio.ensure_future(self.reload())
        self._readings.add(reading)
        reading.add_done_callback(self._readings.discard)

    async def reload(self) -> None:
        """Read the file, take the settings that a running agent can change, and log the result."""
        if self._path is None:
            return
        async with self._reading:
            stamp = stamp_of(self._path)
            try:
                config = await asyncio.to_thread(load, self._path)
            except ConfigError as error:
                self._problem = "; ".join(error.problems)
                event(log, logging.ERROR, "host_file_refused", problem=self._problem)
                return
            self._stamp, self._problem = stamp, None
            self._needs_restart = [
                _name(key)
                for key in differences(self._started_with.model_dump(), config.model_dump())
                if not self._is_taken(key, config) and not _is_any(key, _NOT_READ)
            ]
            taken = [
                _name(key)
                for key in differences(self._config.model_dump(), config.model_dump())
                if self._is_taken(key, config)
            ]
            self._config = config
            if taken:
                self._take(config)
            logging.getLogger("fetchwork").setLevel(config.agent.log_level.upper())
            event(
                log,
                logging.WARNING if self._needs_restart else logging.INFO,
                "host_file_read",
                taken=",".join(taken) or "nothing",
                needs_restart=",".join(self._needs_restart) or None,
            )

    def use_conninfo(self, database: AsyncDatabase, name: str) -> None:
        """Make new connections to a database with the file's current conninfo, if it is the same database."""
        if name in self._config.databases and self._is_taken(("databases", name, "conninfo"), self._config):
            database.use(self._config.databases[name].conninfo)

    def _is_taken(self, key: Key, config: HostConfig) -> bool:
        if len(key) == 3 and (key[0], key[2]) == ("databases", "conninfo"):
            old, new = self._started_with.databases.get(key[1]), config.databases.get(key[1])
            return old is not None and new is not None and is_same_database(old.conninfo, new.conninfo)
        return _is_any(key, _TAKEN)


def differences(old: object, new: object, key: Key = ()) -> Iterator[Key]:
    """Yield the settings that differ; for a table that only one side has, the key of the table."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted(old.keys() | new.keys()):
            yield from differences(old.get(name), new.get(name), (*key, name))
    elif old != new:
        yield key


def is_same_database(old: str, new: str) -> bool:
    """Whether two connection strings name the same database, perhaps with different passwords or roles."""
    one, other = conninfo.parse(old), conninfo.parse(new)
    return all(one.get(part) == other.get(part) for part in _WHICH_DATABASE)


def _is_any(key: Key, patterns: tuple[Key, ...]) -> bool:
    return any(
        len(key) >= len(pattern)
        and all(part in ("*", there) for part, there in zip(pattern, key, strict=False))
        for pattern in patterns
    )


def _name(key: Key) -> str:
    """Return a setting's name as the host file writes it."""
    first = {"databases": "database", "keywords": "keyword"}.get(key[0], key[0])
    return ".".join([first, *map(str, key[1:])])


def trusted_accounts(config: HostConfig) -> frozenset[int]:
    """Return the uids that may ask like the startd: root's, the agent's own, that of HTCondor's account."""
    uids = {0, os.geteuid()}
    for account in {"condor", config.agent.user} - {"", None}:
        uid = uid_of(str(account))
        if uid is not None:
            uids.add(uid)
        elif account == config.agent.user and os.geteuid() == 0:
            raise ConfigError([f"agent.user: there is no account '{account}' on this host"])
    return frozenset(uids)
