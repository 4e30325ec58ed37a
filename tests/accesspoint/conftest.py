"""An access point as a process on a database of the test's own, and clients of several accounts."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.pool.postgres import PostgresServer
from tests.accesspoint.point import AccessPoint
from tests.support.direct_queue import DirectQueue
from tests.support.nursery import forked_processes
from tests.support.waiting import PATIENCE_S

__all__ = ["forked_processes"]

ROLE = "fw_of_access_point"
PASSWORD = "of-the-tests"


@pytest.fixture(scope="session")
def servers_with_role() -> set[int]:
    """Ports of the servers that have the role."""
    return set()


@pytest.fixture
def point_conninfo(postgres: PostgresServer, conninfo: str, servers_with_role: set[int]) -> str:
    """The access point's connection string: its role has no other rights."""
    if postgres.port not in servers_with_role:
        postgres.query(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}' IN ROLE fetchwork_access_point")
        servers_with_role.add(postgres.port)
    return postgres.conninfo("kept", user=ROLE, password=PASSWORD)


@pytest.fixture
def directory(public_directory: Callable[[], Path]) -> Path:
    """A directory that every account may enter and write to."""
    path = public_directory()
    path.chmod(0o777)
    return path


@pytest.fixture
def point(
    request: pytest.FixtureRequest, directory: Path, point_conninfo: str, slots: DirectQueue
) -> Iterator[AccessPoint]:
    """A running access point for every account; the parameter is how long commands wait for their turn."""
    if os.geteuid() != 0:
        pytest.skip("an access point for everybody is root's")
    patience_s = getattr(request, "param", PATIENCE_S)
    point = AccessPoint(directory, point_conninfo, "--min-uid", "1", patience_s=patience_s).start()
    point.slots = slots
    yield point
    if point.process is not None and point.process.poll() is None:
        assert point.stop() == 0, point.log()
    assert "Traceback" not in point.log(), point.log()
