"""``fetchwork simulate`` at the size of a pool: many agents with many slots, on a PostgreSQL of its own.

Every agent is a real one with its matchmaker, some 70 MB with its connections; startds and starters are
simulated in one process. So 200 agents of 64 slots need 15 GB, and a few minutes to start. All jobs wait from
the beginning, or --rate jobs a second are submitted, as to a pool in use; they sleep, and the length of their
sleep decides how many run. The output is that of simulate, and PostgreSQL's own counts.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg

from fetchwork.config.toml import to_toml
from fetchwork.pool import hostfile
from fetchwork.simulate.agents import PROGRAM
from tests.benchmarks import frame

#: of each agent: two for hooks, one for its lease, one that listens, one for housekeeping
CONNECTIONS = 5


def host_file(directory: Path, conninfo: str) -> Path:
    """Write the common host file of all simulated hosts."""
    file = directory / "host.toml"
    tables = {
        "database": {"main": {"conninfo": conninfo}},
        "host": {"name": "simulated"},
        "agent": {"socket": str(directory / "sock"), "spool": str(directory / "spool"), "user": ""},
        "keyword": {hostfile.KEYWORD: {"fetch_delay_s": 10, "max_fetch_wait_s": 600}},
        "slots": {"default": hostfile.KEYWORD},
    }
    file.touch(0o600)
    file.write_text(to_toml(tables))
    return file


def submit(connection: psycopg.Connection[tuple[object, ...]], sleep_s: int, jobs: int) -> None:
    """Submit jobs that sleep."""
    ad = {"Cmd": "/bin/sleep", "Args": str(sleep_s), "Owner": "nobody", "Iwd": "/"}
    statement = "SELECT fetchwork.submit_cluster(%s, array_fill('{}'::jsonb, ARRAY[%s]))"
    connection.execute(statement, [json.dumps(ad), jobs])


def submit_steadily(conninfo: str, hosts: int, sleep_s: int, rate: float, over: threading.Event) -> None:
    """Submit this many jobs a second, in five submissions, from the start of all hosts until ``over``."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        there = "SELECT count(*) >= %s FROM fetchwork.host"
        while connection.execute(there, [hosts]).fetchone() != (True,) and not over.wait(1.0):
            pass
        began, submitted = time.monotonic(), 0
        while not over.wait(0.2):
            due = int((time.monotonic() - began) * rate) - submitted
            if due > 0:
                submit(connection, sleep_s, due)
                submitted += due


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--slots", type=int, default=64, help="of each host")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--sleep", type=int, default=300, help="seconds that a job lasts")
    parser.add_argument("--rate", type=float, help="jobs submitted a second; else all at once")
    options = parser.parse_args()
    jobs = options.hosts * options.slots * (options.seconds // options.sleep + 2)
    settings = {"max_connections": str(options.hosts * CONNECTIONS + 50), "shared_buffers": "512MB"}
    with frame.server(settings) as (server, directory):
        conninfo = frame.new_database(server)
        over = threading.Event()
        if options.rate is None:
            with psycopg.connect(conninfo, autocommit=True) as connection:
                submit(connection, options.sleep, jobs)
        else:
            arrivals = (conninfo, options.hosts, options.sleep, options.rate, over)
            threading.Thread(target=submit_steadily, args=arrivals, daemon=True).start()
        arguments = ["--hosts", options.hosts, "--slots", options.slots, "--seconds", options.seconds]
        command = [sys.executable, "-c", PROGRAM, "simulate", "-c", host_file(directory, conninfo)]
        began = time.monotonic()
        told = subprocess.run(
            [*map(str, command), *map(str, arguments)], capture_output=True, text=True, check=False
        )
        over.set()
        if told.returncode != 0:
            raise SystemExit(f"fetchwork simulate failed: {told.stderr[-2000:]}")
        print(told.stdout.rstrip())
        with psycopg.connect(conninfo, autocommit=True) as connection:
            print(
                "runs:",
                connection.execute(
                    "SELECT outcome::text, count(*) FROM fetchwork.run_history GROUP BY 1 ORDER BY 2 DESC"
                ).fetchall(),
            )
            row = connection.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
            started = connection.execute(
                "SELECT count(*) FROM fetchwork.run_history WHERE started_at IS NOT NULL"
            ).fetchone()
        assert row is not None and started is not None
        lasted = time.monotonic() - began
        print(f"{row[0]} transactions, {started[0]} starts, {lasted:.0f} s with the start of the agents")
        print(f"simulated starts per second: {started[0] / options.seconds:.1f}")


if __name__ == "__main__":
    main()
