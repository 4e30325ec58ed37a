"""The person who sends a request: named by a reverse proxy's header, or known by the service's token.

A proxy that has signed people in names them in a header. Every account of a machine can send such a header
from the machine's own address, so a proxy is known by a Unix socket that it alone may connect to, by a secret
that it sends along, or by its address. Without a proxy there is one token, which a browser gets in the link
that the service prints, and keeps as a cookie. It gives the rights of the service's database role.

A form counts only with a key that other sites' pages cannot know (CSRF), made from the service's secret and
the person's name.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, TypeAlias

from starlette.requests import HTTPConnection, Request

from fetchwork.page.acting import Person
from fetchwork.page.persontokens import is_person_token
from fetchwork.page.problem import Problem

COOKIE: Final = "fetchwork_token"
#: the header in which a proxy sends the secret that it shares with this service
SECRET_HEADER: Final = "x-fetchwork-proxy-secret"  # noqa: S105 - a header's name
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class SignIn:
    """The ways to identify people. ``header``: None if the token is used.

    ``trusted``: addresses of proxies; None if the rights of a Unix socket decide. ``proxy_secret``: if it
    is set, proxies have to send it. ``admins`` have all rights of the service's role, other people those of
    the account of their name.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    may_write: bool = False
    header: str | None = None
    trusted: Sequence[Network] | None = ()
    proxy_secret: str | None = None
    admins: frozenset[str] = frozenset()
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def person(self, connection: HTTPConnection) -> Person:
        """The person who asks; raises Problem 401 if the person is not known."""
        if self.header is not None:
            return self._by_header(connection)
        given = self._given_token(connection)
        if given is None or not self.is_token(given):
            raise Problem(
                401, "not signed in", "open the link that 'fetchwork serve' printed, which has the token"
            )
        return Person("token", None, self.may_write)

    def is_token(self, given: str) -> bool:
        """Whether a text is this service's token."""
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _by_header(self, connection: HTTPConnection) -> Person:
        assert self.header is not None
        if self.trusted is not None:
            address = connection.client.host if connection.client else ""
            try:
                trusted = any(address_of(address) in network for network in self.trusted)
            except ValueError:
                trusted = False
            if not trusted:
                raise Problem(401, "not signed in", f"address '{address}' is not that of a trusted proxy")
        if self.proxy_secret is not None:
            given = connection.headers.get(SECRET_HEADER, "")
            if not hmac.compare_digest(given.encode(), self.proxy_secret.encode()):
                raise Problem(401, "not signed in", f"the proxy did not send its secret in '{SECRET_HEADER}'")
        names = connection.headers.getlist(self.header)
        if len(names) != 1 or not _ACCOUNT.fullmatch(names[0]):
            raise Problem(401, "not signed in", f"the proxy named no account in '{self.header}'")
        name = names[0]
        return Person(name, None if name in self.admins else name, self.may_write)

    def person_token(self, connection: HTTPConnection) -> str | None:
        """The token of a person's own that the request has; behind a proxy only in a header."""
        given = None
        if self.header is None or self.by_bearer(connection):
            given = self._given_token(connection)
        if given is None or not is_person_token(given) or self.is_token(given):
            return None
        return given

    def _given_token(self, connection: HTTPConnection) -> str | None:
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        return connection.cookies.get(COOKIE)

    def form_key(self, person: Person) -> str:
        """The key that this person's forms must send."""
        return hmac.new(self._secret, person.name.encode(), sha256).hexdigest()

    def check_form(self, request: Request, person: Person, key: str | None) -> None:
        """Raise Problem 403 for a form that another site's page has sent."""
        if key is None or not hmac.compare_digest(key.encode(), self.form_key(person).encode()):
            raise Problem(403, "not allowed", "the form is not of this service, or older than its last start")
        check_origin(request)

    def by_bearer(self, connection: HTTPConnection) -> bool:
        """Whether the request sends its token in a header, as no other site's page can."""
        return connection.headers.get("authorization", "").lower().startswith("bearer ")


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address; the IPv4 one if an IPv6 socket took a connection from IPv4. Raises ValueError."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def check_origin(request: Request) -> None:
    """Raise Problem 403 if the browser says that another site's page asks."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Problem(403, "not allowed", "the request comes from another site's page")
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise Problem(403, "not allowed", "the request comes from another site's page")
