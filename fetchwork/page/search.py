"""Ads of a long view that a constraint selects, a page at a time, and in bounded time.

Rows that an index finds come at once. All other rows are read in the view's order, which takes seconds for
millions; so a search stops after ``BUDGET_S``, reports how many rows it has read, and gives the cursor for
the next search.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fetchwork.page.tables import Column, ordered
from fetchwork.queue.ask import Found, Memory, Steps
from fetchwork.queue.reading.ads import stretches
from fetchwork.queue.reading.paging import about
from fetchwork.queue.reading.selecting import MAX_ID
from fetchwork.queue.reading.views import Json, Key, View
from fetchwork.queue.session import Session

#: seconds after which a search reports its progress
BUDGET_S = 0.7
_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a search."""

    ads: list[Json]
    #: the cursor of the next page, None at the end
    after: str | None
    #: rows that the search has read, those of the pages before included
    looked_at: int
    #: the estimated number of rows, None if no row is left to read
    about: int | None
    #: more may be found: the time ended before the page was full
    unfinished: bool
    #: the page has the order that was asked for
    sorted: bool = True


def search(
    session: Session,
    view: View,
    constraint: str,
    *,
    after: str | None = None,
    limit: int = 50,
    projection: Sequence[str] = (),
) -> Page:
    """The next ads behind ``after``; raises ValueError for an invalid constraint or cursor."""
    key, looked_at = _read(view, after)
    return session.run(_search(view, constraint, key, looked_at, limit, projection))


def in_order(
    session: Session,
    view: View,
    constraint: str,
    column: Column,
    *,
    down: bool,
    most: int,
    after: str | None,
    limit: int,
) -> Page | None:
    """A page of the ads in the order of a column; None: they are over ``most``, or ``BUDGET_S`` is over.

    ``after``: the number of ads on the pages before. Raises ValueError for an invalid one.
    """
    skip = after or "0"
    if not (skip.isascii() and skip.isdigit() and len(skip) <= 6):
        raise ValueError(f"after is '{skip[:100]}'; allowed: what the page before gave")
    found = session.run(_few(view, constraint, column.of, most))
    if found is None:
        return None
    begin, end = int(skip), int(skip) + limit
    jobs = [(ad["ClusterId"], ad["ProcId"]) for ad in ordered(found, column, down=down)[begin:end]]
    if not jobs:
        return Page([], None, len(found), None, False)
    # each by its key: the planner would read the whole view for a join with a list of keys
    wanted = " OR ".join(["(clusterid = %s AND procid = %s)"] * len(jobs))
    rows = session.database.query(
        # this package makes columns and views; values travel as parameters
        f"SELECT {view.all_columns} FROM {view.source} WHERE {wanted}",  # noqa: S608
        [number for job in jobs for number in job],
    )
    ads = {(row["clusterid"], row["procid"]): view.ad(row) for row in rows}
    shown = [ads[job] for job in jobs if job in ads]
    return Page(shown, str(end) if end < len(found) else None, len(found), None, False)


def _few(view: View, constraint: str, names: Sequence[str], most: int) -> Steps[list[Json] | None]:
    """Some attributes of all selected ads, None if there are more than ``most`` or time is over."""
    deadline = time.monotonic() + BUDGET_S
    ads: list[Json] = []
    projection = list(dict.fromkeys(["ClusterId", "ProcId", *names]))
    stream = stretches(view, constraint, Memory(), projection=projection, wanted=most + 1)
    reply: object = None
    with contextlib.closing(stream):
        while True:
            try:
                step = stream.send(reply)
            except StopIteration:
                return ads
            if not isinstance(step, Found):
                reply = yield step
                continue
            reply = None
            (stretch,) = step.items
            ads += stretch.ads
            if len(ads) > most:
                return None
            if stretch.until is None:
                return ads
            if time.monotonic() > deadline:
                return None


def _search(
    view: View, constraint: str, key: Key | None, before: int, limit: int, projection: Sequence[str]
) -> Steps[Page]:
    deadline = time.monotonic() + BUDGET_S
    ads: list[Json] = []
    keys: list[Key] = []
    # one more than wanted shows whether there is more
    stream = stretches(view, constraint, Memory(), projection=projection, after=key, wanted=limit + 1)
    reply: object = None
    while True:
        try:
            step = stream.send(reply)
        except StopIteration:
            return Page(ads, None, before, None, False)
        if not isinstance(step, Found):
            reply = yield step
            continue
        reply = None
        (stretch,) = step.items
        ads += stretch.ads
        keys += stretch.keys
        looked_at = before + stretch.looked_at
        if len(ads) > limit:
            stream.close()
            return Page(ads[:limit], _written(keys[limit - 1], looked_at), looked_at, None, False)
        if stretch.until is None:
            return Page(ads, None, looked_at, None, False)
        if time.monotonic() > deadline:
            stream.close()
            number = max((yield from about(view)), looked_at)
            return Page(ads, _written(stretch.until, looked_at), looked_at, number, True)


# -- cursors: the key's numbers, a time in microseconds, and behind a "~" the number of rows read


def _written(key: Key, looked_at: int) -> str:
    numbers = [(part - _EPOCH) // _MICROSECOND if isinstance(part, datetime) else part for part in key]
    return ".".join(map(str, numbers)) + f"~{looked_at}"


def _read(view: View, after: str | None) -> tuple[Key | None, int]:
    if not after:
        return None, 0
    words, _, looked_at = after.partition("~")
    numbers = [*words.split("."), looked_at or "0"]
    names = [*view.order, "looked_at"]
    if len(numbers) != len(names) or not all(map(_is_number, names, numbers)):
        raise ValueError(f"after is '{after[:100]}'; allowed: what the page before gave")
    *key, seen = map(int, numbers)
    # only history's key begins with a time
    if len(key) == 3:
        return (_EPOCH + key[0] * _MICROSECOND, *key[1:]), seen
    return tuple(key), seen


def _is_number(name: str, text: str) -> bool:
    # the range of PostgreSQL's columns and Python's times
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        return False
    return name not in ("clusterid", "procid") or int(text) <= MAX_ID
