"""Reads the ads of a view with some attributes only."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

from fetchwork.classad.exprform import expr_text
from fetchwork.queue.constraints.source import Source
from fetchwork.queue.reading.views import Json, Row, View

#: longer values are not cached
_LONG = 256
#: the most attributes that are read one by one; for more the ad is taken apart once
MOST_LOOKED_UP = 25
_EXPRESSION = object()


def has_expression(ad: Json | None) -> bool:
    """Whether an attribute of the ad is an expression."""
    return any(
        type(value) is str and value.startswith("/") and expr_text(value) is not None
        for value in (ad or {}).values()
    )


class Projected:
    """The ads of a view with the wanted attributes only, by a statement that asks for no others.

    Composing an ad and taking it apart costs the server more than all the rest. So an attribute with a
    single spelling is looked up by it, as text, and equal texts are parsed once.
    """

    def __init__(self, view: View, wanted: frozenset[str], source: Source) -> None:
        known = view.columns()
        #: by their columns: the names of attributes that are columns, and of those that are looked up
        self._names = {key: name for key, name in view.names.items() if key in wanted}
        self._looked_up: dict[str, str] = {}
        self._my_type = {"MyType": view.my_type} if "mytype" in wanted else {}
        columns = dict.fromkeys([*view.order, *map(view.selected, self._names)])
        self.params: list[object] = []
        others = []
        inner = sorted(wanted - known.keys() - {"mytype"})
        for key in inner:
            spelling = source.spellings.get(key)
            if spelling is None or len(inner) > MOST_LOOKED_UP:
                others.append(key)
                continue
            held = source.held(key)
            column = f"value_{len(self._looked_up)}"
            self._looked_up[column] = spelling
            columns[f"{held.text}::text AS {column}"] = None
            self.params += held.params
        self._others = bool(others)
        if others:
            columns[_part_of_ad(view)] = None
            self.params.append(others)
        self.columns = ", ".join(columns)

    def table(self, rows: Sequence[Row]) -> Json | None:
        """The same ads as a table (``operations.job_tables``); None if an ad has more than literals."""
        same: Json = dict(self._my_type)
        columns: dict[str, list[object]] = {}
        if self._others:
            ads = [row["ad"] or {} for row in rows]
            for name in set().union(*ads):
                columns[name] = values = [ad.get(name) for ad in ads]
                undefined = any(value is None and name in ad for value, ad in zip(values, ads, strict=True))
                if undefined or any(map(_is_no_literal, values)):
                    return None
        for column, name in self._looked_up.items():
            texts = [row[column] for row in rows]
            read: dict[str | None, object] = {None: None}
            for text in set(texts):
                if text is not None:
                    read[text] = value = _read(text)
                    if value is None or value is _EXPRESSION or _is_no_literal(value):
                        return None
            _add(name, list(map(read.__getitem__, texts)), len(read) - 1, same, columns)
        for column, name in self._names.items():
            found = [row[column] for row in rows]
            # a column has one type, and equal numbers are printed alike
            _add(name, found, len(set(found) - {None}), same, columns)
        return {"jobs": len(rows), "same": same, "columns": columns}

    def ads(self, rows: Sequence[Row]) -> list[Json] | None:
        """The ads of rows; None if one has an expression, which may refer to attributes not asked for."""
        found = []
        for row in rows:
            ad: Json = {}
            if self._others:
                ad = row["ad"] or {}
                if has_expression(ad):
                    return None
            for column, name in self._looked_up.items():
                if (text := row[column]) is not None:
                    value = _read(text)
                    if value is _EXPRESSION:
                        return None
                    ad[name] = value
            for column, name in self._names.items():
                if (value := row[column]) is not None:
                    ad[name] = value
            ad |= self._my_type
            found.append(ad)
        return found


def _is_no_literal(value: object) -> bool:
    return isinstance(value, list | dict) or has_expression({"": value})


def _add(
    name: str, values: list[object], different: int, same: Json, columns: dict[str, list[object]]
) -> None:
    """Add an attribute with ``different`` values to a table; ads that lack it have None as its value."""
    if different == 1 and None not in values:
        same[name] = values[0]
    elif different:
        columns[name] = values


@functools.lru_cache(maxsize=4096)
def _read_scalar(text: str) -> object:
    return _marked(json.loads(text))


def _marked(value: object) -> object:
    return _EXPRESSION if has_expression({"": value}) else value


def _read(text: str) -> object:
    """The value of a looked-up attribute; _EXPRESSION for an expression."""
    if text[0] in "[{":
        # a caller may change a list or a record, so it must not come from the cache
        return json.loads(text)
    return _read_scalar(text) if len(text) <= _LONG else _marked(json.loads(text))


def _part_of_ad(view: View) -> str:
    return f"""(
        SELECT jsonb_object_agg(part.key, part.value)
        FROM jsonb_each({view.inner}) AS part
        WHERE lower(part.key) = ANY(%s)
    ) AS ad"""  # noqa: S608 - of this package's making
