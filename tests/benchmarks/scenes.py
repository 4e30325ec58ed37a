"""The ways in which one hostile person delays all others, each for as long as a block runs.

Every scene is a context manager. Its programs are processes of their own: they take processor time, and not
this interpreter.
"""

import contextlib
import http.client
import json
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from fetchwork.pool.ports import free_port
from fetchwork.pool.postgres import PostgresServer

#: a role that may connect to the server's databases, and do nothing else
STRANGER, PASSWORD = "bench_stranger", "x"
ELSEWHERE = "elsewhere"
#: the smallest queue of notifications that PostgreSQL 17 and later can have, in pages of 8 KiB
SETTINGS = {"max_notify_queue_pages": "64"}
#: the person who floods the page
MALLORY = "daemon"
_PERSON = "X-Remote-User"
_READY_S = 60.0


def make_stranger(server: PostgresServer) -> None:
    """Make the stranger's role, and the database that is not the queue's."""
    server.query(f"CREATE ROLE {STRANGER} LOGIN PASSWORD '{PASSWORD}'")
    server.create_database(ELSEWHERE)


def _as_stranger(server: PostgresServer, database: str) -> psycopg.Connection:
    return psycopg.connect(server.conninfo(database, user=STRANGER, password=PASSWORD))


@contextlib.contextmanager
def full_notification_queue(server: PostgresServer) -> Iterator[None]:
    """The stranger fills PostgreSQL's queue of notifications, and again whenever the session is ended."""
    over, full = threading.Event(), threading.Event()

    def fill() -> None:
        with _as_stranger(server, ELSEWHERE) as reader:
            reader.execute("LISTEN anything")
            reader.commit()
            # this open transaction keeps every notification that follows
            reader.execute("SELECT 1")
            with (
                contextlib.suppress(psycopg.errors.ProgramLimitExceeded),
                _as_stranger(server, ELSEWHERE) as writer,
            ):
                writer.autocommit = True
                while not over.is_set():
                    writer.execute("SELECT pg_notify('anything', repeat('x', 7000) || clock_timestamp())")
            full.set()
            while not over.wait(0.1):
                reader.execute("SELECT 1")

    def keep_full() -> None:
        while not over.is_set():
            with contextlib.suppress(psycopg.Error):
                fill()

    thread = threading.Thread(target=keep_full)
    thread.start()
    try:
        if not full.wait(_READY_S):
            raise TimeoutError("the queue of notifications does not get full")
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def open_transactions(server: PostgresServer, database: str) -> Iterator[None]:
    """The stranger has a transaction open in the queue's database, and one in another database."""
    with _as_stranger(server, database) as ours, _as_stranger(server, ELSEWHERE) as other:
        for connection in (ours, other):
            connection.execute("SELECT pg_current_xact_id()")
        yield


@contextlib.contextmanager
def flooded_socket(agent_socket: Path, threads: int) -> Iterator[None]:
    """A job's account floods an agent's socket with large and small requests. Only root can start that."""
    if not threads or os.geteuid() != 0:
        yield
        return
    with _flooding(_SOCKET_FLOOD, agent_socket, threads):
        yield


_SOCKET_FLOOD = r"""
import itertools, os, socket, sys, threading, uuid
key = b'FetchWorkRunId = 1\nFetchWorkToken = "%s"\n' % str(uuid.uuid4()).encode()
def flood():
    for number in itertools.count():
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(10)
                link.connect(sys.argv[1])
                body = key + b"Some = 1\n" * (100_000 if number % 8 else 0)
                head = b"fetchwork/1 update_job_info\nkeyword: FETCHWORK\nlength: %d\n\n" % len(body)
                for _ in range(number % 50):
                    link.sendall(head + body)
                    if not link.recv(4096):
                        break
        except OSError:
            pass
any(os.fork() == 0 for _ in range(6))
for _ in range(int(sys.argv[2]) // 7):
    threading.Thread(target=flood, daemon=True).start()
threading.Event().wait()
"""


class Page:
    """The page of a queue behind a proxy that signs people in; ``directory`` is for its secret."""

    def __init__(self, conninfo: str, directory: Path) -> None:
        self.port = free_port()
        self.secret = "the-secret-of-the-benchmark"
        secret = directory / "page-secret"
        secret.touch(0o600)
        secret.write_text(self.secret)
        self._command = [sys.executable, "-m", "fetchwork", "--dsn", conninfo, "serve", "--write"]
        self._command += ["--listen", f"127.0.0.1:{self.port}", "--user-header", _PERSON]
        self._command += ["--proxy-secret-file", str(secret)]

    def ask(self, person: str, path: str, body: object = None) -> dict[str, Any]:
        """The API's answer to a person's question; raises OSError without one."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_READY_S)
        with contextlib.closing(link):
            head = {_PERSON: person, "X-Fetchwork-Proxy-Secret": self.secret}
            if body is not None:
                head["Content-Type"] = "application/json"
            text = None if body is None else json.dumps(body)
            link.request("GET" if body is None else "POST", f"/api/v1{path}", text, head)
            answer = link.getresponse()
            content = answer.read()
        if answer.status >= 300:
            raise OSError(f"{path}: {answer.status} {content.decode()}")
        return dict(json.loads(content))

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """The page, while the block runs."""
        with subprocess.Popen(self._command, stdout=subprocess.DEVNULL) as service:
            try:
                self._wait_for(service)
                yield
            finally:
                service.terminate()

    def _wait_for(self, service: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                self.ask(MALLORY, "/totals")
            except ConnectionError:
                if service.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    @contextlib.contextmanager
    def flooded(self, threads: int) -> Iterator[None]:
        """One person asks slow questions through the proxy, and begins requests that it does not end.

        These come from another address, at most 100 a second once there are 1100. More connections a second
        than the service accepts fill the kernel's queue of its port, for which the rules of a host's
        firewall or proxy are the place.
        """
        with _flooding(_PAGE_FLOOD, self.port, threads, self.secret, MALLORY):
            yield


_PAGE_FLOOD = r"""
import http.client, resource, socket, sys, threading, time
port, secret, person = int(sys.argv[1]), sys.argv[3], sys.argv[4]
head = {"X-Remote-User": person, "X-Fetchwork-Proxy-Secret": secret}
slow = "/api/v1/history?constraint=regexp(%22^no+such$%22,+strcat(Args,+ClusterId))"
def ask():
    while True:
        try:
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            link.request("GET", slow, headers=head)
            link.getresponse().read()
        except OSError:
            pass
        finally:
            link.close()
def begin():
    # not from the proxy's address
    half = []
    while True:
        try:
            half.append(socket.create_connection(("127.0.0.1", port), 10, ("127.0.0.2", 0)))
            half[-1].sendall(b"GET / HTTP/1.1\r\n")
        except OSError:
            pass
        if len(half) > 1100:
            half.pop(0).close()
            time.sleep(0.01)
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
threading.Thread(target=begin, daemon=True).start()
for _ in range(int(sys.argv[2])):
    threading.Thread(target=ask, daemon=True).start()
threading.Event().wait()
"""


@contextlib.contextmanager
def _flooding(program: str, *words: object) -> Iterator[None]:
    """Run a program as an account of jobs, with all its children, while the block runs."""
    as_root = os.geteuid() == 0
    account = pwd.getpwnam(MALLORY)
    with subprocess.Popen(
        ["/usr/bin/python3", "-I", "-c", program, *map(str, words)],
        user=account.pw_uid if as_root else None,
        group=account.pw_gid if as_root else None,
        extra_groups=[] if as_root else None,
        start_new_session=True,
    ) as flood:
        try:
            yield
        finally:
            os.killpg(flood.pid, signal.SIGKILL)
