"""The steps of storing credentials, sealed as they come (``sealing``), and of deleting them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from fetchwork.db.calls import credentials
from fetchwork.queue.ask import Steps
from fetchwork.queue.views import Json


def sealing_key() -> Steps[Json | None]:
    """The key that credentials are sealed to; None where no administrator has published one."""
    key: credentials.SealingKey | None = yield credentials.sealing_key()
    if key is None:
        return None
    return {"key_id": key.key_id, "public_key": base64.b64encode(key.public_key).decode()}


def put(
    owner: str,
    name: str,
    key_id: str,
    sealed: str,
    permissions: str | None = None,
    resource: str | None = None,
    renewable: bool = False,
    expires_at: float | None = None,
) -> Steps[int]:
    """Store what was sealed (in base64) over one of the same name; its version."""
    version: int = yield credentials.put_credential(
        owner=owner,
        name=name,
        key_id=key_id,
        sealed=base64.b64decode(sealed),
        permissions=permissions,
        resource=resource,
        renewable=renewable,
        expires_at=None if expires_at is None else datetime.fromtimestamp(expires_at, UTC),
    )
    return version


def delete(owner: str, name: str) -> Steps[bool]:
    """Delete a credential; False if there is none."""
    deleted: bool = yield credentials.delete_credential(owner=owner, name=name)
    return deleted
