"""``GET /metrics``, answered by threads beside the program."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest, start_http_server

from fetchwork.errors import AgentUnavailable


class Server:
    """Serves a registry at an address until ``close``; AgentUnavailable if it cannot listen there."""

    def __init__(self, registry: CollectorRegistry, address: str, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(port, address, registry)
        except OSError as error:
            raise AgentUnavailable(
                f"cannot listen at '{address}:{port}': {error.strerror or error}"
            ) from error

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def text_of(registry: CollectorRegistry) -> str:
    """The text that Prometheus would read now."""
    return generate_latest(registry).decode()
