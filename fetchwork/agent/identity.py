"""The identity of this agent, and whether it follows one that has died.

The database gives a host's lease to one agent at a time. A second agent with the same host name, for example
on a cloned machine, is refused until the lease is over. An agent that was restarted after a crash need not
wait: each agent keeps its id in a file beside its spool, which it locks as long as it lives. An agent that
gets the lock of the same file on the same boot knows that the writer of the file is dead.

A copy of the file is another file (device and inode differ), and another machine or a later boot has another
boot id. In these cases the writer may well be alive.
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

#: seconds to wait for the lock: an agent that is ending keeps it a moment longer than its socket
LOCK_S = 2.0
#: most ids kept of agents that died one after the other
KEPT = 8
_MAX_FILE = 4096


@dataclass(slots=True)
class Identity:
    """This agent, as it presents itself to the database."""

    agent_id: str
    #: pid, spool and boot, for people
    location: str
    #: ids of earlier agents of this host that are known to be dead
    replaces: list[str] = field(default_factory=list)
    #: descriptor of the locked file; the lock ends with the process
    lock: int | None = None

    def close(self) -> None:
        """Release the lock."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None


def identity_file(spool: Path) -> Path:
    """Return the path of the file beside the spool that names the agent of this host."""
    return spool.with_name(f"{spool.name}.agent")


def assume(spool: Path, agent_id: str) -> Identity:
    """Become the agent of the host with this spool; takes ``LOCK_S`` while another agent holds the lock."""
    location = f"pid {os.getpid()}, spool {spool}, boot {boot_id()[:8]}"
    identity = Identity(agent_id, location)
    try:
        identity.lock = _open(identity_file(spool))
        if not _locked(identity.lock):
            # another agent lives; the database decides which of the two may stay
            identity.close()
            return identity
        identity.replaces = _read(identity.lock)
        # more than one: an agent may die before the database has heard of it
        _write(identity.lock, [*identity.replaces, agent_id][-KEPT:])
    except OSError as error:
        # go on without the file: after a crash the next agent waits for the end of the lease
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
        # a POSIX lock belongs to this process: children that outlive it do not keep it
        with suppress(BlockingIOError, PermissionError):
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.05)


def _here(fd: int) -> list[object]:
    """Return the marks that distinguish this file, on this boot, from a copy elsewhere or later."""
    status = os.fstat(fd)
    return [boot_id(), status.st_dev, status.st_ino]


def _read(fd: int) -> list[str]:
    """Return the ids of the agents that held the lock before; [] if that was elsewhere or is unknown."""
    try:
        known = json.loads(os.pread(fd, _MAX_FILE, 0))
        return [str(uuid.UUID(agent)) for agent in known["agents"]] if known["where"] == _here(fd) else []
    except (ValueError, LookupError, TypeError, AttributeError):
        return []


def _write(fd: int, agents: list[str]) -> None:
    text = json.dumps({"where": _here(fd), "agents": agents}).encode()
    # over the old text, with blanks: a file that was emptied before may find no room on a full disk
    os.pwrite(fd, text.ljust(os.fstat(fd).st_size), 0)
