"""Credentials as files of a job's scratch directory, as HTCondor has them: .condor_creds/NAME.use.

The process that writes them has the job's account, and so has the directory: a link that the job has put
there leads only to places where the account could write by itself. A job that reads a file during its
replacement gets the old or the new content, whole.

As a program the module takes as arguments the directory, the name, and the account that root is to become:
uid, gid, groups. It reads the content from stdin; its exit status is an errno.
"""

import os
import sys

#: in the scratch directory; _CONDOR_CREDS names it to the job
DIRECTORY = ".condor_creds"
_SUFFIX = ".use"
_EPERM = 1


def make(sandbox: str) -> str:
    """Make the directory for credentials in a sandbox if needed, and return it; raises OSError."""
    directory = f"{sandbox}/{DIRECTORY}"
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        pass
    fd = _opened(directory)
    try:
        os.fchmod(fd, 0o700)
    finally:
        os.close(fd)
    return directory


def put(directory: str, name: str, content: bytes) -> None:
    """Write or replace the file of a credential; raises OSError and keeps the old file then.

    ``name`` has no slash.
    """
    parent = _opened(directory)
    beside = f".{name}{_SUFFIX}.{os.urandom(8).hex()}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(beside, flags, 0o600, dir_fd=parent)
        try:
            try:
                os.fchmod(fd, 0o600)
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(fd, rest) :]
            finally:
                os.close(fd)
            os.rename(beside, name + _SUFFIX, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            os.unlink(beside, dir_fd=parent)
            raise
    finally:
        os.close(parent)


def _opened(directory: str) -> int:
    """A descriptor of a directory that is no link and belongs to this process's account."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if os.fstat(fd).st_uid != os.geteuid():
        os.close(fd)
        raise PermissionError(_EPERM, "it is another account's", directory)
    return fd


def _as_program(directory: str, name: str, uid: str, gid: str, groups: str) -> int:
    try:
        os.setgroups(list(map(int, groups.split(","))))
        os.setresgid(int(gid), int(gid), int(gid))
        os.setresuid(int(uid), int(uid), int(uid))
        put(directory, name, sys.stdin.buffer.read())
    except OSError as error:
        return min(255, error.errno or 5)
    return 0


if __name__ == "__main__":
    sys.exit(_as_program(*sys.argv[1:]))
