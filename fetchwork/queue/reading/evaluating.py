"""Decides which rows a constraint selects if SQL alone can't."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from fetchwork.classad.exprform import expr_text
from fetchwork.queue.ask import Ask, Evaluate, Memory, Steps
from fetchwork.queue.constraints.constraint import Constraint, names_in
from fetchwork.queue.reading.selecting import source_of
from fetchwork.queue.reading.views import Json, Key, Row, View

# functions whose values depend on their arguments alone: equal arguments are not evaluated twice; for time()
# the moment of the first evaluation counts
_OF_ARGUMENTS = frozenset(
    (
        "regexp", "regexps", "replace", "replaceall", "regexpmember", "strcat", "substr", "size", "join",
        "strcmp", "stricmp", "toupper", "tolower", "split", "splitusername", "splitslotname", "string",
        "int", "real", "bool", "floor", "ceiling", "round", "pow", "quantize", "min", "max", "sum", "avg",
        "isundefined", "iserror", "isstring", "isinteger", "isreal", "isboolean", "islist", "isclassad",
        "ifthenelse", "member", "identicalmember", "anycompare", "allcompare", "versioncmp", "version_gt",
        "stringlistmember", "stringlistimember", "stringlistsize", "stringlist_regexpmember",
        "time",
        "stringlistsum", "stringlistavg", "stringlistmin", "stringlistmax",
    )
)  # fmt: skip
_CALL = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*\(")
#: attributes whose values differ from statement to statement
_MOVING = frozenset({"servertime"})
#: the most verdicts remembered for one reader, and the longest values that a verdict is remembered for
_MOST, _LONGEST = 100_000, 200
#: keys in one statement
_CHUNK = 200
#: the most combinations of values that are evaluated in place of rows, and the most bytes of one: they are
#: all fetched at once, and sent back, and values in an ad may be long
MOST_COMBINATIONS, MOST_BYTES = 2000, 4096


class Evaluation:
    """Decides for one reader which rows a constraint selects.

    It reads only the attributes that the constraint names, and then the selected ads as a whole. If many are
    selected, or if an attribute's value is an expression, which may refer to any other, it evaluates whole
    ads.
    """

    def __init__(self, view: View, selection: Constraint, columns: str, params: Sequence[object]) -> None:
        self._view = view
        self._selection = selection
        self._verdicts: dict[str, bool] = {}
        #: the columns of whole ads, and the columns that are asked for now
        self.columns, self.params = columns, list(params)
        #: the attributes that are asked for, by their columns; empty: whole ads
        self._names: dict[str, str] = {}
        #: the SQL of a text with all their values; None if rows hardly ever share values
        self._mark: str | None = None
        self._mark_params: tuple[object, ...] = ()

    @classmethod
    def of(cls, view: View, selection: Constraint, memory: Memory) -> Steps[Evaluation]:
        """Evaluation for a constraint that was compiled for the view."""
        made = cls(view, selection, view.all_columns, [])
        # a quoted text may look like a call, which does no harm
        if all(name.lower() in _OF_ARGUMENTS for name in _CALL.findall(selection.text)):
            names = names_in(selection.text) - {"mytype"}
            # attributes of a nested ad are read with the whole ad only
            if not any("." in name for name in names):
                yield from made._narrow(sorted(names), memory)
        return made

    @property
    def is_narrow(self) -> bool:
        """Whether only parts of ads are asked for."""
        return bool(self._names)

    @property
    def combines(self) -> bool:
        """Whether it can tell the combinations of values of selected rows."""
        return bool(self._names) and self._mark is not None

    def _narrow(self, names: Sequence[str], memory: Memory) -> Steps[None]:
        columns = self._view.columns()
        source = yield from source_of(self._view, names, memory)
        selected, params = list(self._view.order), list[object]()
        values = []
        for number, name in enumerate(names):
            sql = columns[name].sql if name in columns else ""
            if not sql:
                held = source.held(name)
                sql = held.text
                params += held.params
            selected.append(f"{sql} AS value_{number}")
            values.append(sql)
            self._names[f"value_{number}"] = name
        if names:
            self.columns, self.params = ", ".join(selected), params
        if names and not _MOVING.intersection(names):
            # as text, in which 1 and 1.0 differ
            self._mark = f"jsonb_build_array({', '.join(values)})::text"
            self._mark_params = tuple(params)

    def combinations(self, condition: str, params: Sequence[object]) -> Steps[Sequence[str] | None]:
        """The marks of the condition's rows that may be selected; None if they are too many or too long.

        So rows that share their values are evaluated once.
        """
        # the alias has no other meaning in the condition
        rows: list[Row] = yield Ask(
            f"""
            SELECT CASE WHEN octet_length({self._mark}) <= {MOST_BYTES} THEN {self._mark} END AS mark
            FROM {self._view.source}
            WHERE {condition}
            GROUP BY 1
            LIMIT {MOST_COMBINATIONS + 1}
            """,  # noqa: S608 - of this package's making
            [*self._mark_params, *self._mark_params, *params],
        )
        marks = [row["mark"] for row in rows]
        if len(rows) > MOST_COMBINATIONS or None in marks:
            self._mark = None
            return None
        parts = [self._part(json.loads(mark)) for mark in marks]
        return [mark for mark, chosen in zip(marks, (yield from self._chosen(parts)), strict=True) if chosen]

    def marked(self, marks: Sequence[str]) -> tuple[str, list[object]]:
        """The condition that a row has one of these marks."""
        return f"{self._mark} = ANY(%s)", [*self._mark_params, list(marks)]

    def accepted(self, rows: Sequence[Row]) -> Steps[list[tuple[Key, Json]]]:
        """For rows with the requested columns: key and whole ad of each selected row."""
        if not self._names:
            return (yield from self._evaluated(rows))
        parts = [self._part([row[column] for column in self._names]) for row in rows]
        chosen = [
            key_of(self._view, row)
            for row, is_chosen in zip(rows, (yield from self._chosen(parts)), strict=True)
            if is_chosen
        ]
        if 5 * len(chosen) > len(rows):
            # reading the selected ads would take more statements than it saves
            self._names, self.columns, self.params = {}, self._view.all_columns, []
        return (yield from self.of_keys(chosen))

    def of_keys(self, keys: Sequence[Key]) -> Steps[list[tuple[Key, Json]]]:
        """For the rows with these keys: key and whole ad of each selected row."""
        found: list[tuple[Key, Json]] = []
        for asked in rows_of(self._view, keys):
            whole: list[Row] = yield asked
            # evaluated again, because they may have changed in between
            found += yield from self._evaluated(whole)
        return found

    def _part(self, values: Sequence[object]) -> Json:
        """The ad with these values alone."""
        named = zip(self._names.values(), values, strict=True)
        return {"MyType": self._view.my_type} | {name: value for name, value in named if value is not None}

    def _chosen(self, parts: Sequence[Json]) -> Steps[list[bool]]:
        """Whether the ads with these values may be selected."""
        marks = [repr(part) for part in parts]
        unclear = {mark for mark, part in zip(marks, parts, strict=True) if _may_name_others(part)}
        new = {
            mark: part
            for mark, part in zip(marks, parts, strict=True)
            if mark not in self._verdicts and mark not in unclear
        }
        verdicts = {mark: self._verdicts[mark] for mark in marks if mark in self._verdicts}
        if new:
            truths: list[bool] = yield Evaluate(self._selection.text, list(new.values()))
            verdicts.update(zip(new, truths, strict=True))
            if len(self._verdicts) + len(new) > _MOST:
                self._verdicts.clear()
            self._verdicts.update((mark, verdicts[mark]) for mark in new if len(mark) <= _LONGEST)
        return [mark in unclear or verdicts[mark] for mark in marks]

    def _evaluated(self, rows: Sequence[Row]) -> Steps[list[tuple[Key, Json]]]:
        if not rows:
            return []
        ads = [self._view.ad(row) for row in rows]
        truths: list[bool] = yield Evaluate(self._selection.text, ads)
        return [
            (key_of(self._view, row), ad)
            for row, ad, is_true in zip(rows, ads, truths, strict=True)
            if is_true
        ]


def rows_of(
    view: View, keys: Sequence[Key], condition: str = "true", params: Sequence[object] = ()
) -> Iterator[Ask]:
    """The statements for the whole rows with these keys, in the view's order, that fulfil a condition."""
    order = [f"{name} DESC" if view.descending else name for name in view.order]
    one = f"({', '.join(['%s'] * len(view.order))})"
    for begin in range(0, len(keys), _CHUNK):
        some = keys[begin : begin + _CHUNK]
        sql = f"""
            SELECT {view.all_columns}
            FROM {view.source}
            WHERE ({", ".join(view.order)}) IN ({", ".join([one] * len(some))}) AND {condition}
            ORDER BY {", ".join(order)}
        """  # noqa: S608 - of this package's making
        yield Ask(sql, [*(value for key in some for value in key), *params])


def key_of(view: View, row: Row) -> Key:
    """The key of a row."""
    return tuple(row[name] for name in view.order)


def _may_name_others(part: Json) -> bool:
    """Whether a value is an expression, or may contain one."""
    return any(isinstance(value, list | dict) or expr_text(value) is not None for value in part.values())
