"""When a part of a constraint can be true, and when it can be false: two conditions of SQL."""

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
    """When a part can be true, when it can be false, and whether that is all there is to know."""

    true: Sql
    false: Sql
    exact: bool


#: whatever HTCondor alone can tell
UNKNOWN = Rails(ALWAYS, ALWAYS, False)
