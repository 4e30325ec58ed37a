"""The access point and the page of a private pool."""

from __future__ import annotations

import importlib.util
import secrets
import socket
from pathlib import Path

from fetchwork.pool.ports import free_port
from fetchwork.pool.resident import Resident

#: the modules of the package's extra "page"
_NEEDED = ("fastapi", "starlette", "uvicorn")


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


class ServedPage(Resident):
    """The page of the pool in a directory, which shows and changes nothing; its link is a secret."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "page")
        self._token_file = directory / "page.token"
        self._address_file = directory / "page.address"

    @staticmethod
    def installed() -> bool:
        """Whether its requirements are installed."""
        return all(importlib.util.find_spec(name) is not None for name in _NEEDED)

    @property
    def link(self) -> str | None:
        """The address that a browser is given; None while it does not run."""
        if self.process is None:
            return None
        token = self._token_file.read_text().strip()
        return f"http://{self._address_file.read_text().strip()}/?token={token}"

    def start(self, conninfo: str) -> None:
        """Start it at a free port of this machine, and wait until it listens; raises PoolError."""
        if self.process is not None:
            return
        if not self._token_file.exists():
            self._token_file.touch(mode=0o600)
            self._token_file.write_text(secrets.token_urlsafe(24) + "\n")
        address = f"127.0.0.1:{free_port()}"
        self._address_file.write_text(f"{address}\n")
        words = ["serve", "--listen", address, "--token-file", str(self._token_file)]
        # the connection string is a secret: not among the arguments
        self._start(words, {"FETCHWORK_DSN": conninfo}, own_log=False)

    def listens(self) -> bool:
        """Whether it accepts connections."""
        host, _, port = self._address_file.read_text().strip().partition(":")
        with socket.socket() as client:
            try:
                client.connect((host, int(port)))
            except OSError:
                return False
        return True
