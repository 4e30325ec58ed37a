"""The questions that an operation on the queue asks of its driver.

An operation is a generator that holds no connection. It yields a ``Call`` of a SQL function, an ``Ask`` or an
``Evaluate`` and is sent the answer, or a ``Pause``, and returns its result (``Steps``). One that finds many
items hands them over as it finds them, in ``Found`` pages (``Stream``). ``Session`` drives them with a
connection, ``AsyncSession`` with awaited ones, so that ``Queue`` and ``AsyncQueue`` cannot come to differ.
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
    #: it is asked often, in the same words, and the server may keep it
    often: bool = False


@dataclass(frozen=True)
class Pause:
    """Nothing to do for a while."""

    seconds: float


@dataclass(frozen=True)
class Evaluate:
    """For which of these ads a constraint is true; the generator is sent a list of truths.

    It is a question because a constraint may be anybody's: whose driver serves several people evaluates it
    where it can hold up nobody.
    """

    constraint: str
    ads: Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class Found(Generic[Item_co]):
    """Items for the caller, or none: how many rows of a long view were looked at until now."""

    items: Sequence[Item_co]
    looked_at: int | None = None


@dataclass(frozen=True)
class Ended(Generic[Result]):
    """The result of steps that are over."""

    result: Result


#: an answer's type depends on the question, which the types of a generator cannot say
Question: TypeAlias = Ask | Call[Any] | Pause | Evaluate
Steps: TypeAlias = Generator[Question, Any, Result]
Stream: TypeAlias = Generator[Question | Found[Item], Any, None]


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


def mapped(stream: Stream[Item], make: Callable[[Item], Made]) -> Stream[Made]:
    """A stream of what a function makes of another's items."""
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
