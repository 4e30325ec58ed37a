"""Calls about rights, and those by which an administrator sets queues, submitters, limits and settings."""

from __future__ import annotations

from fetchwork.db.calls.call import Call, JsonObject, done, value_of


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
