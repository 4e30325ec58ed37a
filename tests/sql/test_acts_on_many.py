"""An action on many jobs reads each of them a few times, and not once for each of the others."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.support.direct_queue import DirectQueue

JOBS = 600
#: reads of a job that an action may make (edits make some 80); reading all jobs for each would be JOBS times
MOST = 150

# rows of tables and entries of indexes that this transaction has read
LOOKED_AT = """
    SELECT sum(pg_stat_get_xact_tuples_returned(c.oid) + pg_stat_get_xact_tuples_fetched(c.oid))::bigint
    FROM pg_class AS c
    WHERE c.oid = 'fetchwork.job'::regclass
        OR c.oid IN (SELECT i.indexrelid FROM pg_index AS i WHERE i.indrelid = 'fetchwork.job'::regclass)
"""


@pytest.mark.parametrize("named", ["by ids", "by the cluster", "by the owner"])
@pytest.mark.parametrize("action", ["hold", "edit", "remove", "release"])
def test_an_action_on_many_jobs_is_linear(queue: DirectQueue, action: str, named: str) -> None:
    # as when the queue was empty at the last autovacuum, and has been filled since
    queue.connection.execute("ANALYZE fetchwork.job")
    jobs = queue.submit_many([{"Args": str(n)} for n in range(JOBS)], {"Cmd": "/bin/true", "Owner": "alice"})
    if action == "release":
        queue.call("hold", jobs=jobs)
    roads: dict[str, dict[str, Any]] = {
        "by ids": {"jobs": jobs},
        "by the cluster": {"jobs": ["1"]},
        "by the owner": {"jobs": None, "owner": "alice"},
    }
    arguments = roads[named]
    if action == "edit":
        arguments["changes"] = Jsonb({"RequestMemory": 7})
    with queue.connection.transaction():
        before = queue.value(LOOKED_AT)
        assert queue.scalar(action, **arguments) == JOBS
        assert queue.value(LOOKED_AT) - before < MOST * JOBS


def test_jobs_that_are_removed_together_end_in_their_order(queue: DirectQueue) -> None:
    jobs = queue.submit_many([{"Args": str(n)} for n in range(4)], {"Cmd": "/bin/true", "Owner": "alice"})
    # their rows have moved, behind those of the others
    queue.act("hold", jobs[1])
    queue.act("hold", jobs[0])
    queue.act("remove", *reversed(jobs))
    in_order = [[int(job.rpartition(".")[2])] for job in jobs]
    ended = queue.rows("SELECT proc_id FROM fetchwork.job_history ORDER BY completed_at")
    told = queue.rows("SELECT proc_id FROM fetchwork.event WHERE event_type = 9 ORDER BY event_id")
    assert [list(row) for row in ended] == [list(row) for row in told] == in_order
