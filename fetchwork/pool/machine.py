"""The machine that a pool's HTCondor runs on: this one, or one made from a pool root.

A machine made from a pool root has mounts of its own: the root itself, which programs there can change in
memory only and for themselves only; the pool's directory at the path that it has outside, so that one
configuration file is right on both sides; and directories of the pool over /tmp, /var/tmp and /home.
"""

import os
import pwd
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fetchwork.errors import PoolError
from fetchwork.pool.cache import marks
from fetchwork.pool.condorroot import ACCOUNTS, OWN_ROOT, ROOT_MOUNT, SOURCE, VENV, CondorRoot
from fetchwork.process import Process, account, processes

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# The daemon is in a session of its own, so that the terminal's Ctrl-C does not reach it, and is no child of
# ours. A shell's background processes ignore SIGINT and SIGQUIT, be that this daemon or us: the jobs must not
_LAUNCH = """
exec setsid --fork sh -c 'log=$1; shift; echo $$; exec env --default-signal=INT,QUIT "$@" </dev/null >"$log" 2>&1' sh "$@"
"""  # noqa: E501

_ENTER = f"""
set -e
PATH="$PATH:{_PATH}"
root=$1 pool=$2 venv=$3 name=$4 layers=$5
shift 5
{OWN_ROOT}
own_root "$root" "$venv" "$layers"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$pool/etc/hosts" "$root/etc/hosts"
mount --bind "$pool/home" "$root/home"
mount --bind "$pool/tmp" "$root/tmp"
mount --bind "$pool/tmp" "$root/var/tmp"
(umask 022; mkdir -p "$root$pool")
mount --bind "$pool" "$root$pool"
mount --bind "$pool/src" "$root/opt/fetchwork/src"
here=$(cat /proc/sys/kernel/hostname)
[ "${{here%%.*}}" = "${{name%%.*}}" ] || echo "$name" > /proc/sys/kernel/hostname
exec "$@"
"""


class Machine(Protocol):
    """The machine that programs of the pool run on."""

    @property
    def venv(self) -> Path:
        """The environment that fetchwork is installed in, as seen on the machine."""

    def environment(self) -> dict[str, str]:
        """The environment in which programs find HTCondor and its own configuration."""

    def prepare(self) -> None:
        """Make the files that must exist before a program runs."""

    def kept(self) -> dict[str, str]:
        """The directories that the machine consists of beside the pool's own."""

    def launch(self, command: list[str], environment: dict[str, str], log: Path) -> Process:
        """Start a program that outlives the caller."""

    def inside(self, master: Process | None, user: str | None = None) -> list[str]:
        """The words before a command with which it runs there, beside ``master``, as ``user``."""

    def condor_ids(self) -> tuple[int, int] | None:
        """The uid and gid of HTCondor's account there; None if HTCondor runs as the caller."""

    def job_owners(self) -> list[str]:
        """The accounts there that can own jobs."""

    def family(self, master: Process | None) -> list[Process]:
        """All processes that descend from ``master``, dead or alive, without itself.

        Without a master: all processes that are certainly the pool's.
        """


@dataclass
class ThisMachine:
    """This machine, with its own HTCondor."""

    pool: Path

    @property
    def venv(self) -> Path:
        return Path(sys.prefix)

    def environment(self) -> dict[str, str]:
        environment = {"PATH": f"{os.environ.get('PATH', '')}:{_PATH}", **marks()}
        # the bindings set it to the null device if they find no configuration
        if os.environ.get("CONDOR_CONFIG", os.devnull) != os.devnull:
            environment["CONDOR_CONFIG"] = os.environ["CONDOR_CONFIG"]
        return environment

    def prepare(self) -> None:
        pass

    def kept(self) -> dict[str, str]:
        return {}

    def launch(self, command: list[str], environment: dict[str, str], log: Path) -> Process:
        return _launch(["sh", "-c", _LAUNCH, "sh", str(log), *command], environment)

    def inside(self, master: Process | None, user: str | None = None) -> list[str]:
        return _as_user(user, account(user).pw_gid) if user else []

    def condor_ids(self) -> tuple[int, int] | None:
        if os.geteuid() != 0:
            return None
        condor = account("condor")
        return condor.pw_uid, condor.pw_gid

    def job_owners(self) -> list[str]:
        return ["nobody"] if os.geteuid() == 0 else [pwd.getpwuid(os.geteuid()).pw_name]

    def family(self, master: Process | None) -> list[Process]:
        if master is None:
            return []
        # HTCondor marks all that come from one of its daemons with that daemon's pid
        mark = f"_CONDOR_ANCESTOR_{master.pid}=".encode()
        later = [each for each in processes() if each.start_ticks >= master.start_ticks]
        return [each for each in later if any(word.startswith(mark) for word in each.environment())]


@dataclass
class RootMachine:
    """A machine made from a pool root; only root can make one.

    The root is the lowest layer of an overlay. With ``overlays=False``, for kernels that do not allow
    overlays, /usr is read-only, and the rest of the root is copied to memory.
    """

    pool: Path
    root: CondorRoot
    host_name: str
    overlays: bool = True

    @property
    def venv(self) -> Path:
        return Path(VENV)

    def environment(self) -> dict[str, str]:
        return {"PATH": _PATH, **marks()}

    def prepare(self) -> None:
        for name in ("etc", "home", "tmp", "src"):
            (self.pool / name).mkdir(exist_ok=True)
        (self.pool / "tmp").chmod(0o1777)
        # the full name first: HTCondor takes the first for the machine's
        names = dict.fromkeys([self.host_name, self.host_name.partition(".")[0], "localhost"])
        (self.pool / "etc/hosts").write_text(f"127.0.0.1 {' '.join(names)}\n")
        for name in ACCOUNTS:
            home = self.pool / "home" / name
            home.mkdir(exist_ok=True)
            os.chown(home, *self.root.account_ids(name))
        self._copy_source(self.pool / "src")

    def _copy_source(self, target: Path) -> None:
        """Copy the package that runs now, and compile it for the root's Python."""
        _copy_source(target)
        python = [f"{VENV}/bin/python", "-m", "compileall", "-q", SOURCE]
        made = subprocess.run(
            [*self._enter(), *python], check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if made.returncode != 0:
            said = " ".join(made.stderr.split())[-300:] or f"exit status {made.returncode}"
            raise PoolError(f"cannot run a program in '{self.root.path}': {said}")

    def kept(self) -> dict[str, str]:
        return {"path": str(self.root.path), "venv": str(self.root.venv)}

    def launch(self, command: list[str], environment: dict[str, str], log: Path) -> Process:
        into = [program("sh"), "-c", _LAUNCH, "sh", str(log), program("chroot"), str(self.root.path)]
        return _launch([*self._enter(chroot=False), *into, *command], environment)

    def inside(self, master: Process | None, user: str | None = None) -> list[str]:
        as_user = _as_user(user, self.root.account_ids(user)[1]) if user else []
        if master is None or not master.alive:
            return [*self._enter(), *as_user]
        return [
            program("nsenter"),
            f"--target={master.pid}",
            "--mount",
            "--uts",
            "--root",
            "--wd=/",
            "--",
            *as_user,
        ]

    def condor_ids(self) -> tuple[int, int] | None:
        return self.root.account_ids("condor")

    def job_owners(self) -> list[str]:
        return [*ACCOUNTS, "nobody"]

    def family(self, master: Process | None) -> list[Process]:
        # only the pool's own processes have such a root with the pool's directory mounted in it
        others = [each for each in processes() if each != master]
        return [each for each in others if self._runs(each)]

    def _runs(self, process: Process) -> bool:
        mounts = process.mounts()
        return mounts.get("/") == ROOT_MOUNT and str(self.pool) in mounts

    def _enter(self, *, chroot: bool = True) -> list[str]:
        into = [program("chroot"), str(self.root.path)] if chroot else []
        layers = "overlay" if self.overlays else "copies"
        arguments = [str(self.root.path), str(self.pool), str(self.root.venv), self.host_name, layers]
        enter = [program("unshare"), "--mount", "--uts", "--", program("sh"), "-c", _ENTER, "sh"]
        return [*enter, *arguments, *into]


def machine_has_condor() -> bool:
    """Whether HTCondor is installed on this machine."""
    return _found("condor_master") is not None


def program(name: str) -> str:
    """The path of a program of this machine; raises PoolError if it is missing."""
    path = _found(name)
    if path is None:
        raise PoolError(f"a pool needs the program '{name}', which is not on PATH; install it")
    return path


def _found(name: str) -> str | None:
    # the directories for administrators are often not on a user's PATH
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_PATH}")


def machine_name() -> str:
    """This machine's name, with a domain: HTCondor 23's tools do not find a host without."""
    name, full = socket.gethostname(), socket.getfqdn()
    if "." in name:
        return name
    return full if full.startswith(f"{name}.") else f"{name}.localdomain"


def _as_user(user: str, gid: int) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={gid}", "--init-groups", "--"]


def _launch(command: list[str], environment: dict[str, str]) -> Process:
    started = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    process = Process.find(int(started.stdout)) if started.returncode == 0 else None
    if process is None:
        raise PoolError(f"cannot start '{command[-1]}': {started.stderr.strip() or 'it ended at once'}")
    return process


def _copy_source(target: Path) -> None:
    """Copy the package that runs now, with its SQL and hooks, readable for every account of the root.

    It is not mounted: other accounts may not be able to enter a checkout, and the daemons' programs must not
    change while they run.
    """
    package = Path(__file__).resolve().parents[1]
    ignored = shutil.ignore_patterns("__pycache__")
    for tree in (package, package.parent / "sql", package.parent / "hooks"):
        if tree.is_dir():
            shutil.rmtree(target / tree.name, ignore_errors=True)
            shutil.copytree(tree, target / tree.name, ignore=ignored)
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
