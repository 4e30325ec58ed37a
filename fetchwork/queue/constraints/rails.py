"""The rails of a part of a constraint: an SQL condition for "can be true", and one for "can be false"."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALWAYS", "NEVER", "UNKNOWN", "Rails", "Sql"]


@dataclass(frozen=True)
class Sql:
    """A condition, with ``%s`` for each of ``params``."""

    text: str
    params: tuple[object, ...] = ()

    def __and__(self, other: Sql) -> Sql:
        if NEVER in (self, other):
            return NEVER
        if self == ALWAYS:
            return other
        if other == ALWAYS:
            return self
        return Sql(f"({self.text} AND {other.text})", self.params + other.params)

    def __or__(self, other: Sql) -> Sql:
        if ALWAYS in (self, other):
            return ALWAYS
        if self == NEVER:
            return other
        if other == NEVER:
            return self
        return Sql(f"({self.text} OR {other.text})", self.params + other.params)


ALWAYS = Sql("true")
NEVER = Sql("false")


@dataclass(frozen=True)
class Rails:
    """The conditions that a part can be true or can be false, and whether they are exact."""

    true: Sql
    false: Sql
    exact: bool


#: only HTCondor can tell
UNKNOWN = Rails(ALWAYS, ALWAYS, False)
