"""A hook's connection to the agent, for one request after the other, each within a deadline."""

from _socket import AF_UNIX, SOCK_STREAM, socket
from time import monotonic, sleep

from fetchwork.hook.wire import Reply, ReplyReader, Request, encode_request
from fetchwork.hookerrors import AgentUnavailable

_RECEIVE = 256 * 1024


class Link:
    """A connection to the agent at socket ``path``, until the monotonic time ``end``."""

    def __init__(self, path: str, end: float) -> None:
        self.path = path
        self.end = end
        self._socket: socket | None = None

    def ask(self, request: Request, *, keep: bool = False) -> Reply:
        """Return the agent's answer; raises AgentUnavailable. With ``keep`` the connection stays open."""
        answered = False
        try:
            sock = self._socket or self._connect()
            reply = self._exchange(sock, request)
            answered = True
        except TimeoutError:
            raise AgentUnavailable("agent does not answer") from None
        except OSError as exc:
            raise AgentUnavailable(f"agent broke the connection: {exc.strerror}") from None
        finally:
            if not (keep and answered):
                self.close()
        return reply

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> socket:
        sock = self._socket = socket(AF_UNIX, SOCK_STREAM)
        while True:
            try:
                sock.settimeout(self._left())
                sock.connect(self.path)
                return sock
            except BlockingIOError:
                # the agent's backlog of connections is full
                sleep(min(0.02, self._left()))
            except TimeoutError:
                raise
            except OSError as exc:
                raise AgentUnavailable(
                    f"cannot connect to agent socket '{self.path}': {exc.strerror}"
                ) from None

    def _exchange(self, sock: socket, request: Request) -> Reply:
        try:
            sock.settimeout(self._left())
            sock.sendall(encode_request(request))
        except (BrokenPipeError, ConnectionResetError):
            # an agent that refuses a request answers before it has read all of it
            pass
        reader = ReplyReader()
        while True:
            sock.settimeout(self._left())
            data = sock.recv(_RECEIVE)
            if not data:
                raise AgentUnavailable("agent closed the connection before it answered")
            reader.feed(data)
            reply = reader.next_reply()
            if reply is not None:
                return reply

    def _left(self) -> float:
        left = self.end - monotonic()
        if left <= 0:
            raise TimeoutError
        return left
