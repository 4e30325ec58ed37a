"""The Debian package: built, installed, upgraded, removed and purged in a root directory of its suite."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.errors import HTCondorUnavailable
from fetchwork.pool.condorroot import installed_root
from fetchwork.pool.postgres import PostgresServer

CHECKOUT = Path(__file__).parents[2]
UNITS = ["access-point", "agent", "exporter", "page"]
# runs a script in a root whose changes stay in memory
_IN_ROOT = """
set -e
root=$1 work=$2
mount -t tmpfs -o size=2g tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay -o lowerdir="$root",upperdir="$work/upper",workdir="$work/work" overlay "$work/root"
mount -t proc proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
rm -rf "$work/root/opt/fetchwork"
cp "$3" "$4" "$5" "$work/root/root/"
export FETCHWORK_DSN="$6" LC_ALL=C
exec chroot "$work/root" sh -e /root/steps
"""
_STEPS = """
cd /root
exec 2>&1
dpkg -i ./first.deb
fetchwork --version
fetchwork db init > /dev/null
printf 'executable = /bin/true\\nqueue\\n' | fetchwork submit --owner alice -
fetchwork q --json | grep -c '"ClusterId"'
echo "by hand: $(zcat /usr/share/man/man1/fetchwork.1.gz | head -1)"
grep -q _fetchwork /usr/share/bash-completion/completions/fetchwork
fetchwork serve --help | head -1
stat -c '%a %U %n' /etc/fetchwork/page.env
mkdir -p /var/lib/fetchwork/identity
echo secret > /var/lib/fetchwork/identity/main.pgpass
touch /etc/fetchwork/host.toml
echo OPTIONS=--listen :9999 > /etc/fetchwork/page.env
echo == upgrade
dpkg -i ./second.deb
dpkg-query -W -f '${Version}\\n' fetchwork
cat /etc/fetchwork/page.env
fetchwork --version
echo == remove
dpkg -r fetchwork
ls -d /opt/fetchwork/lib /usr/bin/fetchwork || true
cat /etc/fetchwork/page.env
echo == purge
dpkg -P fetchwork
find / -xdev -iname '*fetchwork*' -not -path '/proc/*' -not -path '/root/*' -not -path '/etc/apt/*' \\
    -not -path '/etc/dpkg/*' | sort
ls /etc/fetchwork /var/lib/fetchwork/identity
"""


@pytest.fixture(scope="module")
def root(suite: str) -> Path:
    try:
        return installed_root(suite)
    except HTCondorUnavailable as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def package(root: Path, public_directory: Callable[[], Path]) -> Path:
    """The package for the root's Python."""
    python = (root / "usr/bin/python3").readlink().name.removeprefix("python")
    directory = public_directory() / "deb"
    subprocess.run(["make", "deb", f"DEB_PYTHON={python}", f"DEB_DIR={directory}"], cwd=CHECKOUT, check=True)
    (package,) = directory.glob("*.deb")
    return package


def later(package: Path, version: str) -> Path:
    """The same package as another version."""
    unpacked = package.with_suffix(".d")
    subprocess.run(["dpkg-deb", "-R", package, unpacked], check=True)
    control = unpacked / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", f"Version: {version}", control.read_text()))
    made = package.with_name("second.deb")
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-b", unpacked, made], check=True, stdout=subprocess.DEVNULL
    )
    shutil.rmtree(unpacked)
    return made


@pytest.mark.all
def test_it_is_installed_upgraded_removed_and_leaves_data_alone(
    root: Path, package: Path, postgres: PostgresServer, tmp_path: Path
) -> None:
    first = package.with_name("first.deb")
    shutil.copy(package, first)
    (tmp_path / "steps").write_text(_STEPS)
    work = tmp_path / "work"
    work.mkdir()
    # of another suite on the same server
    postgres.query("DROP DATABASE IF EXISTS of_package WITH (FORCE)")
    postgres.query("CREATE DATABASE of_package")
    files = [root, work, first, later(package, "999"), tmp_path / "steps"]
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
    ended = subprocess.run(
        [*apart, "sh", "-c", _IN_ROOT, "sh", *map(str, files), postgres.conninfo("of_package")],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    installed, upgraded, removed, purged = re.split(r"== \w+\n", ended.stdout)
    version = re.search(r"^fetchwork.* (\S+)$", installed, re.M)
    assert version is not None
    assert re.search(r"(?m)^1$", installed), installed
    assert "by hand: .TH FETCHWORK 1" in installed
    assert "Usage: fetchwork serve" in installed
    assert "600 root /etc/fetchwork/page.env" in installed
    assert "\n999\nOPTIONS=--listen :9999\n" in upgraded
    assert version[0] in upgraded
    assert "cannot access '/opt/fetchwork/lib'" in removed
    assert "cannot access '/usr/bin/fetchwork'" in removed
    assert "OPTIONS=--listen :9999" in removed
    left = [line for line in purged.splitlines() if line.startswith("/") and not line.endswith(":")]
    assert left == ["/etc/fetchwork", "/var/lib/fetchwork"]
    assert purged.endswith("/etc/fetchwork:\nhost.toml\n\n/var/lib/fetchwork/identity:\nmain.pgpass\n")


@pytest.mark.all
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_its_units_and_uses_its_sandbox(package: Path, name: str, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "-x", package, tmp_path / name], check=True)
    unit = tmp_path / name / f"usr/lib/systemd/system/fetchwork-{name}.service"
    # its program is not on this machine
    there = tmp_path / unit.name
    there.write_text(unit.read_text().replace("/opt/fetchwork/bin/fetchwork", "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", there], capture_output=True, text=True, check=False
    )
    said = [line for line in verified.stderr.splitlines() if unit.name in line]
    assert (verified.returncode, said) == (0, [])
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", there], capture_output=True, text=True, check=True
    )
    exposure = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", rated.stdout)
    assert exposure is not None
    # 10 is no sandbox; the access point and the agent work for other accounts
    assert float(exposure[1]) < (2.5 if name in ("exporter", "page") else 9.0)
