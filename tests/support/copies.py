"""PostgreSQL servers and pools that begin as copies of the first of their sort in a run of the tests.

A server with the schema, and the sources compiled for the Python of a pool root, are the same for all of a
run, and making them takes a third of the processor time of a pool's start. Tests of these steps themselves
use ``PostgresServer`` and ``PersonalPool``.
"""

import fcntl
import functools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Self

from fetchwork.db import schema
from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import CondorRoot, condor_root
from fetchwork.pool.machine import Machine, RootMachine
from fetchwork.pool.personal import DBNAME
from fetchwork.pool.postgres import PostgresServer

#: the environment variable with the directory of the originals, for all workers
VARIABLE = "FETCHWORK_TEST_ORIGINALS"
_condor_root = functools.cache(condor_root)


def begin_as_copy(server: PostgresServer, programs: Path | None = None) -> PostgresServer:
    """Give a server that was never started the data of another: ``DBNAME`` has the schema."""
    name = "-".join(programs.parts[1:]) if programs else "wheel"
    original = PostgresServer(_original(name, lambda path: _make_server(path, programs)))
    _copy(original.directory, server.directory)
    server.log.unlink()
    server.configure(original.programs, original.password)
    return server


def _make_server(directory: Path, programs: Path | None) -> None:
    server = PostgresServer(directory, programs=programs)
    server.start()
    server.create_database(DBNAME)
    schema.init(server.conninfo(DBNAME))
    server.stop()


class CopiedPool(PersonalPool):
    """A pool whose first start copies its server and its compiled sources."""

    _has_schema = False

    def start(self) -> Self:
        if self.has_database and not self.postgres.directory.exists():
            self._make_directory()
            begin_as_copy(self.postgres)
            self._has_schema = True
        return super().start()

    def _make_database(self) -> None:
        if self._has_schema:
            self._has_schema = False
        else:
            super()._make_database()

    def _find_machine(self) -> Machine:
        suite = self.settings.suite
        return super()._find_machine() if suite is None else self._root_machine(_condor_root(suite))

    def _root_machine(self, root: CondorRoot) -> RootMachine:
        return _CopiedMachine(self.directory, root, self.host_name)


class _CopiedMachine(RootMachine):
    def _copy_source(self, target: Path) -> None:
        compile_anew = super()._copy_source

        def make(original: Path) -> None:
            compile_anew(target)
            _copy(target, original)

        if any(target.iterdir()):
            compile_anew(target)
        else:
            _copy(_original(self.root.path.name, make), target)


def _original(name: str, make: Callable[[Path], None]) -> Path:
    """The directory of this name, which ``make`` fills for the first that asks, in whichever worker."""
    path = Path(os.environ[VARIABLE]) / name
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.with_suffix(".made").exists():
            make(path)
            path.with_suffix(".made").touch()
    return path


def _copy(original: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", "-T", original, target], check=True)
