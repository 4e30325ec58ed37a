"""Reads the ads of a view, in its order, a page at a time."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fetchwork.classad.exprform import expr_text
from fetchwork.queue.ask import Ask, Found, Memory, Steps, Stream, collected, mapped
from fetchwork.queue.constraints.constraint import Constraint
from fetchwork.queue.reading.evaluating import Evaluation, key_of
from fetchwork.queue.reading.paging import Position
from fetchwork.queue.reading.projecting import Projected, has_expression
from fetchwork.queue.reading.selecting import (
    ConstraintSpec,
    JobSpec,
    compiled,
    constraint_of,
    names_of,
    source_of,
)
from fetchwork.queue.reading.sifting import Sieve
from fetchwork.queue.reading.views import JOBS, Json, Key, Row, View

#: pages that are read at once if few attributes are needed
_NARROW_PAGES = 4


@dataclass(frozen=True, slots=True)
class Stretch:
    """The ads that a reader found in one stretch of a view."""

    ads: list[Json]
    #: the ads' keys
    keys: list[Key]
    #: the key up to which the view was read, None: to its end; and the number of its rows read since the
    #: start
    until: Key | None
    looked_at: int
    #: the ads as a table in place of ``ads``, for a reader that asked for tables, if all values are literals
    table: Json | None = None


def ads(
    view: View,
    constraint: ConstraintSpec,
    memory: Memory,
    *,
    projection: Sequence[str] = (),
    limit: int = -1,
    since: JobSpec | None = None,
) -> Stream[Json]:
    """Yield the ads of a view that a constraint selects, up to the first ad that ``since`` selects."""
    stop = None if since is None else (yield from _first_key(view, constraint_of(since), memory))
    stream = stretches(view, constraint, memory, projection=projection, wanted=limit if limit >= 0 else None)
    left = limit if limit >= 0 else None
    reply: object = None
    with contextlib.closing(stream):
        while left is None or left > 0:
            try:
                step = stream.send(reply)
            except StopIteration:
                return
            if not isinstance(step, Found):
                reply = yield step
                continue
            reply = None
            (stretch,) = step.items
            found = stretch.ads
            stopped = False
            if stop is not None:
                before = [key > stop if view.descending else key < stop for key in stretch.keys]
                found = list(itertools.compress(found, before))
                stopped = stretch.until is not None and not (
                    stretch.until > stop if view.descending else stretch.until < stop
                )
            if left is not None:
                found = found[:left]
                left -= len(found)
            yield Found(found, stretch.looked_at)
            if stopped:
                return


def _first_key(view: View, constraint: str, memory: Memory) -> Steps[Key | None]:
    """The key of a view's first ad that a constraint selects."""
    narrow = [view.names[name] for name in view.order if name in view.names]
    found = yield from collected(stretches(view, constraint, memory, projection=narrow, wanted=1))
    return next((key for stretch in found for key in stretch.keys), None)


def stretches(
    view: View,
    constraint: ConstraintSpec,
    memory: Memory,
    *,
    projection: Sequence[str] = (),
    after: Key | None = None,
    wanted: int | None = None,
    tables: bool = False,
) -> Stream[Stretch]:
    """Read a view in its order, after a key, until ``wanted`` ads are found (None: all).

    ``tables``: ads whose attributes are all literals come as a table, without their keys.

    Pages follow each other by key. A cursor would show a single snapshot, but keep it alive: with a million
    jobs the database could not vacuum for as long as the reader takes.
    """
    selection = yield from compiled(view, constraint, memory)
    pages = yield from _Pages.begin(view, selection, _names(projection), memory, tables=tables)
    position = yield from Position.begin(view, selection, wanted if selection.exact else None, after)
    sieve = Sieve(view, selection, pages.evaluation)
    left = wanted
    while left is None or left > 0:
        size = pages.size(left)
        yield from position.bound(selection, size)
        condition, params = position.condition()
        page = None
        if sieve.is_of_use(position.piece):
            sifted = yield from sieve.sift(condition, params, position.order, size)
            page = None if sifted is None else _Page(*sifted)
        if page is None:
            page = yield from pages.read(condition, params, position.order, size)
        if page is None:
            continue
        rows, found, table = page.rows, page.found, page.table
        number = len(found) if table is None else len(rows)
        if left is not None:
            left -= number
        keys = [key for key, _ in found]
        shown = pages.shown(page)
        if left is not None and left <= 0:
            last = keys[-1] if keys else key_of(view, rows[-1])
            yield Found([Stretch(shown, keys, last, position.looked_at + len(rows), table)])
            return
        before = position.looked_at
        goes_on = yield from position.advance(rows, size)
        sieve.learn(looked_at=position.looked_at - before, rows=len(rows), found=number)
        until = position.reached if goes_on else None
        yield Found([Stretch(shown, keys, until, position.looked_at, table)])
        if not goes_on:
            return


@dataclass(frozen=True, slots=True)
class _Page:
    """The rows of a page, and key and ad of each selected row, or their table."""

    rows: Sequence[Row]
    found: Sequence[tuple[Key, Json]]
    table: Json | None = None
    #: the ads have the wanted attributes alone
    projected: bool = False


class _Pages:
    """Reads pages of a view: only wanted attributes, as long as no wanted expression refers to others."""

    def __init__(self, view: View, selection: Constraint, names: frozenset[str], tables: bool) -> None:
        self._view, self._selection, self._names, self._tables = view, selection, names, tables
        #: for a constraint that SQL alone can't decide
        self.evaluation: Evaluation | None = None
        self._narrow: Projected | None = None

    @classmethod
    def begin(
        cls, view: View, selection: Constraint, names: frozenset[str], memory: Memory, *, tables: bool
    ) -> Steps[_Pages]:
        """Begin to read the attributes ``names`` (empty: all) of the rows that a constraint selects."""
        made = cls(view, selection, names, tables)
        if not selection.exact:
            made.evaluation = yield from Evaluation.of(view, selection, memory)
        elif names:
            made._narrow = Projected(view, names, (yield from source_of(view, names - {"mytype"}, memory)))
        return made

    def size(self, left: int | None) -> int:
        """The rows of the next page, where ``left`` ads are wanted."""
        if self.evaluation is not None:
            return Position.PAGE * (_NARROW_PAGES if self.evaluation.is_narrow else 1)
        size = Position.PAGE * (_NARROW_PAGES if self._narrow is not None and self._tables else 1)
        return size if left is None else min(size, left)

    def read(self, condition: str, params: Sequence[object], order: str, size: int) -> Steps[_Page | None]:
        """Read a page; None: it has to be read again, as whole ads."""
        view, narrow = self._view, self._narrow
        asked = self.evaluation or narrow
        columns, own = (view.all_columns, ()) if asked is None else (asked.columns, asked.params)
        # this package makes columns, views and conditions; values travel as parameters
        page = f"""
            SELECT {columns}
            FROM {view.source}
            WHERE {self._selection.sql} AND {condition}
            ORDER BY {order}
            LIMIT {size}
        """  # noqa: S608
        rows: list[Row] = yield Ask(page, [*own, *self._selection.params, *params])
        if self.evaluation is not None:
            return _Page(rows, (yield from self.evaluation.accepted(rows)))
        if narrow is None:
            return _Page(rows, [(key_of(view, row), view.ad(row)) for row in rows])
        if self._tables and (table := narrow.table(rows)) is not None:
            return _Page(rows, [], table)
        if (ads := narrow.ads(rows)) is not None:
            return _Page(rows, list(zip([key_of(view, row) for row in rows], ads, strict=True)), None, True)
        self._narrow = None
        return None

    def shown(self, page: _Page) -> list[Json]:
        """The ads of a page, with the wanted attributes."""
        whole = page.projected or not self._names
        return [ad if whole else _projected(ad, self._names) for _, ad in page.found]


def tables(
    view: View, constraint: ConstraintSpec, memory: Memory, *, projection: Sequence[str], limit: int = -1
) -> Stream[Json]:
    """The ads of ``ads``, many at once: as a table if all are literals, else {"ads": [...]}."""
    left = limit

    def item(stretch: Stretch) -> Json:
        nonlocal left
        if stretch.table is not None:
            left -= stretch.table["jobs"]
            return stretch.table
        ads = stretch.ads if limit < 0 else stretch.ads[:left]
        left -= len(ads)
        return {"ads": ads}

    wanted = limit if limit >= 0 else None
    return mapped(
        stretches(view, constraint, memory, projection=projection, wanted=wanted, tables=True), item
    )


def clusters(constraint: ConstraintSpec, memory: Memory, *, projection: Sequence[str]) -> Stream[Json]:
    """The items of ``tables`` for the first selected job of each cluster.

    ``clusters`` of an item has the selected jobs of each of its clusters. An item without it, as for a
    constraint that SQL alone can't decide, has all jobs.
    """
    selection = yield from compiled(JOBS, constraint, memory)
    rows: list[Row] = []
    if selection.exact:
        rows = yield Ask(
            f"""
            SELECT clusterid, jobstatus, count(*) AS jobs, min(procid) AS first, max(procid) AS last
            FROM fetchwork.jobs
            WHERE {selection.sql}
            GROUP BY clusterid, jobstatus
            """,  # noqa: S608 - a compiled constraint
            selection.params,
        )
    firsts: dict[int, int] = {}
    lasts: dict[int, int] = {}
    states: dict[int, list[list[int]]] = {}
    for row in rows:
        cluster = row["clusterid"]
        states.setdefault(cluster, []).append([row["jobstatus"], row["jobs"]])
        firsts[cluster] = min(firsts.get(cluster, row["first"]), row["first"])
        lasts[cluster] = max(lasts.get(cluster, 0), row["last"])
    if len(states) == sum(row["jobs"] for row in rows):
        yield from tables(JOBS, constraint, memory, projection=projection)
        return
    pages = yield from _Pages.begin(JOBS, selection, _names(projection), memory, tables=True)
    keys = sorted(firsts.items())
    while keys:
        size = pages.size(None)
        these, procs = zip(*keys[:size], strict=True)
        page = yield from pages.read(_OF_KEYS, [list(these), list(procs)], "clusterid, procid", size)
        if page is None:
            continue
        keys = keys[size:]
        found = [row["clusterid"] for row in page.rows]
        ads = page.table or {"ads": pages.shown(page)}
        yield Found([{**ads, "clusters": [[states[cluster], lasts[cluster]] for cluster in found]}])


_OF_KEYS = "(clusterid, procid) IN (SELECT * FROM unnest(%s::integer[], %s::integer[]))"


def are_epochs(ad_type: str | Sequence[str] | None) -> bool:
    """Whether the caller of ``jobEpochHistory`` asks for epochs, among others."""
    types = [ad_type] if isinstance(ad_type, str) else ad_type
    return types is None or "EPOCH" in (word.strip().upper() for text in types for word in text.split(","))


def _projected(ad: Json, wanted: frozenset[str]) -> Json:
    """The wanted attributes, and the attributes that their expressions refer to, as a schedd sends them."""
    shown = {name: ad[name] for name in _kept(tuple(ad), wanted)}
    if not has_expression(shown):
        return shown
    keys = {name.lower(): name for name in ad}
    kept: dict[str, str] = {}
    left = [key for key in wanted if key in keys]
    while left:
        key = left.pop()
        if key in kept:
            continue
        kept[key] = keys[key]
        if (text := expr_text(ad[keys[key]])) is not None:
            left += [word for word in map(str.lower, _WORD.findall(text)) if word in keys]
    names = set(kept.values())
    return {name: value for name, value in ad.items() if name in names}


@functools.lru_cache(maxsize=256)
def _kept(names: tuple[str, ...], wanted: frozenset[str]) -> tuple[str, ...]:
    """The wanted names among an ad's names: the ads of one answer mostly have the same names."""
    return tuple(name for name in names if name.lower() in wanted)


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _names(projection: Sequence[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names_of(projection))
