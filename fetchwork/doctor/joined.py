"""A host that joined by an invitation: is its identity good, and does the database let it fetch?

Its role reads no view, so all comes from one function about its own host.
"""

from collections.abc import Iterator

from fetchwork.config import HostConfig
from fetchwork.db.calls.hosts import OwnHost, own_host_state
from fetchwork.db.database import Database
from fetchwork.doctor.line import Line, failed, ok, warned
from fetchwork.errors import DatabaseRefused


def is_joined(database: Database) -> bool:
    """Whether the role of this session is that of one host."""
    (row,) = database.query(
        "SELECT coalesce(bool_or(rolname = 'fetchwork_host'), false)"
        " AND NOT coalesce(bool_or(rolname = 'fetchwork_agent'), false) AS joined"
        " FROM pg_roles"
        " WHERE rolname IN ('fetchwork_host', 'fetchwork_agent') AND pg_has_role(oid, 'USAGE')"
    )
    return bool(row["joined"])


def own_state(database: Database) -> OwnHost | DatabaseRefused:
    """The state of the session's host, or the reason why the database refuses it."""
    try:
        return database.run(own_host_state())
    except DatabaseRefused as error:
        return error


def check_identity(config: HostConfig, name: str, own: OwnHost | DatabaseRefused) -> Line:
    """Does the identity count, and is it this host's?"""
    if isinstance(own, DatabaseRefused):
        return failed("role", f"{name}: {own}", "fetchwork host admit HOST, by the database's administrator")
    if own.copied:
        return failed(
            "role",
            f"{name}: two hosts have the identity of '{own.host}', so neither gets jobs",
            "find the copy, remove its identity, then fetchwork host admit, by the database's administrator",
        )
    if own.host != config.name:
        return failed(
            "role",
            f"{name}: the identity is that of '{own.host}', and this host is '{config.name}'",
            f'host.name = "{own.host}", or join again by an invitation',
        )
    return ok(
        "role", f"{name}: joined as '{own.host}', until {own.valid_until:%Y-%m-%d %H:%M} if not renewed"
    )


def check_queues(name: str, wanted: set[str], own: OwnHost) -> Iterator[Line]:
    """Was the host invited for the queues that its host file names, and are they there?"""
    for queue in sorted(wanted - set(own.queues)):
        yield warned(
            "queues",
            f"{name}: the host file names queue '{queue}', which is not there, or for which this host was not"
            " invited",
            "correct the host file, or join again by an invitation for it",
        )


def policies_rest(name: str) -> Line:
    """Say that no process evaluates the policies of idle jobs."""
    return warned(
        "policies",
        f"{name}: policies of idle jobs (periodic_remove, ...) rest: no access point and no trusted host"
        " evaluates them",
        "run fetchwork access-point on a submit host, or invite a host with --trusted",
    )


def check_offers(name: str, own: OwnHost) -> Iterator[Line]:
    """Does the database offer jobs to this host?"""
    if own.claims_wait:
        yield warned(
            "database",
            f"{name}: moved to another server or was restored; offers wait",
            "wait for the leases of the hosts, or fetchwork db resume if no transaction was lost",
        )
    if own.policies_rest:
        yield policies_rest(name)
    if own.black_hole is not None:
        yield warned(
            "fetches",
            f"{name}: jobs fail here one after the other, so few are offered: {own.black_hole}",
            "repair the cause; a job is offered now and then, and the host recovers by itself",
        )
