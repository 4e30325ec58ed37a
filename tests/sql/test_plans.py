"""The statements of every fetch and of every view of the queue use indexes, in a queue large enough for that
to matter.

The benchmarks measure their cost with a million jobs; these tests only check that no plan reads a whole
table.
"""

import itertools
import json
import re
from collections.abc import Sequence

import psycopg
import pytest

from fetchwork.accesspoint import joblogs, logs
from fetchwork.db import eventpages
from fetchwork.metrics import spans
from tests.conftest import Connect
from tests.support.direct_queue import Claimed, DirectQueue


@pytest.fixture
def full(connect: Connect) -> DirectQueue:
    """3000 jobs of 30 autoclusters, 300 ended ones."""
    queue = DirectQueue(connect())
    for memory in range(10):
        queue.connection.execute(
            "SELECT fetchwork.submit_cluster(%s, array_agg(jsonb_build_object('Args', n::text))) FROM generate_series(1, 300) AS n",
            [
                json.dumps(
                    {"Cmd": "/bin/true", "Owner": f"o{memory}", "RequestMemory": memory, "JobBatchName": "b"}
                )
            ],
        )
    for _ in range(30):
        queue.finish(queue.started())
    queue.call("sequence_events")
    queue.connection.execute("ANALYZE")
    queue.connection.execute("SET jit = off")
    return queue


HOT = {
    "one job": "SELECT * FROM fetchwork.jobs WHERE ClusterId = 5 AND ProcId = 7",
    "one cluster": "SELECT * FROM fetchwork.jobs WHERE ClusterId = 5 ORDER BY ProcId LIMIT 10",
    "an ended job": "SELECT * FROM fetchwork.history WHERE ClusterId = 1 AND ProcId = 7",
    "runs of a job": "SELECT * FROM fetchwork.runs WHERE ClusterId = 1 AND ProcId = 7",
    "events of a job": "SELECT * FROM fetchwork.events WHERE ClusterId = 5 AND ProcId = 7 ORDER BY EventId",
    "held jobs of an owner": "SELECT * FROM fetchwork.job WHERE owner = 'o3' AND job_status = 5",
    "the last ended jobs": "SELECT * FROM fetchwork.history_edge('infinity', 1, 1, 20)",
    "counts by batch": "SELECT * FROM fetchwork.batches",
    "jobs whose delay is over": "SELECT * FROM fetchwork.job WHERE not_before <= now() ORDER BY not_before LIMIT 1000",
    "the head of an autocluster": "SELECT * FROM fetchwork.waiting WHERE autocluster_id = 3 AND job_prio = 0 AND position > 5 ORDER BY position LIMIT 1",
    "the logs of jobs": joblogs._LOGS_OF_JOBS
    % (("'{5,5}'", "'{7,8}'", "NULL", "'here'") * len(joblogs._VIEWS)),
    "ended jobs that may have spans": spans._TRACED % ("'{1,5}'", "'{7,8}'"),
    "jobs that ended lately": spans._RECENT % 300,
    "changes of a job": spans._CHANGES % (5, 7, 10),
}

BIG = ("job", "waiting", "event", "event_default", "job_history", "run_history")


def test_no_plan_reads_a_whole_table(full: DirectQueue) -> None:
    for name, statement in HOT.items():
        plan = "\n".join(row[0] for row in full.rows(f"EXPLAIN {statement}"))
        for table in BIG:
            assert not re.search(rf"Seq Scan on (fetchwork\.)?{table}\b", plan), f"{name}:\n{plan}"


_PAGE = eventpages.page(eventpages.all_events(), after_batch=0, after_id=0, most=5000)
#: an access point's prepared statements for the logs
KEPT: dict[str, tuple[str, Sequence[object]]] = {
    "a page of all events": (_PAGE.sql, _PAGE.params),
    "the submit events of a cluster": (logs._SUBMITTED, [5]),
}


@pytest.mark.parametrize("name", KEPT)
def test_no_plan_that_is_kept_for_all_values_reads_a_whole_table(full: DirectQueue, name: str) -> None:
    sql, values = KEPT[name]
    full.connection.execute("SET plan_cache_mode = force_generic_plan")
    numbers = itertools.count(1)
    words = re.sub("%s", lambda _: f"${next(numbers)}", sql)
    full.connection.execute(f"PREPARE kept AS {words}".encode())
    given = ", ".join(psycopg.sql.Literal(value).as_string(full.connection) for value in values)
    plan = [row[0] for row in full.rows(f"EXPLAIN ANALYZE EXECUTE kept ({given})")]
    assert full.rows("SELECT generic_plans FROM pg_prepared_statements WHERE name = 'kept'") == [(1,)]
    for line in plan:
        # the rights of owners who don't see all rows are read separately
        if "never executed" not in line:
            assert not re.search(rf"Seq Scan on (fetchwork\.)?({'|'.join(BIG)})", line), "\n".join(plan)


@pytest.mark.parametrize("condition", [eventpages.of_jobs([], [(1, 7)]), eventpages.of_jobs([1], [])])
def test_events_of_some_jobs_are_not_looked_for_among_all_events(
    full: DirectQueue, condition: eventpages.Statement
) -> None:
    page = eventpages.page(condition, after_batch=0, after_id=0, most=None)
    with psycopg.ClientCursor(full.connection) as cursor:
        (events,) = {len(row[-1].split("\n")) for row in cursor.execute(page.sql, page.params)}
        assert events >= 1
        plan = "\n".join(row[0] for row in cursor.execute(f"EXPLAIN {page.sql}", page.params))
    by_job = r"on event_default_cluster_id_proc_id_event_id_idx"
    assert re.search(by_job, plan), plan
    assert "event_default_batch_event_id_idx" not in plan, plan


def test_a_way_that_is_turned_off_calls_in_no_jit_compiler(connect: Connect) -> None:
    # before PostgreSQL 18 a plan without an alternative costs 10^10 more: claim_many was compiled at each
    # call
    sql = """
        SELECT p.oid::regprocedure FROM pg_proc AS p
        WHERE p.pronamespace = 'fetchwork'::regnamespace
            AND EXISTS (SELECT FROM unnest(p.proconfig) AS c WHERE c LIKE 'enable!_%=off' ESCAPE '!')
            AND NOT 'jit=off' = ANY (p.proconfig)
    """
    assert connect().execute(sql).fetchall() == []


@pytest.mark.parametrize("status", [2, 5])
def test_an_owners_few_jobs_are_found_without_reading_all_that_wait(full: DirectQueue, status: int) -> None:
    plan = full.rows(
        f"EXPLAIN SELECT * FROM fetchwork.jobs WHERE owner = ANY (ARRAY['o3']) AND jobstatus = {status}"
    )
    assert "job_not_idle" in "\n".join(row[0] for row in plan)


def test_runs_look_up_their_jobs_only_if_asked_for_their_ads(full: DirectQueue) -> None:
    def plan(column: str) -> str:
        rows = full.rows(f"EXPLAIN SELECT {column} FROM fetchwork.runs WHERE Outcome = 'completed'")
        return "\n".join(row[0] for row in rows)

    assert "job_history" in plan("job_ad")
    assert "job_history" not in plan("RunId, State, Outcome, ad")


def test_a_chains_next_job_costs_a_few_rows_whatever_waits(full: DirectQueue) -> None:
    """In every table but that of waiting jobs, whose index the caller here reads."""
    host_id = full.host("h1")
    slots = ["slot7@h1", "slot8@h1"]
    # often enough for a session to keep its plans
    runs: dict[str, Claimed | None] = dict.fromkeys(slots)
    for _ in range(8):
        answers = full.next_runs(host_id, runs)
        assert [answer["ended"] for answer in answers] == [True, True]
        runs = {
            slot: Claimed(one["run_id"], one["token"], "", one["position"], one["ad"], 0)
            for slot, one in zip(slots, answers, strict=True)
        }
    read = (
        "SELECT relname, seq_tup_read, coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
        " WHERE schemaname = 'fetchwork' AND relname <> 'waiting'"
    )
    # these count on from earlier transactions
    with full.connection.transaction():
        before = {name: counts for name, *counts in full.rows(read)}
        full.next_runs(host_id, runs)
        after = {name: counts for name, *counts in full.rows(read)}
    # the call's own: rows read one by one, and by indexes
    own = {name: [after[name][n] - before.get(name, [0, 0])[n] for n in (0, 1)] for name in after}
    assert own["job"][1] > 0
    assert {name: counts for name, counts in own.items() if name in BIG and counts[0] > 0} == {}
    assert {name: counts for name, counts in own.items() if counts[1] > 20} == {}
