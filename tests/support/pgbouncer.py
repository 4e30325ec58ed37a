"""A PgBouncer in transaction pooling before a test's PostgreSQL: no session state outlives a transaction."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from fetchwork.pool.cache import cached
from fetchwork.pool.condorroot import KEYRING, MIRROR
from fetchwork.pool.ports import free_port
from fetchwork.pool.postgres import SUPERUSER, PostgresServer
from fetchwork.process import account
from tests.support.waiting import PATIENCE_S


def program() -> str | None:
    """The path of the program, None where Debian's package is not installed."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


#: the Debian release after the machine's, whose PgBouncer tracks prepared statements, and the libraries that
#: it was linked with
_LATER = "trixie"
_LATER_PACKAGES = (
    "pgbouncer", "libaudit1", "libc6", "libcap-ng0", "libcap2", "libcares2", "libevent-2.1-7t64",
    "libgcc-s1", "libpam0g", "libssl3t64", "libsystemd0", "libzstd1", "zlib1g",
)  # fmt: skip
_FETCH = f"""
set -e
cd "$1"
mkdir -p apt/lists/partial apt/archives/partial
echo 'deb [signed-by={KEYRING}] {MIRROR} {_LATER} main' > apt/sources.list
touch apt/status
set -- -qq -o Dir::Etc::sourcelist="$1/apt/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$1/apt/lists" -o Dir::State::status="$1/apt/status" -o Dir::Cache="$1/apt" \
    -o APT::Sandbox::User=root
apt-get "$@" update
apt-get "$@" download {" ".join(_LATER_PACKAGES)}
for package in *.deb; do dpkg -x "$package" .; done
rm -r apt ./*.deb
"""


def later_program() -> list[str]:
    """The command of a PgBouncer that tracks prepared statements: Debian's, kept in the cache.

    Raises OSError or CalledProcessError if it is not available.
    """

    def unpack(directory: Path) -> None:
        subprocess.run(["sh", "-c", _FETCH, "sh", directory], check=True, capture_output=True)

    tree = cached(f"pgbouncer-{_LATER}", unpack) / "usr"
    (libraries,) = (tree / "lib").glob("*-linux-gnu")
    (loader,) = (path for path in libraries.glob("ld-linux*.so.*"))
    return [str(loader), "--library-path", str(libraries), str(tree / "sbin/pgbouncer")]


class PgBouncer:
    """Every database of ``server``, as its superuser, over ``pool_size`` connections to each.

    ``command`` starts another PgBouncer than the machine's own; ``settings`` are lines of its file. With
    ``own_roles`` each client is the role that it logs in as, with its own password.
    """

    def __init__(
        self,
        directory: Path,
        server: PostgresServer,
        pool_size: int = 4,
        *,
        command: list[str] | None = None,
        settings: str = "",
        own_roles: bool = False,
    ) -> None:
        self.port = free_port()
        self.settings = settings
        self.log = directory / "pgbouncer.log"
        self._command = command or [program() or "pgbouncer"]
        self._file = directory / "pgbouncer.ini"
        users = directory / "users.txt"
        users.write_text(f'"{SUPERUSER}" "{server.password}"\n')
        if own_roles:
            role = f"auth_user={SUPERUSER}"
            # without auth_dbname the query runs in the client's database
            auth = (
                f"auth_type = scram-sha-256\nauth_file = {users}\n"
                "auth_query = SELECT usename, passwd FROM pg_shadow WHERE usename = $1\n"
            )
        else:
            role = f"user={SUPERUSER} password={server.password}"
            # every client is that user there: the port is this test's alone
            auth = "auth_type = any\n"
        self._text = (
            f"[databases]\n* = host=127.0.0.1 port={server.port} {role}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"logfile = {self.log}\n"
            f"{auth}pool_mode = transaction\nserver_reset_query_always = 0\n"
            f"default_pool_size = {pool_size}\nmax_client_conn = 500\n"
        )
        self._file.write_text(self._text + settings)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it listens; it refuses to run as root."""
        user: int | None = None
        if os.geteuid() == 0:
            user = account("postgres", "nobody").pw_uid
            for path in (self._file, self._file.with_name("users.txt"), self._file.parent):
                shutil.chown(path, user)
        self._process = subprocess.Popen(
            [*self._command, "-q", str(self._file)],
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

    def reload(self, settings: str) -> None:
        """Let it read other settings."""
        assert self._process is not None
        self._file.write_text(self._text + settings)
        self._process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """End it at once."""
        if self._process is not None:
            # from 1.23 on SIGTERM waits for the clients
            self._process.kill()
            self._process.wait()

    def conninfo(self, dbname: str) -> str:
        """A connection string through it."""
        return f"host=127.0.0.1 port={self.port} dbname={dbname} user={SUPERUSER}"
