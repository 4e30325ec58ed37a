"""A service of a private pool: a process of its own, beside HTCondor, known by its pid in a file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fetchwork.errors import PoolError
from fetchwork.process import Process

_START_S = 60.0
_STOP_S = 20.0


class Resident:
    """A ``fetchwork`` command that runs beside a pool; its only state is in its files, as the pool's is.

    ``name``: its name in messages and in its files' names. Each class below decides when its command listens.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.log = directory / f"{name}.log"
        self._name = name.replace("-", " ")
        self._pid_file = directory / f"{name}.process"

    @property
    def process(self) -> Process | None:
        """Its process, None if it does not run."""
        try:
            process = Process.parse(self._pid_file.read_text())
        except OSError:
            return None
        return process if process is not None and process.alive else None

    @property
    def started(self) -> bool:
        """Whether it was started and not stopped; it may have died since."""
        return self._pid_file.exists()

    def stop(self) -> None:
        """End it."""
        process = self.process
        if process is not None:
            process.signal(15)
            if not process.wait(_STOP_S):
                process.signal(9)
                process.wait(_STOP_S)
        self._pid_file.unlink(missing_ok=True)

    def listens(self) -> bool:
        """Whether it would answer a client."""
        raise NotImplementedError

    def _start(self, words: Sequence[str], environment: Mapping[str, str], *, own_log: bool) -> None:
        """Start the command, and wait until it listens; raises PoolError.

        ``own_log``: the command writes the log file itself; its output is not captured.
        """
        if self.process is not None:
            return
        with Path(os.devnull if own_log else self.log).open("ab") as log:
            started = subprocess.Popen(
                [sys.executable, "-m", "fetchwork", *words],
                env={**os.environ, **environment},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        process = Process.find(started.pid)
        if process is not None:
            self._pid_file.write_text(str(process))
        end = time.monotonic() + _START_S
        while not self.listens():
            if started.poll() is not None or time.monotonic() > end:
                self.stop()
                raise PoolError(f"the {self._name} does not answer: see '{self.log}'")
            time.sleep(0.02)
        # another process may stop the pool than the one that started it
        started.returncode = 0
