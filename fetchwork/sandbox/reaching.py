"""Whether the server of a URL takes connections at all.

HTCondor's ``curl_plugin`` tries a refused one twenty times, with pauses that grow by a second (its
``DownloadFile``): for more than three minutes a slot stands still, and a job is held in the end. Here it is
asked of a server first, for ``PATIENCE_S``. Anything but a refusal is left to the plugin, which knows more.
"""

import os
import socket
import time
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

#: the plugin that is meant
PLUGIN = "curl_plugin"
#: seconds that servers may refuse connections, all of those that a plugin is to ask together
PATIENCE_S = 30.0
_AGAIN_S = 1.0
_CONNECT_S = 5.0
_PORTS = {"http": 80, "https": 443, "dav": 80, "davs": 443, "ftp": 21}
#: with one of them it is not the server that curl connects to
_PROXIES = frozenset(("http_proxy", "https_proxy", "ftp_proxy", "all_proxy"))


def refusals(urls: Iterable[str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The URLs whose servers refuse connections, and what curl says of it."""
    if not _PROXIES.isdisjoint(map(str.lower, os.environ if environ is None else environ)):
        return {}
    end = time.monotonic() + PATIENCE_S
    known: dict[tuple[str, int], str] = {}
    found: dict[str, str] = {}
    for url in urls:
        server = _server_of(url)
        if server is None:
            continue
        if server not in known:
            known[server] = _refusal(server, end)
        if known[server]:
            found[url] = known[server]
    return found


def _server_of(url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme.lower())
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname and port and parts.scheme.lower() in _PORTS else None


def _refusal(server: tuple[str, int], end: float) -> str:
    while True:
        try:
            with socket.create_connection(server, timeout=_CONNECT_S):
                return ""
        except ConnectionRefusedError as error:
            if time.monotonic() + _AGAIN_S > end:
                return f"Failed to connect to {server[0]} port {server[1]}: {error.strerror}"
        except (OSError, UnicodeError):
            return ""
        time.sleep(_AGAIN_S)
