"""Which rows of a view a constraint selects that SQL alone can't decide."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from fetchwork.classad.exprform import expr_text
from fetchwork.queue.ask import Ask, Evaluate, Memory, Steps
from fetchwork.queue.constraints.constraint import Constraint, names_in
from fetchwork.queue.selecting import source_of
from fetchwork.queue.views import Json, Key, Row, View

# whose answer is made of their arguments alone: the same values are not evaluated twice; of time() the moment
# counts at which they were first
_OF_ARGUMENTS = frozenset(
    (
        *("regexp", "regexps", "replace", "replaceall", "regexpmember", "strcat", "substr", "size", "join"),
        *("strcmp", "stricmp", "toupper", "tolower", "split", "splitusername", "splitslotname", "string"),
        *("int", "real", "bool", "floor", "ceiling", "round", "pow", "quantize", "min", "max", "sum", "avg"),
        *("isundefined", "iserror", "isstring", "isinteger", "isreal", "isboolean", "islist", "isclassad"),
        *("ifthenelse", "member", "identicalmember", "anycompare", "allcompare", "versioncmp", "version_gt"),
        *("stringlistmember", "stringlistimember", "stringlistsize", "stringlist_regexpmember"),
        "time",
        *("stringlistsum", "stringlistavg", "stringlistmin", "stringlistmax"),
    )
)
_CALL = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*\(")
#: attributes that two statements do not see alike
_MOVING = frozenset({"servertime"})
#: verdicts that are remembered of one reader, and the characters of the values that one is remembered for
_MOST, _LONGEST = 100_000, 200
#: keys of one statement
_CHUNK = 200
#: combinations of values that are looked at instead of rows, and the bytes of one: they come here all at
#: once, and go back, and what is in an ad may be long
MOST_COMBINATIONS, MOST_BYTES = 2000, 4096


class Evaluation:
    """Decides for one reader what a constraint selects.

    Of each ad it takes the attributes that the constraint names, and the whole of those that are selected.
    Where many are, or where an attribute's value is an expression, which may name any other, it evaluates
    whole ads.
    """

    def __init__(self, view: View, selection: Constraint, columns: str, params: Sequence[object]) -> None:
        self._view = view
        self._selection = selection
        self._verdicts: dict[str, bool] = {}
        #: the columns of whole ads, and what is asked for now
        self.columns, self.params = columns, list(params)
        #: the attributes that are asked for, by their columns; empty: whole ads
        self._names: dict[str, str] = {}
        #: the SQL of the text that says all their values, None where these are hardly ever the same
        self._mark: str | None = None
        self._mark_params: tuple[object, ...] = ()

    @classmethod
    def of(cls, view: View, selection: Constraint, memory: Memory) -> Steps[Evaluation]:
        """For a constraint that was compiled for the view."""
        made = cls(view, selection, view.all_columns, [])
        # a text in quotes may look like a call, which does no harm
        if all(name.lower() in _OF_ARGUMENTS for name in _CALL.findall(selection.text)):
            names = names_in(selection.text) - {"mytype"}
            # what an ad within the ad says comes with the whole ad alone
            if not any("." in name for name in names):
                yield from made._narrow(sorted(names), memory)
        return made

    @property
    def is_narrow(self) -> bool:
        """Are ads asked for in part?"""
        return bool(self._names)

    @property
    def combines(self) -> bool:
        """Can it say of which values a selected row is?"""
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
            # as text, where 1 is not 1.0
            self._mark = f"jsonb_build_array({', '.join(values)})::text"
            self._mark_params = tuple(params)

    def combinations(self, condition: str, params: Sequence[object]) -> Steps[Sequence[str] | None]:
        """The marks of those of a condition's rows that may be selected; None: too many, or too long.

        So a row whose values others have, too, costs no more than a look at it.
        """
        # what the condition says has no other meaning here
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
        """The condition for rows with one of these marks."""
        return f"{self._mark} = ANY(%s)", [*self._mark_params, list(marks)]

    def accepted(self, rows: Sequence[Row]) -> Steps[list[tuple[Key, Json]]]:
        """Of rows with the columns that were asked for: key and whole ad of each that is selected."""
        if not self._names:
            return (yield from self._evaluated(rows))
        parts = [self._part([row[column] for column in self._names]) for row in rows]
        chosen = [
            key_of(self._view, row)
            for row, is_chosen in zip(rows, (yield from self._chosen(parts)), strict=True)
            if is_chosen
        ]
        if 5 * len(chosen) > len(rows):
            # more statements than they save
            self._names, self.columns, self.params = {}, self._view.all_columns, []
        return (yield from self.of_keys(chosen))

    def of_keys(self, keys: Sequence[Key]) -> Steps[list[tuple[Key, Json]]]:
        """Of the rows with these keys: key and whole ad of each that is selected."""
        found: list[tuple[Key, Json]] = []
        for asked in rows_of(self._view, keys):
            whole: list[Row] = yield asked
            # evaluated again: they may have changed in between
            found += yield from self._evaluated(whole)
        return found

    def _part(self, values: Sequence[object]) -> Json:
        """The ad of these values alone."""
        named = zip(self._names.values(), values, strict=True)
        return {"MyType": self._view.my_type} | {name: value for name, value in named if value is not None}

    def _chosen(self, parts: Sequence[Json]) -> Steps[list[bool]]:
        """May the ads with these values be selected?"""
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
    """The questions for the whole rows with these keys, which are in the view's order, and a condition."""
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
    """Is a value an expression, or may hold one?"""
    return any(isinstance(value, list | dict) or expr_text(value) is not None for value in part.values())
