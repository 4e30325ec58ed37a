"""The sockets of the service: the allowed clients, and the limits on connections and their time."""

import asyncio
import contextlib
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from fetchwork import cli
from fetchwork.page import serving, workers
from fetchwork.page.acting import ActingSession, Person
from fetchwork.page.problem import Problem
from fetchwork.page.serving import listen, listen_at_path, server
from fetchwork.page.signin import SignIn
from fetchwork.page.workers import Workers
from tests.page.conftest import TOKEN, Serve
from tests.support.waiting import PATIENCE_S, until


async def answers(scope: Scope, receive: Receive, send: Send) -> None:
    """A service that answers with the client."""
    if scope["type"] == "http":
        client = Request(scope).client
        await PlainTextResponse(client.host if client else "nowhere")(scope, receive, send)


@contextlib.contextmanager
def running(listener: socket.socket) -> Iterator[None]:
    """A server at a socket."""
    serves = server(answers)
    thread = threading.Thread(target=serves.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        until(lambda: serves.started)
        yield
    finally:
        serves.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server at all addresses of this machine."""
    listener = listen("::", 0)
    with running(listener):
        yield listener.getsockname()[1]


def connected(port: int, text: bytes = b"GET / HTTP/1.1\r\n", source: str = "127.0.0.1") -> socket.socket:
    """A connection on which the head of a request was begun."""
    client = socket.create_connection(("127.0.0.1", port), PATIENCE_S, (source, 0))
    client.sendall(text)
    return client


def is_closed(client: socket.socket) -> bool:
    """Whether the server closes a connection without an answer."""
    try:
        return client.recv(1000) == b""
    except ConnectionResetError:
        return True


class Closing(asyncio.Transport):
    """A connection that is told to close, and whose end the loop has not told yet."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1), "sockname": ("127.0.0.1", 80)})
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


async def test_refused_connections_take_no_place_of_others_until_they_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS_EACH", 2)
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 5)
    config = server(answers).config
    config.load()
    state = ServerState()

    def connect(address: str) -> bool:
        """Whether a connection of the address is taken."""
        protocol: Any = config.http_protocol_class
        transport = Closing(address)
        protocol(config=config, server_state=state, app_state={}).connection_made(transport)
        return not transport.aborted

    assert [connect("127.0.0.2") for _ in range(20)] == [True] * 2 + [False] * 18
    assert connect("127.0.0.1")


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_all_addresses_are_those_of_both_protocols(port: int) -> None:
    assert httpx2.get(f"http://127.0.0.1:{port}/", trust_env=False).text == "::ffff:127.0.0.1"
    assert httpx2.get(f"http://[::1]:{port}/", trust_env=False).text == "::1"


@pytest.mark.parametrize("first", ["", "GET / HTTP/1.1\r\nHost: h\r\n\r\n"])
def test_a_head_that_does_not_come_ends_its_connection(
    port: int, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    if not first:
        monkeypatch.setattr(serving, "HEAD_S", 0.2)
    with connected(port, first.encode() or b"GET / ") as client:
        if first:
            said = b""
            while not said.endswith(b"127.0.0.1"):
                said += client.recv(1000)
            # a busy machine may take longer over the first head
            monkeypatch.setattr(serving, "HEAD_S", 0.2)
            client.sendall(b"GET / HTTP/1.1\r\n")
        assert is_closed(client)


def test_connections_of_one_address_leave_room_for_others(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS_EACH", 3)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connected(port))
        fourth = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
        assert is_closed(fourth)
        other = stack.enter_context(connected(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "127.0.0.2"))
        assert b"200 OK" in other.recv(1000)


def test_a_unix_socket_is_for_its_account_and_a_group(tmp_path: Path) -> None:
    path = tmp_path / "page.sock"
    for _ in range(2):
        # the second time in place of a socket file that was left
        listener = listen_at_path(path, os.getgid())
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        with running(listener), httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path))) as client:
            assert client.get("http://h/").text == "nowhere"
            with pytest.raises(OSError, match="another process listens there"):
                listen_at_path(path, None)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="no socket; remove it"):
        listen_at_path(tmp_path / "file", None)


def waits(session: ActingSession) -> None:
    """A query that has no answer soon."""
    session.database.query("SELECT pg_sleep(3600)")


def at_once(session: ActingSession) -> str:
    """A query that is answered at once."""
    return "answer"


async def test_one_person_s_questions_leave_room_for_others(
    conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = Workers(conninfo)
    many = Person("many", None, False)
    questions = [asyncio.ensure_future(asking.ask(many, waits)) for _ in range(500)]
    try:
        # until all have begun
        await asyncio.sleep(0)
        refused = [question for question in questions if question.done()]
        assert len(refused) == 500 - workers.MAX_ASKED_EACH
        assert {type(question.exception()) for question in refused} == {Problem}
        assert await asking.ask(Person("other", None, False), at_once) == "answer"
    finally:
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)
        asking.close()


def test_a_link_leads_nowhere_else_and_signs_nobody_out(page: TestClient) -> None:
    page.headers.pop("Authorization")
    answer = page.get("http://testserver//evil.example/", params={"token": TOKEN}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/evil.example/")
    for wrong in ("x", "€", ""):
        answer = page.get("/", params={"token": wrong}, follow_redirects=False)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
    assert page.get("/").status_code == 200


def test_a_proxy_has_to_send_its_secret(conninfo: str, serve: Serve) -> None:
    page = serve(header="X-User", secret="a secret of the proxy")
    person = {"X-User": "alice"}
    assert page.get("/", headers=person).status_code == 401
    assert page.get("/", headers={**person, "X-Fetchwork-Proxy-Secret": "wrong"}).status_code == 401
    secret = {"X-Fetchwork-Proxy-Secret": "a secret of the proxy"}
    assert page.get("/", headers={**person, **secret}).status_code == 200


def test_an_address_of_ipv4_is_trusted_at_a_socket_of_ipv6() -> None:
    import ipaddress

    from starlette.requests import HTTPConnection

    sign_in = SignIn(header="X-User", trusted=[ipaddress.ip_network("10.0.0.0/8")])
    scope = {"type": "http", "headers": [(b"x-user", b"alice")], "client": ("::ffff:10.1.2.3", 1)}
    assert sign_in.person(HTTPConnection(scope)).name == "alice"


REFUSED = {
    "--user-header": ("every account of this machine could name any account", ["--user-header", "X-User"]),
    "--admin": ("go with --user-header", ["--admin", "alice"]),
    "--socket-group": ("goes with --listen unix:PATH", ["--socket-group", "users"]),
    "--trusted-proxy": (
        "does not go with --listen unix:PATH",
        ["--listen", "unix:/tmp/s", "--user-header", "X-User", "--trusted-proxy", "10.0.0.1"],
    ),
}


@pytest.mark.parametrize("option", REFUSED)
def test_options_that_do_not_go_together_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, words = REFUSED[option]
    assert cli.run(["serve", *words]) == 2
    assert text in capsys.readouterr().err


def test_an_address_of_this_machine_is_trusted_with_a_warning(
    conninfo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with listen("127.0.0.1", 0) as taken:
        # the address is taken, so it ends there
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["serve", "--dsn", conninfo, "--listen", address, "--user-header", "X-User"]
        assert cli.run([*words, "--trusted-proxy", "127.0.0.1"]) == 1
        said = capsys.readouterr().err
        assert "warning: --trusted-proxy trusts this machine" in said
        assert f"cannot listen at '{address}': Address already in use" in said
        (tmp_path / "secret").write_text("a secret of the proxy\n")
        assert cli.run([*words, "--proxy-secret-file", str(tmp_path / "secret")]) == 1
        assert "warning" not in capsys.readouterr().err
