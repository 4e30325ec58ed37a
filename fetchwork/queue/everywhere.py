"""Reads several databases as one queue: their answers in turn, or added up."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Never

from fetchwork.client.link import CHANGES
from fetchwork.errors import DatabaseUnavailable, FetchworkError
from fetchwork.queue.session import Session

if TYPE_CHECKING:
    from fetchwork.ipc.frames import Json
    from fetchwork.queue.databases import NamedDatabase

#: the attribute that names an ad's database
NAME = "ScheddName"


class Everywhere:
    """The sessions of all named databases; see ``Session``. Operations that change something are refused."""

    def __init__(self, databases: Sequence[NamedDatabase]) -> None:
        if not databases:
            raise ValueError("no database is named")
        self._sessions = {database.name: Session(database.for_reading()) for database in databases}
        #: as ``Session.looked``, for all databases together
        self.looked: Callable[[int], None] | None = None

    def __enter__(self) -> Everywhere:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        for session in self._sessions.values():
            session.close()

    def perform(self, name: str, /, **arguments: object) -> Any:
        """The result of ``totals`` or ``summary`` over all databases; of one, that of any."""
        if name not in ("totals", "summary") and (len(self._sessions) > 1 or name in CHANGES):
            raise _of_one(name)
        answers = {}
        for of, session in self._sessions.items():
            with _named(of):
                answers[of] = session.perform(name, **arguments)
        if len(self._sessions) == 1 and name != "totals":
            (answer,) = answers.values()
            return answer
        if name != "totals":
            return _sum(list(answers.values()))
        by = arguments.get("by")
        if by is None:
            return [_sum([rows[0] for rows in answers.values()])]
        if by == "autocluster":
            # autocluster ids belong to their database
            for of, rows in answers.items():
                for row in rows:
                    row["autocluster"] = f"{of}:{row['autocluster']}"
        every = sorted((row for rows in answers.values() for row in rows), key=lambda row: str(row[by]))
        return [_sum(list(rows)) for _, rows in groupby(every, key=lambda row: row[by])]

    def found(self, name: str, /, **arguments: object) -> Iterator[Sequence[Any]]:
        """The ads of jobs or of a view, database by database, up to the limit for all together."""
        tables = name in ("job_tables", "clusters") and len(self._sessions) == 1
        if name not in ("jobs", "view") and not tables:
            raise _of_one(name)
        if arguments.get("opts") and len(self._sessions) > 1:
            raise _of_one(name)
        if tables:
            for of, session in self._sessions.items():
                with _named(of):
                    for page in session.found(name, **arguments):
                        for item in page:
                            for ad in [item["same"]] if "same" in item else item["ads"]:
                                ad[NAME] = of
                        yield page
            return
        limit = arguments.pop("limit", -1)
        left = limit if isinstance(limit, int) and limit >= 0 else None
        before = here = 0

        def looked(rows: int) -> None:
            nonlocal here
            here = rows
            if self.looked is not None:
                self.looked(before + rows)

        for of, session in self._sessions.items():
            if left == 0:
                return
            session.looked = looked
            before, here = before + here, 0
            with _named(of):
                for page in session.found(name, **arguments, limit=-1 if left is None else left):
                    for ad in page:
                        ad[NAME] = of
                    if left is not None:
                        left -= len(page)
                    yield page

    def items(self, name: str, /, **arguments: object) -> Iterator[Any]:
        """As ``found``, item by item."""
        for page in self.found(name, **arguments):
            yield from page

    def submit(self, *_: object, **__: object) -> Never:
        """Refused: a cluster belongs to one database."""
        raise _of_one("submit")

    def retrieve(self, *_: object, **__: object) -> Never:
        """Refused, as ``submit``."""
        raise _of_one("retrieve")

    def check(self, *_: object, **__: object) -> Never:
        """Refused, as ``submit``."""
        raise _of_one("submit")


@contextlib.contextmanager
def _named(database: str) -> Iterator[None]:
    """Name the database that does not answer."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise DatabaseUnavailable(f"database '{database}': {error}") from error


def _of_one(name: str) -> FetchworkError:
    return FetchworkError(f"'{name}' works on one database: give its name")


def _sum(rows: Sequence[Mapping[str, object]]) -> Json:
    """One row for several: numbers are added up, other values are taken from the first."""
    total: Json = dict(rows[0])
    for row in rows[1:]:
        for key, value in row.items():
            before = total.get(key)
            if type(value) is int and type(before) is int:
                total[key] = before + value
    return total
