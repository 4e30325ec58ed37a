"""An access point of a later release than the schema's: it serves until the upgrade, and after it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.accesspoint.point import AccessPoint
from tests.support.releases import LATER, Release


@pytest.mark.executed
@pytest.mark.skipif(os.geteuid() != 0, reason="an access point for everybody is root's")
def test_access_point_of_a_later_release_serves_people_before_and_after_the_upgrade(
    directory: Path,
    new_database: Callable[[], str],
    later_release: Release,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later_release.starts(monkeypatch)
    # an upgrade adds tables: not the database that tests share
    conninfo = new_database()
    point = AccessPoint(directory, conninfo, "--min-uid", "1").start()
    assert point.status()["version"] == LATER
    text = "executable = /bin/true\nqueue\n"
    assert point.submit("nobody", text)["cluster"] == 1
    later_release.run("--dsn", conninfo, "db", "upgrade")
    assert point.submit("nobody", text)["cluster"] == 2
    assert point.stop() == 0
    assert "Traceback" not in point.log()
