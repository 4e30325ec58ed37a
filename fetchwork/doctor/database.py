"""The databases of this host: do they answer, is the schema right, and the role, the clock, the owners?"""

import json
import pwd
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from fetchwork.classad.values import ClassAd, number, truth
from fetchwork.config import HostConfig
from fetchwork.config.conninfo import parse
from fetchwork.db import schema
from fetchwork.db.calls.reading import policies_rest
from fetchwork.db.database import Database
from fetchwork.db.server import quoted
from fetchwork.doctor import joined
from fetchwork.doctor.line import Line, failed, ok, warned
from fetchwork.errors import DatabaseRefused, DatabaseUnavailable
from fetchwork.queue import Queue

ROLE = "fetchwork_agent"
# leases are short and counted by the database; times shown beside each other come from both
_CLOCK_WARN_S = 5.0
_CLOCK_FAIL_S = 30.0
_SHOWN = 5
_SLOTS_SHOWN = 8
_SILENT_S = 300.0
#: from here on the database sends no notifications (sends_notifications)
_NOTIFICATIONS_FULL = 0.5
#: hosts of a connection string that are this machine: a socket's directory, the loopback
_LOCAL = re.compile(r"$|[/@]|localhost$|127(\.[0-9]+){3}$|::1$")


class _SlotFetch(NamedTuple):
    """A slot and the time since its last fetch, None if it never fetched."""

    name: str
    state: str
    ago_s: float | None


def check(config: HostConfig, clock: Callable[[], float] = time.time) -> Iterator[Line]:
    """Yield what keeps this host from working with each of its databases."""
    for name, settings in config.databases.items():
        with Database(settings.conninfo, application_name="fetchwork doctor", timeout_s=10.0) as database:
            yield from _check_one(config, name, database, clock)


def _check_one(
    config: HostConfig, name: str, database: Database, clock: Callable[[], float]
) -> Iterator[Line]:
    try:
        before = clock()
        row = database.query(
            "SELECT current_user AS role, current_setting('server_version') AS version,"
            " extract(epoch FROM clock_timestamp())::double precision AS now"
        )[0]
        after = clock()
    except DatabaseUnavailable as error:
        yield failed("database", f"{name}: {error}", _remedy(name, str(error)))
        return
    except DatabaseRefused as error:
        yield failed(
            "database", f"{name}: {error}", f"correct [database.{name}] conninfo, or the server's pg_hba.conf"
        )
        return
    yield ok("database", f"{name}: PostgreSQL {row['version'].split()[0]}, role {row['role']}")
    yield of_connection(name, config.databases[name].conninfo)
    version = list(_schema(name, database))
    yield from version
    yield _clock(name, row["now"] - (before + after) / 2, after - before)
    if any(line.verdict == "FAIL" for line in version):
        return
    if joined.is_joined(database):
        yield from _check_joined(config, name, database)
        return
    role = list(_role(name, row["role"], database))
    yield from role
    if any(line.verdict == "FAIL" for line in role):
        return
    yield from _missing_queues(config, name, database)
    taken = database.query("SELECT value FROM fetchwork.settings WHERE name = 'max_ad_bytes'")[0]["value"]
    yield from _largest_ad(config, name, taken)
    yield from _move(name, database)
    if database.run(policies_rest()):
        yield joined.policies_rest(name)
    yield from _notifications(name, database)
    yield from _owners(config, name, database)
    with Queue(config.databases[name].conninfo) as queue:
        yield from _fetches(config, name, queue, row["now"])


def _check_joined(config: HostConfig, name: str, database: Database) -> Iterator[Line]:
    """The same of a host with an identity of its own, which reads no view."""
    own = joined.own_state(database)
    identity = joined.check_identity(config, name, own)
    yield identity
    if isinstance(own, DatabaseRefused) or identity.verdict == "FAIL":
        return
    wanted = {queue for used in config.keywords_in_use() for queue in _queues(config, used, name)}
    yield from joined.check_queues(name, wanted, own)
    yield from _largest_ad(config, name, own.max_ad_bytes)
    yield from _accounts(config, name, dict.fromkeys(own.owners, ""))
    yield from joined.check_offers(name, own)
    slots = [_SlotFetch(str(one["name"]), str(one["state"]), number(one["ago_s"])) for one in own.slots]
    if slots:
        yield _last_fetches(config, name, slots)
    else:
        yield _no_slot(config, name, "")


def of_connection(name: str, conninfo: str) -> Line:
    """Is the connection private, and does the agent verify the server?"""
    settings = parse(conninfo)
    mode = settings.get("sslmode", "prefer")
    if mode in ("verify-ca", "verify-full"):
        return ok("server", f"{name}: encrypted, the server is verified (sslmode={mode})")
    hosts = (settings.get("hostaddr") or settings.get("host") or "").split(",")
    if "service" not in settings and all(_LOCAL.match(host) for host in hosts):
        return ok("server", f"{name}: stays on this machine, the server is not verified")
    return failed(
        "server",
        f"{name}: crosses a network, and the server is not verified (sslmode={mode}): others may read jobs"
        " and pose as the database",
        f"sslmode=verify-full and sslrootcert in [database.{name}] conninfo, or join by an invitation with"
        " the certificate (fetchwork host invite --ca)",
    )


def _remedy(name: str, problem: str) -> str:
    if "authentication failed" in problem or "no password supplied" in problem:
        return (
            f"correct the password or the role in [database.{name}] conninfo, then fetchwork config install"
        )
    return f"start it, or correct [database.{name}] conninfo"


def _schema(name: str, database: Database) -> Iterator[Line]:
    wanted = schema.latest()
    try:
        state = schema.status_of(database)
    except DatabaseRefused as error:
        yield failed("schema", f"{name}: {error}", f"grant this host's role membership in {ROLE}")
        return
    if not state.is_there:
        yield failed("schema", f"{name}: the database has no schema 'fetchwork'", "fetchwork db init")
        return
    version = max(state.installed, default=0)
    if state.before_release:
        yield failed(
            "schema",
            f"{name}: version {version} of a checkout from before the first release, which has no upgrade",
            "make a new database, and run fetchwork db init there",
        )
    elif version < wanted:
        yield failed(
            "schema",
            f"{name}: version {version}, this fetchwork speaks {wanted}",
            "fetchwork db upgrade, by its administrator",
        )
    elif version > wanted:
        yield failed(
            "schema",
            f"{name}: version {version}, this fetchwork speaks {wanted}",
            "upgrade fetchwork on this host",
        )
    else:
        yield ok("schema", f"{name}: version {version}")


def _move(name: str, database: Database) -> Iterator[Line]:
    """Do claims wait since the database moved to another server?"""
    rows = database.query(
        "SELECT machine, to_char(moved_at, 'HH24:MI:SS') AS moved_at FROM fetchwork.unsettled"
        " ORDER BY machine NULLS LAST"
    )
    if rows:
        machines = ", ".join(row["machine"] or "hosts that it does not know" for row in rows[:_SHOWN])
        more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        yield warned(
            "database",
            f"{name}: moved to another server or was restored, noticed at {rows[0]['moved_at']}; offers wait"
            f" for {machines}{more}",
            "wait for their leases, or fetchwork db resume if no transaction was lost",
        )


def _clock(name: str, off: float, round_trip: float) -> Line:
    size = abs(off)
    if size <= _CLOCK_WARN_S + round_trip:
        return ok("clock", f"{name}: {size:.1f} s from the database's")
    text = f"{name}: this host's clock is {size:.0f} s {'behind' if off > 0 else 'ahead of'} the database's"
    verdict = failed if size > _CLOCK_FAIL_S + round_trip else warned
    return verdict("clock", text, "synchronise the clocks of both (timedatectl, chronyc tracking)")


def _role(name: str, role: str, database: Database) -> Iterator[Line]:
    rights = database.query(
        "SELECT pg_has_role(%s, 'USAGE') AS member, has_schema_privilege('fetchwork', 'USAGE') AS schema,"
        " rolsuper AS super FROM pg_roles WHERE rolname = current_user",
        [ROLE],
    )[0]
    if not rights["member"] or not rights["schema"]:
        yield failed(
            "role", f"{name}: role '{role}' does not have the rights of an agent", f'GRANT {ROLE} TO "{role}"'
        )
    elif rights["super"]:
        yield warned("role", f"{name}: role '{role}' is a superuser", f"a role of its own with GRANT {ROLE}")
    else:
        yield ok("role", f"{name}: '{role}' is an agent")


def _missing_queues(config: HostConfig, name: str, database: Database) -> Iterator[Line]:
    """Does the database have every queue that the host file names?"""
    there = {row["name"] for row in database.query("SELECT name FROM fetchwork.queues")}
    for keyword in config.keywords:
        for queue in sorted(set(_queues(config, keyword, name)) - there):
            yield warned(
                "queues",
                f"{name}: keyword.{keyword}.queues names '{queue}', and the database has no such queue",
                f"fetchwork queues {queue} makes it, or correct the host file",
            )


def _largest_ad(config: HostConfig, name: str, taken: float) -> Iterator[Line]:
    """Does HTCondor read all that submit takes?"""
    read = config.host.pipe_buffer_max
    if taken > read:
        yield failed(
            "ad size",
            f"{name}: submit takes ads of up to {taken:.0f} bytes (setting max_ad_bytes), and this host reads"
            f" {read}",
            f"host.pipe_buffer_max = {taken:.0f}, then fetchwork config install and condor_restart;"
            f" or fetchwork db setting max_ad_bytes {read}",
        )


def _notifications(name: str, database: Database) -> Iterator[Line]:
    """Is there room for notifications, and may the database end the session that takes it?"""
    (row,) = database.query(
        "SELECT pg_notification_queue_usage() AS used, r.rolname AS owner,"
        " pg_has_role(r.oid, 'pg_signal_backend', 'USAGE')"
        " AND pg_has_role(r.oid, 'pg_read_all_stats', 'USAGE')"
        " AS may"
        " FROM pg_proc AS p JOIN pg_roles AS r ON r.oid = p.proowner"
        " WHERE p.pronamespace = 'fetchwork'::regnamespace AND p.proname = 'maintain_queue'"
    )
    if row["used"] >= _NOTIFICATIONS_FULL:
        yield warned(
            "notices",
            f"{name}: PostgreSQL's queue of notifications is {row['used']:.0%} full, so agents look for work"
            " every few seconds",
            "end the session that PostgreSQL's log names below 'NOTIFY queue', unless an agent has done so",
        )
    if not row["may"]:
        yield warned(
            "notices",
            f"{name}: role {row['owner']}, which owns the schema, can't end a session that fills PostgreSQL's"
            " queue of notifications",
            f"GRANT pg_signal_backend, pg_read_all_stats TO {quoted(row['owner'])}",
        )


def _owners(config: HostConfig, name: str, database: Database) -> Iterator[Line]:
    """Is the account of every owner who has jobs for this host known here?"""
    queues = sorted({queue for used in config.keywords_in_use() for queue in _queues(config, used, name)})
    rows = database.query(
        "SELECT owner, sum(jobs) AS jobs FROM fetchwork.totals"
        " WHERE fetchworkqueue = ANY (%s) AND jobs > 0 GROUP BY owner ORDER BY owner",
        [queues],
    )
    yield from _accounts(config, name, {row["owner"]: f" ({row['jobs']} jobs)" for row in rows})


def _accounts(config: HostConfig, name: str, owners: Mapping[str, str]) -> Iterator[Line]:
    """Have these owners accounts here? Each has a remark about its jobs."""
    if config.agent.user == "":
        yield ok("owners", f"{name}: not looked at: HTCondor runs as one account, and jobs with it")
        return
    unknown = [owner for owner in owners if not _has_account(owner)]
    for owner in unknown[:_SHOWN]:
        yield failed(
            "owners",
            f"{name}: owner '{owner}'{owners[owner]} has no account here: none can start",
            f"make the account, or keep '{owner}' to queues that this host does not draw from",
        )
    if len(unknown) > _SHOWN:
        yield failed("owners", f"{name}: and {len(unknown) - _SHOWN} more", "make their accounts")
    if not unknown:
        who = ", ".join(list(owners)[:_SHOWN]) or "no owner has jobs"
        yield ok("owners", f"{name}: {who}{' ...' if len(owners) > _SHOWN else ''}")


def _fetches(config: HostConfig, name: str, queue: Queue, now: float) -> Iterator[Line]:
    """When did each slot of this host ask for work last, as the database saw it at ``now``?"""
    mine = f"Machine == {json.dumps(config.name)}"
    # dynamic slots come and go: one that does not fetch any more need not exist
    slots = [
        _SlotFetch(str(ad["Name"]), str(ad.get("State")), now - last if last is not None else None)
        for ad in queue.slots(mine, ["Name", "State", "SlotType", "LastFetchWorkSpawned"])
        if ad.get("SlotType") != "Dynamic"
        for last in [number(ad.get("LastFetchWorkSpawned"))]
    ]
    for host in queue.hosts(mine, ["BlackHole", "BadReason"]):
        if truth(host.get("BlackHole")):
            yield warned(
                "fetches",
                f"{name}: jobs fail here one after the other, so few are offered: {host.get('BadReason')}",
                "repair the cause; a job is offered now and then, and the host recovers by itself",
            )
    if not slots:
        others = sorted(queue.hosts(None, ["Machine", "LastHeardFrom"]), key=_last_heard, reverse=True)
        names = [str(ad["Machine"]) for ad in others if ad["Machine"] != config.name]
        known = ", ".join(map(repr, names[:3])) or "no other host"
        yield _no_slot(config, name, f" (it knows: {known})")
        return
    yield _last_fetches(config, name, slots)


def _no_slot(config: HostConfig, name: str, remark: str) -> Line:
    return warned(
        "fetches",
        f"{name}: the database has seen no slot of '{config.name}' yet{remark}",
        "wait a FetchWorkDelay; if still none is there, see HTCondor's StartLog, and host.name",
    )


def _last_heard(ad: ClassAd) -> float:
    return number(ad.get("LastHeardFrom")) or 0.0


def _last_fetches(config: HostConfig, name: str, slots: list[_SlotFetch]) -> Line:
    idle = [slot for slot in slots if slot.state in ("Unclaimed", "Owner")]
    longest = max(keyword.fetch_delay_s + keyword.max_fetch_wait_s for keyword in config.keywords.values())
    silent = [slot for slot in idle if slot.ago_s is None or slot.ago_s > 3 * longest + _SILENT_S]
    if silent and config.workstation:
        return ok(
            "fetches",
            f"{name}: {len(silent)} of {len(slots)} slots are quiet, as they are while the machine is in use",
        )
    if silent:
        worst = silent[0]
        since = "never" if worst.ago_s is None else f"{_span(worst.ago_s)} ago"
        return warned(
            "fetches",
            f"{name}: {len(silent)} of {len(slots)} slots are quiet, {worst.name} fetched {since}",
            "is HTCondor running, and START true there? (condor_status -af Name State START)",
        )
    fetched = sorted((slot.ago_s, slot.name) for slot in slots if slot.ago_s is not None)
    shown = ", ".join(f"{slot.partition('@')[0]} {_span(ago_s)}" for ago_s, slot in fetched[:_SLOTS_SHOWN])
    rest = f" ... {_span(fetched[-1][0])}" if len(fetched) > _SLOTS_SHOWN else ""
    count = "1 slot fetches" if len(slots) == 1 else f"{len(slots)} slots fetch"
    return ok("fetches", f"{name}: {count}; time since the last fetch: {shown}{rest}")


def _queues(config: HostConfig, keyword: str, database: str) -> tuple[str, ...]:
    settings = config.keywords[keyword]
    return settings.queues if settings.database == database else ()


def _has_account(owner: str) -> bool:
    try:
        pwd.getpwnam(owner)
    except KeyError:
        return False
    return True


def _span(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
