"""Private pools: PostgreSQL, agent and HTCondor in one directory."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fetchwork.pool.personal import PersonalPool as PersonalPool

__all__ = ["PersonalPool"]


def __getattr__(name: str) -> object:
    # imported on use: the parts of a pool can be had without all that a pool needs
    if name == "PersonalPool":
        from fetchwork.pool.personal import PersonalPool

        return PersonalPool
    raise AttributeError(f"module 'fetchwork.pool' has no attribute {name!r}")
