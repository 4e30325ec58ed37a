"""Reports that could not be delivered: written by hooks as files, read and delivered by the agent.

The directory is the agent's (``sandbox.spooldir``): a job's user can write files into it, but can't list it,
or read or change others' files. A file has the bytes of the undelivered request (PROTOCOL.md), with the time
of writing in its head.

An account may forge its files: the agent trusts only the file's owner, whom the kernel knows, and treats the
owner like the peer of a socket. A file that is not a report is moved to ``bad/`` (mode 700) and logged, so
that it neither delays other reports nor is read again. Owners take turns, so a flood of one account's files
does not delay the reports of others.
"""

import os
import stat
import time

from fetchwork.hook.wire import MAX_BODY, MAX_HEAD, Request, RequestReader, encode_request
from fetchwork.hookerrors import FetchworkError, ProtocolError
from fetchwork.sandbox.spooldir import let_agent_read

MODE = 0o3733
BAD = "bad"
MAX_REPORT = MAX_HEAD + MAX_BODY
_SUFFIX = ".report"
_PARTIAL = ".partial"
#: most files of one round
AT_ONCE = 1000
#: files whose owners are remembered while more wait
MOST_KNOWN = 200_000
#: age in seconds at which a partial file has lost its writer
_PARTIAL_LIFE_S = 3600.0


def write_report(directory: str, request: Request, uid: int = -1) -> str:
    """Write a report that survives a power cut from then on, and return its path.

    With ``uid``, which needs root, the file belongs to that account.
    """
    data = encode_request(
        Request(
            request.name,
            request.body,
            keyword=request.keyword,
            arg=request.arg,
            slot=request.slot,
            written=int(time.time()),
        )
    )
    # names begin with the time, so they sort by it
    name = f"{directory}/{time.time_ns():020d}-{os.urandom(16).hex()}"
    try:
        fd = os.open(
            name + _PARTIAL, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            let_agent_read(fd, directory)
            if uid >= 0:
                os.fchown(fd, uid, -1)
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
            os.rename(name + _PARTIAL, name + _SUFFIX)
            # an account that can't list the directory can't open it to sync it. Renaming changes the file's
            # own inode, so a second sync of the file writes its name, too (ext4, xfs, btrfs).
            os.fsync(fd)
        except OSError:
            try:
                os.unlink(name + _PARTIAL)
            except FileNotFoundError:
                pass
            raise
        finally:
            os.close(fd)
    except OSError as exc:
        raise FetchworkError(f"cannot write a report to spool '{directory}': {exc.strerror}") from None
    return name + _SUFFIX


class Report:
    """A report: the request, and ``uid``, the account that wrote it."""

    def __init__(self, name: str, uid: int, request: Request) -> None:
        self.name = name
        self.uid = uid
        self.request = request


class Rejected:
    """A file that was moved aside: its name, the account that wrote it, and the reason."""

    def __init__(self, name: str, uid: int, reason: str) -> None:
        self.name = name
        self.uid = uid
        self.reason = reason


class Reading:
    """The outcome of one ``read``: the reports, and the files that were moved aside."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.rejected: list[Rejected] = []


class Spool:
    """The agent's side of the directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        # rejected files that can't be moved: they are not read again
        self._stuck: set[str] = set()
        self._owners: dict[str, int] = {}

    def make(self, owner: int | None = None, group: int | None = None) -> None:
        """Make or correct the directory for an agent of this uid and gid (default: the caller's).

        Raises FetchworkError, above all if the directory belongs to another account.
        """
        owner = os.geteuid() if owner is None else owner
        group = os.getegid() if group is None else group
        bad = os.path.join(self.directory, BAD)
        try:
            os.makedirs(self.directory, exist_ok=True)
            self._own(self.directory, owner, group, MODE)
            try:
                os.mkdir(bad, 0o700)
            except FileExistsError:
                pass
            self._own(bad, owner, group, 0o700)
        except OSError as exc:
            raise FetchworkError(f"cannot make spool '{self.directory}': {exc.strerror}") from exc

    @staticmethod
    def _own(path: str, owner: int, group: int, mode: int) -> None:
        # by descriptor, so that the directory that was checked is the one that is changed
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            if status.st_uid not in (owner, os.geteuid()):
                raise FetchworkError(
                    f"directory '{path}' belongs to uid {status.st_uid}; it must be the agent's own"
                )
            if (status.st_uid, status.st_gid) != (owner, group):
                os.fchown(fd, owner, group)
            if os.geteuid() in (0, owner):
                os.fchmod(fd, mode)
        finally:
            os.close(fd)

    def waiting(self, limit: int = AT_ONCE) -> list[str]:
        """Return the names of up to ``limit`` files to ``read``, oldest first.

        If there are more, owners take turns: a flood of one account's files does not delay the others.
        """
        try:
            listed = set(os.listdir(self.directory))
        except OSError as exc:
            raise FetchworkError(f"cannot read spool '{self.directory}': {exc.strerror}") from exc
        self._stuck &= listed
        names = sorted(listed - self._stuck - {BAD})
        if len(names) <= limit:
            self._owners = {}
            return names
        return sorted(self._shared_out(names)[:limit])

    def read(self, names: list[str] | None = None) -> Reading:
        """Read the files ``names`` (default: all ``waiting``), and move aside those that are not reports."""
        reading = Reading()
        for name in self.waiting() if names is None else names:
            rejected = None
            try:
                report = self._read_one(name)
            except FileNotFoundError:
                continue
            except OSError as exc:
                rejected = self._set_aside(name, f"can't be read: {exc.strerror}")
            except ProtocolError as exc:
                rejected = self._set_aside(name, str(exc))
            else:
                if report is not None:
                    reading.reports.append(report)
            if rejected is not None:
                reading.rejected.append(rejected)
        return reading

    def trim_bad(self, keep: int) -> int:
        """Delete all but the ``keep`` files moved aside last; return the number of files deleted."""
        bad = os.path.join(self.directory, BAD)
        files: list[tuple[int, str]] = []
        deleted = 0
        # a failure here may not stop the delivery of reports; `fetchwork doctor` counts these files
        try:
            names = os.listdir(bad)
        except OSError:
            return 0
        for name in names if len(names) > keep else ():
            path = os.path.join(bad, name)
            try:
                # moving a file changes its ctime, which its owner can't set
                files.append((os.lstat(path).st_ctime_ns, path))
            except OSError:
                pass
        files.sort()
        for _, path in files[: max(0, len(files) - keep)]:
            try:
                os.unlink(path)
                deleted += 1
            except OSError:
                pass
        return deleted

    def delete(self, report: Report) -> None:
        """Delete a report that was delivered or is not needed."""
        try:
            os.unlink(os.path.join(self.directory, report.name))
        except FileNotFoundError:
            pass
        except OSError as exc:
            raise FetchworkError(f"cannot delete report '{report.name}': {exc.strerror}") from exc

    def reject(self, report: Report, reason: str) -> Rejected | None:
        """Move aside a report that can never be delivered; None if the file is gone."""
        return self._set_aside(report.name, reason)

    def _shared_out(self, names: list[str]) -> list[str]:
        """The names in an order in which owners take turns, without files that are being written."""
        turns: dict[int, int] = {}
        order: list[tuple[int, str]] = []
        # a system call for each of many thousands, at each look, would take the agent's time
        known, self._owners = self._owners, {}
        for name in names:
            uid = known.get(name)
            if uid is None:
                try:
                    status = os.lstat(os.path.join(self.directory, name))
                except FileNotFoundError:
                    continue
                if self._is_being_written(name, status):
                    continue
                uid = status.st_uid
            if len(self._owners) < MOST_KNOWN:
                self._owners[name] = uid
            turn = turns[uid] = turns.get(uid, 0) + 1
            order.append((turn, name))
        order.sort()
        return [name for _, name in order]

    @staticmethod
    def _is_being_written(name: str, status: os.stat_result) -> bool:
        return (
            name.endswith(_PARTIAL)
            and stat.S_ISREG(status.st_mode)
            and time.time() - status.st_mtime < _PARTIAL_LIFE_S
        )

    def _read_one(self, name: str) -> Report | None:
        path = os.path.join(self.directory, name)
        status = os.lstat(path)
        if self._is_being_written(name, status):
            return None
        if name.endswith(_PARTIAL):
            raise ProtocolError("was never completed")
        if not stat.S_ISREG(status.st_mode):
            raise ProtocolError("is not a regular file")
        # the name may be another file's by now: the checks are repeated on the open file
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise ProtocolError("is not a regular file")
            if status.st_nlink > 1:
                raise ProtocolError("has more than one name")
            if not name.endswith(_SUFFIX):
                raise ProtocolError(f"its name does not end with '{_SUFFIX}'")
            if status.st_size > MAX_REPORT:
                raise ProtocolError(f"is larger than {MAX_REPORT} bytes")
            data = file.read(MAX_REPORT + 1)
        reader = RequestReader()
        reader.feed(data)
        request = reader.next_request()
        if request is None or not reader.empty:
            raise ProtocolError("is not one whole request")
        if request.name != "job_exit":
            raise ProtocolError(f"holds a request '{request.name}', not job_exit")
        return Report(name, status.st_uid, request)

    def _set_aside(self, name: str, reason: str) -> Rejected | None:
        path = os.path.join(self.directory, name)
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return None
        try:
            if stat.S_ISDIR(status.st_mode):
                # only root may move another account's directory; an empty one can be deleted
                os.rmdir(path)
            else:
                os.rename(path, os.path.join(self.directory, BAD, name))
        except OSError as exc:
            self._stuck.add(name)
            reason = f"{reason}; it stays where it is: {exc.strerror}"
        return Rejected(name, status.st_uid, reason)
