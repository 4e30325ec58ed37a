"""The load of one account on the access point takes nothing from another account."""

import select
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fetchwork.client.link import MAX_REQUEST
from fetchwork.ipc import frames
from tests.accesspoint.point import AccessPoint, RefusedError, as_account, request
from tests.support.waiting import PATIENCE_S, until


def connected(point: AccessPoint) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(PATIENCE_S)
    link.connect(str(point.socket))
    return link


@pytest.fixture
def served(point: AccessPoint) -> Iterator[None]:
    """After the test another account is still answered."""
    yield
    assert as_account("daemon", lambda: point.ask("totals"))[0]["jobs"] == 0


@pytest.mark.usefixtures("served")
def test_many_connections_of_one_account_are_bounded(point: AccessPoint) -> None:
    def connects() -> str:
        links = [connected(point) for _ in range(600)]
        last = links[-1].recv(4096)
        return last.decode(errors="replace")

    assert "too many connections to the access point; allowed: 512" in as_account("nobody", connects)


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xff\xff\xff", "allowed: 16777216"),
        (b"GET / HTTP/1.1\r\n\r\n", "allowed: 16777216"),
        ((5).to_bytes(4, "big") + b"[1,2]", "not a JSON object"),
        ((5).to_bytes(4, "big") + b"nonse", "not JSON"),
        ((200_000).to_bytes(4, "big") + b"[" * 200_000, "not JSON"),
    ],
)
def test_bytes_that_are_no_request_end_the_connection_with_a_reason(
    point: AccessPoint, data: bytes, message: str
) -> None:
    def says() -> str:
        with connected(point) as link:
            link.sendall(data)
            answer = b""
            while part := link.recv(65536):
                answer += part
            return answer.decode(errors="replace")

    assert message in as_account("nobody", says)


@pytest.mark.usefixtures("served")
def test_requests_that_never_end_keep_no_one_else_from_asking(point: AccessPoint) -> None:
    def halves() -> str:
        links = [connected(point) for _ in range(100)]
        for link in links:
            link.sendall(MAX_REQUEST.to_bytes(4, "big") + b"x" * 100)
        # a request of the same account beside these connections
        return str(point.ask("totals")[0]["jobs"])

    assert as_account("nobody", halves) == "0"


def test_an_answer_that_is_not_read_holds_up_nobody(point: AccessPoint) -> None:
    point.submit("nobody", 'executable = /bin/true\n+Text = "' + "x" * 2000 + '$(Process)"\nqueue 3000\n')
    reads_nothing = []
    for _ in range(6):
        link = connected(point)
        link.sendall(frames.encode({"op": "jobs", "as": "nobody"}))
        reads_nothing.append(link)
    assert len(as_account("nobody", lambda: point.items("jobs", projection=["ProcId"], limit=5))) == 5
    assert as_account("daemon", lambda: point.ask("totals"))[0]["jobs"] == 0
    for link in reads_nothing:
        link.close()
    # nothing is left of the clients that disconnected
    until(lambda: point.status()["connections"] <= 1)


def test_a_constraint_that_takes_for_ever_holds_up_nobody_else(point: AccessPoint) -> None:
    point.submit("nobody", "executable = /bin/true\nqueue 20\n")
    point.submit("daemon", "executable = /bin/true\nqueue 2\n")
    text = "a" * 40
    forever = (
        f'regexp("^(a+)+$", "{text}!") || regexp("^(a|a)*$", "{text}!") || regexp("^(a|aa)+$", "{text * 2}!")'
    )
    chain = "a0 + 0 > 1"
    for n in range(40):
        chain = f"(({chain}) || ({chain}))" if n < 8 else chain
    told: list[Any] = []

    point.submit("bin", "executable = /bin/true\nqueue 20\n")

    def asks(name: str, constraint: str) -> None:
        try:
            told.append(point.items("jobs", constraint=constraint, **{"as": name}))
        except Exception as error:
            told.append(str(error))

    # one account's constraints are evaluated in turn, those of two accounts in parallel
    asked = [(name, text) for name in ("nobody", "bin") for text in (forever, chain)]
    threads = [threading.Thread(target=asks, args=one) for one in asked]
    for thread in threads:
        thread.start()
    for _ in range(10):
        found = as_account("daemon", lambda: point.items("jobs", constraint="pow(ProcId, 1) >= 0"))
        assert len(found) == 2
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert len(told) == 4


def test_a_description_that_never_ends_holds_up_its_submitter_alone(point: AccessPoint) -> None:
    text = "executable = /bin/true\nqueue x from /bin/sleep 30 |\n"

    def begins() -> None:
        link = connected(point)
        link.sendall(frames.encode({"op": "submit", **request(text, key="slow")}))
        link.close()

    for _ in range(5):
        as_account("nobody", begins)
    assert point.submit("daemon", "executable = /bin/true\nqueue\n")["count"] == 1
    # and the account's own queries do not wait for its submissions
    assert as_account("nobody", lambda: point.ask("totals"))[0]["jobs"] == 0


def test_waiting_for_events_is_bounded_and_in_nobody_s_way(point: AccessPoint) -> None:
    def waits() -> str:
        links = [connected(point) for _ in range(70)]
        for link in links:
            link.sendall(frames.encode({"op": "events", "after": "now"}))
        # six links are refused at once, no matter which were read last
        refused, _, _ = select.select(links, [], [], PATIENCE_S)
        assert point.ask("totals")[0]["jobs"] == 0
        return refused[0].recv(65536).decode()

    assert "too many requests of this account wait for events" in as_account("nobody", waits)
    until(lambda: point.status()["connections"] <= 1)


def test_a_client_that_goes_away_in_a_submission_is_not_left_half_way(point: AccessPoint) -> None:
    for n in range(5):
        with connected(point) as link:
            asked = request("executable = /bin/true\nqueue 50\n", key=f"k{n}")
            link.sendall(frames.encode({"op": "submit", "as": "nobody", **asked}))
            time.sleep(0.01 * n)
    answers = [
        point.ask("submit", **{"as": "nobody"}, **request("executable = /bin/true\nqueue 50\n", key=f"k{n}"))
        for n in range(5)
    ]
    assert len({answer["cluster"] for answer in answers}) == 5
    assert point.slots.value("SELECT count(*) FROM fetchwork.job") == 250


def test_a_refused_submission_says_why_and_the_next_is_taken(point: AccessPoint) -> None:
    for _ in range(3):
        with pytest.raises(RefusedError, match="SubmitError"):
            point.submit("nobody", "executable\nqueue\n")
    assert point.submit("nobody", "executable = /bin/true\nqueue\n")["count"] == 1
