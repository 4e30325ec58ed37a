"""The access point of a private pool: a process of its own, beside HTCondor."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from fetchwork.errors import PoolError
from fetchwork.process import Process

_START_S = 60.0
_STOP_S = 20.0


class AccessPointProcess:
    """The access point in a pool's directory; as the pool, it is nothing but its files."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "access-point.sock"
        self.log = directory / "access-point.log"
        self._state = directory / "access-point"
        self._pid_file = directory / "access-point.process"

    @property
    def process(self) -> Process | None:
        """Its process, None if it does not run."""
        try:
            process = Process.parse(self._pid_file.read_text())
        except OSError:
            return None
        return process if process is not None and process.alive else None

    def start(self, conninfo: str) -> None:
        """Start it, and wait until it listens; raises PoolError."""
        if self.process is not None:
            return
        command = [sys.executable, "-m", "fetchwork", "access-point", "--socket", str(self.socket)]
        command += ["--state", str(self._state), "--log-file", str(self.log)]
        # the connection string is a secret: not among the arguments
        started = subprocess.Popen(
            command,
            env={**os.environ, "FETCHWORK_DSN": conninfo},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        process = Process.find(started.pid)
        if process is not None:
            self._pid_file.write_text(str(process))
        end = time.monotonic() + _START_S
        while not self._listens():
            if started.poll() is not None or time.monotonic() > end:
                self.stop()
                raise PoolError(f"the access point does not answer: see '{self.log}'")
            time.sleep(0.02)
        # whoever stops the pool need not be who started it
        started.returncode = 0

    def stop(self) -> None:
        """End it."""
        process = self.process
        if process is not None:
            process.signal(15)
            if not process.wait(_STOP_S):
                process.signal(9)
                process.wait(_STOP_S)
        self._pid_file.unlink(missing_ok=True)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(self.socket))
            except OSError:
                return False
        return True
