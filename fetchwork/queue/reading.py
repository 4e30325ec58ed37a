"""Reading the ads of a view, in its order, a page at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fetchwork.classad.exprform import expr_text
from fetchwork.queue.ask import Ask, Evaluate, Found, Memory, Stream
from fetchwork.queue.paging import Position
from fetchwork.queue.selecting import ConstraintSpec, JobSpec, compiled, constraint_of
from fetchwork.queue.views import Json, Row, View


def ads(
    view: View,
    constraint: ConstraintSpec,
    memory: Memory,
    *,
    projection: Sequence[str] = (),
    limit: int = -1,
    since: JobSpec | None = None,
) -> Stream[Json]:
    """Yield the ads of a view that a constraint selects, up to the one that ``since`` means.

    Pages follow each other by key. A cursor would show one moment, but keep it alive: with a million jobs the
    database could not clean up for as long as the reader takes.
    """
    selection = yield from compiled(view, constraint, memory)
    stop = None
    if since is not None:
        stop = yield from compiled(view, constraint_of(since), memory)
    wanted = _names(projection)
    columns, params = view.all_columns, list[object]()
    # evaluating a constraint takes the whole ad
    evaluates = not selection.exact or stop is not None
    narrow = bool(wanted) and not evaluates
    if narrow:
        columns, params = _columns_of(view, wanted)
    left = limit if limit >= 0 else None
    position = yield from Position.begin(view, selection, left if selection.exact else None)
    while left is None or left > 0:
        size = Position.PAGE
        if left is not None and selection.exact:
            size = min(size, left)
        yield from position.bound(selection, size)
        behind, more = position.condition()
        # columns, views and conditions are of this package's making; values travel apart
        page = f"""
            SELECT {columns}
            FROM {view.source}
            WHERE {selection.sql} AND {behind}
            ORDER BY {position.order}
            LIMIT {size}
        """  # noqa: S608
        rows: list[Row] = yield Ask(page, [*params, *selection.params, *more])
        if narrow and any(_has_expression(row["ad"]) for row in rows):
            # what a wanted expression refers to has to come with it
            narrow, columns, params = False, view.all_columns, []
            continue
        found = [view.ad(row) for row in rows]
        if not selection.exact and found:
            accepted: list[bool] = yield Evaluate(selection.text, found)
            found = [ad for ad, is_true in zip(found, accepted, strict=True) if is_true]
        stopped = False
        if stop is not None and found:
            stops: list[bool] = yield Evaluate(stop.text, found)
            stopped = True in stops
            found = found[: stops.index(True)] if stopped else found
        if left is not None:
            found = found[:left]
            left -= len(found)
        if found:
            yield Found([_projected(ad, wanted) for ad in found] if wanted else found)
        if stopped or not (yield from position.advance(rows, size)):
            return


def are_epochs(ad_type: str | Sequence[str] | None) -> bool:
    """Are epochs among the records that a caller of ``jobEpochHistory`` asks for?"""
    types = [ad_type] if isinstance(ad_type, str) else ad_type
    return types is None or "EPOCH" in (word.strip().upper() for text in types for word in text.split(","))


def _has_expression(ad: Json | None) -> bool:
    return any(expr_text(value) is not None for value in (ad or {}).values())


def _projected(ad: Json, wanted: frozenset[str]) -> Json:
    """The wanted attributes, and those that their expressions refer to, as a schedd sends them."""
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


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _names(projection: Sequence[str]) -> frozenset[str]:
    if isinstance(projection, str):
        raise TypeError("a projection is a list of attribute names")
    return frozenset(name.lower() for name in projection)


def _part_of_ad(view: View) -> str:
    return f"""(
        SELECT jsonb_object_agg(part.key, part.value)
        FROM jsonb_each({view.inner}) AS part
        WHERE lower(part.key) = ANY(%s)
    ) AS ad"""  # noqa: S608 - of this package's making


def _columns_of(view: View, wanted: frozenset[str]) -> tuple[str, list[object]]:
    """The columns that a projection needs."""
    columns = view.columns()
    known = [view.selected(name) for name in sorted(wanted) if name in columns]
    names = list(dict.fromkeys([*view.order, *known]))
    inner = sorted(wanted - columns.keys() - {"mytype"})
    if not inner:
        return ", ".join([*names, "NULL AS ad"]), []
    return ", ".join([*names, _part_of_ad(view)]), [inner]
