"""The access point of a private pool."""

from __future__ import annotations

import socket
from pathlib import Path

from fetchwork.pool.resident import Resident


class AccessPointProcess(Resident):
    """The access point in a pool's directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "access-point")
        self.socket = directory / "access-point.sock"
        self._state = directory / "access-point"

    def start(self, conninfo: str) -> None:
        """Start it, and wait until it listens; raises PoolError."""
        words = ["access-point", "--socket", str(self.socket), "--state", str(self._state)]
        words += ["--log-file", str(self.log)]
        # the connection string is a secret: not among the arguments
        self._start(words, {"FETCHWORK_DSN": conninfo}, own_log=True)

    def listens(self) -> bool:
        """Whether it accepts connections."""
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(self.socket))
            except OSError:
                return False
        return True
