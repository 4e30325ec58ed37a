"""A Unix socket that every account of the host may connect to."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

#: who listens, but does not take a connection within this, is reported and not displaced
CONNECT_S = 2.0


def listen(path: Path, backlog: int) -> socket.socket:
    """Listen at ``path``, in place of what is there; raises OSError.

    The path appears when everybody may connect, and not before.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        new = path.with_name(f"{path.name}.{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        listener.bind(str(new))
        new.chmod(0o666)
        listener.listen(backlog)
        new.rename(path)
    except OSError:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def who_listens(path: Path) -> Iterator[socket.socket | None]:
    """A connection to whoever listens at ``path``; None where nobody does.

    The socket of a process that was killed is removed. Raises OSError, for a path that is no socket, too.
    """
    with contextlib.ExitStack() as stack:
        try:
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise FileExistsError(errno.EEXIST, "it is there and is no socket; remove it")
            other = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            other.settimeout(CONNECT_S)
            other.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            yield None
        else:
            yield other
