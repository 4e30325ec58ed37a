"""A connection to the access point of this host.

A client sends one request, ``{"op": NAME, ...}``, and reads frames: any number of ``{"page": [...]}``, then
one ``{"done": RESULT}`` or ``{"error": CLASS, "message": TEXT}``. Then it may send another request. A page
may carry ``looked_at``, the number of rows examined so far; an empty page may report only that. An empty page
may also carry ``moved`` and ``total``: the bytes moved for the request so far, and their total.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from fetchwork import errors
from fetchwork.errors import AccessPointUnavailable, FetchworkError, ProtocolError
from fetchwork.ipc.frames import Buffer, Json, encode

#: the socket of a host's access point
SOCKET = "/run/fetchwork/access-point.sock"
#: the environment variable that names another socket; 'none': use no access point
VARIABLE = "FETCHWORK_ACCESS_POINT"
#: the variable with the account that root acts for; other accounts act for themselves alone
OWNER_VARIABLE = "FETCHWORK_OWNER"
#: seconds within which a restarted access point is back
PATIENCE_S = 20.0
#: seconds of silence after which the access point counts as dead
SILENCE_S = 120.0
#: largest request, in bytes
MAX_REQUEST = 16 * 1024 * 1024

#: the operations that change something: not repeated if no answer came
CHANGES = frozenset(
    {
        *("change", "change_jobs", "act", "edit", "reschedule", "set_submitter"),
        *("set_group", "remove_group"),
        *("put_credential", "delete_credential"),
    }
)

#: variables that name a database: with one of them set, no access point is used
_OF_DATABASE = ("FETCHWORK_DSN", "PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")


def socket_path() -> str | None:
    """The socket of the access point that commands use; None if they use the database."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named in ("", "none") else named
    if names_database():
        return None
    return SOCKET if os.path.exists(SOCKET) else None  # noqa: PTH110 - pathlib costs 10 ms


def names_database() -> bool:
    """Whether the environment names a database."""
    return any(os.environ.get(name) for name in _OF_DATABASE)


def acting_owner() -> str | None:
    """The account that root acts for at an access point, if it names one."""
    return os.environ.get(OWNER_VARIABLE) or None if os.geteuid() == 0 else None


class Link:
    """Sends requests to the access point at ``path``, one at a time; connects and reconnects when needed."""

    def __init__(self, path: str, *, patience_s: float = PATIENCE_S) -> None:
        self.path = path
        self._patience_s = patience_s
        self._socket: socket.socket | None = None
        self._buffer = Buffer()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later request makes another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(
        self,
        op: str,
        *,
        again: bool = False,
        silence_s: float = SILENCE_S,
        moved: Callable[[int, int], None] | None = None,
        **arguments: object,
    ) -> Any:
        """Return the result of a request; ``moved`` gets the bytes moved for it so far, and their total.

        ``again``: the request may be repeated if the access point ends before it answers. Raises
        AccessPointUnavailable, or the exception that the access point names.
        """
        end = time.monotonic() + self._patience_s
        while True:
            try:
                self._send(op, arguments, silence_s)
                while True:
                    frame = self._receive()
                    if "page" not in frame:
                        return frame.get("done")
                    if moved is not None and "moved" in frame:
                        moved(frame["moved"], frame["total"])
            except AccessPointUnavailable:
                self.close()
                if not again or time.monotonic() >= end:
                    raise

    def pages(
        self,
        op: str,
        *,
        silence_s: float | None = SILENCE_S,
        looked: Callable[[int], None] | None = None,
        **arguments: object,
    ) -> Iterator[list[Any]]:
        """Yield the pages of an answer as they come; a caller that stops early closes the iterator.

        ``looked`` gets the number of rows examined so far, even if no page is yielded.
        """
        end = time.monotonic() + self._patience_s
        begun = done = False
        try:
            while not done:
                try:
                    self._send(op, arguments, silence_s)
                    while True:
                        frame = self._receive()
                        if "page" not in frame:
                            done = True
                            break
                        if looked is not None and "looked_at" in frame:
                            looked(frame["looked_at"])
                        if frame["page"]:
                            begun = True
                            yield frame["page"]
                except AccessPointUnavailable:
                    self.close()
                    if begun or time.monotonic() >= end:
                        raise
        finally:
            if not done:
                # half an answer lies in the socket
                self.close()

    # -- frames

    def _send(self, op: str, arguments: Json, silence_s: float | None) -> None:
        data = encode({"op": op, **arguments})
        if len(data) > MAX_REQUEST:
            raise FetchworkError(
                f"a request of {len(data)} bytes is too long; the access point allows {MAX_REQUEST}"
            )
        link = self._socket or self._connect()
        link.settimeout(silence_s)
        with suppress(OSError):
            # if this fails, the access point may have said why before it closed the connection
            link.sendall(data)

    def _connect(self) -> socket.socket:
        end = time.monotonic() + self._patience_s
        while True:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.settimeout(self._patience_s)
            try:
                link.connect(self.path)
            except OSError as error:
                link.close()
                # the access point may be restarting
                if (
                    not isinstance(error, ConnectionRefusedError | FileNotFoundError | TimeoutError)
                    or time.monotonic() >= end
                ):
                    raise AccessPointUnavailable(
                        f"no access point answers at '{self.path}': {error.strerror or error}; "
                        f"{VARIABLE}=none goes without one"
                    ) from None
                time.sleep(0.1)
                continue
            self._socket, self._buffer = link, Buffer()
            return link

    def _receive(self) -> Json:
        while (frame := self._buffer.take()) is None:
            self._buffer.feed(self._read())
        if "error" in frame:
            error_class = getattr(errors, str(frame["error"]), None)
            known = (
                isinstance(error_class, type)
                and issubclass(error_class, FetchworkError)
                and error_class is not errors.ConfigError
            )
            raise (error_class if known else FetchworkError)(str(frame.get("message", "")))  # type: ignore[misc]
        if "page" not in frame and "done" not in frame:
            raise ProtocolError("the access point sent an unexpected answer")
        return frame

    def _read(self) -> bytes:
        """Return received bytes; raises AccessPointUnavailable at the end of the connection."""
        assert self._socket is not None
        try:
            part = self._socket.recv(1 << 20)
        except TimeoutError:
            self.close()
            raise AccessPointUnavailable(f"access point at '{self.path}' does not answer") from None
        except OSError:
            part = b""
        if not part:
            self.close()
            raise AccessPointUnavailable(f"access point at '{self.path}' ended before it answered")
        return part
