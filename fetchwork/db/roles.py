"""What the database's roles are members of."""

from fetchwork.db.database import Database


def may_submit(database: Database, role: str) -> bool:
    """Has a role the rights of ``fetchwork_submitter``?"""
    rows = database.query(
        "SELECT pg_has_role(oid, 'fetchwork_submitter', 'USAGE') AS may FROM pg_roles WHERE rolname = %s",
        [role],
    )
    return any(row["may"] for row in rows)


def quoted(name: str) -> str:
    """A role's name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
