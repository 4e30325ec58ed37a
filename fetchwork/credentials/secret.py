"""The sealed data of a credential: its owner and name, the content of the job's file, and how to renew it."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from fetchwork.errors import CredentialError

#: bytes of a token: its file travels to the host in one message, and so does its renewal
MOST_BYTES = 16384
#: characters of each value that a renewal needs
_MOST_CHARACTERS = 8192
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
#: seconds as a string, as some issuers write them
_NUMBER = re.compile(r"[0-9]{1,16}(\.[0-9]{1,16})?")
_LOCAL = ("localhost", "127.0.0.1", "::1")


def name_of(service: str, handle: str = "") -> str:
    """Return the name of a credential: its file's name without '.use'; raises CredentialError."""
    name = f"{service}_{handle}" if handle else service
    if not _NAME.fullmatch(name):
        raise CredentialError(
            f"'{name[:60]}' is not the name of a credential; allowed: letters, digits, _ . -, at most 128"
        )
    return name


@dataclass(frozen=True, slots=True)
class Renewal:
    """The request for a new token (RFC 6749, section 6): the issuer's address, and its parameters."""

    token_url: str
    refresh_token: str
    client_id: str
    client_secret: str = ""
    scope: str = ""
    resource: str = ""

    def __repr__(self) -> str:
        return f"<renewal by {self.token_url}>"

    def check(self) -> None:
        """Raise CredentialError if no issuer could be asked with these values."""
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, str) or len(value) > _MOST_CHARACTERS:
                raise CredentialError(f"{name} is refused; allowed: at most {_MOST_CHARACTERS} characters")
        try:
            parts = urlsplit(self.token_url)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
            raise CredentialError(f"token URL '{self.token_url[:200]}' is refused; allowed: https://...")
        if not parts.hostname or not self.refresh_token or not self.client_id:
            raise CredentialError("a renewal needs a token URL, a refresh token and a client id")


@dataclass(frozen=True, slots=True)
class Secret:
    """A credential. Owner and name are in it, so that no job gets content that was moved to another row."""

    owner: str
    name: str
    #: content of the job's file; empty until the first renewal
    content: bytes
    renewal: Renewal | None = None

    def __repr__(self) -> str:
        return f"<credential {self.name} of {self.owner}>"

    def encode(self) -> bytes:
        """Return the bytes to be sealed; raises CredentialError."""
        if len(self.content) > MOST_BYTES:
            raise CredentialError(
                f"credential '{self.name}' has {len(self.content)} bytes; allowed: {MOST_BYTES}"
            )
        if not self.content and self.renewal is None:
            raise CredentialError(f"credential '{self.name}' is empty")
        document: dict[str, object] = {
            "owner": self.owner,
            "name": self.name,
            "content": base64.b64encode(self.content).decode(),
        }
        if self.renewal is not None:
            self.renewal.check()
            document["renewal"] = {name: getattr(self.renewal, name) for name in Renewal.__slots__}
        return json.dumps(document).encode()


def decode(data: bytes, owner: str, name: str) -> Secret:
    """Read bytes of ``encode`` for this owner and name; raises CredentialError.

    The submitter sealed them, so they may be anything.
    """
    try:
        document = json.loads(data)
        content = base64.b64decode(document["content"], validate=True)
        renewal = Renewal(**document["renewal"]) if "renewal" in document else None
        found = document["owner"], document["name"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CredentialError(f"credential '{name}' cannot be read; add it again") from None
    if found != (owner, name):
        raise CredentialError(
            f"credential '{name}' of {owner} was sealed for another owner or name; add it again"
        )
    if len(content) > MOST_BYTES:
        raise CredentialError(f"credential '{name}' is longer than {MOST_BYTES} bytes; add it again")
    if renewal is not None:
        renewal.check()
    return Secret(owner, name, content, renewal)


def expiry(content: bytes, now: datetime) -> datetime | None:
    """Return the expiry that a token's content has; None if it has none that can be read.

    It is the claim "exp" of a JSON web token (RFC 7519), or a JSON object's "expires_at" or "expires_in" (RFC
    6749), or the expiry of the token in its "access_token". Some issuers write numbers as strings.
    """
    text = content.strip()
    document = _object(text)
    if document is None:
        parts = text.split(b".")
        claims = _object(_decoded(parts[1])) if len(parts) == 3 else None
        return _moment(claims.get("exp")) if claims else None
    if (moment := _moment(document.get("expires_at"))) is not None:
        return moment
    if (moment := _moment(document.get("expires_in"), now.timestamp())) is not None:
        return moment
    token = document.get("access_token")
    return expiry(token.encode(), now) if isinstance(token, str) and not token.startswith("{") else None


def _object(text: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _decoded(part: bytes) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except ValueError:
        return b""


def _moment(seconds: object, since: float = 0.0) -> datetime | None:
    if isinstance(seconds, str) and _NUMBER.fullmatch(seconds):
        seconds = float(seconds)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    try:
        # a JSON number may be larger than any float
        return datetime.fromtimestamp(since + seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
