"""Keeps HTCondor job event logs up to date with the events: the files that jobs name with ``log``.

Theory of operation
-------------------
A log is only ever appended to, an entry in one write, as HTCondor does it; so its readers can follow it, and
several writers do no harm. A state file keeps the cursor of the last event that was written and the length of
each log; it is written after each batch. A writer that was killed between the two finds entries behind that
length: it has written these already, and does not write them again. So every event is in its log once. Where
the database was restored or moved to another server, which the jump of the cursor shows, the log's whole end
is looked at.

A log that can't be written for now (a full disk, a failed fdatasync) is owed its entries: they go first into
its next write, and the other logs go on. Meanwhile the state file stays at the last event that all logs have.

A path is the submitter's choice, so it is written with the rights of the job's owner and never with more:
root takes on the owner's identity for each file, all others write the logs of their own jobs only.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import stat
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fetchwork.codes import EventType
from fetchwork.errors import FetchworkError
from fetchwork.queue import logentry
from fetchwork.queue.events import Cursor, JobEvent
from fetchwork.queue.reader import Reader
from fetchwork.queue.session import Session

_LOGS_IN = """
SELECT clusterid, procid, owner, ad ->> 'UserLog' AS log, ad ->> 'UserLogUseXML' = 'true' AS xml
FROM fetchwork.{}
WHERE clusterid = ANY(%s)
    AND (clusterid, procid) IN (SELECT * FROM unnest(%s::integer[], %s::integer[]))
"""
#: entries that all logs of an owner are owed; with more a log is given up
MOST_OWED = 20_000
#: seconds until they are tried again where nothing else comes
RETRY_S = 30.0

_LOGS = f"{_LOGS_IN.format('jobs')} UNION ALL {_LOGS_IN.format('history')}"


@dataclass(frozen=True)
class Log:
    """A log file, the account whose rights count for it (None: the caller's own), and whether it is XML."""

    path: str
    owner: str | None
    xml: bool = False


@dataclass(frozen=True)
class Written:
    """The number of entries written, and a line for each log that turned out not to be writable."""

    entries: int = 0
    problems: tuple[str, ...] = ()


class LogWriter:
    """Writes events to the logs of their jobs, or all of them to one file."""

    def __init__(self, session: Session, state: Path, *, output: Path | None = None) -> None:
        self._session = session
        self._state = state
        self._output = output
        self._me = pwd.getpwuid(os.geteuid()).pw_name
        self._logs: dict[tuple[int, int], Log | None] = {}
        #: of each log, its length now, and as the state file has it: where ``_saved`` was the last event
        self._lengths: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._written: dict[str, Counter[bytes]] = {}
        # by whose rights, too: somebody may name another's log, and is refused
        self._refused: set[Log] = set()
        self._owed: dict[Log, list[bytes]] = {}
        # events up to then, by the database's clock, may be shown again
        self._moved_at = 0.0
        self._shown_again = False
        self._saved = self._load()
        self.cursor = self._saved

    def write(self, events: Iterable[JobEvent]) -> Written:
        """Append events, in their order, and save the position; the problem of a log is reported once."""
        batch = list(events)
        if not batch and not self._owed:
            return Written()
        if batch and self._output is None:
            self._find_logs(batch)
        self._look_for_move(batch)
        texts: dict[Log, list[bytes]] = {}
        for event in batch:
            log = (
                Log(str(self._output), None) if self._output else self._logs.get((event.cluster, event.proc))
            )
            if log is not None:
                texts.setdefault(log, []).append(event.entry(xml=log.xml).encode())
            if event.type_number in (EventType.JOB_TERMINATED, EventType.JOB_ABORTED):
                self._logs.pop((event.cluster, event.proc), None)
        number = 0
        problems = []
        for log in [*texts, *(self._owed.keys() - texts.keys())]:
            if log in self._refused:
                continue
            owed = self._owed.pop(log, [])
            entries = owed + texts.get(log, [])
            try:
                number += self._append(log, entries)
            except (OSError, FetchworkError) as error:
                passes = isinstance(error, OSError) and error.errno in logentry.FOR_NOW
                others = sum(len(some) for other, some in self._owed.items() if other.owner == log.owner)
                if passes and others + len(entries) <= MOST_OWED:
                    self._owed[log] = entries
                    if owed:
                        continue
                else:
                    self._refused.add(log)
                reason = error.strerror if isinstance(error, OSError) else str(error)
                problems.append(f"cannot write event log '{log.path}' as {log.owner or self._me}: {reason}")
        if self._shown_again:
            self._written.clear()
        if batch:
            self.cursor = batch[-1].cursor
        if not self._owed:
            self._saved = self.cursor
            self._sizes |= self._lengths
        self._save()
        return Written(number, tuple(problems))

    def follow(self, reader: Reader, stop_after: float | None) -> Iterator[Written]:
        """Write what a reader finds, for so many seconds (None: for ever).

        What logs are owed is tried again meanwhile, also where no event comes.
        """
        deadline = None if stop_after is None else time.monotonic() + stop_after
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            wait_s = left if not self._owed else RETRY_S if left is None else min(left, RETRY_S)
            for events in self._session.pages(reader.events(wait_s)):
                yield self.write(events)
                if self._owed:
                    # to wait no longer than that allows
                    break
            else:
                yield self.write(())
                if wait_s == left:
                    return

    def _look_for_move(self, batch: list[JobEvent]) -> None:
        """A database that was restored may show events again: look whether the logs have those of a batch."""
        if (
            batch
            and self.cursor is not None
            and Cursor.parse(self.cursor).lies_before_move(Cursor.parse(batch[-1].cursor))
        ):
            (row,) = self._session.database.query(
                "SELECT extract(epoch FROM clock_timestamp())::float8 AS at"
            )
            self._moved_at = row["at"]
        self._shown_again = any(event.epoch <= self._moved_at for event in batch)
        if self._shown_again:
            self._written.clear()

    def _find_logs(self, events: list[JobEvent]) -> None:
        unknown = {(e.cluster, e.proc) for e in events} - self._logs.keys()
        if not unknown:
            return
        clusters, procs = (list(column) for column in zip(*unknown, strict=True))
        rows = self._session.database.query(_LOGS, [clusters, clusters, procs] * 2)
        self._logs.update(dict.fromkeys(unknown))
        for row in rows:
            path, owner = row["log"], row["owner"]
            if not path or path == "/dev/null" or not path.startswith("/"):
                continue
            if os.geteuid() != 0 and owner != self._me:
                continue
            self._logs[row["clusterid"], row["procid"]] = Log(path, owner, row["xml"] is True)

    def _append(self, log: Log, entries: list[bytes]) -> int:
        with acting_as(log.owner):
            return self._append_as_owner(log, entries)

    def _append_as_owner(self, log: Log, entries: list[bytes]) -> int:
        # O_NONBLOCK: a fifo without a reader must not stop the others' logs
        descriptor = os.open(
            log.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o644
        )
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FetchworkError("it is not a regular file")
            already = self._already_written(log, descriptor).copy()
            fresh = []
            for text in entries:
                if already[text]:
                    already[text] -= 1
                else:
                    fresh.append(text)
            if fresh:
                # to the disk, before the state says that they are there
                logentry.append(descriptor, b"".join(fresh))
            self._written[log.path] = already
            self._lengths[log.path] = os.fstat(descriptor).st_size
            return len(fresh)
        finally:
            os.close(descriptor)

    def _already_written(self, log: Log, descriptor: int) -> Counter[bytes]:
        """The entries behind the length that the state remembers: once after a start, then nothing."""
        path = log.path
        if path in self._written:
            return self._written[path]
        size = os.fstat(descriptor).st_size
        known = max(0, size - logentry.TAIL_BYTES) if self._shown_again else self._sizes.get(path)
        entries: Counter[bytes] = Counter()
        if known is not None and size > known:
            tail = os.pread(descriptor, size - known, known)
            found, cut = logentry.split(tail)
            if cut:
                # this writer's own, cut by a full disk
                os.ftruncate(descriptor, size - len(cut))
            entries.update(found)
        self._written[path] = entries
        # of a log that is new the state knows what was there before
        self._sizes.setdefault(path, os.fstat(descriptor).st_size)
        return entries

    def _load(self) -> str | None:
        try:
            state = json.loads(self._state.read_text())
            self._sizes = {str(path): int(size) for path, size in state["sizes"].items()}
            return None if state["cursor"] is None else str(state["cursor"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise FetchworkError(f"cannot read state file '{self._state}': {error}") from None

    def _save(self) -> None:
        temporary = self._state.with_name(self._state.name + ".new")
        self._state.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps({"cursor": self._saved, "sizes": self._sizes}))
        temporary.replace(self._state)


@contextlib.contextmanager
def acting_as(owner: str | None) -> Iterator[None]:
    """Root takes on an account's identity inside the block; others are who they are."""
    if owner is None or os.geteuid() != 0:
        yield
        return
    try:
        account = pwd.getpwnam(owner)
    except KeyError:
        raise FetchworkError(f"no account '{owner}' on this machine") from None
    if account.pw_uid == 0:
        raise FetchworkError(f"account '{owner}' is root")
    groups, group = os.getgroups(), os.getegid()
    os.setgroups(os.getgrouplist(owner, account.pw_gid))
    os.setegid(account.pw_gid)
    os.seteuid(account.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def default_state(conninfo: str, output: Path | None, jobs: Collection[str]) -> Path:
    """A state file for one combination of database, file and jobs.

    Root's are in a directory of their own: /var/lib/fetchwork belongs to the agent, which is not root.
    """
    import hashlib

    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    directory = (
        Path("/var/lib/fetchwork-userlog") if os.geteuid() == 0 else Path(home).expanduser() / "fetchwork"
    )
    key = json.dumps([conninfo, str(output), sorted(jobs)])
    return directory / f"userlog-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
