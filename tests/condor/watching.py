"""A watcher of a job's output: a command in a process, and the page."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from fetchwork.page.application import application
from fetchwork.page.signin import SignIn
from fetchwork.pool import PersonalPool


class Tail:
    """``fetchwork tail -f`` of one job; ``directory`` gets its output."""

    def __init__(self, pool: PersonalPool, job: str, directory: Path) -> None:
        self._files = directory / "tail.out", directory / "tail.err"
        environment = {**os.environ, "FETCHWORK_DSN": pool.conninfo}
        with self._files[0].open("wb") as stdout, self._files[1].open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fetchwork", "tail", "-f", job],
                stdout=stdout,
                stderr=stderr,
                env=environment,
            )

    @property
    def said(self) -> tuple[str, str]:
        """Its output so far, on stdout and stderr."""
        stdout, stderr = (path.read_text() for path in self._files)
        return stdout, stderr

    def end(self) -> None:
        """Make sure that it has ended."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def page_of(pool: PersonalPool) -> Iterator[TestClient]:
    """The page of a pool, for a client that may see all of it."""
    sign_in = SignIn(token="a-token-of-the-tests")
    headers = {"Authorization": "Bearer a-token-of-the-tests"}
    with TestClient(application(pool.conninfo, sign_in), headers=headers) as page:
        yield page


def on_page(pool: PersonalPool, job: str) -> tuple[str, Any]:
    """A job's output on its page, and the data for the page's script."""
    with page_of(pool) as page:
        path = f"/jobs/{job}/output"
        return page.get(path).text, page.get(path, headers={"Accept": "application/json"}).json()
