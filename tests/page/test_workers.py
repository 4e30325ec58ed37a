"""The processes that ask the database: they live as long as the service."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from fetchwork.page import workers
from fetchwork.page.acting import ActingSession, Person
from fetchwork.page.problem import Problem
from fetchwork.page.workers import Workers
from fetchwork.queue.ask import Ask, Steps
from tests.support.waiting import PATIENCE_S, until


def processes_of_workers(session: ActingSession) -> list[int]:
    """The process of the worker that answers, and the process that forked it."""
    return [os.getpid(), os.getppid()]


def service() -> None:
    """A service that has a worker, prints its pid, and goes on."""
    workers = Workers("host=127.0.0.1 port=1", workers=1)
    # a query that writes is not asked in a transaction, and needs no database
    asked = workers.ask(Person("token", None, True), processes_of_workers, writes=True)
    print(*asyncio.run(asked), flush=True)
    signal.pause()


def test_workers_end_with_a_service_that_is_killed() -> None:
    code = "from tests.page.test_workers import service\nif __name__ == '__main__': service()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        pids = [int(word) for word in running.stdout.readline().split()]
        assert len(pids) == 2
        running.kill()
        running.wait(PATIENCE_S)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), f"the end of {pids}")


def for_ever(session: ActingSession) -> None:
    """A query that only the server works on."""
    session.database.query("SELECT pg_sleep(3600)")


def hasty_service(conninfo: str, writes: bool) -> None:
    """A service that gives a query one second, and prints why it has no answer."""
    workers.READ_S = workers.WRITE_S = 1.0
    question = for_ever_in_a_step if writes else for_ever
    asking = Workers(conninfo, workers=1)
    try:
        asyncio.run(asking.ask(Person("token", None, True), question, writes=writes))
    except Problem as problem:
        print(problem.title)
    asking.close()


@pytest.mark.parametrize("writes", [False, True])
def test_a_question_that_took_too_long_is_ended_at_the_server_too(conninfo: str, writes: bool) -> None:
    """The server does not notice a client's death, and would run every query to its end."""
    code = (
        "from tests.page.test_workers import hasty_service\n"
        f"if __name__ == '__main__': hasty_service({conninfo!r}, {writes})"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "took too long\n"
    with psycopg.connect(conninfo, autocommit=True) as connection:
        running = "SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(3600)'"
        until(lambda: not connection.execute(running).fetchall(), "the end of the statement")


def for_ever_in_a_step(session: ActingSession) -> None:
    """The same in a step of an action, which is a transaction."""
    session.run(steps_for_ever())


def steps_for_ever() -> Steps[None]:
    yield Ask("SELECT pg_sleep(3600)")
