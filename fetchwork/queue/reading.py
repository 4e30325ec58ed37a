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
from fetchwork.queue.evaluating import Evaluation, key_of
from fetchwork.queue.paging import Position
from fetchwork.queue.projecting import Projected, has_expression
from fetchwork.queue.selecting import ConstraintSpec, JobSpec, compiled, constraint_of, names_of, source_of
from fetchwork.queue.sifting import Sieve
from fetchwork.queue.views import Json, Key, View

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
    names = _names(projection)
    evaluation = None
    columns, params = view.all_columns, list[object]()
    narrow: Projected | None = None
    if not selection.exact:
        evaluation = yield from Evaluation.of(view, selection, memory)
    elif names:
        narrow = Projected(view, names, (yield from source_of(view, names - {"mytype"}, memory)))
        columns, params = narrow.columns, narrow.params
    position = yield from Position.begin(view, selection, wanted if selection.exact else None, after)
    sieve = Sieve(view, selection, evaluation)
    left = wanted
    while left is None or left > 0:
        size = Position.PAGE
        if evaluation is not None:
            columns, params = evaluation.columns, evaluation.params
            size *= _NARROW_PAGES if evaluation.is_narrow else 1
        else:
            size *= _NARROW_PAGES if narrow is not None and tables else 1
            size = size if left is None else min(size, left)
        yield from position.bound(selection, size)
        behind, more = position.condition()
        sifted = projected = table = None
        if sieve.is_of_use(position.piece):
            sifted = yield from sieve.sift(behind, more, position.order, size)
        if sifted is not None:
            rows, found = sifted
        else:
            # this package makes columns, views and conditions; values travel as parameters
            page = f"""
                SELECT {columns}
                FROM {view.source}
                WHERE {selection.sql} AND {behind}
                ORDER BY {position.order}
                LIMIT {size}
            """  # noqa: S608
            rows = yield Ask(page, [*params, *selection.params, *more])
            if narrow is not None and (table := narrow.table(rows) if tables else None) is None:
                projected = narrow.ads(rows)
            if narrow is not None and projected is None and table is None:
                # attributes that a wanted expression refers to have to be read too
                narrow, columns, params = None, view.all_columns, []
                continue
            if table is not None:
                found = []
            elif projected is not None:
                found = list(zip([key_of(view, row) for row in rows], projected, strict=True))
            elif evaluation is None:
                found = [(key_of(view, row), view.ad(row)) for row in rows]
            else:
                found = yield from evaluation.accepted(rows)
        number = len(found) if table is None else len(rows)
        if left is not None:
            left -= number
        keys = [key for key, _ in found]
        shown = [_projected(ad, names) if names and projected is None else ad for _, ad in found]
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
