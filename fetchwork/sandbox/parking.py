"""Stages a job's outputs in a directory of the host, from which the agent uploads them.

JOB_EXIT has seconds, a database may be away for hours. So the files are moved out of the sandbox (by rename
within one file system), then the report of the job's end is written, and last the manifest: a directory
without a manifest was never finished and is not used. The files and the report are synced before the manifest
gets its name: the starter deletes the sandbox, and a power cut would leave the agent a manifest of empty
files. Each directory belongs to the job's account, in a
directory of the agent (``spooldir``): no other account can enter it, even if it knows the name.
"""

from __future__ import annotations

import os
import stat
import time

from fetchwork.sandbox.failure import FileFailure, TransferFailure, of_file, of_output, open_regular
from fetchwork.sandbox.jsontext import to_json
from fetchwork.sandbox.spooldir import let_agent_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fetchwork.sandbox.outputs import Output, Use

MANIFEST = "manifest"
REPORT = "report"
PARTIAL = ".partial"
#: of the spool of outputs, which is beside the spool of reports
SUFFIX = ".outputs"
#: staged files of one job, and bytes of the manifest
MAX_FILES = 20_000
MAX_MANIFEST = 16 << 20
_CHUNK = 1 << 20
#: files that are synced one by one; for more, one sync of the file system is quicker
_MOST_SYNCS = 10


class Parking:
    """A new directory of staged files below ``directory``; with ``copy`` the sandbox keeps its files."""

    def __init__(self, directory: str, *, copy: bool = False) -> None:
        self._copies = copy
        self.name = f"{time.time_ns():020d}-{os.urandom(16).hex()}"
        self._path = f"{directory}/{self.name}"
        self._files: list[dict[str, object]] = []
        #: moved files have a group of their account, which the agent may lack
        self._mode = 0o644
        try:
            os.mkdir(self._path, 0o700)
            let_agent_read(self._path, directory)
        except OSError as error:
            self.drop()
            problem = f"cannot park files in '{directory}': {error.strerror}"
            raise of_output(problem, error.errno or 5) from None

    def take(self, outputs: Iterable[Output]) -> FileFailure | None:
        """Move the files out of the sandbox, and return the first failure.

        A file that can't be read or written does not keep the others from being moved.
        """
        failure: FileFailure | None = None
        for output in outputs:
            entry: dict[str, object] = {"name": output.name, "mode": output.mode & 0o777}
            if output.directory:
                entry["directory"] = True
            elif output.url:
                entry |= {"url": output.url, "size": output.size}
            else:
                if len(self._files) >= MAX_FILES:
                    return failure or FileFailure(7, f"more than {MAX_FILES} output files")
                try:
                    entry |= {"file": len(self._files), "size": self._move(output, str(len(self._files)))}
                except OSError as error:
                    failure = failure or of_file("reading from file", output.path, error)
                    continue
                except FileFailure as error:
                    failure = failure or error
                    continue
            self._files.append(entry)
        return failure

    def finish(self, report: bytes, use: Use, failure: TransferFailure | None, **more: object) -> str:
        """Write the report and the manifest, and return the directory's name; from now on it is valid.

        Raises TransferFailure if they can't be written.
        """
        manifest: dict[str, object] = {"use": use, "files": self._files, **more}
        if failure is not None:
            manifest["failure"] = {
                "code": failure.code,
                "subcode": failure.subcode,
                "reason": failure.reason,
            }
        try:
            fd = self._written(MANIFEST + PARTIAL, to_json(manifest).encode())
            try:
                os.close(self._written(REPORT, report))
                self._sync(fd)
                os.rename(f"{self._path}/{MANIFEST}{PARTIAL}", f"{self._path}/{MANIFEST}")
                # as in the spool of reports, this syncs its name; half a manifest is no JSON, and not used
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise of_output(f"cannot park files: {error.strerror}", error.errno or 5) from None
        return self.name

    def drop(self) -> None:
        """Remove the directory and its files."""
        try:
            for name in os.listdir(self._path):
                os.unlink(f"{self._path}/{name}")
            os.rmdir(self._path)
        except OSError:
            pass

    def _written(self, name: str, data: bytes) -> int:
        """Write a file and return its descriptor."""
        fd = os.open(f"{self._path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, self._mode)
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _sync(self, manifest: int) -> None:
        """Sync the staged files and the report; ``manifest`` is a descriptor of the same file system."""
        staged = [str(entry["file"]) for entry in self._files if "file" in entry]
        if len(staged) > _MOST_SYNCS:
            import ctypes

            libc = ctypes.CDLL(None, use_errno=True)
            if libc.syncfs(manifest):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            return
        for name in [*staged, REPORT]:
            fd = os.open(f"{self._path}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _move(self, output: Output, name: str) -> int:
        """Move a file in and return its bytes.

        A file with other hard links, on another file system or of another account is copied.
        """
        target = f"{self._path}/{name}"
        if self._copies:
            return self._copy(output.path, target)
        status = os.lstat(output.path)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == os.geteuid():
            try:
                os.rename(output.path, target)
            except OSError:
                pass
            else:
                os.chmod(target, self._mode)
                return status.st_size
        return self._copy(output.path, target)

    def _copy(self, path: str, target: str) -> int:
        source, most = open_regular(path)
        try:
            copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(copy, self._mode)
                size = _copy_all(source, copy, most, target)
            except BaseException:
                # the next file takes this number and, on a full disk, this room
                os.unlink(target)
                raise
            finally:
                os.close(copy)
            return size
        finally:
            os.close(source)


def _copy_all(source: int, copy: int, most: int, target: str) -> int:
    """Copy at most so many bytes, and return their number. Raises FileFailure if the copy can't be written.

    A process may append to the file as fast as it is read.
    """
    size = 0
    while data := os.read(source, min(_CHUNK, most - size)):
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(copy, view) :]
        except OSError as error:
            raise of_file("writing to file", target, error) from None
        size += len(data)
    return size
