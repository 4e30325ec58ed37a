"""Which agent this is, and whether it follows one that has died.

The database gives a host's lease to one agent at a time; a second one of the same host name, such as that of
a cloned machine, is refused until the lease is over. An agent that was restarted after a crash need not wait:
each keeps its id in a file beside its spool, locked for as long as it lives. Who gets the lock of the same
file on the same boot knows that the one who wrote it is dead.

A copy of the file is another file (device and inode differ), and another machine or a later boot has another
boot id: there nothing is known of the one who wrote it, who may well be alive.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fetchwork.log import event
from fetchwork.process import boot_id

log = logging.getLogger(__name__)

#: an agent that is about to end keeps its lock for a moment longer than its socket
LOCK_S = 2.0
#: ids that are kept of agents that died one after the other
KEPT = 8
_MAX_FILE = 4096


@dataclass(slots=True)
class Identity:
    """This agent, as the database is told of it."""

    agent_id: str
    #: for people: where it runs
    location: str
    #: the agents that were here before, and are known to be dead
    replaces: list[str] = field(default_factory=list)
    #: the file's descriptor, whose lock ends with the process
    lock: int | None = None

    def close(self) -> None:
        """Let the lock go."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None


def identity_file(spool: Path) -> Path:
    """The file beside the spool that names the agent of this host."""
    return spool.with_name(f"{spool.name}.agent")


def assume(spool: Path, agent_id: str) -> Identity:
    """Become the agent of the host that has this spool; slow while another one holds the lock."""
    location = f"pid {os.getpid()}, spool {spool}, boot {boot_id()[:8]}"
    identity = Identity(agent_id, location)
    try:
        identity.lock = _open(identity_file(spool))
        if not _locked(identity.lock):
            # another agent lives; it is the database that says which of the two may stay
            identity.close()
            return identity
        identity.replaces = _read(identity.lock)
        # more than one: an agent may die before the database has heard of it
        _write(identity.lock, [*identity.replaces, agent_id][-KEPT:])
    except OSError as error:
        # the agent does without: should it crash, the next one waits for the end of its lease
        identity.close()
        event(log, logging.WARNING, "identity", file=identity_file(spool), problem=error.strerror)
    return identity


def _open(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(fd)
        raise PermissionError(1, "it is no file of this account")
    return fd


def _locked(fd: int) -> bool:
    end = time.monotonic() + LOCK_S
    while True:
        # a lock of this process: children that outlive it do not keep it
        with suppress(BlockingIOError, PermissionError):
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.05)


def _here(fd: int) -> list[object]:
    """What tells this file, on this boot, from a copy of it elsewhere or later."""
    status = os.fstat(fd)
    return [boot_id(), status.st_dev, status.st_ino]


def _read(fd: int) -> list[str]:
    """The ids of the agents that held the lock before; none if that was elsewhere, or is not known."""
    try:
        known = json.loads(os.pread(fd, _MAX_FILE, 0))
        return [str(uuid.UUID(agent)) for agent in known["agents"]] if known["where"] == _here(fd) else []
    except (ValueError, LookupError, TypeError, AttributeError):
        return []


def _write(fd: int, agents: list[str]) -> None:
    text = json.dumps({"where": _here(fd), "agents": agents}).encode()
    os.ftruncate(fd, 0)
    os.pwrite(fd, text, 0)
