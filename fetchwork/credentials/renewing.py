"""Asking the issuer of a token for a new one: one bounded request (RFC 6749, section 6).

The submitter chooses the address. That gives submitters no more than their jobs have: these run on the same
host, and can send anything to the same addresses. The request follows no redirection, and its answer and time
are bounded, except the time of the name service; a caller with requests for several people needs a thread
for each.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlencode, urlsplit

from fetchwork.credentials.secret import MOST_BYTES, Renewal, Secret, expiry
from fetchwork.errors import CredentialError, one_line

#: seconds for each step of a request: connecting, each read
STEP_S = 5.0
#: seconds for the whole request, once the issuer's addresses are known
TIME_S = 8.0
_MOST_ANSWER = 4 * MOST_BYTES


def renewed(secret: Secret, now: datetime) -> tuple[Secret, datetime | None]:
    """Return a credential with a new token, and the token's expiry; raises CredentialError.

    As from HTCondor's credential monitor, the file has the issuer's whole answer, a JSON object with the
    member "access_token", without the refresh token, which no job gets.
    """
    renewal = secret.renewal
    if renewal is None:
        raise CredentialError(f"credential '{secret.name}' can't be renewed")
    renewal.check()
    answer = _ask(renewal, secret.name)
    token = answer.get("access_token")
    if not isinstance(token, str) or not token:
        raise CredentialError(f"the issuer of credential '{secret.name}' answered without an access_token")
    following = answer.pop("refresh_token", None)
    if isinstance(following, str) and following:
        renewal = replace(renewal, refresh_token=following)
    content = json.dumps(answer).encode() + b"\n"
    fresh = Secret(secret.owner, secret.name, content, renewal)
    # raises an error now if the answer is too long to be stored
    fresh.encode()
    return fresh, expiry(content, now)


def _ask(renewal: Renewal, name: str) -> dict[str, object]:
    wanted = {
        "grant_type": "refresh_token",
        "refresh_token": renewal.refresh_token,
        "client_id": renewal.client_id,
        **({"scope": renewal.scope} if renewal.scope else {}),
        **({"resource": renewal.resource} if renewal.resource else {}),
    }
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if renewal.client_secret:
        # section 2.3.1: both are first encoded as values of a form
        pair = urlencode({renewal.client_id: renewal.client_secret}).replace("=", ":", 1)
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    url = urlsplit(renewal.token_url)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    failed = f"the issuer of credential '{name}' at {one_line(str(url.hostname), 100)}"
    began = time.monotonic()
    try:
        secure = url.scheme == "https"
        protocol = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = protocol(str(url.hostname), url.port)
        opened, end = _connected(connection.host, connection.port)
        if secure:
            # no handshake yet: the timer must be able to end it, too
            context = ssl.create_default_context()
            opened = context.wrap_socket(
                opened, server_hostname=connection.host, do_handshake_on_connect=False
            )
        connection.sock = opened
        timer = threading.Timer(max(0.0, end - time.monotonic()), _end, (opened,))
        timer.daemon = True
        timer.start()
        try:
            if isinstance(opened, ssl.SSLSocket):
                opened.do_handshake()
            connection.request("POST", path, urlencode(wanted), headers)
            with connection.getresponse() as answer:
                data = answer.read(_MOST_ANSWER + 1)
        finally:
            timer.cancel()
            connection.close()
            opened.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        # after the timer the connection looks as if the issuer had closed it
        late = time.monotonic() >= began + TIME_S
        cause = " in time" if late else f": {one_line(str(error), 200)}"
        raise CredentialError(f"{failed} did not answer{cause}") from None
    try:
        document = json.loads(data) if len(data) <= _MOST_ANSWER else None
    except (ValueError, RecursionError):
        document = None
    if answer.status != 200:
        said = document.get("error") if isinstance(document, dict) else None
        cause = f": {one_line(said, 60)}" if isinstance(said, str) else ""
        raise CredentialError(f"{failed} answered {answer.status}{cause}")
    if not isinstance(document, dict):
        raise CredentialError(f"{failed} did not answer with a JSON object of at most {_MOST_ANSWER} bytes")
    return document


def _connected(host: str, port: int) -> tuple[socket.socket, float]:
    """Return a connection to the first address that answers, and the monotonic end of the request's time."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    end = time.monotonic() + TIME_S
    problem: OSError = TimeoutError("timed out")
    for *how, _, address in addresses:
        left_s = min(STEP_S, end - time.monotonic())
        if left_s <= 0:
            break
        opened = socket.socket(*how)
        try:
            opened.settimeout(left_s)
            opened.connect(address)
        except OSError as error:
            opened.close()
            problem = error
            continue
        except BaseException:
            opened.close()
            raise
        opened.settimeout(STEP_S)
        return opened, end
    raise problem


def _end(opened: socket.socket) -> None:
    """End a connection that another thread waits for."""
    with suppress(OSError):
        # not TLS's own shutdown, which changes objects that the other thread uses
        socket.socket.shutdown(opened, socket.SHUT_RDWR)
