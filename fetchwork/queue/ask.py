"""The questions that an operation on the queue asks of its driver.

An operation is a generator that holds no connection. It yields a ``Call`` of a SQL function or an ``Ask``
and is sent the answer, or a ``Pause``, and returns its result (``Steps``). One that finds many items hands
them over as it finds them, in ``Found`` pages (``Stream``). ``Session`` drives them with a connection,
``AsyncSession`` with awaited ones, so that ``Queue`` and ``AsyncQueue`` cannot come to differ.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from fetchwork.db.calls import Call

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Ask:
    """A statement; the generator is sent its rows."""

    sql: str
    params: Sequence[object] = ()


@dataclass(frozen=True)
class Pause:
    """Nothing to do for a while."""

    seconds: float


@dataclass(frozen=True)
class Found(Generic[Item_co]):
    """Items for the caller."""

    items: Sequence[Item_co]


@dataclass(frozen=True)
class Ended(Generic[Result]):
    """The result of steps that are over."""

    result: Result


#: an answer's type depends on the question, which the types of a generator cannot say
Steps: TypeAlias = Generator[Ask | Call[Any] | Pause, Any, Result]
Stream: TypeAlias = Generator[Ask | Call[Any] | Pause | Found[Item], Any, None]


@dataclass
class Memory:
    """Answers that a queue keeps, because they hold for as long as it lives."""

    #: attribute names as ads spell them, by their lower-case form
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
