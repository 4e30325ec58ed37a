"""libpq connection strings, with the checks that a host file needs, without a database driver."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote

# A value is bare or in single quotes; a backslash takes the next character as it is.
_PAIR = re.compile(r"\s*(?P<key>[A-Za-z_]+)\s*=\s*(?P<value>'(?:[^'\\]|\\.)*'|(?:[^'\s\\]|\\.)*)(?=\s|$)")

# Settings of libpq that a host file may use; a misspelt one would only be found when the agent connects.
SETTINGS = frozenset(
    {
        "application_name",
        "channel_binding",
        "client_encoding",
        "connect_timeout",
        "dbname",
        "fallback_application_name",
        "gssencmode",
        "host",
        "hostaddr",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "krbsrvname",
        "load_balance_hosts",
        "options",
        "passfile",
        "password",
        "port",
        "require_auth",
        "service",
        "sslcert",
        "sslcertmode",
        "sslcrl",
        "sslcrldir",
        "sslkey",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslmode",
        "sslnegotiation",
        "sslpassword",
        "sslrootcert",
        "sslsni",
        "target_session_attrs",
        "tcp_user_timeout",
        "user",
    }
)


def parse(text: str) -> dict[str, str]:
    """Return the settings of a connection string or URI; raises ValueError with the problem."""
    if re.match(r"[A-Za-z]+://", text):
        settings = _parse_uri(text)
    else:
        settings = {}
        position = 0
        while text[position:].strip():
            match = _PAIR.match(text, position)
            if match is None:
                raise ValueError("has a part that is not a key = value pair with balanced quotes")
            value = match["value"]
            bare = value[1:-1] if value.startswith("'") else value
            settings[match["key"].lower()] = re.sub(r"\\(.)", r"\1", bare)
            position = match.end()
    if unknown := sorted(set(settings) - SETTINGS):
        raise ValueError(f"has the setting {unknown[0]!r}, which libpq does not know")
    return settings


def text_of(settings: Mapping[str, str]) -> str:
    """Return the connection string of these settings."""
    return " ".join(f"{key}={_quoted(value)}" for key, value in settings.items())


def _quoted(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_.:/,@+-]+", value):
        return value
    return "'" + re.sub(r"(['\\\\])", r"\\\1", value) + "'"


def problem(text: str) -> str | None:
    """Return the problem of a connection string, or None; without the string, which may hold a password."""
    try:
        settings = parse(text)
    except ValueError as error:
        return str(error)
    return None if settings else "is empty"


def _parse_uri(text: str) -> dict[str, str]:
    scheme, _, rest = text.partition("://")
    if scheme not in ("postgresql", "postgres"):
        raise ValueError(f"is a URI of {scheme!r}, not of PostgreSQL")
    rest, _, query = rest.partition("?")
    authority, _, dbname = rest.partition("/")
    account, _, hosts = authority.rpartition("@")
    user, _, password = account.partition(":")
    # libpq takes several hosts, each with its port: a primary and its standbys
    ports = [port for port in re.findall(r":([^:,\]]*)(?=,|$)", hosts) if port]
    if any(not port.isdecimal() or int(port) > 65535 for port in ports):
        raise ValueError("has a port that is not a number from 0 to 65535")
    settings = dict(parse_qsl(query, keep_blank_values=True))
    values = {"user": user, "password": password, "host": hosts, "port": ",".join(ports), "dbname": dbname}
    settings.update({key: unquote(value) for key, value in values.items() if value})
    return settings
