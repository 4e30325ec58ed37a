"""Output of running jobs while a watcher reads: watch_output, watched_output, ship_output, sweep_output."""

from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.support.direct_queue import Claimed, DirectQueue


def watch(queue: DirectQueue, job: str, **more: Any) -> list[dict[str, Any]]:
    cluster, _, proc = job.partition(".")
    return queue.call("watch_output", cluster=int(cluster), proc=int(proc), **more)


def watched(queue: DirectQueue) -> list[dict[str, Any]]:
    return queue.call("watched_output", host_id=queue.host())


def ship(queue: DirectQueue, run: Claimed, **what: Any) -> bool:
    parts = dict.fromkeys(("stdout_at", "stdout", "stderr_at", "stderr"))
    return bool(queue.scalar("ship_output", run_id=run.run_id, token=run.token, **{**parts, **what}))


def chunks(rows: list[dict[str, Any]]) -> list[tuple[int, int, bytes]]:
    return [(row["stream"], row["at"], bytes(row["content"])) for row in rows if row["stream"]]


@pytest.fixture
def run(queue: DirectQueue) -> Claimed:
    queue.submit()
    return queue.started()


def test_nothing_is_watched_until_somebody_does(queue: DirectQueue, run: Claimed) -> None:
    assert watched(queue) == []
    assert ship(queue, run, stdout_at=0, stdout=b"x") is False
    (row,) = watch(queue, run.job)
    assert (row["run"], row["running"], row["stream"]) == (run.run_id, True, None)
    assert watched(queue) == [{"run_id": run.run_id, "stdout_at": None, "stderr_at": None}]


def test_what_is_shipped_is_had_once(queue: DirectQueue, run: Claimed) -> None:
    watch(queue, run.job)
    assert ship(queue, run, stdout_at=5, stdout=b"one", stderr_at=0, stderr=b"bad") is True
    # sent again, and overlapping
    assert ship(queue, run, stdout_at=5, stdout=b"one") is True
    assert ship(queue, run, stdout_at=7, stdout=b"other") is True
    assert ship(queue, run, stdout_at=8, stdout=b"two") is True
    assert chunks(watch(queue, run.job)) == [(1, 5, b"one"), (1, 8, b"two"), (2, 0, b"bad")]
    more = {"run_id": run.run_id, "stdout_at": 8, "stderr_at": 3}
    assert chunks(watch(queue, run.job, **more)) == [(1, 8, b"two")]
    assert chunks(watch(queue, run.job, **{**more, "stdout_at": 11})) == []
    assert watched(queue) == [{"run_id": run.run_id, "stdout_at": 11, "stderr_at": 3}]


def test_what_is_kept_is_bounded(queue: DirectQueue, run: Claimed) -> None:
    watch(queue, run.job)
    for number in range(8):
        ship(queue, run, stdout_at=number * 65536, stdout=b"a" * 65536)
    kept = queue.rows("SELECT starts_at FROM fetchwork.output_chunk ORDER BY 1")
    assert [at for (at,) in kept] == [number * 65536 for number in range(4, 8)]
    with pytest.raises(psycopg.errors.CheckViolation):
        ship(queue, run, stdout_at=8 * 65536, stdout=b"a" * 65537)


def test_only_the_run_s_host_ships(queue: DirectQueue, run: Claimed) -> None:
    watch(queue, run.job)
    forged = UUID(int=run.token.int ^ 1)
    with pytest.raises(psycopg.Error, match="token is not that of run") as refused:
        queue.call(
            "ship_output", run_id=run.run_id, token=forged,
            stdout_at=0, stdout=b"x", stderr_at=None, stderr=None,
        )  # fmt: skip
    assert refused.value.sqlstate == "FWTOK"


def test_the_end_of_a_run_is_told_with_what_it_wrote_last(queue: DirectQueue, run: Claimed) -> None:
    watch(queue, run.job)
    queue.finish(run, ExitCode=0)
    more = {"run_id": run.run_id, "stdout_at": 0, "stderr_at": 0}
    # its host may still send the rest
    assert [row["running"] for row in watch(queue, run.job, **more)] == [True]
    assert watched(queue) != []
    ship(queue, run, stdout_at=0, stdout=b"last words")
    assert ship(queue, run, ended=True) is False
    rows = watch(queue, run.job, **more)
    assert chunks(rows) == [(1, 0, b"last words")] and not rows[0]["running"]
    assert watched(queue) == []


def test_a_host_that_sends_nothing_more_is_not_waited_for(queue: DirectQueue, run: Claimed) -> None:
    watch(queue, run.job)
    queue.finish(run, ExitCode=0)
    queue.connection.execute("UPDATE fetchwork.run_history SET ended_at = ended_at - interval '11 s'")
    (row,) = watch(queue, run.job, run_id=run.run_id)
    assert not row["running"]


def test_a_problem_is_told(queue: DirectQueue, run: Claimed) -> None:
    watch(queue, run.job)
    ship(queue, run, ended=True, problem="may not")
    (row,) = watch(queue, run.job)
    assert (row["running"], row["problem"]) == (False, "may not")


def test_a_job_that_waits_has_no_output_and_one_that_is_not_there_is_not_found(queue: DirectQueue) -> None:
    assert watch(queue, queue.submit()) == []
    with pytest.raises(psycopg.Error, match=r"job '99\.0' is not in the queue, or not yours") as refused:
        watch(queue, "99.0")
    assert refused.value.sqlstate == "FWNOT"


def test_what_nobody_watches_is_gone(queue: DirectQueue, run: Claimed) -> None:
    watch(queue, run.job)
    ship(queue, run, stdout_at=0, stdout=b"x")
    queue.call("maintain_queue")
    assert queue.value("SELECT count(*) FROM fetchwork.output_chunk") == 1
    queue.connection.execute("UPDATE fetchwork.output_watch SET watched_until = now() - interval '1 s'")
    assert watched(queue) == []
    assert ship(queue, run, stdout_at=1, stdout=b"y") is False
    queue.connection.execute("UPDATE fetchwork.output_watch SET watched_until = now() - interval '1 min'")
    queue.call("maintain_queue")
    for table in ("output_watch", "output_chunk"):
        assert queue.value(f"SELECT count(*) FROM fetchwork.{table}") == 0


def test_whoever_watches_begins_it_and_keeps_it_up(queue: DirectQueue, run: Claimed) -> None:
    watch(queue, run.job)
    watch(queue, run.job)
    left = "SELECT watched_until > now() + interval '10 s' FROM fetchwork.output_watch"
    queue.connection.execute("UPDATE fetchwork.output_watch SET watched_until = now() + interval '2 s'")
    watch(queue, run.job)
    assert queue.value(left)
    queue.connection.execute("UPDATE fetchwork.output_watch SET watched_until = now() - interval '2 s'")
    watch(queue, run.job)
    assert queue.value(left)


def test_so_many_jobs_of_one_owner_are_watched_and_no_more(queue: DirectQueue) -> None:
    queue.submit_many([{"Args": str(number)} for number in range(21)])
    runs = [queue.started(f"slot{number}@h1") for number in range(21)]
    for run in runs[:20]:
        watch(queue, run.job)
    with pytest.raises(psycopg.Error, match="the output of 20 jobs of 'alice' is watched already") as refused:
        watch(queue, runs[20].job)
    assert refused.value.sqlstate == "FWDEN"
    # watched outputs go on, and so do other jobs'
    assert watch(queue, runs[0].job)
    bob = queue.submit({"Owner": "bob"})
    assert queue.started("slot99@h1").job == bob and watch(queue, bob)
