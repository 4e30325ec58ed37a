"""A Unix socket that every account of the host may connect to."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path


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
