"""A cluster of two PostgreSQL servers under Patroni, with one etcd, as processes of their own on loopback."""

import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fetchwork.pool.ports import free_port
from fetchwork.pool.postgres import system_programs
from fetchwork.process import Process, account
from tests.support.waiting import until

PROGRAMS = ("patroni", "etcd")
#: Patroni's shortest time after which a silent leader is replaced
TTL_S = 20
_PASSWORD = "of-the-tests"


def missing() -> str | None:
    """The reason why no cluster can be had here."""
    for program in PROGRAMS:
        if shutil.which(program) is None:
            return f"{program} is not installed: tests/support/install-patroni"
    if system_programs() is None:
        return "no PostgreSQL of the system: tests/support/install-postgres"
    return None


class Node:
    """One server and the Patroni that keeps it."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self.name = name
        self.directory = cluster.directory / name
        self.port = free_port()
        self.api = free_port()
        self._cluster = cluster
        self._process: subprocess.Popen[bytes] | None = None
        self.directory.mkdir(mode=0o700)
        (self.directory / "patroni.json").write_text(json.dumps(self._settings()))

    def _settings(self) -> dict[str, Any]:
        """Patroni's file, which may be JSON."""
        programs = system_programs()
        return {
            "scope": "fetchwork",
            "name": self.name,
            "restapi": {"listen": f"127.0.0.1:{self.api}", "connect_address": f"127.0.0.1:{self.api}"},
            "etcd3": {"hosts": f"127.0.0.1:{self._cluster.etcd_port}"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_S,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    # a commit that was acknowledged is on both
                    "synchronous_mode": True,
                    "postgresql": {"use_pg_rewind": True, "parameters": {"max_connections": 100}},
                },
                "initdb": [{"encoding": "UTF8"}, "no-locale", "no-sync"],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": f"127.0.0.1:{self.port}",
                "data_dir": str(self.directory / "data"),
                "bin_dir": str(programs),
                "pgpass": str(self.directory / "pgpass"),
                "pg_hba": ["host all all 127.0.0.1/32 md5", "host replication all 127.0.0.1/32 md5"],
                "authentication": {
                    "superuser": {"username": "postgres", "password": _PASSWORD},
                    "replication": {"username": "replicator", "password": _PASSWORD},
                },
                "parameters": {"unix_socket_directories": "", "timezone": "UTC"},
            },
        }

    def start(self) -> None:
        """Start it; its server follows the other one, if that leads."""
        self._process = self._cluster.spawn("patroni", [str(self.directory / "patroni.json")], self.name)

    def kill(self) -> None:
        """End Patroni and the server at once, as a failing machine would."""
        if self._process is None:
            return
        pids = self.directory / "data" / "postmaster.pid"
        self._process.kill()
        self._process.wait()
        if pids.exists():
            # its children end when their postmaster has
            server = Process.find(int(pids.read_text().split()[0]))
            if server is not None and server.works_in(pids.parent):
                server.signal(signal.SIGKILL)
        self._process = None

    def status(self) -> dict[str, Any]:
        """Patroni's own account of the node; empty if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.api}/patroni", timeout=5) as answer:
                status: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            # 503: it is there, and its server is not
            with error:
                status = json.load(error)
        except OSError:
            return {}
        return status

    @property
    def leads(self) -> bool:
        """Whether its server is the primary, and runs."""
        status = self.status()
        return status.get("role") in ("master", "primary") and status.get("state") == "running"

    @property
    def is_synchronous(self) -> bool:
        """Whether its server has every commit that the primary acknowledges."""
        return bool(self.status().get("sync_standby"))


class Cluster:
    """Two nodes and one etcd in ``directory``; a context manager."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.chmod(0o755)
        self.etcd_port = free_port()
        self.nodes = [Node(self, name) for name in ("one", "two")]
        self._etcd: subprocess.Popen[bytes] | None = None
        (directory / "etcd").mkdir(mode=0o700)
        if os.geteuid() == 0:
            # PostgreSQL refuses root
            owner = account("postgres", "nobody")
            for path in (*(node.directory for node in self.nodes), directory / "etcd"):
                shutil.chown(path, owner.pw_uid, owner.pw_gid)
            for node in self.nodes:
                shutil.chown(node.directory / "patroni.json", owner.pw_uid, owner.pw_gid)

    def spawn(self, program: str, words: list[str], name: str) -> subprocess.Popen[bytes]:
        """Start a program under the servers' account, with a log of its own."""
        owner = account("postgres", "nobody") if os.geteuid() == 0 else None
        kept = {key: value for key, value in os.environ.items() if key.startswith("FETCHWORK_TEST_")}
        with (self.directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [str(shutil.which(program)), *words],
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **kept},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=owner.pw_uid if owner else None,
                group=owner.pw_gid if owner else None,
                extra_groups=[] if owner else None,
            )

    def __enter__(self) -> Self:
        peers = f"http://127.0.0.1:{free_port()}"
        clients = f"http://127.0.0.1:{self.etcd_port}"
        words = ["--name", "one", "--data-dir", str(self.directory / "etcd"), "--unsafe-no-fsync"]
        words += ["--listen-client-urls", clients, "--advertise-client-urls", clients]
        words += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        self._etcd = self.spawn("etcd", [*words, "--initial-cluster", f"one={peers}"], "etcd")
        try:
            self.nodes[0].start()
            self._until(lambda: self.nodes[0].leads, "the first node leads")
            self.nodes[1].start()
            self.until_whole()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes:
            node.kill()
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait()

    def _until(self, condition: Callable[[], object], event: str) -> None:
        until(condition, f"{event}; the logs are in {self.directory}", 0.2)

    def until_whole(self) -> None:
        """Wait until one node leads and the other has all that it acknowledges."""
        self._until(lambda: self.leader and any(node.is_synchronous for node in self.nodes), "both nodes")

    @property
    def leader(self) -> Node | None:
        """The node that leads."""
        return next((node for node in self.nodes if node.leads), None)

    def until_led_by(self, node: Node) -> None:
        """Wait until this node leads."""
        self._until(lambda: node.leads, f"node {node.name} leads")

    def switch_over(self) -> None:
        """Ask the leader to change places with the other node, and wait until it has."""
        leader = self.leader
        assert leader is not None
        other = next(node for node in self.nodes if node is not leader)
        words = {"leader": leader.name, "candidate": other.name}
        request = urllib.request.Request(
            f"http://127.0.0.1:{leader.api}/switchover",
            data=json.dumps(words).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60):
            pass
        self.until_led_by(other)

    def conninfo(self, dbname: str) -> str:
        """The address of all nodes, by which a client finds the primary."""
        ports = ",".join(str(node.port) for node in self.nodes)
        hosts = ",".join("127.0.0.1" for _ in self.nodes)
        return (
            f"host={hosts} port={ports} user=postgres password={_PASSWORD} dbname={dbname}"
            " target_session_attrs=read-write connect_timeout=2"
        )
