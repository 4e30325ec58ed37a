"""Sessions of each role, and a queue with jobs of two owners."""

from collections.abc import Iterator

import psycopg
import pytest

from fetchwork.pool.postgres import PostgresServer
from tests.security.roles import PASSWORD, ROLES, SECRET, SERVERS
from tests.support.direct_queue import EXITED, DirectQueue
from tests.support.kept import kept_database


class Root(DirectQueue):
    """The superuser's own session, which opens sessions of the roles."""

    def __init__(self, server: PostgresServer, connection: psycopg.Connection) -> None:
        super().__init__(connection)
        self.server = server
        self._opened: list[psycopg.Connection] = []
        if server.port not in SERVERS:
            for role, member_of in ROLES.items():
                server.query(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
                if member_of:
                    server.query(f"GRANT {member_of} TO {role}")
            SERVERS.add(server.port)

    def login(self, role: str) -> DirectQueue:
        """A session that logs in as a role: not SET ROLE of a superuser, who could reset it."""
        their = self.server.conninfo("kept", user=role, password=PASSWORD)
        self._opened.append(psycopg.connect(their, autocommit=True))
        return DirectQueue(self._opened[-1])

    def close(self) -> None:
        for connection in self._opened:
            connection.close()


@pytest.fixture
def root(postgres: PostgresServer) -> Iterator[Root]:
    with psycopg.connect(kept_database(postgres), autocommit=True) as connection:
        queue = Root(postgres, connection)
        yield queue
        queue.check()
        queue.close()


@pytest.fixture
def busy(root: Root) -> Root:
    """alice and bob submit as themselves: 1.x is alice's, 2.x bob's; .0 has ended, .1 runs, .2 waits."""
    for name in ("alice", "bob"):
        root.call("grant_owner", role=f"fw_{name}", owner=name)
        root.login(f"fw_{name}").submit_many(
            [{"Args": f"{SECRET} {n}", "SubmitEventNotes": SECRET} for n in range(3)],
            {
                "Cmd": "/bin/true",
                "Owner": name,
                "JobBatchName": f"batch-{name}",
                "Requirements": f'/Expr(Secret == "{SECRET}")/',
                "Secret": name,
            },
        )
    # candidates have no order of their own
    kinds = sorted(root.candidates(root.host()), key=lambda kind: kind["autocluster_id"])
    for n, kind in enumerate(kinds):
        for ends in (True, False):
            (row,) = root.call(
                "claim",
                host_id=root.host(),
                slot=f"slot{n}{ends:d}@h1",
                autoclusters=[kind["autocluster_id"]],
                prios=[0],
                hints=[0],
            )
            of_run = {"run_id": row["run_id"], "token": row["token"]}
            root.call("start", **of_run, starter="1:1")
            if ends:
                root.call("finish", **of_run, hook_reason="exit", report={**EXITED, "ExitCode": 0})
    # no agent runs here
    root.call("sequence_events")
    root.call("count_idle")
    return root
