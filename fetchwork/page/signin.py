"""Who sends a request: by a reverse proxy's header, or by the service's token.

A proxy that has signed people in names them in a header; only addresses that are trusted are believed.
Without a proxy there is one token, which a browser gets in the link that the service prints, and keeps as a
cookie. Whoever has it has the rights of the service's database role.

A form is believed only with a key that other sites' pages can't know (CSRF), made from the service's secret
and the person's name.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from starlette.requests import HTTPConnection, Request

from fetchwork.page.person import Person
from fetchwork.page.problem import Problem

COOKIE: Final = "fetchwork_token"
_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class SignIn:
    """How people are known. ``header`` is None where the token is the way.

    ``admins`` have all rights of the service's role; everybody else those of the account of that name.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    may_write: bool = False
    header: str | None = None
    trusted: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network] = ()
    admins: frozenset[str] = frozenset()
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def person(self, connection: HTTPConnection) -> Person:
        """Who asks; raises Problem 401 where that is not known."""
        if self.header is not None:
            return self._by_header(connection)
        given = self._given_token(connection)
        if given is None or not hmac.compare_digest(given.encode(), self.token.encode()):
            raise Problem(
                401, "not signed in", "open the link that 'fetchwork serve' printed, which has the token"
            )
        return Person("token", None, self.may_write)

    def _by_header(self, connection: HTTPConnection) -> Person:
        assert self.header is not None
        address = connection.client.host if connection.client else ""
        try:
            trusted = any(ipaddress.ip_address(address) in network for network in self.trusted)
        except ValueError:
            trusted = False
        if not trusted:
            raise Problem(401, "not signed in", f"address '{address}' is not that of a trusted proxy")
        names = connection.headers.getlist(self.header)
        if len(names) != 1 or not _ACCOUNT.fullmatch(names[0]):
            raise Problem(401, "not signed in", f"the proxy named no account in '{self.header}'")
        name = names[0]
        return Person(name, None if name in self.admins else name, self.may_write)

    def _given_token(self, connection: HTTPConnection) -> str | None:
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        return connection.cookies.get(COOKIE)

    def form_key(self, person: Person) -> str:
        """What a form of this person has to bring."""
        return hmac.new(self._secret, person.name.encode(), sha256).hexdigest()

    def check_form(self, request: Request, person: Person, key: str | None) -> None:
        """Raise Problem 403 for a form that another site's page has sent."""
        if key is None or not hmac.compare_digest(key.encode(), self.form_key(person).encode()):
            raise Problem(403, "not allowed", "the form is not of this service, or older than its last start")
        check_origin(request)

    def by_bearer(self, connection: HTTPConnection) -> bool:
        """Whether the request brings its token by itself, as no other site's page can."""
        return connection.headers.get("authorization", "").lower().startswith("bearer ")


def check_origin(request: Request) -> None:
    """Raise Problem 403 where the browser says that another site's page asks."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Problem(403, "not allowed", "the request comes from another site's page")
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise Problem(403, "not allowed", "the request comes from another site's page")
