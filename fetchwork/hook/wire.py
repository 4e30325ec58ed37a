"""The agent's protocol: parses bytes to immutable requests and replies, and prints them (PROTOCOL.md).

This module has no sockets. A reader takes bytes in pieces of any size, and returns one message at a time, so
that a connection can carry several requests. A message's size is checked before its body is read.

A hook imports this module at every start, so it imports only the exceptions, and its classes are written by
hand: importing ``dataclasses`` would take a third of a hook's time.
"""

from fetchwork.hookerrors import ProtocolError, one_line

VERSION = "fetchwork/1"
#: most bytes of the first line and the headers
MAX_HEAD = 8 * 1024
#: most bytes of a body, unless a reader has its own limit
MAX_BODY = 16 * 1024 * 1024

HOOKS = ("fetch_work", "reply_fetch", "evict_claim", "prepare_job", "update_job_info", "job_exit")
#: the program that runs the jobs of a chain; it lies beside compiled hooks
RUNNER = "runner"


class _Message:
    __slots__: tuple[str, ...] = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__slots__))

    def __repr__(self) -> str:
        # without the body, whose ad has the run's token
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__ if name != "body")
        return f"{type(self).__name__}({fields}, body=<{len(getattr(self, 'body', b''))} bytes>)"


class Request(_Message):
    """A request to the agent; PROTOCOL.md lists the names and headers.

    ``written`` is the time at which a report was spooled, in seconds since 1970, else 0. ``files`` is the
    number of bytes at the end of the body that are files, ``inline`` the most such bytes of the answer.
    """

    __slots__ = (
        "arg",
        "body",
        "check",
        "deadline_ms",
        "files",
        "inline",
        "keyword",
        "name",
        "slot",
        "written",
    )

    name: str
    body: bytes
    keyword: str
    arg: str
    slot: str
    deadline_ms: int
    check: str
    written: int
    inline: int
    files: int

    def __init__(
        self,
        name: str,
        body: bytes = b"",
        *,
        keyword: str = "",
        arg: str = "",
        slot: str = "",
        deadline_ms: int = 0,
        check: str = "",
        written: int = 0,
        inline: int = 0,
        files: int = 0,
    ) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "body", body)
        put(self, "keyword", keyword)
        put(self, "arg", arg)
        put(self, "slot", slot)
        put(self, "deadline_ms", deadline_ms)
        put(self, "check", check)
        put(self, "written", written)
        put(self, "inline", inline)
        put(self, "files", files)


class Reply(_Message):
    """The agent's reply: a result, or an error with its ``code`` and ``message``.

    ``files`` is the number of bytes at the end of the body that are files.
    """

    __slots__ = ("body", "code", "exit", "files", "message", "pid", "signal", "stderr")

    body: bytes
    exit: int
    stderr: str
    signal: int
    pid: int
    code: str
    message: str
    files: int

    def __init__(
        self,
        body: bytes = b"",
        *,
        exit: int = 0,
        stderr: str = "",
        signal: int = 0,
        pid: int = 0,
        code: str = "",
        message: str = "",
        files: int = 0,
    ) -> None:
        put = object.__setattr__
        put(self, "body", body)
        put(self, "exit", exit)
        put(self, "stderr", stderr)
        put(self, "signal", signal)
        put(self, "pid", pid)
        put(self, "code", code)
        put(self, "message", message)
        put(self, "files", files)


def encode_request(request: Request) -> bytes:
    """Return the bytes of a request; raises ProtocolError for a value that would break its line."""
    _check_word(request.name)
    head = f"{VERSION} {request.name}\n"
    for name in ("keyword", "arg", "slot", "deadline_ms", "check", "written", "inline", "files"):
        value = getattr(request, name)
        if value:
            head += _header(name, value)
    return _finish(head, request.body)


def encode_reply(reply: Reply) -> bytes:
    """Return the bytes of a reply; raises ProtocolError for a value that would break its line."""
    if reply.code:
        _check_word(reply.code)
        head = f"{VERSION} error {reply.code}\n"
    else:
        head = f"{VERSION} ok\n"
    for name in ("exit", "stderr", "signal", "pid", "message", "files"):
        value = getattr(reply, name)
        if value:
            head += _header(name, value)
    return _finish(head, reply.body)


def _check_word(word: str) -> None:
    if not word or not word.isascii() or not word.replace("_", "a").isalnum():
        raise ProtocolError(f"'{one_line(word, 40)}' is not a word of letters, digits and _")


def _header(name: str, value: object) -> str:
    text = str(value)
    if "\n" in text or "\r" in text or "\0" in text:
        raise ProtocolError(f"header '{name}' holds a line break or NUL")
    return f"{name}: {text}\n"


def _finish(head: str, body: bytes) -> bytes:
    encoded = (head + f"length: {len(body)}\n\n").encode("utf-8", "replace")
    if len(encoded) > MAX_HEAD:
        raise ProtocolError(f"head of {len(encoded)} bytes is larger than {MAX_HEAD} bytes")
    return encoded + body


class _Reader:
    """A buffer of received bytes, which holds at most one head and one body."""

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self._max_body = max_body
        self._buffer = bytearray()
        self._words: list[str] | None = None
        self._headers: dict[str, str] = {}
        self._length = 0

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._buffer += data

    @property
    def empty(self) -> bool:
        """Whether no message is incomplete: a connection may end here."""
        return self._words is None and not self._buffer

    def _next(self) -> bytes | None:
        """Return the next message's body, None if incomplete; its head is in _words and _headers."""
        if self._words is None:
            end = self._buffer.find(b"\n\n", 0, MAX_HEAD)
            if end < 0:
                if len(self._buffer) >= MAX_HEAD:
                    raise ProtocolError(f"head is larger than {MAX_HEAD} bytes")
                return None
            head = bytes(self._buffer[:end])
            del self._buffer[: end + 2]
            self._words, self._headers = _parse_head(head)
            self._length = self._number("length")
            if self._length > self._max_body:
                raise ProtocolError(f"body of {self._length} bytes is larger than {self._max_body} bytes")
        if len(self._buffer) < self._length:
            return None
        body = bytes(self._buffer[: self._length])
        del self._buffer[: self._length]
        return body

    def _number(self, name: str) -> int:
        text = self._headers.get(name, "0")
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise ProtocolError(f"header '{name}' is not a number: '{one_line(text, 40)}'")
        return int(text)

    def _files(self, body: bytes) -> int:
        files = self._number("files")
        if files > len(body):
            raise ProtocolError(f"{files} bytes of files are more than the body has")
        return files


def _parse_head(head: bytes) -> tuple[list[str], dict[str, str]]:
    try:
        lines = head.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise ProtocolError("head is not UTF-8") from None
    words = lines[0].split(" ")
    if words[0] != VERSION:
        raise ProtocolError(f"first line is not '{VERSION} ...': '{one_line(lines[0], 40)}'")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(": ")
        if not colon or not name:
            raise ProtocolError(f"not a 'name: value' header: '{one_line(line, 40)}'")
        if name in headers:
            raise ProtocolError(f"header '{one_line(name, 40)}' is given twice")
        headers[name] = value
    return words[1:], headers


class RequestReader(_Reader):
    """The agent's end of a connection."""

    def next_request(self) -> Request | None:
        """Return the next request, or None until it is complete; raises ProtocolError.

        After an error the caller answers ``error bad_request`` and closes the connection.
        """
        body = self._next()
        if body is None:
            return None
        words, headers = self._words or [], self._headers
        self._words = None
        if len(words) != 1 or not words[0]:
            raise ProtocolError("first line does not name one request")
        return Request(
            words[0],
            body,
            keyword=headers.get("keyword", ""),
            arg=headers.get("arg", ""),
            slot=headers.get("slot", ""),
            deadline_ms=self._number("deadline_ms"),
            check=headers.get("check", ""),
            written=self._number("written"),
            inline=self._number("inline"),
            files=self._files(body),
        )


class ReplyReader(_Reader):
    """A hook's end of a connection."""

    def next_reply(self) -> Reply | None:
        """Return the next reply, or None until it is complete; raises ProtocolError."""
        body = self._next()
        if body is None:
            return None
        words, headers = self._words or [], self._headers
        self._words = None
        if words == ["ok"]:
            code = ""
        elif len(words) == 2 and words[0] == "error" and words[1]:
            code = words[1]
        else:
            raise ProtocolError("first line is neither 'ok' nor 'error CODE'")
        return Reply(
            body,
            exit=self._number("exit"),
            stderr=headers.get("stderr", ""),
            signal=self._number("signal"),
            pid=self._number("pid"),
            code=code,
            message=headers.get("message", ""),
            files=self._files(body),
        )
