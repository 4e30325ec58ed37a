"""Calls about rights, and those by which an administrator sets queues, submitters, limits and settings."""

from __future__ import annotations

from dataclasses import dataclass

from fetchwork.db.calls.call import Call, JsonObject, Record, done, records_of, value_of


def set_queue(*, name: str, changes: JsonObject) -> Call[None]:
    """Make a queue, or change its settings."""
    return done("set_queue", {"name": name, "changes": dict(changes)})


def set_submitter(*, name: str, changes: JsonObject) -> Call[None]:
    """Change a submitter's factor, usage or limit."""
    return done("set_submitter", {"name": name, "changes": dict(changes)})


def set_limit(*, name: str, maximum: float | None) -> Call[None]:
    """Set a concurrency limit; None takes it away."""
    return done("set_limit", {"name": name, "maximum": maximum})


def set_setting(*, name: str, value: float) -> Call[None]:
    """Set one of the queue's settings."""
    return done("set_setting", {"name": name, "value": value})


def set_bucket(
    *,
    url: str | None,
    access_key_id: str | None = None,
    secret: str | None = None,
    region: str | None = None,
    above: int = 64 * 1024 * 1024,
) -> Call[None]:
    """Have the bytes of new contents of more than ``above`` bytes in a bucket; None as the URL: in none."""
    return done(
        "set_bucket",
        {
            "url": url,
            "access_key_id": access_key_id,
            "secret": secret,
            "region": region,
            "above": above,
        },
    )


@dataclass(frozen=True, slots=True)
class BucketState(Record):
    """A bucket, and what is in it."""

    url: str
    #: for new contents
    used: bool
    #: bytes
    above: int
    contents: int
    bytes: int
    #: that are to be deleted
    objects_over: int


def buckets() -> Call[list[BucketState]]:
    """The buckets that there are, without their keys."""
    return records_of(BucketState, "buckets")


def grant_owner(*, role: str, owner: str) -> Call[None]:
    """Let a role submit jobs that run as an account."""
    return done("grant_owner", {"role": role, "owner": owner})


def act_for(*, owner: str) -> Call[None]:
    """Have the rights of one account until the end of the transaction, and no others."""
    return done("act_for", {"owner": owner})


def grant_group(*, role: str, accounting_group: str) -> Call[None]:
    """Let a role charge its jobs to an accounting group."""
    return done("grant_group", {"role": role, "accounting_group": accounting_group})


def revoke_group(*, role: str, accounting_group: str) -> Call[bool]:
    """Take that right away; False if there was none."""
    return value_of("revoke_group", {"role": role, "accounting_group": accounting_group})


def revoke_owner(*, role: str, owner: str) -> Call[bool]:
    """Take that right away; False if there was none."""
    return value_of("revoke_owner", {"role": role, "owner": owner})
