"""report_runs: common reports go together; all others are left for the functions that handle one run."""

import json
import uuid
from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import Claimed, DirectQueue
from tests.support.invariants import violations

EXIT = {"JobPid": 77, "ExitCode": 0, "ExitBySignal": False, "JobDuration": 5.0, "RemoteUserCpu": 1.5}


def report(queue: DirectQueue, **lists: list[Any]) -> dict[str, list[int]]:
    """Call it with these lists; "starts", "updates" and "exits" are (run, more)."""
    names = ("accept", "start", "update", "exit")
    sent: dict[str, Any] = {f"{name}_ids": [run.run_id for run, _ in lists.get(name, [])] for name in names}
    sent |= {f"{name}_tokens": [run.token for run, _ in lists.get(name, [])] for name in names}
    sent["accepted_s"] = [more for _, more in lists.get("accept", [])]
    sent["starters"] = [more for _, more in lists.get("start", [])]
    sent["slots"] = [None for _ in lists.get("start", [])]
    sent["started_accepted_s"] = [None for _ in lists.get("start", [])]
    sent["updates"] = [json.dumps(more) for _, more in lists.get("update", [])]
    sent["exits"] = [json.dumps(more) for _, more in lists.get("exit", [])]
    kinds = {"tokens": "uuid[]", "s": "float8[]", "ids": "bigint[]", "updates": "jsonb[]", "exits": "jsonb[]"}
    named = ", ".join(f"{name} => %s::{kinds.get(name.rpartition('_')[2], 'text[]')}" for name in sent)
    row = queue.connection.execute(
        f"SELECT * FROM fetchwork.report_runs({named})", [*sent.values()]
    ).fetchone()
    assert row is not None
    return dict(zip(("accepted", "started", "renewed", "finished"), row, strict=True))


@pytest.fixture
def runs(queue: DirectQueue) -> list[Claimed]:
    """Four offers to four slots."""
    queue.submit_many([{}] * 4)
    offers = [queue.claim(f"slot{n}@h1") for n in range(4)]
    return [offer for offer in offers if offer is not None]


def started(queue: DirectQueue, runs: list[Claimed]) -> list[Claimed]:
    assert report(queue, start=[(run, f"{run.run_id}:1") for run in runs])["started"] == [1, 2, 3, 4]
    return runs


def test_runs_start_together_as_they_would_alone(queue: DirectQueue, runs: list[Claimed]) -> None:
    first, *others = runs
    assert queue.start(first, starter=f"{first.run_id}:1") is None
    told = report(queue, start=[(run, f"{run.run_id}:1") for run in others])
    assert told["started"] == [1, 2, 3]
    rows = queue.rows(
        "SELECT j.job_status, j.num_starts, j.facts - 'LastMatchTime', r.state::text, r.starter = r.run_id || ':1',"
        " r.accepted_at IS NOT NULL, r.deadline > now(), j.run_id = r.run_id"
        " FROM fetchwork.job AS j JOIN fetchwork.run AS r USING (cluster_id, proc_id)"
    )
    assert len(rows) == 4
    assert all(row == rows[0] for row in rows)
    infos = queue.rows(
        "SELECT info - 'SlotName' FROM fetchwork.events WHERE EventTypeNumber = 1 ORDER BY EventId"
    )
    assert infos == [({"ExecuteHost": "h1"},)] * 4


def test_jobs_end_together_as_they_would_alone(queue: DirectQueue, runs: list[Claimed]) -> None:
    """The same history, events and counts, to the column."""
    started(queue, runs)
    usage = {"JobState": "Running", "JobPid": 77, "ResidentSetSize": 2000}
    for run in runs:
        queue.call("heartbeat", run_id=run.run_id, token=run.token, report=usage)
        for way in ("input", "output"):
            assert queue.of(run, "note_transfer", phase=None, direction=way, bytes=5, seconds=0.5)
    # a verdict ends a job by the single functions
    for run in runs[:2]:
        assert (
            queue.of(run, "finish", hook_reason="exit", report=EXIT, verdict={"action": "complete"})
            == "completed"
        )
    assert report(queue, exit=[(run, EXIT) for run in runs[2:]])["finished"] == [1, 2]
    for table, without in {
        "job_history": "'{proc_id,run_id,completed_at,first_start_at,last_start_at,slot}'::text[]",
        "run_history": "'{proc_id,run_id,token,slot,claimed_at,accepted_at,started_at,ended_at,starter}'::text[]",
    }.items():
        rows = queue.rows(
            f"SELECT to_jsonb(h) - {without}"
            " || jsonb_build_object('facts', (coalesce(to_jsonb(h) -> 'facts', '{}')"
            " - '{LastRemoteHost,LastMatchTime}'::text[]) #- '{ToE,When}')"
            f" - '{{jobstartdate,jobcurrentstartdate,lastremotehost,ad}}'::text[] FROM fetchwork.{table} AS h"
        )
        assert len(rows) == 4, table
        assert all(row == rows[0] for row in rows), (table, rows)
    infos = queue.rows("SELECT info #- '{ToE,When}' FROM fetchwork.events WHERE EventTypeNumber = 5")
    assert len(infos) == 4
    assert all(info == infos[0] for info in infos)
    assert queue.rows("SELECT * FROM fetchwork.run") == queue.rows("SELECT * FROM fetchwork.job") == []
    counts = "SELECT sum(jobs), sum(completed), sum(usage) > 0 FROM fetchwork.tally_change"
    assert queue.rows(counts) == [(0, 4, True)]
    assert violations(queue.connection) == []


def test_what_is_not_common_is_left_as_it_was(queue: DirectQueue, runs: list[Claimed]) -> None:
    """Half a batch is refused: the rest is done, and the refused runs have not changed."""
    good, forged, removed, unstarted = runs
    told = report(
        queue, start=[(good, "1:1"), (forged._replace(token=uuid.uuid4()), "2:1"), (removed, "3:1")]
    )
    assert told["started"] == [1, 3]
    assert queue.status(forged.job) == 1
    queue.start(forged)
    queue.act("remove", removed.job)
    wrong = forged._replace(token=uuid.uuid4())
    quick = {"JobPid": 7, "ExitCode": 1, "JobDuration": 0.1}
    reports = [
        (wrong, EXIT),
        (good, EXIT),
        (removed, EXIT),
        (unstarted, EXIT),
        (forged, quick),
        (forged, [1]),
    ]
    assert report(queue, exit=reports)["finished"] == [2]
    assert [queue.outcome(run) for run in runs] == ["completed", None, None, None]
    update = {"JobState": "Running", "JobPid": 77}
    asked = [(good, update), (wrong, update), (removed, update), (forged, update), (unstarted, {})]
    assert report(queue, update=asked)["renewed"] == [4, 5]
    # each of them alone is answered as ever
    assert queue.of(removed, "finish", hook_reason="exit", report=EXIT) == "removed"
    assert queue.of(forged, "finish", hook_reason="exit", report=quick) == "completed"
    with pytest.raises(psycopg.Error, match="the token is not that of run"):
        queue.of(wrong, "finish", hook_reason="exit", report=EXIT)
    assert violations(queue.connection) == []


def test_a_batch_that_is_sent_again_changes_nothing(queue: DirectQueue, runs: list[Claimed]) -> None:
    """Its answer was lost: the second call has nothing to do, and each run alone gets its old answer."""
    starts = [(run, f"{run.run_id}:1") for run in runs]
    started(queue, runs)
    assert report(queue, start=starts)["started"] == []
    assert [queue.start(run, starter=f"{run.run_id}:1") for run in runs] == [None] * 4
    exits = [(run, EXIT) for run in runs]
    assert report(queue, exit=exits)["finished"] == [1, 2, 3, 4]
    assert report(queue, exit=exits)["finished"] == []
    assert queue.of(runs[0], "finish", hook_reason="exit", report=EXIT) == "duplicate"
    assert queue.value("SELECT count(*) FROM fetchwork.events WHERE EventTypeNumber IN (1, 5)") == 8


def test_two_starters_of_one_run_in_one_batch_start_it_once(queue: DirectQueue, runs: list[Claimed]) -> None:
    told = report(queue, start=[(runs[0], "1:1"), (runs[0], "2:2")])
    assert len(told["started"]) == 1
    starter = queue.value("SELECT starter FROM fetchwork.run WHERE state = 'running'")
    assert starter == ("1:1", "2:2")[told["started"][0] - 1]
    assert queue.value("SELECT count(*) FROM fetchwork.events WHERE EventTypeNumber = 1") == 1
    told = report(queue, exit=[(runs[0], EXIT), (runs[0], EXIT)])
    assert len(told["finished"]) == 1
    assert queue.value("SELECT count(*) FROM fetchwork.events WHERE EventTypeNumber = 5") == 1


def test_a_batch_never_waits_for_a_row_that_another_holds(queue: DirectQueue, runs: list[Claimed]) -> None:
    starts = [(run, f"{run.run_id}:1") for run in runs]
    other = queue.another(autocommit=False)
    other.rows("SELECT 1 FROM fetchwork.job WHERE proc_id = 1 FOR UPDATE")
    other.rows("SELECT 1 FROM fetchwork.run WHERE proc_id = 2 FOR UPDATE")
    assert report(queue, start=starts)["started"] == [1, 4]
    other.connection.rollback()
    assert report(queue, start=starts)["started"] == [2, 3]


def test_an_accept_that_comes_late_counts_unless_the_run_has_started(
    queue: DirectQueue, runs: list[Claimed]
) -> None:
    queue.start(runs[1])
    accepts = [(runs[0], 0.5), (runs[1], 0.5), (runs[2]._replace(token=uuid.uuid4()), 0.5)]
    assert report(queue, accept=accepts)["accepted"] == [1]
    assert queue.rows("SELECT state::text FROM fetchwork.run ORDER BY run_id") == [
        ("accepted",),
        ("running",),
        ("reserved",),
        ("reserved",),
    ]
    assert queue.value("SELECT accepted_at >= claimed_at FROM fetchwork.run WHERE state = 'accepted'") is True


def test_a_suspended_job_and_one_that_grows_are_told_as_alone(
    queue: DirectQueue, runs: list[Claimed]
) -> None:
    started(queue, runs)
    suspended = {"JobState": "Suspended", "JobPid": 77}
    large = {"JobState": "Running", "JobPid": 78, "ImageSize": 5000}
    assert report(queue, update=[(runs[0], suspended), (runs[1], large)])["renewed"] == [2]
    queue.call("heartbeat", run_id=runs[0].run_id, token=runs[0].token, report=suspended)
    assert queue.events(runs[0].job) == [0, 1, 10]
    assert queue.events(runs[1].job) == [0, 1, 6]
    assert queue.value("SELECT job_pid FROM fetchwork.run WHERE run_id = %s", runs[1].run_id) == 78
    # still suspended: that is no change
    assert report(queue, update=[(runs[0], suspended)])["renewed"] == [1]
    # a wish that is followed is one
    queue.act("suspend", runs[1].job)
    queue.act("continue", runs[1].job)
    assert report(queue, update=[(runs[1], large)])["renewed"] == []


def test_secrets_of_a_report_are_left_out(queue: DirectQueue, runs: list[Claimed]) -> None:
    started(queue, runs)
    update = {"JobState": "Running", "claimID": "secret"}
    assert report(queue, update=[(runs[0], update)])["renewed"] == []
    assert report(queue, exit=[(runs[0], {**EXIT, "FetchWorkToken": "secret"})])["finished"] == []
