"""Whether the server of a URL takes connections at all.

HTCondor's ``curl_plugin`` tries a refused connection twenty times, with pauses that grow by a second (its
``DownloadFile``): a slot stands still for more than three minutes, and then the job is held. So the hook
connects first, for ``PATIENCE_S``. Any problem but a refusal is left to the plugin, which knows more.
"""

import os
import socket
import time
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

#: the plugin whose servers are tried
PLUGIN = "curl_plugin"
#: seconds that servers may refuse connections, for all servers of a plugin's run together
PATIENCE_S = 30.0
_AGAIN_S = 1.0
_CONNECT_S = 5.0
_PORTS = {"http": 80, "https": 443, "dav": 80, "davs": 443, "ftp": 21}
#: if one of them is set, curl connects to the proxy and not to the server
_PROXIES = frozenset(("http_proxy", "https_proxy", "ftp_proxy", "all_proxy"))


def refusals(urls: Iterable[str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The URLs whose servers refuse connections, with curl's message."""
    if not _PROXIES.isdisjoint(map(str.lower, os.environ if environ is None else environ)):
        return {}
    end = time.monotonic() + PATIENCE_S
    known: dict[tuple[str, int], str] = {}
    refused: dict[str, str] = {}
    for url in urls:
        server = _server_of(url)
        if server is None:
            continue
        if server not in known:
            known[server] = _refusal(server, end)
        if known[server]:
            refused[url] = known[server]
    return refused


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
