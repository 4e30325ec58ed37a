"""Who asks, and which rights that gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Person:
    """Who asks. ``account`` is the Owner whose rights alone count; None: all rights of the service's role."""

    name: str
    account: str | None
    #: may change something, as far as the database lets them
    may_write: bool
