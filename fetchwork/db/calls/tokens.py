"""Tokens with which people sign in at the page and the API: how they are made, and the calls about them.

A token has 256 random bits, and the database has its SHA-256.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from fetchwork.db.calls.call import Call, Record, given, one_of, records_of, value_of

#: begins each token, so that people and secret scanners know it
PREFIX = "fetchwork_"


def new_token() -> str:
    """A new token; nothing keeps it."""
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(token: str) -> bytes:
    """The SHA-256 of a token. A salt or a slow hash adds nothing to 256 random bits."""
    return sha256(token.encode()).digest()


@dataclass(frozen=True, slots=True)
class NewToken(Record):
    """A token that was made."""

    number: int
    valid_until: datetime


@dataclass(frozen=True, slots=True)
class PersonToken(Record):
    """A token of a person; ``state``: 'valid', 'over' or 'revoked'."""

    number: int
    owner: str
    read_only: bool
    state: str
    created_by: str
    created_at: datetime
    valid_until: datetime


@dataclass(frozen=True, slots=True)
class TokenRights(Record):
    """The Owner that a token acts for."""

    owner: str
    read_only: bool


def create_token(*, owner: str, digest: bytes, valid_s: float, read_only: bool) -> Call[NewToken]:
    """Make a token of an owner, by its SHA-256."""
    return one_of(NewToken, "create_token", given(locals()))


def revoke_token(*, number: int) -> Call[bool]:
    """End a token; False if it had ended before. NotFound if it is not there, or not the caller's."""
    return value_of("revoke_token", given(locals()))


def tokens() -> Call[list[PersonToken]]:
    """The tokens of the caller's owners; an administrator's are all."""
    return records_of(PersonToken, "tokens")


def act_by_token(*, digest: bytes, writes: bool) -> Call[TokenRights]:
    """Give the rest of the transaction the rights of a token's owner alone; DatabaseRefused if none."""
    return one_of(TokenRights, "act_by_token", given(locals()))
