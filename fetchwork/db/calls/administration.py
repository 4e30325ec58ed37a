"""Administrators' calls: rights, queues, submitters, limits, settings and buckets."""

from __future__ import annotations

from dataclasses import dataclass

from fetchwork.db.calls.call import Call, JsonObject, Record, done, given, records_of, value_of


def set_queue(*, name: str, changes: JsonObject) -> Call[None]:
    """Create a queue, or change its settings."""
    return done("set_queue", given(locals()))


def set_submitter(*, name: str, changes: JsonObject) -> Call[None]:
    """Change a submitter's factor, usage or limit."""
    return done("set_submitter", given(locals()))


def set_limit(*, name: str, maximum: float | None) -> Call[None]:
    """Set a concurrency limit; None removes it."""
    return done("set_limit", given(locals()))


def set_starts(*, scope: str, name: str, starts: int | None, seconds: float | None) -> Call[None]:
    """Limit the starts of a concurrency limit ('limit'), 'queue', 'owner' or 'group'; None removes it."""
    return done("set_starts", given(locals()))


def set_group(*, name: str, changes: JsonObject) -> Call[None]:
    """Make an accounting group with a quota, or change one."""
    return done("set_group", given(locals()))


def remove_group(*, name: str) -> Call[int]:
    """Remove an accounting group and those below it; returns their number."""
    return value_of("remove_group", given(locals()))


def set_setting(*, name: str, value: float) -> Call[None]:
    """Set one of the queue's settings."""
    return done("set_setting", given(locals()))


def set_bucket(
    *,
    url: str | None,
    access_key_id: str | None = None,
    secret: str | None = None,
    region: str | None = None,
    above: int = 64 * 1024 * 1024,
) -> Call[None]:
    """Store the bytes of new contents of more than ``above`` bytes in a bucket; no URL: in no bucket."""
    return done("set_bucket", given(locals()))


@dataclass(frozen=True, slots=True)
class BucketState(Record):
    """A bucket and the amount stored in it."""

    url: str
    #: new contents go to it
    used: bool
    #: bytes
    above: int
    contents: int
    bytes: int
    #: objects that are to be deleted
    objects_over: int


def buckets() -> Call[list[BucketState]]:
    """All buckets, without their keys."""
    return records_of(BucketState, "buckets")


def grant_owner(*, role: str, owner: str) -> Call[None]:
    """Let a role submit jobs that run as an account."""
    return done("grant_owner", given(locals()))


def act_for(*, owner: str) -> Call[None]:
    """Restrict the caller to the rights of one account until the end of the transaction."""
    return done("act_for", given(locals()))


def grant_group(*, role: str, accounting_group: str) -> Call[None]:
    """Let a role charge its jobs to an accounting group."""
    return done("grant_group", given(locals()))


def revoke_group(*, role: str, accounting_group: str) -> Call[bool]:
    """Take that right away; False if the role did not have it."""
    return value_of("revoke_group", given(locals()))


def revoke_owner(*, role: str, owner: str) -> Call[bool]:
    """Take that right away; False if the role did not have it."""
    return value_of("revoke_owner", given(locals()))
