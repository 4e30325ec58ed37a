"""A joined host's identity: the file with its password, and the text of an invitation.

The file is a password file of libpq (``passfile`` of a connection string), so each new connection reads the
present password. Its first line, a comment to libpq, has the password's number and its times. A new password
is written beside it before the database is asked to take it: after a crash one of
the two is right.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from fetchwork.config import conninfo as conninfo_text
from fetchwork.errors import ConfigError

_HEADER = re.compile(r"# fetchwork identity (\d+), from (\d+) to (\d+)")
_LINE = re.compile(r"^\*:\*:\*:([^:]+):([A-Za-z0-9_-]+)$", re.M)
#: RFC 5802's iteration count, PostgreSQL's default
_ITERATIONS = 4096
_PREFIX = "fetchwork-invitation:"


#: settings of a connection string that an invitation passes on
_PASSED_ON = ("host", "hostaddr", "port", "dbname", "sslmode", "channel_binding", "target_session_attrs")


def server_for_hosts(settings: Mapping[str, str], address: str | None, *, verified: bool) -> dict[str, str]:
    """The settings of libpq by which hosts reach the server of a connection, or at this address.

    Raises ConfigError for a server without an address.
    """
    server = {key: value for key, value in settings.items() if key in _PASSED_ON}
    if address is not None:
        server = {**server, "host": address}
        server.pop("hostaddr", None)
    # a directory is that of a Unix socket, "@" begins an abstract one
    if "hostaddr" not in server and server.get("host", "/").startswith(("/", "@")):
        raise ConfigError(["hosts can't reach a database of this machine alone; allowed: a server's address"])
    if verified:
        server["sslmode"] = "verify-full"
    return server


def new_password() -> str:
    """A random password of 256 bits."""
    return secrets.token_urlsafe(32)


def verifier_of(password: str) -> str:
    """The SCRAM verifier of a random password (RFC 5802, 7677), as PostgreSQL keeps it.

    No one logs in with it. The same password has the same verifier, so that a call can be repeated: the salt
    is of use against lists of likely passwords, which random ones are not in.
    """
    salt = hashlib.sha256(f"fetchwork salt {password}".encode()).digest()[:16]
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    parts = [base64.b64encode(part).decode() for part in (salt, stored, server)]
    return f"SCRAM-SHA-256${_ITERATIONS}:{parts[0]}${parts[1]}:{parts[2]}"


@dataclass(frozen=True)
class IdentityFile:
    """The contents of an identity's file; times in seconds since the epoch."""

    role: str
    password: str
    generation: int
    began: int
    ends: int

    @property
    def due(self) -> float:
        """The time at which it is to be renewed: after two thirds of its life."""
        return self.began + (self.ends - self.began) * 2 / 3


def identity_path(conninfo: str) -> Path | None:
    """The password file of a connection string if it is that of a joined host; None for any other."""
    named = conninfo_text.parse(conninfo).get("passfile")
    if named is None or read_identity(Path(named)) is None:
        return None
    return Path(named)


def with_password(conninfo: str, password: str) -> str:
    """A connection string with this password in place of its password file."""
    settings = {key: value for key, value in conninfo_text.parse(conninfo).items() if key != "passfile"}
    return conninfo_text.text_of({**settings, "password": password})


def read_identity(path: Path) -> IdentityFile | None:
    """Read an identity's file; None if it is not there, can't be read, or is another password file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    header, line = _HEADER.match(text), _LINE.search(text)
    if header is None or line is None:
        return None
    return IdentityFile(line[1], line[2], int(header[1]), int(header[2]), int(header[3]))


def write_identity(path: Path, identity: IdentityFile) -> None:
    """Write an identity's file (``write_private``); raises OSError."""
    write_private(
        path,
        f"# fetchwork identity {identity.generation}, from {identity.began} to {identity.ends}\n"
        f"*:*:*:{identity.role}:{identity.password}\n",
    )


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner alone, all or nothing; raises OSError.

    The owner of its directory is the owner: root may write it for the agent.
    """
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        if os.geteuid() == 0:
            owner = path.parent.stat()
            os.fchown(fd, owner.st_uid, owner.st_gid)
        file.write(text)
        file.flush()
        os.fsync(fd)
    beside.rename(path)


def next_path(path: Path) -> Path:
    """The file of the next password, until the database has taken it."""
    return path.with_name(f"{path.name}.next")


def own_key_path(path: Path) -> Path:
    """The file beside an identity's with the host's own private key of credentials."""
    return path.with_suffix(".key")


@dataclass(frozen=True)
class InvitationText:
    """The contents of an invitation: the address of the database, how to verify it, and a secret."""

    #: settings of libpq, without the password
    server: dict[str, str]
    password: str
    queues: list[str]
    #: it is for access points
    access_point: bool
    #: certificates (PEM) of the authority that signed the server's, None without TLS or if the system has it
    ca: str | None

    def encode(self) -> str:
        """One line of letters and digits."""
        return _PREFIX + base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> InvitationText:
        """Read what ``encode`` wrote; raises ConfigError without the text, which is a secret."""
        text = text.strip()
        try:
            if not text.startswith(_PREFIX):
                raise ValueError
            coded = text.removeprefix(_PREFIX)
            fields = json.loads(base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)))
            decoded = cls(
                {str(key): str(value) for key, value in fields["server"].items()},
                str(fields["password"]),
                [str(queue) for queue in fields["queues"]],
                bool(fields["access_point"]),
                None if fields["ca"] is None else str(fields["ca"]),
            )
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ConfigError(["the invitation is incomplete: copy the whole line again"]) from None
        if unknown := sorted(decoded.server.keys() - conninfo_text.SETTINGS - {"password"}):
            raise ConfigError([f"the invitation has the setting '{unknown[0]}', which libpq does not know"])
        return decoded
