"""A PgBouncer in transaction pooling before a test's PostgreSQL: no session state outlives a transaction."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from fetchwork.pool.ports import free_port
from fetchwork.pool.postgres import SUPERUSER, PostgresServer
from fetchwork.process import account
from tests.waiting import PATIENCE_S


def program() -> str | None:
    """The path of the program, None where Debian's package is not installed."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


class PgBouncer:
    """Every database of ``server``, as its superuser, over ``pool_size`` connections to each."""

    def __init__(self, directory: Path, server: PostgresServer, pool_size: int = 4) -> None:
        self.port = free_port()
        self.log = directory / "pgbouncer.log"
        self._file = directory / "pgbouncer.ini"
        self._file.write_text(
            "[databases]\n"
            f"* = host=127.0.0.1 port={server.port} user={SUPERUSER} password={server.password}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"logfile = {self.log}\n"
            # whoever may connect is that user there: the port is this test's alone
            "auth_type = any\npool_mode = transaction\nserver_reset_query_always = 0\n"
            f"default_pool_size = {pool_size}\nmax_client_conn = 500\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it listens; it refuses to run as root."""
        user: int | None = None
        if os.geteuid() == 0:
            user = account("postgres", "nobody").pw_uid
            for path in (self._file, self._file.parent):
                shutil.chown(path, user)
        self._process = subprocess.Popen(
            [program() or "pgbouncer", "-q", str(self._file)],
            user=user,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError(f"pgbouncer does not start: {self.log.read_text()[-500:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def conninfo(self, dbname: str) -> str:
        """A connection string through it."""
        return f"host=127.0.0.1 port={self.port} dbname={dbname} user={SUPERUSER}"
