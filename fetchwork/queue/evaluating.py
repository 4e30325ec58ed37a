"""Which rows of a view a constraint selects that SQL alone can't decide."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fetchwork.classad.constraint import Constraint, lookup, names_in
from fetchwork.classad.exprform import expr_text
from fetchwork.queue.ask import Ask, Evaluate, Memory, Steps
from fetchwork.queue.selecting import source_of
from fetchwork.queue.views import Json, Key, Row, View

# whose answer is made of their arguments alone: the same values are not evaluated twice
_OF_ARGUMENTS = frozenset(
    (
        *("regexp", "regexps", "replace", "replaceall", "regexpmember", "strcat", "substr", "size", "join"),
        *("strcmp", "stricmp", "toupper", "tolower", "split", "splitusername", "splitslotname", "string"),
        *("int", "real", "bool", "floor", "ceiling", "round", "pow", "quantize", "min", "max", "sum", "avg"),
        *("isundefined", "iserror", "isstring", "isinteger", "isreal", "isboolean", "islist", "isclassad"),
        *("ifthenelse", "member", "identicalmember", "anycompare", "allcompare", "versioncmp", "version_gt"),
        *("stringlistmember", "stringlistimember", "stringlistsize", "stringlist_regexpmember"),
        *("stringlistsum", "stringlistavg", "stringlistmin", "stringlistmax"),
    )
)
_CALL = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*\(")
#: verdicts that are remembered of one reader
_MOST = 100_000
#: whole ads that one statement brings
_CHUNK = 200


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

    def _narrow(self, names: Sequence[str], memory: Memory) -> Steps[None]:
        columns = self._view.columns()
        source = yield from source_of(self._view, names, memory)
        selected, params = list(self._view.order), list[object]()
        for number, name in enumerate(names):
            sql = columns[name].sql if name in columns else ""
            if not sql:
                sql, more = lookup(name, source)
                params += more
            selected.append(f"{sql} AS value_{number}")
            self._names[f"value_{number}"] = name
        if names:
            self.columns, self.params = ", ".join(selected), params

    def accepted(self, rows: Sequence[Row]) -> Steps[list[tuple[Key, Json]]]:
        """Of rows with the columns that were asked for: key and whole ad of each that is selected."""
        if not self._names:
            return (yield from self._evaluated(rows))
        every = {"MyType": self._view.my_type}
        parts = [
            every | {name: row[column] for column, name in self._names.items() if row[column] is not None}
            for row in rows
        ]
        marks = [repr(part) for part in parts]
        unclear = {mark for mark, part in zip(marks, parts, strict=True) if _may_name_others(part)}
        new = {
            mark: part
            for mark, part in zip(marks, parts, strict=True)
            if mark not in self._verdicts and mark not in unclear
        }
        if new:
            truths: list[bool] = yield Evaluate(self._selection.text, list(new.values()))
            if len(self._verdicts) + len(new) > _MOST:
                self._verdicts.clear()
            self._verdicts.update(zip(new, truths, strict=True))
        chosen = [
            self._key(row)
            for mark, row in zip(marks, rows, strict=True)
            if mark in unclear or self._verdicts[mark]
        ]
        if 5 * len(chosen) > len(rows):
            # more statements than they save
            self._names, self.columns, self.params = {}, self._view.all_columns, []
        found: list[tuple[Key, Json]] = []
        for begin in range(0, len(chosen), _CHUNK):
            whole = yield self._whole(chosen[begin : begin + _CHUNK])
            # evaluated again: they may have changed in between
            found += yield from self._evaluated(whole)
        return found

    def _evaluated(self, rows: Sequence[Row]) -> Steps[list[tuple[Key, Json]]]:
        if not rows:
            return []
        ads = [self._view.ad(row) for row in rows]
        truths: list[bool] = yield Evaluate(self._selection.text, ads)
        return [(self._key(row), ad) for row, ad, is_true in zip(rows, ads, truths, strict=True) if is_true]

    def _whole(self, keys: Sequence[Key]) -> Ask:
        order = [f"{name} DESC" if self._view.descending else name for name in self._view.order]
        one = f"({', '.join(['%s'] * len(self._view.order))})"
        sql = f"""
            SELECT {self._view.all_columns}
            FROM {self._view.source}
            WHERE ({", ".join(self._view.order)}) IN ({", ".join([one] * len(keys))})
            ORDER BY {", ".join(order)}
        """  # noqa: S608 - of this package's making
        return Ask(sql, [value for key in keys for value in key])

    def _key(self, row: Row) -> Key:
        return tuple(row[name] for name in self._view.order)


def _may_name_others(part: Json) -> bool:
    """Is a value an expression, or may hold one?"""
    return any(isinstance(value, list | dict) or expr_text(value) is not None for value in part.values())
