"""The service on a database of the test's own, asked without a socket."""

import ipaddress
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, resource_tracker

import pytest
from starlette.testclient import TestClient

from fetchwork.page import workers
from fetchwork.page.application import application
from fetchwork.page.signin import SignIn
from fetchwork.queue import Queue

# the fixtures of a queue with two owners, and of sessions of each role
from tests.security.conftest import busy, root  # noqa: F401
from tests.support.waiting import PATIENCE_S

TOKEN = "a-token-of-the-tests"
Serve = Callable[..., TestClient]


@pytest.fixture(scope="session", autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """Ends the processes from which the services of this process fork their workers."""
    yield
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives an answer the time of a busy machine; tests of the limits set their own."""
    monkeypatch.setattr(workers, "READ_S", PATIENCE_S)


@pytest.fixture
def queue(conninfo: str) -> Iterator[Queue]:
    with Queue(conninfo) as queue:
        yield queue


@pytest.fixture
def serve(conninfo: str) -> Iterator[Serve]:
    """Makes services: serve(write=True, header="X-User", conninfo=...)."""
    made: list[TestClient] = []

    def make(
        *,
        write: bool = False,
        header: str | None = None,
        secret: str | None = None,
        admins: tuple[str, ...] = (),
        at: str = conninfo,
    ) -> TestClient:
        sign_in = SignIn(
            token=TOKEN,
            may_write=write,
            header=header,
            proxy_secret=secret,
            trusted=[ipaddress.ip_network("10.0.0.0/8")],
            admins=frozenset(admins),
        )
        client = TestClient(
            application(at, sign_in),
            base_url="http://testserver",
            client=("10.1.2.3", 1234),
            headers={} if header else {"Authorization": f"Bearer {TOKEN}"},
        )
        client.__enter__()
        made.append(client)
        return client

    yield make
    for client in made:
        client.__exit__(None, None, None)


@pytest.fixture
def page(serve: Serve) -> TestClient:
    """A service that accepts changes, for a client with the token."""
    return serve(write=True)
