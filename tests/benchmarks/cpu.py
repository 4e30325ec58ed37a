"""CPU time of other processes, read from the kernel."""

from __future__ import annotations

from pathlib import Path

import psycopg


def process_s(pid: int) -> float:
    """Seconds of CPU that a process has used, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def family_s(pid: int) -> float:
    """Seconds of CPU of a process and all its living descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return process_s(pid) + sum(family_s(int(child)) for child in children)


def backends_s(connection: psycopg.Connection[tuple[int]]) -> float:
    """Seconds of CPU of the servers of a connection's database, without the connection's own."""
    rows = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    ).fetchall()
    return sum(process_s(pid) for (pid,) in rows)
