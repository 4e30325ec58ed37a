"""The person who asks, and a session whose every transaction has the rights of one account."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from fetchwork.db.calls import administration, tokens
from fetchwork.queue.ask import Evaluate, Pause, Question
from fetchwork.queue.session import Session


@dataclass(frozen=True, slots=True)
class Person:
    """The asker. ``account``: the Owner whose rights alone count; None: all rights of the service's role.

    ``token``: SHA-256 of the token by which the person signed in, which each transaction checks again.
    """

    name: str
    account: str | None
    #: may change jobs, as far as the database allows it
    may_write: bool
    token: bytes | None = None


class ActingSession(Session):
    """``Session`` with the rights of ``account`` alone; with those of its role for None.

    Outside ``reading`` and ``writing`` each step is a transaction: many jobs are not changed in one.
    """

    def __init__(self, conninfo: str) -> None:
        super().__init__(conninfo)
        self.account: str | None = None
        #: of the person's token; and whether the question changes something
        self.token: bytes | None = None
        self.writes = False
        #: seconds that a statement may take: the server goes on with one whose client has died
        self.limit_s: float | None = None
        self._inside = False

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """One transaction, which can change nothing."""
        with self.writing():
            self.database.query("SET TRANSACTION READ ONLY")
            yield

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction."""
        with self.database.transaction():
            self._inside = True
            try:
                if self.limit_s is not None:
                    limit = str(max(1, int(self.limit_s * 1000)))
                    self.database.query("SELECT set_config('statement_timeout', %s, true)", [limit])
                if self.token is not None:
                    self.database.run(tokens.act_by_token(digest=self.token, writes=self.writes))
                elif self.account is not None:
                    self.database.run(administration.act_for(owner=self.account))
                yield
            finally:
                self._inside = False

    def _answer(self, step: Question) -> object:
        if self._inside or isinstance(step, Pause | Evaluate):
            return super()._answer(step)
        with self.writing():
            return super()._answer(step)
