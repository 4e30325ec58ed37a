"""Adds credentials: the caller's process seals them, so only the sealed form leaves it.

An access point, the database and its backups see the sealed form (``fetchwork.credentials``).
"""

from __future__ import annotations

import base64
import getpass
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fetchwork.client.link import acting_owner
from fetchwork.credentials.keys import key_id, seal
from fetchwork.credentials.secret import Renewal, Secret, expiry, name_of
from fetchwork.errors import CredentialError
from fetchwork.queue.reading.views import Json

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession


def owner_of_asker(owner: str | None) -> str:
    """The owner of the credentials that are meant: the named account, else the asking one."""
    return owner or acting_owner() or getpass.getuser()


def add(
    session: AnySession,
    service: str,
    content: bytes,
    *,
    handle: str = "",
    owner: str | None = None,
    renewal: Renewal | None = None,
    permissions: str | None = None,
    resource: str | None = None,
    expires_at: datetime | None = None,
) -> str:
    """Seal a credential and store it; its name. Raises CredentialError, and the database's errors."""
    name = name_of(service, handle)
    whose = owner_of_asker(owner)
    key = session.perform("sealing_key")
    if key is None:
        raise CredentialError("this pool takes no credentials: fetchwork db credential-key makes a key")
    public = base64.b64decode(key["public_key"])
    if key_id(public) != key["key_id"]:
        raise CredentialError("the pool's key does not match its id")
    expires = expires_at or (expiry(content, datetime.now(UTC)) if content else None)
    session.perform(
        "put_credential",
        owner=whose,
        name=name,
        key_id=key["key_id"],
        sealed=base64.b64encode(seal(Secret(whose, name, content, renewal).encode(), public)).decode(),
        permissions=permissions,
        resource=resource,
        renewable=renewal is not None,
        expires_at=None if expires is None else expires.timestamp(),
    )
    return name


def listed(session: AnySession, owner: str | None = None, names: Sequence[str] = ()) -> list[Json]:
    """The ads of stored credentials that the asker may see, by owner and name."""
    constraint = f'Owner =?= "{owner}"' if owner else "true"
    found = session.items("view", name="credentials", constraint=constraint)
    return [ad for ad in found if not names or ad["Name"] in names]
