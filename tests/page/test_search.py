"""Filters without an index: searched piece by piece, with a report of the progress."""

import html
import re
from collections.abc import Iterator, Sequence

import pytest
from starlette.testclient import TestClient

from fetchwork.classad.bindings import JobAction
from fetchwork.page import search as searching
from fetchwork.page.acting import ActingSession
from fetchwork.page.search import search
from fetchwork.queue import Queue
from fetchwork.queue.ask import Ask, Steps
from fetchwork.queue.reading import paging
from fetchwork.queue.reading.paging import Position
from fetchwork.queue.reading.sifting import Sieve
from fetchwork.queue.reading.views import HISTORY, JOBS, RUNS, Row, View
from tests.page import hasty
from tests.support.direct_queue import DirectQueue

CONSTRAINTS = (
    'regexp("^b.b$", Owner)',
    'Owner == "bob"',
    'Args == "x"',
    'regexp("x", Args)',
    # the value of an expression in the ad
    "Twice == 14",
    # none of these may be evaluated on the named attributes alone
    'Info.Name == "x"',
    'eval("JobPrio") == 7',
    'random(1) == 0 && Args == "x"',
)


@pytest.fixture
def session(conninfo: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSession]:
    """A session, in a process whose searches have no time."""
    for name in ("CHEAP", "PAGE", "SMALLEST", "LARGEST"):
        monkeypatch.setattr(Position, name, getattr(Position, name))
    monkeypatch.setattr(Sieve, "LEAST", Sieve.LEAST)
    monkeypatch.setattr(searching, "BUDGET_S", 0.0)
    hasty.hurry()
    session = ActingSession(conninfo)
    yield session
    session.close()


def jobs_among_others(queue: Queue) -> list[str]:
    """Three jobs of bob's that match the constraints, each behind 30 that do not."""
    wanted = []
    for _ in range(3):
        queue.submit("executable = /bin/true\narguments = y\n", count=30, owner="alice")
        ad = {"Cmd": "/bin/true", "Args": "x", "Owner": "bob", "JobPrio": 7, "Twice": "/Expr(JobPrio * 2)/"}
        ad["Info"] = {"Name": "x"}
        wanted.append(f"{queue.submit(ad).cluster()}.0")
    return wanted


def pages(session: ActingSession, view: View, constraint: str) -> list[searching.Page]:
    """All pages of a search."""
    found = [search(session, view, constraint)]
    while found[-1].after is not None:
        found.append(search(session, view, constraint, after=found[-1].after))
    return found


def jobs_of(found: list[searching.Page]) -> list[str]:
    return [f"{ad['ClusterId']}.{ad['ProcId']}" for page in found for ad in page.ads]


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("view", [JOBS, HISTORY], ids=["jobs", "history"])
def test_a_search_finds_everything_and_says_how_far_it_has_come(
    session: ActingSession, queue: Queue, view: View, constraint: str
) -> None:
    wanted = jobs_among_others(queue)
    if view is HISTORY:
        wanted.reverse()
        for cluster in range(1, 7):
            queue.act(JobAction.Remove, [str(cluster)])
        # jobs that left at one moment are in the order of their ids
        session.database.query("UPDATE fetchwork.job_history SET completed_at = now() WHERE cluster_id > 3")
    found = pages(session, view, constraint)
    assert jobs_of(found) == wanted
    *before, last = found
    assert len(before) > 5 and last.about is None and not last.unfinished
    looked_at = [page.looked_at for page in found]
    assert looked_at == sorted(looked_at) and len(set(looked_at[:-1])) == len(before)
    # the length of the last piece is not known
    assert 85 <= looked_at[-1] <= 93
    assert all(page.unfinished and page.about and page.about >= page.looked_at for page in before)


@pytest.mark.parametrize("constraint", CONSTRAINTS[:5])
@pytest.mark.parametrize("view", [JOBS, HISTORY], ids=["jobs", "history"])
def test_what_is_left_is_read_at_once_where_that_does_not_take_long(
    session: ActingSession, queue: Queue, monkeypatch: pytest.MonkeyPatch, view: View, constraint: str
) -> None:
    wanted = jobs_among_others(queue)
    # many jobs are left, so that they do not fit on a page, nor on two
    for _ in range(9):
        ad = {"Cmd": "/bin/true", "Args": "x", "Owner": "bob", "JobPrio": 7, "Twice": "/Expr(JobPrio * 2)/"}
        wanted.append(f"{queue.submit({**ad, 'Info': {'Name': 'x'}}).cluster()}.0")
    if view is HISTORY:
        # in the order in which history is read
        for cluster in reversed(range(1, 16)):
            queue.act(JobAction.Remove, [str(cluster)])
    session.database.query("ANALYZE")
    monkeypatch.setattr(Position, "TELLING", 4)
    monkeypatch.setattr(Position, "REST_S", 1e9)
    monkeypatch.setattr(searching, "BUDGET_S", 60.0)
    pieces = 0
    next_piece = Position._next_piece

    def counted(self: Position) -> Steps[None]:
        nonlocal pieces
        pieces += 1
        return next_piece(self)

    monkeypatch.setattr(Position, "_next_piece", counted)
    assert jobs_of(pages(session, view, constraint)) == wanted
    with_rest, pieces = pieces, 0
    monkeypatch.setattr(Position, "REST_S", -1.0)
    assert jobs_of(pages(session, view, constraint)) == wanted
    assert pieces > with_rest


def test_a_view_that_has_grown_since_its_rows_were_counted_is_read_in_pieces(
    session: ActingSession, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of the rest is not known, and one statement for it might never end."""
    wanted = jobs_among_others(queue)
    session.database.query("ANALYZE")
    monkeypatch.setattr(paging, "about", nothing_counted)
    monkeypatch.setattr(Position, "TELLING", 4)
    monkeypatch.setattr(Position, "REST_S", 1e9)
    monkeypatch.setattr(searching, "BUDGET_S", 60.0)
    rests = 0
    advance = Position.advance

    def counted(self: Position, rows: Sequence[Row], size: int) -> Steps[bool]:
        nonlocal rests
        goes_on = yield from advance(self, rows, size)
        rests += self._is_rest
        return goes_on

    monkeypatch.setattr(Position, "advance", counted)
    assert jobs_of(pages(session, JOBS, CONSTRAINTS[0])) == wanted
    assert rests == 0


def nothing_counted(view: View) -> Steps[int]:
    yield Ask("SELECT 1")
    return 0


def test_a_page_that_is_full_leads_to_the_next_without_a_repetition(
    session: ActingSession, queue: Queue
) -> None:
    wanted = jobs_among_others(queue)
    seen, after = [], None
    for _ in wanted:
        # in pages of one job, no matter how many searches each of them takes
        page = search(session, JOBS, 'Owner == "bob"', after=after, limit=1)
        while not page.ads:
            page = search(session, JOBS, 'Owner == "bob"', after=page.after, limit=1)
        seen += jobs_of([page])
        after = page.after
    assert seen == wanted


def test_runs_are_searched_too(session: ActingSession, busy: DirectQueue) -> None:
    every = [ad["RunId"] for page in pages(session, RUNS, "true") for ad in page.ads]
    assert every == sorted(every, reverse=True) and len(every) == 4
    ended = [ad["RunId"] for page in pages(session, RUNS, 'regexp("^comp", Outcome)') for ad in page.ads]
    assert ended == [run for run in every if run not in live_runs(busy)] and len(ended) == 2


def live_runs(busy: DirectQueue) -> list[int]:
    return [run_id for (run_id,) in busy.rows("SELECT run_id FROM fetchwork.run")]


@pytest.mark.parametrize("path", ["/jobs", "/history"])
def test_the_page_of_a_search_says_how_far_it_has_come_and_leads_on(
    page: TestClient, queue: Queue, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("fetchwork.page.questions.page", hasty.page)
    wanted = jobs_among_others(queue)
    if path == "/history":
        for cluster in range(1, 7):
            queue.act(JobAction.Remove, [str(cluster)])
        wanted.reverse()
    text = page.get(path, params={"constraint": 'regexp("x", Args)'}).text
    seen: list[str] = []
    said: list[tuple[str, str]] = []
    while True:
        seen += re.findall(r'<td><a href="/jobs/(\d+\.\d+)">', text)
        said += re.findall(r"Looked at ([0-9,]+) of about ([0-9,]+) jobs", text)
        more = re.search(r'<a href="([^"]*)">Go on</a>', text)
        if more is None:
            break
        assert "like that" not in text
        text = page.get(html.unescape(more[1])).text
    assert seen == wanted
    assert len(said) > 5 and all(int(looked_at) <= int(about) for looked_at, about in said)


@pytest.mark.parametrize("after", ["x", "1", "1.2.3", "1.2~x", "1.2~", "-1.2", "1." + "9" * 20, "~5"])
def test_a_cursor_that_is_none_is_refused(page: TestClient, after: str) -> None:
    for path in ("/jobs", "/api/v1/jobs"):
        answer = page.get(path, params={"after": after})
        assert answer.status_code == (200 if after == "1.2~" else 400), answer.text


@pytest.mark.parametrize(
    ("view", "after"),
    [
        (JOBS, "9999999999.0"),
        (JOBS, "1.9999999999"),
        (HISTORY, "9999999999999999.1.9999999999"),
        (HISTORY, "1.9999999999.1"),
        (RUNS, "9" * 17),
    ],
)
def test_a_cursor_beyond_every_number_is_refused(session: ActingSession, view: View, after: str) -> None:
    with pytest.raises(ValueError, match="allowed: what the page before gave"):
        search(session, view, 'regexp("x", Owner)', after=after)
