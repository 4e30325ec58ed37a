"""Two releases as installed wheels, for rehearsals of an upgrade: 0.2.0, and a later one (fixtures).

The wheel of 0.2.0 is built of the tag v0.2.0, or of the commit ``COMMIT`` if a clone has no tags. In a clone
without that commit it is built of the checkout, which then stands for that release. The later one is the
checkout with further migrations, and with a function that a client of it calls and 0.2.0's schema lacks.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fetchwork import __version__
from tests.house.source import ROOT, tracked
from tests.support.later_schema import MIGRATIONS, later_schema

BASE = "0.2.0"
#: the commit of that release
COMMIT = "e5ec2fe337f44bdc1b4a88f0dffc0cb994fedf7c"
LATER = "999.0"


@dataclass(frozen=True)
class Release:
    """An environment that has a release's wheel; its dependencies are those of this environment."""

    environment: Path

    @property
    def program(self) -> Path:
        return self.environment / "bin/fetchwork"

    @property
    def package(self) -> Path:
        """The directory of the installed package."""
        (found,) = self.environment.glob("lib/python3.*/site-packages/fetchwork")
        return found

    def starts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the processes that a test starts be this release's; the test is marked ``executed``."""
        monkeypatch.setattr(sys, "executable", str(self.environment / "bin/python"))
        # both lead Python to the checkout
        monkeypatch.delenv("PYTHONPATH", raising=False)
        monkeypatch.chdir("/")

    def run(self, *words: str | Path, given: str = "", fails: bool = False) -> str:
        """The output of its command; with ``fails`` the one line with which it refuses."""
        ended = subprocess.run(
            [self.program, *words], input=given, capture_output=True, text=True, check=False, env=_plain()
        )
        assert (ended.returncode != 0) is fails, ended.stdout + ended.stderr
        if not fails:
            return ended.stdout
        (line,) = (ended.stderr or ended.stdout).splitlines()
        return line


@pytest.fixture(scope="session")
def old_release(public_directory: Callable[[], Path]) -> Release:
    """The release 0.2.0."""
    return install_base(public_directory() / "old")


@pytest.fixture(scope="session")
def later_release(public_directory: Callable[[], Path]) -> Release:
    """A release that is later than this checkout."""
    return install_later(public_directory() / "later")


def install_base(directory: Path, repository: Path = ROOT) -> Release:
    """Build and install 0.2.0."""
    source = directory / "source"
    source.mkdir(parents=True)
    revisions = _revisions(repository)
    if revisions:
        archive = ["git", "-C", str(repository), "archive", revisions[0]]
        files = subprocess.run(archive, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", source], input=files, check=True)
    else:
        _copy_checkout(source)
        _set_version(source, BASE)
    return _installed(source, directory)


def install_later(directory: Path) -> Release:
    """Build and install a release that is later than this checkout."""
    source = directory / "source"
    _copy_checkout(source)
    _set_version(source, LATER)
    shutil.rmtree(source / "sql")
    sql = later_schema(source, *MIGRATIONS)
    later = (sql / "functions/jobs/submit_ads.sql").read_text().replace("submit_ads", "submit_ads_later")
    (sql / "functions/jobs/submit_ads_later.sql").write_text(later)
    _replace(
        sql / "install.sql",
        "jobs/submit_ads.sql\n",
        "jobs/submit_ads.sql\n\\ir functions/jobs/submit_ads_later.sql\n",
    )
    _replace(sql / "grants.sql", "fetchwork.submit_ads,", "fetchwork.submit_ads, fetchwork.submit_ads_later,")
    _replace(source / "fetchwork/db/calls/jobs.py", 'value_of("submit_ads"', 'value_of("submit_ads_later"')
    return _installed(source, directory)


def changed_migrations(repository: Path = ROOT) -> list[str]:
    """The migrations of all releases that the checkout lacks, or has otherwise."""
    changed = []
    for release in _revisions(repository):
        for name in _git(repository, "ls-tree", "--name-only", release, "sql/migrations/").split():
            path = repository / name
            if not path.is_file() or path.read_text() != _git(repository, "show", f"{release}:{name}"):
                changed.append(f"{release}: {name}")
    return changed


def _revisions(repository: Path) -> list[str]:
    """The releases of a repository: their tags, or the commit of 0.2.0 in a clone without tags."""
    tags = _git(repository, "tag", "--list", "--sort=version:refname", "v[0-9]*").split()
    known = ["git", "-C", str(repository), "cat-file", "-e", f"{COMMIT}^{{commit}}"]
    if not tags and subprocess.run(known, check=False, capture_output=True).returncode == 0:
        return [COMMIT]
    return tags


def _copy_checkout(target: Path) -> None:
    for path in tracked():
        copy = target / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)


def _git(repository: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", repository, *words], check=True, capture_output=True, text=True
    ).stdout


def _set_version(source: Path, version: str) -> None:
    _replace(source / "fetchwork/__init__.py", f'__version__ = "{__version__}"', f'__version__ = "{version}"')


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new))


def _installed(source: Path, directory: Path) -> Release:
    environment = directory / "environment"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [
        *pip,
        "wheel",
        "-qq",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(directory),
        str(source),
    ]
    subprocess.run(build, check=True, env=_plain())
    (wheel,) = directory.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, env=_plain())
    install = [*pip, "--python", str(environment), "install", "-qq", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, env=_plain())
    (packages,) = environment.glob("lib/python3.*/site-packages")
    # behind the wheel's own; the files *.pth of that directory, such as an editable fetchwork's, are not read
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Release(environment)


def _plain() -> dict[str, str]:
    """Our environment without Python's variables, which name the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
