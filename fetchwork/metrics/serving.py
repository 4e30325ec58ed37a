"""``GET /metrics``, ``/healthz`` and ``/readyz``, answered by threads beside the program."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app

from fetchwork import __version__
from fetchwork.errors import AgentUnavailable

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment


class Server:
    """Serves a registry at an address until ``close``; AgentUnavailable if it cannot listen there.

    ``/healthz`` answers 200 as long as the process does. ``/readyz`` answers 200, or 503 with the text of
    ``unready``, which a thread calls for each request: the reason why the program can't work, or None.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        address: str,
        port: int,
        unready: Callable[[], str | None] = lambda: None,
    ) -> None:
        metrics = make_wsgi_app(registry)

        def answer(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            path = environment["PATH_INFO"]
            if path not in ("/healthz", "/readyz"):
                shown: Iterable[bytes] = metrics(environment, start)
                return shown
            problem = unready() if path == "/readyz" else None
            start("503 Service Unavailable" if problem else "200 OK", [("Content-Type", "text/plain")])
            return [f"{problem or f'ok: fetchwork {__version__}'}\n".encode()]

        try:
            family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
            server = type("_Family", (_Threads,), {"address_family": family})
            self._server: WSGIServer = make_server(address, port, answer, server, _Quiet)
        except OSError as error:
            raise AgentUnavailable(
                f"cannot listen at '{address}:{port}': {error.strerror or error}"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Threads(ThreadingMixIn, WSGIServer):
    """A thread for each request, which does not keep the program alive."""

    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


def text_of(registry: CollectorRegistry) -> str:
    """The text that Prometheus would read now."""
    return generate_latest(registry).decode()
