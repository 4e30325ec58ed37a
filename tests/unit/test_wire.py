"""The agent's protocol, byte by byte."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchwork.errors import ProtocolError, one_line
from fetchwork.hook import wire
from fetchwork.hook.wire import Reply, ReplyReader, Request, RequestReader

PAGE = Path(wire.__file__).with_name("PROTOCOL.md").read_text()
EXAMPLES = [
    "\n".join(line.removeprefix("    ") for line in block.strip("\n").split("\n"))
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE, re.MULTILINE)
    if "fetchwork/1" in block and " = " not in block.split("\n\n")[0]
]


def read_all(reader: Any, step: Callable[[Any], Any], data: bytes) -> list[Any]:
    reader.feed(data)
    found = []
    while (message := step(reader)) is not None:
        found.append(message)
    return found


def requests(data: bytes, **more: Any) -> list[Request]:
    return read_all(RequestReader(**more), RequestReader.next_request, data)


def replies(data: bytes, **more: Any) -> list[Reply]:
    return read_all(ReplyReader(**more), ReplyReader.next_reply, data)


# -- the page


def test_the_page_has_its_examples() -> None:
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split("\n")[0])
def test_every_example_of_the_page_is_read_and_its_length_is_right(example: str) -> None:
    first = example.split("\n", maxsplit=1)[0]
    head, _, body = example.partition("\n\n")
    data = f"{head}\n\n{body}\n".encode() if body else f"{head.rstrip()}\n\n".encode()
    read, write = (
        (replies, wire.encode_reply)
        if first.split()[1] in ("ok", "error")
        else (requests, wire.encode_request)
    )
    [message] = read(data)
    assert message.body.decode() == (f"{body}\n" if body else "")
    assert read(write(message)) == [message]  # type: ignore[arg-type]


def test_every_hook_and_every_error_code_is_on_the_page() -> None:
    for hook in (*wire.HOOKS, "status"):
        assert f"| `{hook}` |" in PAGE


# -- there and back

lines = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=40)
words = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
numbers = st.integers(0, 10**9)


@given(
    st.builds(
        Request,
        words,
        st.binary(max_size=300),
        keyword=lines,
        arg=lines,
        slot=lines,
        deadline_ms=numbers,
        check=lines,
        written=numbers,
    ),
    st.integers(1, 50),
)
@settings(deadline=None)
def test_a_request_arrives_in_whatever_pieces_as_it_was_sent(request_: Any, size: int) -> None:
    data = wire.encode_request(request_) * 2
    reader = RequestReader()
    found = []
    for start in range(0, len(data), size):
        found += read_all(reader, RequestReader.next_request, data[start : start + size])
    assert found == [request_, request_]
    assert reader.empty


@given(
    st.builds(
        Reply,
        st.binary(max_size=300),
        exit=numbers,
        stderr=lines,
        signal=numbers,
        pid=numbers,
        code=words | st.just(""),
        message=lines,
    )
)
def test_a_reply_arrives_as_it_was_sent(reply: Any) -> None:
    assert replies(wire.encode_reply(reply)) == [reply]


@given(st.binary(max_size=200) | st.binary(max_size=100).map(b"fetchwork/1 fetch_work\n".__add__))
def test_any_bytes_are_a_message_or_a_protocol_error_of_one_line(data: bytes) -> None:
    for read in (requests, replies):
        try:
            read(data)
        except ProtocolError as exc:
            assert len(str(exc).splitlines()) == 1


def test_unknown_headers_are_ignored() -> None:
    assert requests(b"fetchwork/1 status\nnew: 1\nlength: 0\n\n") == [Request("status")]


def test_a_message_can_not_be_changed() -> None:
    with pytest.raises(AttributeError, match="Request is frozen"):
        Request("status").arg = "x"


def test_a_body_is_never_shown() -> None:
    assert "s3cret" not in repr(Request("job_exit", b'FetchWorkToken = "s3cret"'))


# -- bounds


@pytest.mark.parametrize("pause", [100, 5000])
def test_a_head_without_end_is_refused_before_it_is_held(pause: int) -> None:
    reader = RequestReader()
    with pytest.raises(ProtocolError, match="head is larger than 8192 bytes"):
        for _ in range(1000):
            read_all(reader, RequestReader.next_request, b"fetchwork/1 x\n" + b"a: b\n" * pause)


def test_a_body_that_is_too_large_is_refused_at_its_head() -> None:
    with pytest.raises(ProtocolError, match="body of 11 bytes is larger than 10 bytes"):
        requests(b"fetchwork/1 status\nlength: 11\n\n", max_body=10)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GET / HTTP/1.1\n\n", "first line is not 'fetchwork/1 ...': 'GET / HTTP/1.1'"),
        (b"fetchwork/2 status\n\n", "first line is not 'fetchwork/1 ...'"),
        (b"fetchwork/1\n\n", "does not name one request"),
        (b"fetchwork/1 a b\n\n", "does not name one request"),
        (b"fetchwork/1 a\nlength: x\n\n", "header 'length' is not a number: 'x'"),
        (b"fetchwork/1 a\nlength: -1\n\n", "header 'length' is not a number: '-1'"),
        (b"fetchwork/1 a\nlength: " + "²".encode() + b"\n\n", "header 'length' is not a number"),
        (b"fetchwork/1 a\nlength: 9999999999999\n\n", "header 'length' is not a number"),
        (b"fetchwork/1 a\nlength: 1\nlength: 2\n\n", "header 'length' is given twice"),
        (b"fetchwork/1 a\nlength\n\n", "not a 'name: value' header: 'length'"),
        (b"fetchwork/1 \xff\n\n", "head is not UTF-8"),
    ],
)
def test_a_bad_head_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message.replace("(", r"\(")):
        requests(data)


@pytest.mark.parametrize(
    "head", [b"fetchwork/1 error\n\n", b"fetchwork/1 fine\n\n", b"fetchwork/1 ok now\n\n"]
)
def test_a_bad_answer_is_refused(head: bytes) -> None:
    with pytest.raises(ProtocolError, match="neither 'ok' nor 'error CODE'"):
        replies(head)


@pytest.mark.parametrize("value", ["a\nexit: 0", "a\r", "a\0"])
def test_a_value_can_not_break_its_line(value: str) -> None:
    with pytest.raises(ProtocolError, match="header 'check' holds a line break or NUL"):
        wire.encode_request(Request("prepare_job", check=value))
    assert one_line(value).isprintable()


def test_a_name_is_a_word() -> None:
    with pytest.raises(ProtocolError):
        wire.encode_request(Request("status x"))


def test_a_head_that_no_reader_takes_is_not_written() -> None:
    with pytest.raises(ProtocolError, match="larger than 8192 bytes"):
        wire.encode_request(Request("prepare_job", check="x" * 9000))


def test_a_line_for_people_is_cut() -> None:
    assert one_line("x" * 2000) == "x" * 997 + "..."
