"""Reports that could not be delivered: written by hooks as files, read and delivered by the agent.

The directory is the agent's, mode 1733: the job's user writes into it, but can't list it, and can't touch
what is another's. A name can't be guessed, since it would let its reader have the run's token. A file is the
request that the agent never got, byte by byte (PROTOCOL.md), with the time of writing in its head.

What an account may write, it may forge: the reading side trusts nothing but the owner that the kernel tells,
which it hands on as it hands on the peer of a socket. What it can't make sense of is moved to ``bad/`` (mode
700) and reported, so that it neither blocks the rest nor is looked at again. However much one account writes,
the reports of the others are among the next that are read.
"""

import os
import stat
import time

from fetchwork.errors import FetchworkError, ProtocolError
from fetchwork.hook.wire import MAX_BODY, MAX_HEAD, Request, RequestReader, encode_request

MODE = 0o1733
BAD = "bad"
MAX_REPORT = MAX_HEAD + MAX_BODY
_SUFFIX = ".report"
_PARTIAL = ".partial"
#: files looked at together
AT_ONCE = 1000
#: a partial file of this age has lost its writer
_PARTIAL_LIFE_S = 3600.0


def write_report(directory: str, request: Request) -> str:
    """Write a report that survives a power cut once this returns, and return its path."""
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
    # the time first: the names sort as they were written
    name = f"{directory}/{time.time_ns():020d}-{os.urandom(16).hex()}"
    try:
        # readable for an agent that is not root; found by nobody else
        fd = os.open(
            name + _PARTIAL, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644
        )
        try:
            os.fchmod(fd, 0o644)
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
            os.rename(name + _PARTIAL, name + _SUFFIX)
            # the directory can't be opened by those who can't list it. Renaming changes the file's own inode,
            # so syncing the file once more brings its name to the disk with it (ext4, xfs, btrfs).
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
    """One report: the request, and ``uid``, the account that wrote it."""

    def __init__(self, name: str, uid: int, request: Request) -> None:
        self.name = name
        self.uid = uid
        self.request = request


class Spool:
    """The agent's side of the directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        #: what was moved aside since the last ``read`` began: file name, owner, reason
        self.rejected: list[tuple[str, int, str]] = []
        # what is no report and can't be moved either: told once, then passed over
        self._stuck: set[str] = set()

    def make(self, owner: int | None = None) -> None:
        """Make the directory, or put it right, for an agent that runs as uid ``owner`` (default: the caller).

        Raises FetchworkError where that is not possible, and where it belongs to somebody else.
        """
        owner = os.geteuid() if owner is None else owner
        bad = os.path.join(self.directory, BAD)
        try:
            os.makedirs(self.directory, exist_ok=True)
            self._own(self.directory, owner, MODE)
            try:
                os.mkdir(bad, 0o700)
            except FileExistsError:
                pass
            self._own(bad, owner, 0o700)
        except OSError as exc:
            raise FetchworkError(f"cannot make spool '{self.directory}': {exc.strerror}") from exc

    @staticmethod
    def _own(path: str, owner: int, mode: int) -> None:
        # by descriptor: what is looked at is what is changed
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(fd).st_uid
            if found not in (owner, os.geteuid()):
                raise FetchworkError(f"directory '{path}' belongs to uid {found}; it must be the agent's own")
            if found != owner:
                os.fchown(fd, owner, -1)
            if os.geteuid() in (0, owner):
                os.fchmod(fd, mode)
        finally:
            os.close(fd)

    def waiting(self, limit: int = AT_ONCE) -> list[str]:
        """Return the names of up to ``limit`` files to ``read``, oldest first.

        Where there are more, each owner has a share: a flood by one keeps nobody else's waiting.
        """
        try:
            found = set(os.listdir(self.directory))
        except OSError as exc:
            raise FetchworkError(f"cannot read spool '{self.directory}': {exc.strerror}") from exc
        self._stuck &= found
        names = sorted(found - self._stuck - {BAD})
        return names if len(names) <= limit else sorted(self._shared_out(names)[:limit])

    def read(self, names: list[str] | None = None) -> list[Report]:
        """Return the reports among ``names`` (default: what is ``waiting``), and move aside what is none."""
        self.rejected = []
        reports: list[Report] = []
        for name in self.waiting() if names is None else names:
            try:
                report = self._read_one(name)
            except FileNotFoundError:
                continue
            except OSError as exc:
                self._set_aside(name, f"can't be read: {exc.strerror}")
            except ProtocolError as exc:
                self._set_aside(name, str(exc))
            else:
                if report is not None:
                    reports.append(report)
        return reports

    def trim_bad(self, keep: int) -> int:
        """Delete all but the ``keep`` files moved aside last; return how many."""
        bad = os.path.join(self.directory, BAD)
        found: list[tuple[int, str]] = []
        deleted = 0
        # no failure here may keep reports from being delivered; the doctor tells how many files there are
        try:
            names = os.listdir(bad)
        except OSError:
            return 0
        for name in names if len(names) > keep else ():
            path = os.path.join(bad, name)
            try:
                # moving a file changes its ctime, which its owner can't set
                found.append((os.lstat(path).st_ctime_ns, path))
            except OSError:
                pass
        found.sort()
        for _, path in found[: max(0, len(found) - keep)]:
            try:
                os.unlink(path)
                deleted += 1
            except OSError:
                pass
        return deleted

    def delete(self, report: Report) -> None:
        """Forget a report that was delivered, or that will never be wanted."""
        try:
            os.unlink(os.path.join(self.directory, report.name))
        except FileNotFoundError:
            pass
        except OSError as exc:
            raise FetchworkError(f"cannot delete report '{report.name}': {exc.strerror}") from exc

    def reject(self, report: Report, reason: str) -> None:
        """Move aside a report that the agent can't deliver however often it tries."""
        self._set_aside(report.name, reason)

    def _shared_out(self, names: list[str]) -> list[str]:
        """The names in an order in which owners take turns, without partial files that have a writer."""
        turns: dict[int, int] = {}
        order: list[tuple[int, str]] = []
        for name in names:
            try:
                found = os.lstat(os.path.join(self.directory, name))
            except FileNotFoundError:
                continue
            if not self._is_being_written(name, found):
                turn = turns[found.st_uid] = turns.get(found.st_uid, 0) + 1
                order.append((turn, name))
        order.sort()
        return [name for _, name in order]

    @staticmethod
    def _is_being_written(name: str, found: os.stat_result) -> bool:
        return (
            name.endswith(_PARTIAL)
            and stat.S_ISREG(found.st_mode)
            and time.time() - found.st_mtime < _PARTIAL_LIFE_S
        )

    def _read_one(self, name: str) -> Report | None:
        path = os.path.join(self.directory, name)
        found = os.lstat(path)
        if self._is_being_written(name, found):
            return None
        if name.endswith(_PARTIAL):
            raise ProtocolError("was never completed")
        if not stat.S_ISREG(found.st_mode):
            raise ProtocolError("is not a regular file")
        # the file may be another by now: what counts is what was opened
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise ProtocolError("is not a regular file")
            if found.st_nlink > 1:
                raise ProtocolError("has more than one name")
            if not name.endswith(_SUFFIX):
                raise ProtocolError(f"its name does not end with '{_SUFFIX}'")
            if found.st_size > MAX_REPORT:
                raise ProtocolError(f"is larger than {MAX_REPORT} bytes")
            data = file.read(MAX_REPORT + 1)
        reader = RequestReader()
        reader.feed(data)
        request = reader.next_request()
        if request is None or not reader.empty:
            raise ProtocolError("is not one whole request")
        if request.name != "job_exit":
            raise ProtocolError(f"holds a request '{request.name}', not job_exit")
        return Report(name, found.st_uid, request)

    def _set_aside(self, name: str, reason: str) -> None:
        path = os.path.join(self.directory, name)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return
        try:
            if stat.S_ISDIR(found.st_mode):
                # to move another's directory one must be root; an empty one is no loss
                os.rmdir(path)
            else:
                os.rename(path, os.path.join(self.directory, BAD, name))
        except OSError as exc:
            self._stuck.add(name)
            reason = f"{reason}; it stays where it is: {exc.strerror}"
        self.rejected.append((name, found.st_uid, reason))
