"""The sockets of the service, and the limits of its connections: number, addresses and time."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from fetchwork.page.signin import Network, address_of

#: seconds for the head of a request
HEAD_S = 10.0
#: connections at once: from one address, or one network of 64 bits of IPv6, and in all
MAX_CONNECTIONS_EACH = 128
MAX_CONNECTIONS = 800
_BACKLOG: Final = 256


def listen(address: str, port: int) -> socket.socket:
    """Listen at an address; '::' is IPv4's addresses too. Raises OSError."""
    (family, *_), *_ = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    both = address == "::" and socket.has_dualstack_ipv6()
    return socket.create_server((address, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)


def listen_at_path(path: Path, group: int | None) -> socket.socket:
    """Listen at a Unix socket that this account and a group may connect to; raises OSError.

    The socket of a killed service is replaced.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _make_room(path)
        mask = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(mask)
        if group is not None:
            os.chown(path, -1, group)
        path.chmod(0o660)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _make_room(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(errno.EEXIST, "it is there and is no socket; remove it")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(path))
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        path.unlink()
        return
    raise OSError(errno.EADDRINUSE, "another process listens there")


def serve(app: ASGIApp, listener: socket.socket, proxies: Sequence[Network] = ()) -> None:
    """Serve until SIGINT or SIGTERM. Connections of ``proxies`` count only in the total."""
    server(app, proxies).run(sockets=[listener])


def server(app: ASGIApp, proxies: Sequence[Network] = ()) -> uvicorn.Server:
    """The server, ready to run with a socket."""

    class Bounded(_Connection):
        _proxies = proxies

    config = uvicorn.Config(
        app,
        http=Bounded,
        ws="none",
        log_level="warning",
        # the options' header names the person, not headers that uvicorn knows
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)


class _Connection(H11Protocol):
    """A connection that is closed if a request's head is late, or if there are too many."""

    _proxies: Sequence[Network] = ()
    _timer: asyncio.TimerHandle | None = None
    _peer: Network | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.client is not None:
            address = address_of(self.client[0])
            if not any(address in network for network in self._proxies):
                bits = 64 if address.version == 6 else 32
                self._peer = ipaddress.ip_network((address, bits), strict=False)
        same = sum(isinstance(each, _Connection) and each._peer == self._peer for each in self.connections)
        if len(self.connections) > MAX_CONNECTIONS or (self._peer and same > MAX_CONNECTIONS_EACH):
            # it does not count any more: a burst of refused ones must not use up the places of others
            self.connections.discard(self)
            transport.abort()
            return
        self._time_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _time_head(self) -> None:
        """Start the time limit of an incomplete head."""
        if self.conn.their_state is h11.IDLE:
            if self._timer is None:
                self._timer = self.loop.call_later(HEAD_S, self.transport.abort)
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None
