"""The client of the agent's privileged part (``privilegedpart``): its requests as calls."""

from __future__ import annotations

import errno
import itertools
import os
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

#: seconds for an answer: a little more than the privileged part takes at most (``privilegedpart.TIME_S``)
ANSWER_S = 5.0

#: an error number (0: no error) and a descriptor
_Answer = tuple[int, int | None]


class PrivilegedClient:
    """Sends requests to the privileged part. Calls block, and may come from several threads."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self._connection = connection
        self._connection.settimeout(ANSWER_S)
        self._lock = threading.Lock()
        self._reader: threading.Thread | None = None
        self._numbers = itertools.count(1)
        #: the calls that wait for an answer, by request number; None once the privileged part has ended
        self._waiting: dict[int, Future[_Answer]] | None = {}

    def signal(self, key: str, uid: int, number: int, *, group: bool) -> None:
        """Send a signal to a job's process ("pid:start"); raises OSError, for example ProcessLookupError."""
        self._ask(f"signal {key.replace(':', ' ')} {uid} {number} {int(group)}".encode())

    def end_starter(self, key: str) -> None:
        """Tell a starter ("pid:start") without a process of its own to end; raises OSError."""
        self._ask(f"end {key.replace(':', ' ')}".encode())

    def open(self, path: Path, uid: int) -> int:
        """Return a descriptor for reading a plain file of an account; raises OSError."""
        fd = self._ask(b"open %d %s" % (uid, os.fsencode(path)))
        if fd is None:
            raise OSError(errno.EPROTO, os.strerror(errno.EPROTO), str(path))
        return fd

    def put_credential(self, directory: Path, name: str, content: bytes, uid: int) -> None:
        """Write a credential of an account into a directory of the same account; raises OSError."""
        within = os.fsencode(directory).hex()
        self._ask(f"credential {uid} {name} {within} ".encode() + content)

    def open_output(self, key: str, uid: int, stream: int) -> int:
        """Return a descriptor for reading the plain file that a job's process writes to; raises OSError."""
        fd = self._ask(f"output {key.replace(':', ' ')} {uid} {stream}".encode())
        if fd is None:
            raise OSError(errno.EPROTO, os.strerror(errno.EPROTO))
        return fd

    def family(self, key: str, uid: int) -> list[str]:
        """Return the processes, as keys, of the job that has this process ("pid:start"); raises OSError."""
        fd = self._ask(f"family {key.replace(':', ' ')} {uid}".encode())
        if fd is None:
            raise OSError(errno.EPROTO, os.strerror(errno.EPROTO))
        with os.fdopen(fd) as file:
            return file.read().split()

    def disk_used(self, key: str, uid: int) -> int:
        """Return the bytes of an account's files in a starter's ("pid:start") scratch directory.

        Raises OSError.
        """
        fd = self._ask(f"disk {key.replace(':', ' ')} {uid}".encode())
        if fd is None:
            raise OSError(errno.EPROTO, os.strerror(errno.EPROTO))
        try:
            return int(os.pread(fd, 32, 0))
        except ValueError:
            raise OSError(errno.EPROTO, os.strerror(errno.EPROTO)) from None
        finally:
            os.close(fd)

    def close(self) -> None:
        """End the privileged part."""
        with suppress(OSError):
            # this wakes the waiting calls and the other end
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _ask(self, request: bytes) -> int | None:
        answered: Future[_Answer] = Future()
        with self._lock:
            if self._waiting is None:
                raise _ended()
            number = next(self._numbers)
            self._waiting[number] = answered
            if self._reader is None:
                # started with the first request, because the agent may fork before that
                self._reader = threading.Thread(target=self._read, daemon=True)
                self._reader.start()
        try:
            # the other end may be slow to take the request; meanwhile the reader hands out other answers
            self._connection.sendall(b"%d %s" % (number, request))
            error, fd = answered.result(ANSWER_S)
        except TimeoutError:
            self._forget(number)
            if not answered.done():
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
            error, fd = answered.result()
        except OSError:
            self._forget(number)
            raise
        if error:
            raise OSError(error, os.strerror(error))
        return fd

    def _forget(self, number: int) -> None:
        with self._lock:
            if self._waiting is not None:
                self._waiting.pop(number, None)

    def _read(self) -> None:
        """Hand each answer to the call that waits for it, until the other end is gone."""
        while True:
            try:
                answer, fds, _, _ = socket.recv_fds(self._connection, 64, 1)
            except TimeoutError:
                continue
            except OSError:
                answer, fds = b"", []
            with self._lock:
                if not answer:
                    waiting, self._waiting = self._waiting or {}, None
                    for unanswered in waiting.values():
                        unanswered.set_exception(_ended())
                    return
                number, error = map(int, answer.split())
                asked = (self._waiting or {}).pop(number, None)
                if asked is not None:
                    asked.set_result((error, fds.pop() if fds else None))
            for fd in fds:
                # the call that wanted it has timed out
                os.close(fd)


def _ended() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "the agent's privileged part has ended")
