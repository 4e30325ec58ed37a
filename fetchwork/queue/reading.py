"""What the queue's operations ask of the database, without a connection.

Each operation is a generator: it yields an ``Ask`` and is sent the rows, or a ``Pause``, or ``Found`` items
for the caller, and returns its result. ``Queue`` drives them with a connection, ``AsyncQueue`` with awaited
ones, so that the two can't come to differ.
"""

from __future__ import annotations

import getpass
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fetchwork.classad.constraint import Constraint, Source, compile_constraint, names_in, text_of
from fetchwork.codes import STATUS_NAMES
from fetchwork.errors import JobStateConflict, NotFound
from fetchwork.queue.views import JOBS, Json, View

PAGE = 1000
# ids in one call of a function that changes jobs; each call is a transaction
BATCH = 10_000


@dataclass(frozen=True)
class Ask:
    """A statement; the generator is sent its rows."""

    sql: str
    params: Sequence[Any] = ()


@dataclass(frozen=True)
class Pause:
    """Nothing to do for a while."""

    seconds: float


@dataclass(frozen=True)
class Found:
    """Items for the caller."""

    items: Sequence[Any]


Rows = list[Json]
Result = TypeVar("Result")
Steps = Generator[Ask | Pause | Found, Any, Result]


@dataclass
class Memory:
    """What need not be asked twice on one queue."""

    spellings: Mapping[str, str] = field(default_factory=dict)


# -- constraints ---------------------------------------------------------------------------------------------


def constraint_of(spec: Any) -> str:
    """The constraint that a job spec of HTCondor's bindings means: ids, a list of ids, or a constraint."""
    if isinstance(spec, bool):
        raise TypeError("a job spec is a list of ids, an id, a cluster number or a constraint")
    if isinstance(spec, int):
        return f"ClusterId == {spec}"
    if isinstance(spec, str):
        return _id_constraint(spec) or spec
    from fetchwork.classad.values import ExprTree, format_expr

    if isinstance(spec, ExprTree):
        return format_expr(spec)
    parts = [_id_constraint(item) if isinstance(item, str) else None for item in spec]
    if not parts or None in parts:
        raise ValueError("a list of jobs holds ids such as '42.0', or '42' for a whole cluster")
    return " || ".join(part for part in parts if part)


def _id_constraint(text: str) -> str | None:
    if found := re.fullmatch(r"\s*(\d{1,9})(?:\.(\d{1,9}))?\s*", text):
        own = f" && ProcId == {int(found[2])}" if found[2] else ""
        return f"(ClusterId == {int(found[1])}{own})"
    return None


def _ids(spec: Any) -> list[str] | None:
    """The ids, where a spec consists of nothing else."""
    if isinstance(spec, int) and not isinstance(spec, bool):
        return [str(spec)]
    items = [spec] if isinstance(spec, str) else spec if isinstance(spec, list | tuple) else []
    if items and all(isinstance(item, str) and _id_constraint(item) for item in items):
        return [item.strip() for item in items]
    return None


def compiled(view: View, constraint: Any, memory: Memory) -> Steps[Constraint]:
    """A constraint for one view; None and '' select everything."""
    text = text_of(constraint)
    names = names_in(text)
    columns = view.columns()
    owners = None
    if "owner" in names:
        rows = yield Ask("SELECT DISTINCT owner FROM fetchwork.autoclusters")
        owners = [row["owner"] for row in rows]
    if not names <= columns.keys() and not memory.spellings:
        rows = yield Ask("SELECT key, name FROM fetchwork.attribute")
        memory.spellings = {row["key"]: row["name"] for row in rows}
    return compile_constraint(text, Source(columns, "ad", memory.spellings, owners))


# -- reading -------------------------------------------------------------------------------------------------


def ads(
    view: View,
    constraint: Any,
    memory: Memory,
    *,
    projection: Sequence[str] = (),
    limit: int = -1,
    since: Any = None,
) -> Steps[None]:
    """Yield the ads of a view, in its order, a page at a time.

    Pages follow each other by key. A cursor would show one moment, but keep it alive: with a million jobs the
    database could not clean up for as long as the reader takes.
    """
    selection = yield from compiled(view, constraint, memory)
    stop = None
    if since is not None:
        stop = yield from compiled(view, constraint_of(since), memory)
    wanted = _projection(view, projection)
    whole = not wanted or not selection.exact or stop is not None
    columns: str = "*"
    params: list[Any] = []
    if not whole:
        columns, params = _selected(view, wanted)
    if not selection.exact or stop is not None:
        from fetchwork.classad.jsonform import from_json
    left = limit if limit >= 0 else None
    place = yield from _Place.begin(view, selection)
    while left is None or left > 0:
        size = PAGE if left is None or not selection.exact else min(PAGE, left)
        where, more = place.condition()
        sql = (
            f"SELECT {columns} FROM fetchwork.{view.name} WHERE {selection.sql} AND {where}"  # noqa: S608
            f" ORDER BY {place.order} LIMIT {size}"
        )
        rows: Rows = yield Ask(sql, [*params, *selection.params, *more])
        items: list[Json] = []
        for row in rows:
            ad = view.ad(row)
            if not selection.exact and not selection.accepts(from_json(ad)):
                continue
            if stop is not None and stop.accepts(from_json(ad)):
                left = 0
                break
            items.append(ad if not wanted else {k: v for k, v in ad.items() if k.lower() in wanted})
        if left is not None:
            items = items[:left] if left else items
            left -= min(left, len(items))
        if items:
            yield Found(items)
        if not (yield from place.advance(rows, size)):
            return


class _Place:
    """Where a reader is in a view, and how it goes on.

    A short answer is asked for as a whole, page by page. The views keep strangers' rows back, and
    PostgreSQL would read and sort all of such a view for each page of a long answer. So that is read in
    pieces, which are ranges of an index: their ends are told by the view's edge function. Pieces grow while
    little is found in them and shrink when there is much.
    """

    SHORT = 20 * PAGE
    SMALLEST, LARGEST = PAGE, 64 * PAGE

    def __init__(self, view: View, whole: bool) -> None:
        self._view = view
        self._whole = whole
        self._pages = 0
        self._size = self.SMALLEST
        self._after: tuple[Any, ...] | None = None
        self._from: tuple[Any, ...] = tuple(view.beginning)
        self._until: tuple[Any, ...] | None = None
        self.order = ", ".join(f"{name} DESC" if view.descending else name for name in view.order)

    @classmethod
    def begin(cls, view: View, selection: Constraint) -> Steps[_Place]:
        """At the beginning; the planner's guess of the answer's length decides how it is read."""
        told = yield Ask(
            f"EXPLAIN (FORMAT JSON) SELECT FROM fetchwork.{view.name} WHERE {selection.sql}",
            selection.params,
        )
        (plan,) = told[0].values()
        place = cls(view, plan[0]["Plan"]["Plan Rows"] <= cls.SHORT)
        if not place._whole:
            yield from place._next_piece()
        return place

    def condition(self) -> tuple[str, list[Any]]:
        """What the rows of the next page have to fulfil."""
        parts = ["true"]
        params: list[Any] = []
        before, behind = ("<", ">=") if self._view.descending else (">", "<=")
        if self._after is not None:
            parts.append(_compared(self._view.order, before, self._after))
            params += self._after
        elif not self._whole:
            parts.append(_compared(self._view.order, before, self._from))
            params += self._from
        if self._until is not None:
            parts.append(_compared(self._view.order, behind, self._until))
            params += self._until
        return " AND ".join(parts), params

    def advance(self, rows: Rows, size: int) -> Steps[bool]:
        """Go on behind a page; tells whether there can be more."""
        if len(rows) == size:
            self._after = tuple(rows[-1][name] for name in self._view.order)
            self._pages += 1
            self._size = max(self.SMALLEST, self._size // 2)
            if self._whole and self._pages * PAGE > self.SHORT:
                # the guess was wrong
                self._whole = False
                self._from = self._after[: len(self._view.beginning)]
                yield from self._next_piece()
            return True
        if self._whole or self._until is None:
            return False
        self._after, self._from = None, self._until
        self._size = min(self.LARGEST, self._size * 2)
        yield from self._next_piece()
        return True

    def _next_piece(self) -> Steps[None]:
        marks = ", ".join(["%s"] * (len(self._from) + 1))
        rows = yield Ask(f"SELECT * FROM fetchwork.{self._view.edge}({marks})", [*self._from, self._size])  # noqa: S608
        self._until = tuple(rows[0].values()) if rows else None


def _compared(names: Sequence[str], sign: str, values: Sequence[Any]) -> str:
    """A comparison of the first columns with as many values."""
    some = names[: len(values)]
    if len(some) == 1:
        return f"{some[0]} {sign} %s"
    return f"({', '.join(some)}) {sign} ({', '.join(['%s'] * len(some))})"


def _projection(view: View, projection: Sequence[str]) -> frozenset[str]:
    if isinstance(projection, str):
        raise TypeError("a projection is a list of attribute names")
    return frozenset(name.lower() for name in projection)


def _selected(view: View, wanted: frozenset[str]) -> tuple[str, list[Any]]:
    columns = view.columns()
    names = list(
        dict.fromkeys([*view.order, *(columns[name].sql for name in sorted(wanted) if name in columns)])
    )
    inner = sorted(wanted - columns.keys() - {"mytype"})
    if not inner:
        return ", ".join([*names, "NULL AS ad"]), []
    part = (
        "(SELECT jsonb_object_agg(part.key, part.value) FROM jsonb_each(ad) AS part"
        " WHERE lower(part.key) = ANY(%s)) AS ad"
    )
    return ", ".join([*names, part]), [inner]


def query(
    constraint: Any, memory: Memory, *, projection: Sequence[str] = (), limit: int = -1, opts: int = 0
) -> Steps[None]:
    """Yield what ``Schedd.query`` returns, by its options."""
    if not opts:
        yield from ads(JOBS, constraint, memory, projection=projection, limit=limit)
        return
    from fetchwork.classad.ads import quote
    from fetchwork.classad.bindings import QueryOpts

    known = QueryOpts.AutoCluster | QueryOpts.GroupBy | QueryOpts.DefaultMyJobsOnly | QueryOpts.SummaryOnly
    if opts & ~known:
        raise ValueError(
            f"query options {int(opts)}: allowed are AutoCluster, GroupBy, DefaultMyJobsOnly, SummaryOnly"
        )
    if opts & QueryOpts.DefaultMyJobsOnly:
        constraint = f"Owner == {quote(getpass.getuser())} && ({text_of(constraint)})"
    if opts & QueryOpts.SummaryOnly:
        found = yield from summary(constraint, memory)
        yield Found([found])
    elif opts & QueryOpts.AutoCluster:
        yield from _limited(autoclusters(constraint, memory), limit)
    elif opts & QueryOpts.GroupBy:
        yield from _limited(groups(constraint, memory, projection), limit)
    else:
        yield from ads(JOBS, constraint, memory, projection=projection, limit=limit)


def _limited(steps: Steps[list[Json]], limit: int) -> Steps[None]:
    items = yield from steps
    yield Found(items if limit < 0 else items[:limit])


def summary(constraint: Any, memory: Memory) -> Steps[Json]:
    """Counts of the jobs that a constraint selects, as the summary ad that ends a schedd's answer."""
    counts: Counter[str] = Counter()
    selection = yield from compiled(JOBS, constraint, memory)
    if selection.sql == "true" and selection.exact:
        rows = yield Ask(
            "SELECT sum(idle) AS idle, sum(running) AS running, sum(held) AS held, sum(suspended) AS"
            " suspended,"
            " sum(ending) AS removed FROM fetchwork.totals"
        )
        counts.update({name.capitalize(): int(value or 0) for name, value in rows[0].items()})
    elif selection.exact:
        rows = yield Ask(
            f"SELECT jobstatus, count(*) AS n FROM fetchwork.jobs WHERE {selection.sql} GROUP BY"  # noqa: S608
            " jobstatus",
            selection.params,
        )
        counts.update({STATUS_NAMES[row["jobstatus"]]: row["n"] for row in rows})
    else:
        for found in (yield from collected(ads(JOBS, constraint, memory, projection=["JobStatus"]))):
            counts[STATUS_NAMES[found["JobStatus"]]] += 1
    names = ("Idle", "Running", "Removed", "Completed", "Held", "Suspended")
    return {"MyType": "Summary", "Jobs": sum(counts.values()), **{name: counts[name] for name in names}}


def collected(steps: Steps[None]) -> Steps[list[Any]]:
    """What other steps find, gathered."""
    items: list[Any] = []
    reply: Any = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration:
            return items
        if isinstance(step, Found):
            items.extend(step.items)
            reply = None
        else:
            reply = yield step


def autoclusters(constraint: Any, memory: Memory) -> Steps[list[Json]]:
    """An ad for each autocluster with jobs: what matching looks at, and JobCount."""
    selection = yield from compiled(JOBS, constraint, memory)
    if selection.sql == "true" and selection.exact:
        rows = yield Ask("SELECT autoclusterid, jobs AS n FROM fetchwork.totals WHERE jobs > 0")
        counts = {row["autoclusterid"]: int(row["n"]) for row in rows}
    elif selection.exact:
        rows = yield Ask(
            f"SELECT autoclusterid, count(*) AS n FROM fetchwork.jobs WHERE {selection.sql} GROUP BY"  # noqa: S608
            " autoclusterid",
            selection.params,
        )
        counts = {row["autoclusterid"]: row["n"] for row in rows}
    else:
        counts = Counter()
        for found in (yield from collected(ads(JOBS, constraint, memory, projection=["AutoClusterId"]))):
            counts[found["AutoClusterId"]] += 1
    rows = yield Ask(
        "SELECT autoclusterid, owner, submitter, ad FROM fetchwork.autoclusters WHERE autoclusterid = ANY(%s)"
        " ORDER BY autoclusterid",
        [list(counts)],
    )
    return [
        {
            **row["ad"],
            "AutoClusterId": row["autoclusterid"],
            "Owner": row["owner"],
            "Submitter": row["submitter"],
            "JobCount": counts[row["autoclusterid"]],
            "MyType": "AutoCluster",
        }
        for row in rows
    ]


def groups(constraint: Any, memory: Memory, projection: Sequence[str]) -> Steps[list[Json]]:
    """An ad for each distinct combination of the projection's values, and JobCount."""
    if not projection:
        raise ValueError("GroupBy groups by the attributes of the projection, which is empty")
    counts: Counter[tuple[tuple[str, Any], ...]] = Counter()
    samples: dict[tuple[tuple[str, Any], ...], Json] = {}
    steps = ads(JOBS, constraint, memory, projection=projection)
    reply: Any = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration:
            break
        reply = None
        if not isinstance(step, Found):
            reply = yield step
            continue
        for ad in step.items:
            key = tuple(sorted((name.lower(), repr(value)) for name, value in ad.items()))
            counts[key] += 1
            samples.setdefault(key, ad)
    return [{**samples[key], "JobCount": n, "MyType": "AutoCluster"} for key, n in counts.items()]


# -- changing ------------------------------------------------------------------------------------------------

# by the action's name
_FUNCTIONS = {
    "Hold": "hold",
    "Release": "release",
    "Remove": "remove",
    "Vacate": "vacate",
    "VacateFast": "vacate",
}


def act(action: Any, spec: Any, memory: Memory, reason: str | None) -> Steps[Json]:
    """Hold, release, remove or vacate jobs; the counts as ``Schedd.act`` tells them."""
    from fetchwork.classad.bindings import JobAction

    if not isinstance(action, JobAction):
        raise TypeError("action must be a JobAction")
    function = _FUNCTIONS.get(action.name)
    if function is None:
        raise JobStateConflict(
            f"JobAction.{action.name} is not possible for fetched work; allowed: Hold, Release,"
            " Remove, Vacate"
        )
    found = yield from selected(spec, memory)
    changed = 0
    for start in range(0, len(found.ids), BATCH):
        changed += yield from _change(
            f"SELECT fetchwork.{function}(jobs => %s, reason => %s) AS n",
            [found.ids[start : start + BATCH], reason],
        )
    return {
        "TotalSuccess": changed,
        "TotalBadStatus": found.jobs - changed,
        "TotalNotFound": found.missing,
        "TotalError": 0,
        "TotalAlreadyDone": 0,
        "TotalPermissionDenied": 0,
        "TotalJobAds": found.jobs + found.missing,
        "TotalChangedAds": changed,
    }


def edit(spec: Any, changes: Mapping[str, Any], memory: Memory) -> Steps[int]:
    """Change attributes; returns the number of jobs changed. ``changes`` is in HTCondor's JSON form."""
    found = yield from selected(spec, memory)
    if found.missing and not found.ids:
        raise NotFound(f"no job in the queue matches {spec!r}")
    changed = 0
    for start in range(0, len(found.ids), BATCH):
        changed += yield from _change(
            "SELECT fetchwork.edit(jobs => %s, changes => %s) AS n",
            [found.ids[start : start + BATCH], dict(changes)],
        )
    return changed


def _change(sql: str, params: list[Any]) -> Steps[int]:
    rows = yield Ask(sql, params)
    return int(rows[0]["n"])


@dataclass(frozen=True)
class Selection:
    """Jobs that a spec means: their ids, how many they are, and how many named ones are not in the queue.

    A whole cluster stays one id, which is cheap for a million jobs.
    """

    ids: list[str]
    jobs: int
    missing: int


def selected(spec: Any, memory: Memory) -> Steps[Selection]:
    """The jobs in the queue that a spec means."""
    ids = _ids(spec)
    if ids is None:
        found = yield from collected(
            ads(JOBS, constraint_of(spec), memory, projection=["ClusterId", "ProcId"])
        )
        return Selection([f"{ad['ClusterId']}.{ad['ProcId']}" for ad in found], len(found), 0)
    rows = yield Ask(
        "SELECT named.id, count(j.clusterid) AS n FROM unnest(%s::text[]) AS named (id)"
        " LEFT JOIN fetchwork.jobs AS j ON j.clusterid = split_part(named.id, '.', 1)::integer"
        " AND (named.id NOT LIKE '%%.%%' OR j.procid = nullif(split_part(named.id, '.', 2), '')::integer)"
        " GROUP BY named.id",
        [ids],
    )
    # each job once, so that what could not be changed can be counted
    there = {row["id"]: row["n"] for row in rows if row["n"]}
    ids = [id for id in there if "." not in id or id.split(".")[0] not in there]
    return Selection(ids, sum(there[id] for id in ids), len(rows) - len(there))


def value_of(value: Any) -> Any:
    """What ``edit`` is given, in JSON form: an expression, its text, or a plain Python value."""
    from fetchwork.classad.ads import parse_expr
    from fetchwork.classad.jsonform import to_json
    from fetchwork.classad.values import ClassAd, ExprTree

    if isinstance(value, ExprTree):
        expression = value
    elif isinstance(value, str):
        expression = parse_expr(value)
    else:
        ad = ClassAd()
        ad["value"] = value
        return to_json(ad)["value"]
    ad = ClassAd()
    ad["value"] = expression
    return to_json(ad)["value"]
