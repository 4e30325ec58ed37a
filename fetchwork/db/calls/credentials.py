"""Calls about credentials: storing them sealed, handing them to a run, renewing them, and their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from fetchwork.db.calls.call import Call, JsonObject, Record, first_of, given, records_of, value_of


@dataclass(frozen=True, slots=True)
class SealingKey(Record):
    """The public key that credentials are sealed to."""

    key_id: str
    public_key: bytes


@dataclass(frozen=True, slots=True)
class RunCredential(Record):
    """A credential that a run's job asks for; if it is not stored, only owner and name are set."""

    owner: str
    name: str
    version: int | None
    key_id: str | None
    sealed: bytes | None
    renewable: bool | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ChangedCredential(Record):
    """A credential of which a run has an older version, or a credential that expires soon."""

    run_id: int
    token: UUID
    #: the directory of the run's credentials on the host
    directory: str
    #: by name: the versions in that directory
    versions: JsonObject
    owner: str
    name: str
    version: int
    key_id: str
    sealed: bytes
    renewable: bool
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class WantedCopy(Record):
    """A stored credential, and the host and public key that want a copy of it."""

    host_id: int
    public_key: bytes
    owner: str
    name: str
    version: int
    key_id: str
    sealed: bytes


@dataclass(frozen=True, slots=True)
class SealedCredential(Record):
    """A stored credential."""

    owner: str
    name: str
    version: int
    key_id: str
    sealed: bytes


def sealing_key() -> Call[SealingKey | None]:
    """The key that credentials are sealed to now; None if there is no key."""
    return first_of(SealingKey, "sealing_key")


def put_credential(
    *,
    owner: str,
    name: str,
    key_id: str,
    sealed: bytes,
    permissions: str | None = None,
    resource: str | None = None,
    renewable: bool = False,
    expires_at: datetime | None = None,
) -> Call[int]:
    """Store a credential, sealed to the current key, in place of one of the same name; its version."""
    return value_of("put_credential", given(locals()))


def delete_credential(*, owner: str, name: str) -> Call[bool]:
    """Delete a credential; False if it does not exist."""
    return value_of("delete_credential", given(locals()))


def run_credentials(*, run_id: int, token: str | UUID) -> Call[list[RunCredential]]:
    """The credentials that the job of a live run asks for; empty if the run is over."""
    return records_of(RunCredential, "run_credentials", given(locals()))


def register_host_key(*, public_key: bytes) -> Call[bool]:
    """Have credentials sealed to this key for the session's host; whether a host is at work that does so."""
    return value_of("register_host_key", given(locals()))


def want_credentials(*, run_id: int, token: str | UUID) -> Call[bool]:
    """Ask for copies of a run's credentials that are sealed to its host's key; False if it gets none."""
    return value_of("want_credentials", given(locals()))


def credentials_to_seal(*, most: int) -> Call[list[WantedCopy]]:
    """At most ``most`` credentials that joined hosts want copies of; no other caller gets them for 5 s."""
    return records_of(WantedCopy, "credentials_to_seal", given(locals()))


def put_host_credential(
    *, host_id: int, public_key: bytes, owner: str, name: str, version: int, sealed: bytes
) -> Call[bool]:
    """Store the copy that was sealed to a host's key; False if the host is not to have it any more."""
    return value_of("put_host_credential", given(locals()))


def note_credentials(
    *, run_id: int, token: str | UUID, directory: str, versions: Mapping[str, int]
) -> Call[bool]:
    """Note the directory and versions of a live run's credentials on its host; False if the run is over."""
    return value_of("note_credentials", given(locals()))


def changed_credentials(*, host_id: int, within_s: float, settled_s: float) -> Call[list[ChangedCredential]]:
    """Credentials to replace on a host, and renewable ones that expire within ``within_s`` seconds.

    Runs that started within the last ``settled_s`` are left out: their hooks may still be writing.
    """
    return records_of(ChangedCredential, "changed_credentials", given(locals()))


def begin_renewal(*, run_id: int, token: str | UUID, name: str, version: int) -> Call[bool]:
    """Whether the agent of a live run, and no other, may ask the credential's issuer for the next minute."""
    return value_of("begin_renewal", given(locals()))


def renew_credential(
    *,
    run_id: int,
    token: str | UUID,
    name: str,
    version: int,
    key_id: str,
    sealed: bytes,
    expires_at: datetime | None,
) -> Call[int | None]:
    """Store a renewed version from the issuer; its number, or None if ``version`` is not the current one."""
    return value_of("renew_credential", given(locals()))


def publish_credential_key(*, public_key: bytes) -> Call[bool]:
    """Seal credentials to this key from now on; False if it is the current key already."""
    return value_of("publish_credential_key", given(locals()))


def sealed_otherwise(*, n: int, after_owner: str = "", after_name: str = "") -> Call[list[SealedCredential]]:
    """Credentials that are sealed to another key than the current one; at most ``n``."""
    after = {"after_owner": after_owner, "after_name": after_name}
    return records_of(SealedCredential, "sealed_otherwise", {"n": n, **after})


def reseal_credential(*, owner: str, name: str, version: int, key_id: str, sealed: bytes) -> Call[bool]:
    """Store a credential sealed anew to the current key; False if it has changed meanwhile."""
    return value_of("reseal_credential", given(locals()))
