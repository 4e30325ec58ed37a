"""A private HTCondor: one master with a collector, a startd, and the daemons that the host file adds.

All of it lives in one directory and listens on loopback; its tools and daemons prove by a file that they run
as root, as HTCondor's account, or as the account that started the pool.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from fetchwork.errors import PoolError
from fetchwork.pool.machine import Machine
from fetchwork.pool.ports import free_port
from fetchwork.process import Process, wait_all

START_TIMEOUT_S = 180
STOP_TIMEOUT_S = {"graceful": 120, "fast": 30}
_STOP_SIGNALS = {"graceful": signal.SIGTERM, "fast": signal.SIGQUIT}
_KILL_TIMEOUT_S = 10

_INSTALLED = ("RELEASE_DIR", "BIN", "SBIN", "LIB", "LIBEXEC", "SHARE")
_DIRECTORIES = ("log", "lock", "run", "spool", "execute")

_SETTINGS = """\
# HTCondor of a private pool. Written at each start of the pool; put settings of your own into
# {local}/config.local
{installed}
LOCAL_DIR = {local}
LOG = $(LOCAL_DIR)/log
LOCK = $(LOCAL_DIR)/lock
RUN = $(LOCAL_DIR)/run
SPOOL = $(LOCAL_DIR)/spool
EXECUTE = $(LOCAL_DIR)/execute
{ids}
# only accounts of this machine, and only these
CONDOR_HOST = 127.0.0.1
NETWORK_INTERFACE = 127.0.0.1
COLLECTOR_HOST = 127.0.0.1:{port}
SHARED_PORT_PORT = {port}
UID_DOMAIN = {domain}
FILESYSTEM_DOMAIN = {domain}
SEC_DEFAULT_AUTHENTICATION = REQUIRED
SEC_DEFAULT_AUTHENTICATION_METHODS = FS
FETCHWORK_OURS = {accounts}
ALLOW_READ = $(FETCHWORK_OURS)
ALLOW_WRITE = $(FETCHWORK_OURS)
ALLOW_DAEMON = $(FETCHWORK_OURS)
ALLOW_ADMINISTRATOR = $(FETCHWORK_OURS)
ALLOW_NEGOTIATOR = $(FETCHWORK_OURS)
ALLOW_ADVERTISE_MASTER = $(FETCHWORK_OURS)
ALLOW_ADVERTISE_STARTD = $(FETCHWORK_OURS)

# no scratch of its own over /tmp: mounting fails in a root directory
MOUNT_UNDER_SCRATCH =
# would write to /proc/sys of the machine
ENABLE_KERNEL_TUNING = False
RUNBENCHMARKS = 0
POLLING_INTERVAL = 1
DAEMON_LIST = MASTER COLLECTOR STARTD

"""


class Condor:
    """HTCondor in ``directory``; ``find_machine`` is called when a program is run."""

    def __init__(self, directory: Path, find_machine: Callable[[], Machine]) -> None:
        self.directory = directory
        self._find_machine = find_machine
        self.config_file = directory / "condor_config"
        self.log = directory / "log"
        self._pid_file = directory / "master.process"

    @property
    def machine(self) -> Machine:
        """The machine that it runs on."""
        return self._find_machine()

    # ---- configuration

    def configure(self, generated: str, *, domain: str, settings: str = "") -> None:
        """Write its configuration: the pool's, that generated from the host file, and the caller's settings.

        The port is chosen the first time and then kept.
        """
        self.directory.mkdir(exist_ok=True)
        ids = self.machine.condor_ids()
        for name in _DIRECTORIES:
            path = self.directory / name
            path.mkdir(exist_ok=True)
            path.chmod(0o755)
            if ids:
                os.chown(path, *ids)
        port_file = self.directory / "port"
        if not port_file.exists():
            port_file.write_text(str(free_port()))
        accounts = ["root", "condor"] if ids else ["$(USERNAME)"]
        text = _SETTINGS.format(
            local=self.directory,
            installed="\n".join(map(" = ".join, zip(_INSTALLED, self._ask(*_INSTALLED), strict=True))),
            ids=f"CONDOR_IDS = {ids[0]}.{ids[1]}" if ids else "",
            port=port_file.read_text(),
            domain=domain,
            accounts=", ".join(f"{account}@{domain}" for account in accounts),
        )
        (self.directory / "config.local").touch()
        last = f"{settings}\ninclude : {self.directory}/config.local\n"
        self.config_file.write_text(f"{text}\n{generated}\n{last}")

    def version(self) -> tuple[int, ...]:
        """The version of the HTCondor that is installed on the machine."""
        (version,) = self._ask("CONDOR_VERSION")
        return tuple(map(int, version.split(".")))

    def _ask(self, *names: str) -> list[str]:
        """The values that the machine's own HTCondor has for some settings."""
        asked = subprocess.run(
            [*self.machine.inside(None), "condor_config_val", *names],
            env=self.machine.environment(),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        values = asked.stdout.splitlines()
        if asked.returncode or len(values) != len(names):
            raise PoolError(f"'condor_config_val' does not know {', '.join(names)}: {asked.stderr.strip()}")
        return values

    # ---- its life

    @property
    def master(self) -> Process | None:
        """The condor_master, while it runs."""
        recorded = self._recorded()
        return recorded if recorded and recorded.alive else None

    @property
    def running(self) -> bool:
        """Whether its master runs."""
        return self.master is not None

    def start(self, *, sweep: bool = True) -> None:
        """Start the master and wait until the startd is there; nothing happens if it runs.

        The processes that a killed master left behind are ended first, unless ``sweep`` is false.
        """
        if self.running:
            return
        if sweep:
            self._sweep()
        address = self.log / ".startd_address"
        address.unlink(missing_ok=True)
        environment = {**self._environment(), "LC_ALL": "C.UTF-8"}
        output = self.log / "master.out"
        process = self.machine.launch(["condor_master", "-f"], environment, output)
        self._pid_file.write_text(str(process))
        deadline = time.monotonic() + START_TIMEOUT_S
        while not address.exists():
            if not process.alive or time.monotonic() > deadline:
                problem = self._last_words(output)
                self.stop("fast")
                raise PoolError(f"cannot start HTCondor in '{self.directory}': {problem}")
            time.sleep(0.05)

    def stop(self, how: Literal["graceful", "fast"] = "fast") -> None:
        """Stop it and end every process of it; in a graceful stop jobs end by their own signal."""
        master = self.master
        if master:
            family = self.machine.family(master)
            master.signal(_STOP_SIGNALS[how])
            if not master.wait(STOP_TIMEOUT_S[how]):
                master.signal(signal.SIGKILL)
            wait_all(family, 1)
        self._sweep()
        self._pid_file.unlink(missing_ok=True)

    def crash(self) -> None:
        """End all of it at once with SIGKILL, jobs included, as a failing machine would."""
        master = self.master
        if master:
            master.signal(signal.SIGKILL)
        self._sweep()

    def _recorded(self) -> Process | None:
        try:
            return Process.parse(self._pid_file.read_text())
        except FileNotFoundError:
            return None

    def _sweep(self) -> None:
        """End the processes that an ended master left behind: the job of a killed master lives on."""
        recorded = self._recorded()
        deadline = time.monotonic() + _KILL_TIMEOUT_S
        while family := self.machine.family(recorded):
            for process in family:
                process.signal(signal.SIGKILL)
            if time.monotonic() > deadline:
                pids = ", ".join(str(process.pid) for process in family)
                raise PoolError(f"cannot end processes {pids} of '{self.directory}': SIGKILL had no effect")
            wait_all(family, 0.5)

    def _last_words(self, output: Path) -> str:
        for path in (output, self.log / "StartLog", self.log / "MasterLog"):
            text = path.read_text(errors="replace").strip() if path.exists() else ""
            if "ERROR" in text or (path == output and text):
                return " / ".join(text.splitlines()[-5:])
        return f"see '{self.log}'"

    def _environment(self) -> dict[str, str]:
        return {**self.machine.environment(), "CONDOR_CONFIG": str(self.config_file)}

    # ---- its tools

    def run(
        self, command: Sequence[str], *, user: str | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on HTCondor's machine, with its configuration, as ``user`` of that machine.

        ``options`` are those of subprocess.run; by default output is captured.
        """
        environment = {**os.environ, **self._environment()}
        defaults: dict[str, Any] = {"text": True, "check": False, "stdin": subprocess.DEVNULL}
        if not options.keys() & {"stdout", "stderr"}:
            defaults["capture_output"] = True
        if "input" in options:
            del defaults["stdin"]
        return subprocess.run(  # noqa: PLW1510  # is among the options
            [*self.machine.inside(self.master, user), *command], env=environment, **{**defaults, **options}
        )
