"""The roles of these tests, and the statements that they try."""

from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import DirectQueue

ROLES = {
    "fw_alice": "fetchwork_submitter",
    "fw_bob": "fetchwork_submitter",
    "fw_reader": "fetchwork_reader",
    "fw_agent": "fetchwork_agent",
    "fw_point": "fetchwork_access_point",
    "fw_admin": "fetchwork_admin",
    "fw_nobody": None,
}
PASSWORD = "of-the-tests"
#: ports of the servers that have the roles already
SERVERS: set[int] = set()

SECRET = "environment-of-bob"


def denied(queue: DirectQueue, statement: str, *parameters: Any) -> str:
    """Run a statement, and return its refusal."""
    with pytest.raises(psycopg.Error) as caught:
        queue.rows(statement, *parameters)
    # not because the statement itself is wrong
    assert caught.value.sqlstate in ("42501", "FWDEN", "FWTOK", "FWNOT", "FWINV"), caught.value
    return str(caught.value)


VIEWS = [
    "jobs",
    "clusters",
    "history",
    "runs",
    "events",
    "autoclusters",
    "totals",
    "batches",
    "run_counts",
    "idle_counts",
    "owners",
]


def owners_seen(queue: DirectQueue, view: str) -> set[str]:
    """The owners whose rows a session sees."""
    if view == "events":
        return {
            "alice" if cluster == 1 else "bob"
            for (cluster,) in queue.rows("SELECT ClusterId FROM fetchwork.events")
        }
    return {owner for (owner,) in queue.rows(f"SELECT Owner FROM fetchwork.{view}")}
