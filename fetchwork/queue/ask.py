"""The questions that an operation on the queue asks its driver.

An operation is a generator that holds no connection. It yields a ``Call`` of a SQL function, an ``Ask`` or an
``Evaluate`` and is sent the answer, or yields a ``Pause``; it returns its result (``Steps``). An operation
with many results yields them in ``Found`` pages as it finds them (``Stream``). ``Session`` drives operations
with a connection, ``AsyncSession`` with awaited ones; so ``Queue`` and ``AsyncQueue`` share one behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from fetchwork.db.calls.call import Call

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)
Result = TypeVar("Result")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Ask:
    """A statement; the generator is sent its rows."""

    sql: str
    params: Sequence[object] = ()
    #: the same text is asked often, so the server may keep its plan
    often: bool = False


@dataclass(frozen=True)
class Pause:
    """A pause before the next step."""

    seconds: float


@dataclass(frozen=True)
class Evaluate:
    """A constraint to be evaluated on ads; the generator is sent a list of truths.

    It is a question because any person may have written the constraint: a driver that serves several people
    evaluates it in a process where it delays no one else.
    """

    constraint: str
    ads: Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class Found(Generic[Item_co]):
    """A page of items for the caller; ``looked_at`` is the number of rows of a long view read until now."""

    items: Sequence[Item_co]
    looked_at: int | None = None


@dataclass(frozen=True)
class Ended(Generic[Result]):
    """The result of finished steps."""

    result: Result


#: an answer's type depends on the question, which a generator's type can't express
Question: TypeAlias = Ask | Call[Any] | Pause | Evaluate
Steps: TypeAlias = Generator[Question, Any, Result]
Stream: TypeAlias = Generator[Question | Found[Item], Any, None]


@dataclass
class Memory:
    """Answers that a queue keeps for its life, because they do not change."""

    #: attribute names in the spelling of ads, by their lower-case form
    spellings: Mapping[str, str] = field(default_factory=dict)


def collected(stream: Stream[Item]) -> Steps[list[Item]]:
    """All items of a stream."""
    items: list[Item] = []
    reply: object = None
    while True:
        try:
            step = stream.send(reply)
        except StopIteration:
            return items
        if isinstance(step, Found):
            items.extend(step.items)
            reply = None
        else:
            reply = yield step


def mapped(stream: Stream[Item], make: Callable[[Item], Made]) -> Stream[Made]:
    """A stream with a function applied to each item of another stream."""
    reply: object = None
    while True:
        try:
            step = stream.send(reply)
        except StopIteration:
            return
        if isinstance(step, Found):
            yield Found([make(item) for item in step.items], step.looked_at)
            reply = None
        else:
            reply = yield step
