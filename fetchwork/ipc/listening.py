"""Listening on a Unix socket that every account of the host may connect to."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

#: seconds for a connection; a listener that does not take one in time is reported, and stays
CONNECT_S = 2.0


def listen(path: Path, backlog: int) -> socket.socket:
    """Listen at ``path`` and replace an existing file there; raises OSError.

    The path appears only once every account may connect.
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
    """Yield a connection to the listener at ``path``; None if there is no listener.

    The socket of a killed process is removed. Raises OSError, also if the path is no socket.
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
