"""The fixture ``promtool``: Prometheus's own program, which checks files that Prometheus would read."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fetchwork.pool.cache import cached


def _unpack(directory: Path) -> None:
    package = directory / "package"
    package.mkdir()
    # apt gives up root's rights to fetch, and must be able to write here
    package.chmod(0o777)
    subprocess.run(["apt-get", "-qq", "download", "prometheus"], cwd=package, check=True)
    (archive,) = package.glob("*.deb")
    subprocess.run(["dpkg", "-x", archive, directory], check=True)
    shutil.rmtree(package)


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The program: the system's, else that of Debian's package prometheus, kept in the cache."""
    installed = shutil.which("promtool")
    if installed:
        return Path(installed)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("no promtool: install the package prometheus")
    try:
        return cached("promtool", _unpack) / "usr/bin/promtool"
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no promtool: apt-get could not download the package prometheus: {error}")
