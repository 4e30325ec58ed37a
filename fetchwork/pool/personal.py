"""A private pool in one directory: PostgreSQL, the agent, the access point, and an HTCondor that fetches.

A pool is nothing but its directory: two processes that name the same directory have the same pool. Files in
it hold the pids of everything that runs, with their start times, so a pool that is started twice runs once,
and stopping it ends its own processes and no others.
"""

import fcntl
import json
import os
import secrets
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, Unpack

from fetchwork import config as hostconfig
from fetchwork import deploy
from fetchwork.config.toml import to_toml
from fetchwork.credentials.keys import KeyFile
from fetchwork.db import schema
from fetchwork.db.calls import credentials as credential_calls
from fetchwork.db.database import Database
from fetchwork.errors import PoolError
from fetchwork.pool.condor import Condor
from fetchwork.pool.condorroot import DEFAULT_SUITE, CondorRoot, condor_root
from fetchwork.pool.hostfile import Tables, host_tables
from fetchwork.pool.machine import Machine, RootMachine, ThisMachine, machine_has_condor, machine_name
from fetchwork.pool.postgres import PostgresServer
from fetchwork.pool.services import AccessPointProcess, ServedPage
from fetchwork.process import Process

DBNAME = "fetchwork"
AGENT_ROLE = "pool_agent"
ACCESS_POINT_ROLE = "pool_access_point"
# a Unix socket's path has at most 107 bytes, and the longest of ours ends with /run/agent.sock
_LONGEST_PATH = 90
_AGENT_TIMEOUT_S = 120

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """The settings that a pool was made with; kept in its directory."""

    slots: int = 4
    partitionable: bool = False
    suite: str | None = None
    host: Tables = field(default_factory=dict)
    config: str = ""
    database: str | None = None
    host_of: str | None = None


class Shape(TypedDict, total=False):
    """The settings that were given, but for HTCondor's configuration."""

    slots: int
    partitionable: bool
    suite: str | None
    host: Tables
    database: str | None


class Given(Shape, total=False):
    """The settings that were given."""

    config: str


class PersonalPool:
    """A pool of one's own, after ``htcondor2.personal.PersonalPool``.

    As a context manager it is started, and stopped at the end unless ``detach`` was called. A pool without a
    ``directory`` gets a new one, which is removed when it stops.

    ``slots``: how many cores it has, each a static slot, or with ``partitionable`` all one.
    ``suite``: run an HTCondor of this Debian suite (``trixie``, ``sid``) in a root directory, which needs
    root; without it the machine's HTCondor is taken, or Debian 13's if the machine has none.
    ``host``: tables of a host file; they override the pool's own. ``config``: more HTCondor configuration.
    ``database``: a connection string; the pool then has no PostgreSQL of its own.
    ``host_of``: the directory of another pool, of whose database this is a further host, named after its own
    directory.
    ``say`` gets a line about each step that takes long.
    """

    def __init__(
        self,
        directory: Path | str | None = None,
        *,
        slots: int = 4,
        partitionable: bool = False,
        suite: str | None = None,
        host: Tables | None = None,
        config: str = "",
        database: str | None = None,
        host_of: str | None = None,
        say: Say = lambda _: None,
    ) -> None:
        self._temporary = directory is None
        if directory is None:
            directory = tempfile.mkdtemp(prefix="fetchwork-pool-")
            Path(directory).chmod(0o755)
        self.directory = Path(directory).absolute()
        self.settings = Settings(slots, partitionable, suite, host or {}, config, database, host_of)
        self._say = say
        self._detached = False
        self._machine: Machine | None = None

    # ---- in the manner of htcondor2.personal

    @classmethod
    def attach(cls, directory: Path | str, *, say: Say = lambda _: None) -> Self:
        """The pool that is in ``directory``; as a context manager it is started, and not stopped."""
        if not (Path(directory) / "pool.json").exists():
            raise PoolError(f"no pool in '{directory}': 'fetchwork pool up' makes one")
        return cls.open(directory, say=say).detach()

    @classmethod
    def open(cls, directory: Path | str, *, say: Say = lambda _: None, **settings: Unpack[Given]) -> Self:
        """The pool in ``directory``, or a new one; settings not given are those of the last start."""
        try:
            kept = json.loads((Path(directory) / "pool.json").read_text())
        except FileNotFoundError:
            kept = {}
        except PermissionError:
            raise PoolError(f"the pool in '{directory}' belongs to another account") from None
        return cls(directory, say=say, **{**kept, **settings})

    def detach(self) -> Self:
        """Let the pool go on when this object's context ends."""
        self._detached = True
        return self

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._detached:
            return
        self.stop()
        if self._temporary:
            shutil.rmtree(self.directory)

    # ---- its parts

    @property
    def postgres(self) -> PostgresServer:
        """The pool's own PostgreSQL, or that of the pool of which this is a further host."""
        return PostgresServer(Path(self.settings.host_of or self.directory) / "postgres")

    @property
    def has_database(self) -> bool:
        """Whether it has a PostgreSQL, and so an access point, of its own."""
        return self.settings.database is None and self.settings.host_of is None

    @property
    def access_point(self) -> AccessPointProcess:
        """The access point for people of this machine; only if the pool has a PostgreSQL of its own."""
        return AccessPointProcess(self.directory)

    @property
    def page(self) -> ServedPage:
        """The queue in a browser; once it is started, it runs until the pool stops."""
        return ServedPage(self.directory)

    @property
    def condor(self) -> Condor:
        """The pool's HTCondor, with its tools."""
        return Condor(self.directory / "condor", lambda: self.machine)

    @property
    def machine(self) -> Machine:
        """The machine of HTCondor, hooks and agent; that of the last start, if the pool was ever started."""
        if self._machine is None:
            try:
                kept = json.loads((self.directory / "machine.json").read_text())
            except FileNotFoundError:
                self._machine = self._find_machine()
            else:
                paths = {name: Path(path) for name, path in kept.items()}
                root = CondorRoot(**paths) if paths else None
                self._machine = self._root_machine(root) if root else ThisMachine(self.directory)
        return self._machine

    def _find_machine(self) -> Machine:
        suite = self.settings.suite
        if suite is None and machine_has_condor():
            return ThisMachine(self.directory)
        return self._root_machine(condor_root(suite or DEFAULT_SUITE, self._say))

    def _root_machine(self, root: CondorRoot) -> RootMachine:
        return RootMachine(self.directory, root, self.host_name)

    @property
    def conninfo(self) -> str:
        """The connection string of the pool's administrator; a secret."""
        return self.settings.database or self.postgres.conninfo(DBNAME)

    @property
    def host_name(self) -> str:
        """The name of the pool's only host, as its slots and the database show it."""
        name = machine_name()
        if self.settings.host_of is not None:
            name = f"{self.directory.name}.{name.partition('.')[2]}"
        return str(self.settings.host.get("host", {}).get("name", name))

    @property
    def host_file(self) -> Path:
        """The host file that the pool runs with."""
        return self.directory / "host.toml"

    @property
    def running(self) -> bool:
        """Whether all of it runs."""
        return all(process is not None for process in self.processes().values())

    def processes(self) -> dict[str, int | None]:
        """The first process of each part, None for a part that does not run."""
        parts = {}
        if self.has_database:
            parts["postgres"] = self.postgres.postmaster
        parts["condor"] = self.condor.master
        if self._has_agent:
            parts["agent"] = self._agent()
        if self.has_database:
            parts["access-point"] = self.access_point.process
        if self.page.started:
            parts["page"] = self.page.process
        return {part: process.pid if process else None for part, process in parts.items()}

    def run_command(
        self, command: Sequence[str], *, user: str | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the pool's machine, with its HTCondor configuration, as an account there."""
        return self.condor.run(command, user=user, **options)

    # ---- its life

    def start(self) -> Self:
        """Start the parts that do not run; raises PoolError if the pool runs with other settings."""
        self._make_directory()
        with self._alone():
            kept = self.directory / "pool.json"
            settings = json.dumps(asdict(self.settings), indent=4)
            if self.condor.running and kept.read_text() != settings:
                raise PoolError(f"the pool in '{self.directory}' runs with other settings: stop it first")
            _write_private(kept, settings)
            if self.settings.host_of is not None and not self.postgres.running:
                raise PoolError(f"no pool runs in '{self.settings.host_of}': 'fetchwork pool up' starts one")
            if self.has_database:
                self.postgres.start()
                self._make_database()
                self._write_service()
            if not self.condor.running:
                self._machine = self._find_machine()
                root = self._machine.kept()
                (self.directory / "machine.json").write_text(json.dumps(root))
                self._machine.prepare()
                self._configure()
                self._say("starting HTCondor")
                self.condor.start()
                self._await_agent()
            if self.has_database:
                self.access_point.start(self._conninfo_of(ACCESS_POINT_ROLE, "fetchwork_access_point"))
        return self

    def stop(self, how: Literal["graceful", "fast"] = "fast") -> None:
        """Stop all of it, HTCondor first, so that the agent gets the reports of the jobs' ends."""
        if not self.directory.exists():
            return
        with self._alone():
            try:
                self.page.stop()
                self.access_point.stop()
                if (self.directory / "condor").exists():
                    self.condor.stop(how)
            finally:
                if (self.directory / "postgres").exists():
                    self.postgres.stop()

    # ---- inside

    def _make_directory(self) -> None:
        if len(os.fsencode(self.directory)) > _LONGEST_PATH:
            raise PoolError(
                f"the path '{self.directory}' is too long for Unix sockets: {_LONGEST_PATH} bytes are allowed"
            )
        if not self.directory.is_dir():
            self.directory.mkdir(parents=True)
            self.directory.chmod(0o755)
        # not 'run': 'hooks install' makes that, as a directory of the agent's own
        (self.directory / "hooks").mkdir(exist_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time starts or stops a pool."""
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _make_database(self) -> None:
        self.postgres.create_database(DBNAME)
        schema.init(self.conninfo)

    def _write_service(self) -> None:
        words = self.conninfo.replace(" ", "\n")
        _write_private(self.directory / "pg_service.conf", f"[pool]\n{words}\n")

    @property
    def _has_agent(self) -> bool:
        """Whether condor_master runs an agent."""
        return bool(self.settings.host.get("agent", {}).get("run", "master") == "master")

    def _agent(self) -> Process | None:
        """The process that listens on the agent's socket."""
        path = self.settings.host.get("agent", {}).get("socket", self.directory / "run/agent.sock")
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(path))
            except OSError:
                return None
            credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return Process.find(struct.unpack("3i", credentials)[0])

    def _await_agent(self) -> None:
        deadline = time.monotonic() + _AGENT_TIMEOUT_S
        while self._has_agent and self._agent() is None:
            if time.monotonic() > deadline:
                self.condor.stop()
                raise PoolError(f"the agent does not answer: see '{self.condor.log}/FetchworkAgentLog'")
            time.sleep(0.05)

    def _agent_conninfo(self) -> str:
        """The connection string of agent and hooks, with a new password each time."""
        if self.settings.database:
            return self.settings.database
        # each host has a role of its own: a start gives its role a new password
        further = self.settings.host_of is not None
        role = f"{AGENT_ROLE}_{self.host_name.partition('.')[0]}" if further else AGENT_ROLE
        return self._conninfo_of(role, "fetchwork_agent")

    def _conninfo_of(self, role: str, member_of: str) -> str:
        """The connection string of a role of the pool's own PostgreSQL, with a new password each time."""
        password = secrets.token_urlsafe(24)
        if self.postgres.query(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'") != "1":  # noqa: S608
            self.postgres.query(f'CREATE ROLE "{role}" LOGIN IN ROLE {member_of}')
        self.postgres.query(f"ALTER ROLE \"{role}\" PASSWORD '{password}'")
        return self.postgres.conninfo(DBNAME, user=role, password=password)

    def _credential_key(self, ids: tuple[int, int] | None) -> Path | None:
        """The file with the key of credentials, which people of the pool's own database seal to."""
        if not self.has_database or not self._has_agent:
            return None
        keys = KeyFile(self.directory / "credential.key")
        if not keys.path.exists():
            keys.add()
        if ids:
            os.chown(keys.path, 0, ids[1])
            keys.path.chmod(0o640)
        with Database(self.conninfo) as database:
            database.run(credential_calls.publish_credential_key(public_key=keys.newest()))
        return keys.path

    def _configure(self) -> None:
        """Write the host file, install the hooks, generate HTCondor's configuration."""
        ids = self.machine.condor_ids()
        tables = host_tables(
            self.directory,
            venv=self.machine.venv,
            user="condor" if ids else "",
            conninfo=self._agent_conninfo(),
            credential_key=self._credential_key(ids),
            slots=self.settings.slots,
            partitionable=self.settings.partitionable,
            name=self.host_name,
            asked=self.settings.host,
        )
        host = hostconfig.from_dict(tables)
        _write_private(self.host_file, to_toml(tables))
        # it holds the agent's password
        if ids:
            os.chown(self.host_file, 0, ids[1])
        self.host_file.chmod(0o640)
        install = [
            str(self.machine.venv / "bin/fetchwork"),
            "hooks",
            "install",
            "--config",
            str(self.host_file),
        ]
        installed = self.run_command(install)
        if installed.returncode:
            raise PoolError(f"cannot install the hooks: {(installed.stderr or installed.stdout).strip()}")
        generated = deploy.render(host, self.condor.version())[deploy.CONDOR_FILE]
        settings = self.settings.config
        if self.settings.host_of is not None:
            # on one machine its slots would have the names of the first host's
            settings = f"NETWORK_HOSTNAME = {self.host_name}\n{settings}"
        self.condor.configure(generated, domain=host.host.uid_domain or "", settings=settings)


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text)
