"""A pool root: a Debian root directory with HTCondor in it, for a machine that has no HTCondor.

It is made once by debootstrap and kept in the cache folder, and no pool can change it: all that runs in it
sees it through OWN_ROOT. Beside it, because it changes at other times, lies a virtual environment with
fetchwork's dependencies for the root's own Python: the agent runs inside the root.
"""

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fetchwork.errors import HTCondorUnavailable, PoolError
from fetchwork.pool.cache import cache_directory, cached

DEFAULT_SUITE = "trixie"
MIRROR = "http://deb.debian.org/debian"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

# inside the root
VENV = "/opt/fetchwork/venv"
SOURCE = "/opt/fetchwork/src"
# accounts for jobs, beside Debian's own; numbers that Debian does not give out by itself
ACCOUNTS = {"alice": 21001, "bob": 21002}

# A new number whenever a root is made in another way. Number 1's roots could be changed by their pools, and
# lacked HTCondor's log directory if pytest had made them.
_RECIPE = 2

#: the source of the mount at "/" of all that runs in a pool root
ROOT_MOUNT = "fetchwork-root"

# `own_root ROOT VENV LAYERS`, run with mounts of its own, replaces ROOT by a view of it with VENV read-only
# in it. Behind the view nothing changes: changes stay in memory, and end with the last process that has these
# mounts. LAYERS is `overlay` or `copies`; if overlays do not work, `copies` is used in any case.
OWN_ROOT = """
own_root() {
    (
        umask 022
        cd "$1"
        mount -t tmpfs -o mode=755 fetchwork-root mnt
        mkdir mnt/upper mnt/work mnt/copies
        if [ "$3" != overlay ] || ! mount -t overlay -o lowerdir=.,upperdir=mnt/upper,workdir=mnt/work \\
            fetchwork-root "$1" 2>/dev/null
        then
            for entry in *; do
                case $entry in
                    dev | mnt | proc | sys) mkdir "mnt/copies/$entry" ;;
                    usr)
                        mkdir mnt/copies/usr
                        mount --bind usr mnt/copies/usr
                        mount -o remount,bind,ro mnt/copies/usr
                        ;;
                    *) cp -a "$entry" mnt/copies/ ;;
                esac
            done
            mount --rbind mnt/copies "$1"
        fi
    )
    mount --bind "$2" "$1/opt/fetchwork/venv"
    mount -o remount,bind,ro "$1/opt/fetchwork/venv"
}
"""

# Runs with mounts and processes of its own, so that nothing of it stays mounted or running after any end.
# policy-rc.d keeps packages from starting services; sid's Release files expire within a week
_APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
_BUILD_ROOT = """
set -e
suite=$1 root=$2 mirror=$3 keyring=$4
debootstrap --variant=minbase --keyring="$keyring" "$suite" "$root" "$mirror"
cp /etc/resolv.conf "$root/etc/resolv.conf"
printf '#!/bin/sh\\nexit 101\\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
echo 'Acquire::Check-Valid-Until "false";' > "$root/etc/apt/apt.conf.d/90fetchwork"
echo force-unsafe-io > "$root/etc/dpkg/dpkg.cfg.d/fetchwork"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
chroot "$root" apt-get -q update
chroot "$root" apt-get -q install -y --no-install-recommends condor procps python3 python3-venv
chroot "$root" apt-get clean
rm -rf "$root"/var/lib/apt/lists/*
shift 4
for account in "$@"; do
    chroot "$root" useradd --no-create-home --uid "${account#*=}" --shell /bin/sh "${account%%=*}"
done
mkdir -p "$root/opt/fetchwork/venv" "$root/opt/fetchwork/src"
"""

_IN_ROOT = f"""
set -e
root=$1 venv=$2
shift 2
{OWN_ROOT}
own_root "$root" "$venv" overlay
# the one program that may write to it is the one that makes it
mount -o remount,bind,rw "$root/opt/fetchwork/venv"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" "$@"
"""


@dataclass(frozen=True)
class CondorRoot:
    """A complete pool root; both paths are outside views."""

    path: Path
    venv: Path

    def account_ids(self, name: str) -> tuple[int, int]:
        """The uid and gid of an account of the root."""
        for line in (self.path / "etc/passwd").read_text().splitlines():
            fields = line.split(":")
            if fields[0] == name:
                return int(fields[2]), int(fields[3])
        raise PoolError(f"pool root '{self.path}' has no account '{name}'")


def installed_root(suite: str, say: Callable[[str], None] = lambda _: None) -> Path:
    """A root directory with HTCondor from a Debian suite, made if it is not there or was spoiled.

    ``say`` gets progress. Raises HTCondorUnavailable if it can't be made.
    """
    if os.geteuid() != 0:
        raise HTCondorUnavailable(
            "no HTCondor here: 'condor_master' is not on PATH, and only root can install one for the pool"
        )
    return cached(f"condor-{suite}-{_RECIPE}", lambda partial: _build_root(suite, partial, say), say)


def condor_root(suite: str = DEFAULT_SUITE, say: Callable[[str], None] = lambda _: None) -> CondorRoot:
    """The pool root of a Debian suite: ``installed_root`` with fetchwork's requirements."""
    root = installed_root(suite, say)
    requirements, constraints = _requirements()
    wanted = "\n".join([root.name, *requirements, *constraints])
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:12]

    def build_venv(partial: Path) -> None:
        say(f"installing fetchwork's dependencies for {root}")
        _build_venv(root, partial, requirements, constraints)

    return CondorRoot(root, cached(f"{root.name}-venv-{digest}", build_venv, say))


def require_debootstrap(say: Callable[[str], None] = lambda _: None) -> None:
    """Install debootstrap if it is not there; raises HTCondorUnavailable."""
    if shutil.which("debootstrap") and KEYRING.exists():
        return
    apt = shutil.which("apt-get")
    if not apt:
        raise HTCondorUnavailable(
            "no HTCondor here: 'condor_master' is not on PATH, and without apt-get none can be installed"
        )
    say("installing debootstrap")
    patient = [apt, "-q", "-o", "DPkg::Lock::Timeout=300"]
    install = [*patient, "install", "-y", "--no-install-recommends", "debootstrap", "debian-archive-keyring"]
    try:
        try:
            _run(install, "apt")
        except PoolError:  # package lists too old, or none yet
            _run([*patient, "update"], "apt")
            _run(install, "apt")
    except PoolError as problem:
        raise HTCondorUnavailable(f"no HTCondor here: cannot install debootstrap: {problem}") from problem


def _build_root(suite: str, partial: Path, say: Callable[[str], None]) -> None:
    require_debootstrap(say)
    for old in older_roots(suite):
        say(f"'{old}' is not used any more, pools could change it: delete it")
    say(f"making a root directory with HTCondor from Debian {suite} in {cache_directory()}")
    accounts = [f"{name}={uid}" for name, uid in ACCOUNTS.items()]
    arguments = [suite, str(partial), MIRROR, str(KEYRING), *accounts]
    try:
        _run([*_APART, "sh", "-c", _BUILD_ROOT, "sh", *arguments], f"condor-{suite}")
    except PoolError as problem:
        raise HTCondorUnavailable(f"cannot make a root directory with HTCondor: {problem}") from problem


def older_roots(suite: str) -> list[Path]:
    """The roots of a suite that were made by older recipes, and are of no use."""
    numbers = range(1, _RECIPE)
    roots = [cache_directory() / f"condor-{suite}-{number}" for number in numbers]
    return [root for root in roots if root.is_dir()]


def _build_venv(root: Path, partial: Path, requirements: list[str], constraints: list[str]) -> None:
    inside = [*_APART, "sh", "-c", _IN_ROOT, "sh", str(root), str(partial)]
    log = partial.name.removesuffix(".partial")
    _run([*inside, "python3", "-m", "venv", "--without-pip", VENV], log)
    (packages,) = partial.glob("lib/python3.*/site-packages")
    # by this Python's pip, which knows this machine's package index
    limits = partial / "constraints.txt"
    limits.write_text("\n".join(constraints))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary=:all:"]
    pip += ["--python-version", packages.parent.name.removeprefix("python"), "--target", str(packages)]
    _run([*pip, "--constraint", str(limits), *requirements], log)
    (packages / "fetchwork.pth").write_text(SOURCE + "\n")
    command = partial / "bin/fetchwork"
    command.write_text(f"#!{VENV}/bin/python\nfrom fetchwork.cli import main\n\nmain()\n")
    command.chmod(0o755)
    _run([*inside, f"{VENV}/bin/python", "-m", "compileall", "-q", f"{VENV}/lib"], log)


def _environment() -> dict[str, str]:
    """Our environment without HTCondor's settings: its package's scripts would heed them.

    The Python bindings set CONDOR_CONFIG to the null device if they find no configuration.
    """
    ours = {name: value for name, value in os.environ.items() if "CONDOR" not in name.upper()}
    # chroot and debootstrap are among the programs for administrators
    return {**ours, "PATH": f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"}


def _requirements() -> tuple[list[str], list[str]]:
    """The requirements of fetchwork and its extra 'pool', and the versions that are installed here."""
    requirements = []
    for requirement in importlib.metadata.requires("fetchwork") or []:
        text, _, marker = requirement.partition(";")
        if not marker or marker.replace("'", '"').strip() == 'extra == "pool"':
            requirements.append(text.strip())
    installed = {distribution.name: distribution for distribution in importlib.metadata.distributions()}
    constraints = {name: each.version for name, each in installed.items() if name != "fetchwork"}
    needed = _closure(requirements, {_plain(name): each for name, each in installed.items()})
    return requirements, sorted(f"{name}=={it}" for name, it in constraints.items() if _plain(name) in needed)


def _closure(requirements: list[str], installed: dict[str, importlib.metadata.Distribution]) -> set[str]:
    """The names of the installed distributions that the requirements lead to."""
    names: set[str] = set()
    ahead = list(requirements)
    while ahead:
        requirement = ahead.pop()
        name, extras = _name_and_extras(requirement)
        if f"{name}{sorted(extras)}" in names or name not in installed:
            continue
        names |= {name, f"{name}{sorted(extras)}"}
        for further in installed[name].requires or []:
            marker = re.search(r"""extra\s*==\s*['"]([^'"]+)['"]""", further)
            if marker is None or marker[1] in extras:
                ahead.append(further)
    return names


def _name_and_extras(requirement: str) -> tuple[str, set[str]]:
    parts = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^]]*)\])?", requirement)
    assert parts, requirement
    return _plain(parts[1]), {extra.strip() for extra in (parts[2] or "").split(",") if extra.strip()}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _run(command: list[str], log: str) -> None:
    """Run a command that takes long; its output is kept in the cache folder."""
    path = cache_directory() / f"{log}.log"
    with path.open("w") as output:
        ended = subprocess.run(
            command,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ended.returncode:
        last = path.read_text(errors="replace").strip().splitlines()[-3:]
        raise PoolError(f"'{command[0]}' failed: {' / '.join(last)} (all of it: '{path}')")
