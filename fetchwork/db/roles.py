"""Who one is in which database, and what its roles are members of."""

from fetchwork.db.database import Database


def may_submit(database: Database, role: str) -> bool:
    """Has a role the rights of ``fetchwork_submitter``?"""
    rows = database.query(
        "SELECT pg_has_role(oid, 'fetchwork_submitter', 'USAGE') AS may FROM pg_roles WHERE rolname = %s",
        [role],
    )
    return any(row["may"] for row in rows)


def location(conninfo: str) -> str:
    """Which database a connection string names, on which server, and as which role."""
    with Database(conninfo) as database:
        (row,) = database.query(
            "SELECT current_database() AS name, current_user AS role, host(inet_server_addr()) AS host"
        )
    return f"database '{row['name']}' on {row['host'] or 'this machine'}, role {row['role']}"


def quoted(name: str) -> str:
    """A role's name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
