"""The processes that ask the database: they live as long as the service."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from fetchwork.page.acting import ActingSession
from fetchwork.page.person import Person
from fetchwork.page.workers import Workers
from tests.waiting import PATIENCE_S, until


def processes_of_workers(session: ActingSession) -> list[int]:
    """The process of the worker that answers, and the one that it was forked from."""
    return [os.getpid(), os.getppid()]


def service() -> None:
    """A service that has a worker, says which, and goes on."""
    workers = Workers("host=127.0.0.1 port=1", workers=1)
    # as one that writes it is not asked in a transaction, and needs no database
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
