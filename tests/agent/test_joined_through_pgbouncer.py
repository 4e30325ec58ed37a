"""A host that joined through PgBouncer: its agent's calls, a renewal, the end of its identity."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fetchwork.pool.postgres import PostgresServer
from fetchwork.simulate.agents import AgentProcess
from tests.agent.conftest import Jobs
from tests.agent.test_joined_host import (
    agent,
    conninfo_in,
    directory,
    test_its_identity_is_renewed_while_it_runs,
    test_its_jobs_run_to_their_end,
)
from tests.support.joining import invite, join, run_host
from tests.support.pgbouncer import PgBouncer, program

__all__ = [
    "agent",
    "directory",
    "test_its_identity_is_renewed_while_it_runs",
    "test_its_jobs_run_to_their_end",
]


@pytest.fixture
def bouncer(postgres: PostgresServer, public_directory: Callable[[], Path]) -> Iterator[PgBouncer]:
    if program() is None:
        pytest.skip("no PgBouncer on this machine")
    # of a role that can log in no more, PgBouncer keeps the calls so long
    settings = "query_wait_timeout = 2\n"
    bouncer = PgBouncer(public_directory(), postgres, own_roles=True, settings=settings)
    bouncer.start()
    yield bouncer
    bouncer.stop()


@pytest.fixture
def joined(conninfo: str, bouncer: PgBouncer, directory: Path) -> Path:
    """The host file of ep1, which joined and stays behind PgBouncer."""
    through = make_conninfo(conninfo, port=bouncer.port)
    return join(conninfo, invite(through, "--queue", "default"), directory)


async def test_a_revoked_host_is_refused_there_too(conninfo: str, jobs: Jobs, agent: AgentProcess) -> None:
    own = conninfo_in(agent.file)
    assert conninfo_to_dict(own)["port"] != conninfo_to_dict(conninfo)["port"]
    with psycopg.connect(own, autocommit=True) as session:
        session.execute("SELECT fetchwork.own_host_state()")
        assert "is revoked" in run_host(conninfo, "revoke", "ep1")
        with pytest.raises(psycopg.Error):
            session.execute("SELECT fetchwork.own_host_state()")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(own)
