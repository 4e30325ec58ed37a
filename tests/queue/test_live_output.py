"""`fetchwork tail -f`: a running job's output, until the job has left the queue."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fetchwork.errors import NotFound
from fetchwork.following.liveoutput import follow_output
from tests.queue.conftest import Queue, Run
from tests.support.direct_queue import Claimed, DirectQueue
from tests.support.sessions import session_of
from tests.support.waiting import until


def ship(slots: DirectQueue, run: Claimed, **what: Any) -> None:
    parts = dict.fromkeys(("stdout_at", "stdout", "stderr_at", "stderr"))
    slots.call("ship_output", run_id=run.run_id, token=run.token, **{**parts, **what})


def followed(queue: Queue, *steps: Callable[[], object]) -> list[tuple[int, str, int]]:
    """The output yielded for job 1.0, with one step done in each pause."""
    left = list(steps)

    def pause(seconds: float) -> None:
        assert left, "it waits for more than happens"
        left.pop(0)()

    pieces = list(follow_output(session_of(queue), 1, 0, pause=pause))
    assert left == []
    return [(piece.stream, piece.text, piece.skipped) for piece in pieces]


WAITS = (0, "job 1.0 does not run now; its output follows when it does", 0)


def test_a_job_is_followed_from_before_its_start_to_its_end(queue: Queue) -> None:
    queue.direct.submit()
    run: list[Claimed] = []
    assert followed(
        queue,
        lambda: run.append(queue.direct.started()),
        lambda: ship(queue.direct, run[0], stdout_at=7, stdout=b"one\n", stderr_at=0, stderr=b"bad\n"),
        lambda: ship(queue.direct, run[0], stdout_at=11, stdout=b"two\n"),
        lambda: queue.direct.finish(run[0], ExitCode=0),
        lambda: ship(queue.direct, run[0], stdout_at=15, stdout=b"three\n", ended=True),
    ) == [WAITS, (1, "one\n", 7), (2, "bad\n", 0), (1, "two\n", 0), (1, "three\n", 0)]


def test_a_run_that_is_evicted_is_followed_by_the_next(queue: Queue) -> None:
    queue.direct.submit()
    runs = [queue.direct.started()]

    def evict() -> None:
        ship(queue.direct, runs[0], stdout_at=0, stdout=b"first\n", ended=True)
        queue.direct.of(runs[0], "finish", hook_reason="evict", report={}, verdict=None)

    def again() -> None:
        queue.direct.connection.execute("UPDATE fetchwork.job SET not_before = now() - interval '1 s'")
        queue.direct.call("wake")
        runs.append(queue.direct.started("slot2@h1"))

    assert followed(
        queue,
        evict,
        # the first run's output is not shown again
        lambda: None,
        again,
        lambda: ship(queue.direct, runs[1], stdout_at=0, stdout=b"second\n", ended=True),
        lambda: queue.direct.finish(runs[1], ExitCode=0),
    ) == [(1, "first\n", 0), WAITS, (1, "second\n", 0)]


def test_why_nothing_comes_is_said_once(queue: Queue) -> None:
    queue.direct.submit()
    run = queue.direct.started()
    assert followed(
        queue,
        lambda: ship(queue.direct, run, ended=True, problem="may not"),
        lambda: None,
        lambda: queue.direct.finish(run, ExitCode=0),
    ) == [(0, "job 1.0 can't be followed: may not", 0)]


def test_a_job_that_is_not_there_is_not_found(queue: Queue) -> None:
    with pytest.raises(NotFound, match=r"job '1\.0' is not in the queue"):
        followed(queue)


def test_the_command_follows_until_the_end(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit()
    run = slots.started()

    def job() -> None:
        until(lambda: slots.value("SELECT count(*) FROM fetchwork.output_watch") == 1)
        ship(slots, run, stdout_at=0, stdout="grün\n".encode(), stderr_at=0, stderr=b"bad\n", ended=True)
        slots.finish(run, ExitCode=0)

    side = threading.Thread(target=job)
    side.start()
    told = fetchwork("tail", "-f", "1")
    side.join()
    assert (told.status, told.out, told.err) == (0, "grün\n", "bad\n")
    assert fetchwork("tail", "-f", "1.0").status == 1
    assert fetchwork("tail", "-f", "1.0", "--json").status == 2
