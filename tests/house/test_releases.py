"""Promises of a release: its migrations stay as they are, and rehearsals of upgrades begin with its tag."""

import subprocess
from pathlib import Path

import pytest

from fetchwork.db import schema
from tests.house.source import ROOT
from tests.support.releases import BASE, changed_migrations, install_base

MIGRATION = "sql/migrations/0001_base.sql"


def git(repository: Path, *words: str) -> None:
    author = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    subprocess.run(["git", "-C", repository, *author, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository that has the tag of 0.2.0, with another version in it than the checkout's."""
    git(ROOT, "clone", "--shared", "--no-tags", str(ROOT), str(tmp_path / "repository"))
    repository = tmp_path / "repository"
    (repository / "fetchwork/__init__.py").write_text(f'__version__ = "{BASE}.post9"\n')
    git(repository, "commit", "--all", "--message", "Release 0.2.0")
    git(repository, "tag", f"v{BASE}")
    return repository


def test_no_migration_of_a_release_has_changed() -> None:
    assert changed_migrations() == []


def test_migration_that_changed_after_a_release_is_found(repository: Path) -> None:
    assert changed_migrations(repository) == []
    base = repository / MIGRATION
    base.write_text(base.read_text() + "-- more\n")
    # committed or not
    assert changed_migrations(repository) == [f"v{BASE}: {MIGRATION}"]
    git(repository, "commit", "--all", "--message", "Change the base")
    assert changed_migrations(repository) == [f"v{BASE}: {MIGRATION}"]
    base.unlink()
    assert changed_migrations(repository) == [f"v{BASE}: {MIGRATION}"]
    git(repository, "checkout", f"v{BASE}", MIGRATION)
    (repository / "sql/migrations/0002_more.sql").write_text("SELECT 1;\n")
    assert changed_migrations(repository) == []


@pytest.mark.slow
def test_old_release_of_rehearsals_is_that_of_its_tag(repository: Path, tmp_path: Path) -> None:
    git(repository, "commit", "--allow-empty", "--message", "Go on")
    (repository / "fetchwork/__init__.py").write_text('__version__ = "0.3.0"\n')
    release = install_base(tmp_path / "old", repository)
    assert release.run("--version") == f"fetchwork 0.2.0.post9, schema {schema.latest()}\n"
