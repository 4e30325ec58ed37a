"""Hosts that join by one invitation, and the cost of a role for each.

    make bench-join
    make bench-join ARGS='--hosts 100 --roles 1000'
    make bench-join ARGS='--at-once 1000'

A simulated host logs in by the invitation, joins, logs in as itself and says hello, as 'fetchwork host join'
and its agent do. Then a host is revoked, and its session asks until it is refused. Claims of a joined host
and of the role that hosts share alternate on one server; connections alternate between it and a server with
more roles. With --at-once so many hosts keep a session each and call in turn, directly and through PgBouncer.
"""

import contextlib
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg.conninfo import make_conninfo

from fetchwork.config.identity import new_password, verifier_of
from fetchwork.pool.postgres import PostgresServer
from tests.benchmarks import frame
from tests.support.many_jobs import unlimited
from tests.support.pgbouncer import PgBouncer

#: sessions that join at once
CLIENTS = 8
JOIN = "SELECT role FROM fetchwork.join_host(%s, %s)"
HELLO = "SELECT host_id FROM fetchwork.hello(%s, '1', %s)"
STATE = "SELECT host FROM fetchwork.own_host_state()"
CLAIM = """
SELECT run_id FROM fetchwork.claim_many(
    host_id => %s, autoclusters => ARRAY[1], prios => ARRAY[0], hints => ARRAY[0],
    slots => jsonb_build_array(
        jsonb_build_object('slot', %s::text, 'exclusive', true, 'choices', ARRAY[1], 'weights', 1)
    )
)
"""
MORE_ROLES = """
DO $$
BEGIN
    FOR n IN 1..{} LOOP
        EXECUTE format('CREATE ROLE fetchwork_host_0_%s LOGIN IN ROLE fetchwork_host', n);
    END LOOP;
END
$$
"""
Session = psycopg.Connection[tuple[object, ...]]


def login(server: PostgresServer, role: str, password: str) -> Session:
    return psycopg.connect(server.conninfo("bench", user=role, password=password), autocommit=True)


def join_all(server: PostgresServer, admin: Session, hosts: int) -> tuple[float, dict[str, tuple[str, str]]]:
    """Hosts that joined in a minute at this rate, and the role and password of each."""
    password = new_password()
    invite = "SELECT role FROM fetchwork.invite_host(%s, uses => %s)"
    role = str(frame.value(admin, invite, [verifier_of(password), hosts]))

    def come(name: str) -> tuple[str, tuple[str, str]]:
        own = new_password()
        with login(server, role, password) as session:
            its_role = str(frame.value(session, JOIN, [name, verifier_of(own)]))
        with login(server, its_role, own) as session:
            session.execute(HELLO, [name, uuid4()])
        return name, (its_role, own)

    begin = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as threads:
        joined = dict(threads.map(come, [f"ep{n}" for n in range(hosts)]))
    return hosts / (time.monotonic() - begin) * 60, joined


def revoked_after(server: PostgresServer, admin: Session, name: str, identity: tuple[str, str]) -> float:
    """Seconds from the call until the host's session is refused."""
    host_id = frame.value(admin, "SELECT host_id FROM fetchwork.host WHERE name = %s", [name])
    session = login(server, *identity)
    session.execute("SELECT fetchwork.host_runs(%s)", [host_id])
    begin = time.monotonic()
    admin.execute("SELECT fetchwork.revoke_host(%s)", [name])
    try:
        while True:
            session.execute("SELECT fetchwork.host_runs(%s)", [host_id])
    except psycopg.Error:
        return time.monotonic() - begin


def in_turn(rounds: int, sides: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """The figures of some sides, measured alternately."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for n in range(rounds):
        for name in sorted(sides, reverse=bool(n % 2)):
            found[name].append(sides[name]())
    return found


def claims(server: PostgresServer, admin: Session, identity: tuple[str, str], rounds: int) -> float:
    """Claims a second of the joined host ep1 over those of the shared role: the median of the rounds."""
    each = 100
    ad = json.dumps({"Cmd": "/bin/true", "Owner": "nobody"})
    submit = "SELECT fetchwork.submit_cluster(%s, array_fill('{}'::jsonb, ARRAY[%s]))"
    admin.execute(submit, [ad, 2 * each * rounds + each])
    admin.execute("SELECT fetchwork.fold()")
    admin.execute("CREATE ROLE bench_shared LOGIN PASSWORD 'shared' IN ROLE fetchwork_agent")

    def side(session: Session, name: str) -> Callable[[], float]:
        host_id = frame.value(admin, "SELECT host_id FROM fetchwork.host WHERE name = %s", [name])

        def measure() -> float:
            begin = time.monotonic()
            for _ in range(each):
                assert session.execute(CLAIM, [host_id, f"slot{uuid4()}"]).fetchone()
            return each / (time.monotonic() - begin)

        return measure

    shared = login(server, "bench_shared", "shared")
    shared.execute(HELLO, ["shared", uuid4()])
    sides = {"joined": side(login(server, *identity), "ep1"), "shared": side(shared, "shared")}
    found = in_turn(rounds, sides)
    for name, rates in found.items():
        print(f"  claims/s, {name}: {frame.spread(rates)}")
    return statistics.median(a / b for a, b in zip(found["joined"], found["shared"], strict=True))


def connect_ms(server: PostgresServer, role: str, password: str) -> float:
    """The median time of some connections with one call."""
    times = []
    for _ in range(20):
        begin = time.monotonic()
        with login(server, role, password) as session:
            session.execute("SELECT 1")
        times.append(1000 * (time.monotonic() - begin))
    return statistics.median(times)


def connections(few: PostgresServer, roles: int, rounds: int) -> float:
    """The time of a connection to a server with so many roles over that to one with few."""
    with frame.server() as (many, _):
        for server in (few, many):
            if server is many:
                frame.new_database(server)
                server.query(MORE_ROLES.format(roles))
            server.query("CREATE ROLE bench_one LOGIN PASSWORD 'one' IN ROLE fetchwork_host")
        found = in_turn(
            rounds,
            {
                "few": lambda: connect_ms(few, "bench_one", "one"),
                "many": lambda: connect_ms(many, "bench_one", "one"),
            },
        )
    for name, times in found.items():
        print(
            f"  connect ms, {name} roles: {statistics.median(times):.1f} ({min(times):.1f}-{max(times):.1f})"
        )
    return statistics.median(found["many"]) / statistics.median(found["few"])


def memory_mib(server: PostgresServer) -> float:
    """The memory of all processes of a server, shared parts counted once."""
    postmaster = server.postmaster
    assert postmaster is not None
    total = 0.0
    for process in [postmaster, *postmaster.children()]:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += int(text.partition("\nPss:")[2].split()[0]) / 1024
    return total


def at_once(server: PostgresServer, port: int, identities: list[tuple[str, str]], rounds: int) -> float:
    """Sessions of all these hosts, which each call in turn; calls a second."""
    with contextlib.ExitStack() as stack:

        def open_one(identity: tuple[str, str]) -> Session:
            role, password = identity
            conninfo = make_conninfo(server.conninfo("bench", user=role, password=password), port=port)
            # PgBouncer of before 1.21 keeps no prepared statements
            return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)

        begin = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as threads:
            sessions = [stack.enter_context(session) for session in threads.map(open_one, identities)]
            opened = time.monotonic() - begin
            rates = []
            for _ in range(rounds):
                begin = time.monotonic()
                list(threads.map(lambda session: session.execute(STATE).fetchall(), sessions))
                rates.append(len(sessions) / (time.monotonic() - begin))
        count = server.query("SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'fetchwork_host%'")
        print(
            f"    opened in {opened:.1f} s; {frame.spread(rates)} calls/s; connections of the server:"
            f" {count.strip()}, its memory {memory_mib(server):.0f} MiB"
        )
    return statistics.median(rates)


def all_at_once(hosts: int, rounds: int) -> None:
    """``hosts`` at once on one server, directly and through PgBouncer with 50 connections."""
    settings = {"max_connections": str(hosts + 50)}
    with frame.server(settings) as (server, directory):
        frame.new_database(server)
        print(f"  server without sessions: {memory_mib(server):.0f} MiB")
        with psycopg.connect(server.conninfo("bench"), autocommit=True) as admin:
            _, joined = join_all(server, admin, hosts)
        identities = list(joined.values())
        print("  directly:")
        direct = at_once(server, server.port, identities, rounds)
        limits = f"max_db_connections = 50\nmax_client_conn = {2 * hosts}\nserver_idle_timeout = 30\n"
        bouncer = PgBouncer(directory, server, 1, own_roles=True, settings=limits)
        bouncer.start()
        try:
            print("  through PgBouncer:")
            through = at_once(server, bouncer.port, identities, rounds)
        finally:
            bouncer.stop()
    print(f"calls of {hosts} hosts through PgBouncer over directly: {through / direct:.2f}")


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--roles", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--at-once", type=int, default=0)
    options = parser.parse_args()
    if options.at_once:
        all_at_once(options.at_once, 3)
        return
    with frame.server() as (few, _):
        frame.new_database(few)
        ratio = connections(few, options.roles, options.rounds)
        conninfo = few.conninfo("bench")
        unlimited(conninfo)
        with psycopg.connect(conninfo, autocommit=True) as admin:
            rate, joined = join_all(few, admin, options.hosts)
            print(f"connect ms with {options.roles} roles over 10: {ratio:.2f}")
            print(f"revoked after s: {revoked_after(few, admin, 'ep0', joined['ep0']):.2f}")
            print(f"claims over shared role: {claims(few, admin, joined['ep1'], options.rounds):.2f}")
    print(f"hosts joined in 60 s: {rate:.0f}")


if __name__ == "__main__":
    main()
