"""The page of a private pool: a process that is found by its files."""

import http.cookiejar
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from fetchwork.errors import PoolError
from fetchwork.pool.services import ServedPage
from fetchwork.queue import Queue
from tests.support.there import there
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedPage]:
    page = ServedPage(tmp_path)
    yield page
    page.stop()


def shown(link: str) -> str:
    browser = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), urllib.request.ProxyHandler({})
    )
    with browser.open(link) as answer:
        return str(answer.read().decode())


def test_its_link_shows_the_queue_until_it_is_stopped(
    served: ServedPage, queue: Queue, conninfo: str, tmp_path: Path
) -> None:
    queue.submit("executable = /bin/true\n", count=7, owner="alice")
    assert served.link is None
    served.start(conninfo)
    link = served.link
    assert link is not None and "alice" in shown(link)
    # every other user of the directory gets the same page
    assert ServedPage(tmp_path).link == link
    served.start(conninfo)
    assert served.link == link
    with pytest.raises(urllib.error.HTTPError, match="401"):
        shown(link.partition("?")[0])
    served.stop()
    assert served.link is None and not served.started
    with pytest.raises(urllib.error.URLError):
        shown(link)


def test_nobody_else_may_read_what_lets_in(served: ServedPage, conninfo: str, tmp_path: Path) -> None:
    served.start(conninfo)
    assert served.link is not None
    token = served.link.rpartition("=")[2].encode()
    told = [path for path in tmp_path.iterdir() if path.stat().st_mode & 0o077 and token in path.read_bytes()]
    assert told == []
    process = there(served.process)
    words = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert token not in words and os.fsencode(conninfo) not in words


def test_one_that_died_is_told_from_one_that_was_never_started(served: ServedPage, conninfo: str) -> None:
    assert not served.started
    served.start(conninfo)
    process = there(served.process)
    process.signal(9)
    assert process.wait(PATIENCE_S)
    assert served.started and served.process is None and served.link is None


def test_one_without_a_database_says_where_to_look(served: ServedPage) -> None:
    with pytest.raises(PoolError, match=r"the page does not answer: see '.*page\.log'"):
        served.start("host=/nowhere dbname=none")
    assert "/nowhere" in served.log.read_text()
