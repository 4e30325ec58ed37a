"""Upgrades that are undone: what one would do, and whether a schema is as this fetchwork makes it.

Both run in one transaction that is rolled back, so no other session sees any of it. ``plan`` holds the locks
of the upgrade for as long as it takes. ``check`` renames the schema and makes a new one beside it, which
locks nothing that jobs need.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fetchwork.db import schema
from fetchwork.db.database import Database
from fetchwork.errors import SchemaMismatch

#: type -> a query for name and definition of its objects; partitions come and go by themselves
_OBJECTS: Mapping[str, str] = {
    "column": """
        SELECT format('%%s.%%s', c.oid::regclass, a.attname) AS name,
            concat_ws(
                ' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
            ) AS definition
        FROM pg_class AS c
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'fetchwork'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    """,
    "constraint": """
        SELECT format('%%s of %%s', o.conname, c.oid::regclass) AS name,
            pg_get_constraintdef(o.oid) AS definition
        FROM pg_constraint AS o
        JOIN pg_class AS c ON c.oid = o.conrelid AND NOT c.relispartition
        WHERE o.connamespace = 'fetchwork'::regnamespace AND o.contype <> 'n'
            AND NOT EXISTS (
                SELECT FROM pg_class AS f
                WHERE f.oid = o.confrelid AND f.relispartition
            )
    """,
    "index": """
        SELECT i.indexrelid::regclass::text AS name, pg_get_indexdef(i.indexrelid) AS definition
        FROM pg_index AS i
        JOIN pg_class AS c ON c.oid = i.indrelid AND NOT c.relispartition
        WHERE c.relnamespace = 'fetchwork'::regnamespace
    """,
    "type": """
        SELECT e.enumtypid::regtype::text AS name,
            string_agg(e.enumlabel, ' ' ORDER BY e.enumsortorder) AS definition
        FROM pg_enum AS e
        JOIN pg_type AS t ON t.oid = e.enumtypid AND t.typnamespace = 'fetchwork'::regnamespace
        GROUP BY e.enumtypid
    """,
    "function": """
        SELECT p.oid::regprocedure::text AS name, pg_get_functiondef(p.oid) AS definition
        FROM pg_proc AS p
        WHERE p.pronamespace = 'fetchwork'::regnamespace AND p.prokind IN ('f', 'p')
    """,
    "view": """
        SELECT c.oid::regclass::text AS name,
            concat_ws(' ', c.reloptions, pg_get_viewdef(c.oid)) AS definition
        FROM pg_class AS c
        WHERE c.relnamespace = 'fetchwork'::regnamespace AND c.relkind = 'v'
    """,
    # those of the roles that sql/grants.sql names; an administrator may give further ones
    "rights": """
        SELECT o.name, string_agg(
            format('%%s %%s', r.rolname, a.privilege_type), ', ' ORDER BY r.rolname, a.privilege_type
        ) AS definition
        FROM (
            SELECT p.oid::regprocedure::text AS name, coalesce(p.proacl, acldefault('f', p.proowner)) AS acl
            FROM pg_proc AS p
            WHERE p.pronamespace = 'fetchwork'::regnamespace
            UNION ALL
            SELECT c.oid::regclass::text, c.relacl
            FROM pg_class AS c
            WHERE c.relnamespace = 'fetchwork'::regnamespace AND c.relkind IN ('r', 'p', 'v')
                AND NOT c.relispartition
        ) AS o
        CROSS JOIN aclexplode(o.acl) AS a
        LEFT JOIN pg_roles AS r ON r.oid = a.grantee
        WHERE a.grantee = 0 OR r.rolname IN (
            'fetchwork_submitter', 'fetchwork_reader', 'fetchwork_agent', 'fetchwork_host',
            'fetchwork_invited', 'fetchwork_access_point', 'fetchwork_admin'
        )
        GROUP BY o.name
    """,
}
_LOCKED = """
SELECT c.oid::regclass::text AS name, c.relkind = 'v' AS is_view
FROM pg_locks AS l
JOIN pg_class AS c ON c.oid = l.relation AND c.relkind IN ('r', 'p', 'v')
WHERE l.pid = pg_backend_pid() AND l.granted AND c.oid = ANY (%s)
    AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
GROUP BY c.oid, c.relkind
ORDER BY 1
"""
_ASIDE = "fetchwork_set_aside"
#: milliseconds that a plan waits for a lock of another session
LOCK_MS = 5000


@dataclass(frozen=True)
class Difference:
    """An object that two schemas do not have alike."""

    how: Literal["changed", "missing", "more"]
    #: a key of ``_OBJECTS``
    type: str
    name: str


@dataclass(frozen=True)
class Plan:
    """The effect of an upgrade."""

    migrations: list[int]
    changes: list[Difference]
    #: the time that it took, and will take about again
    seconds: float
    #: tables and views on which other sessions wait until it ends
    locked_tables: list[str]
    locked_views: list[str]


def plan(conninfo: str) -> Plan:
    """Do the upgrade and undo it; raises as ``schema.upgrade`` does.

    Raises DatabaseUnavailable if another session has a lock for ``LOCK_MS``.
    """
    return schema.past_deadlocks(lambda: _plan(conninfo))


def _plan(conninfo: str) -> Plan:
    with Database(conninfo, application_name="fetchwork db") as database, database.transaction(undone=True):
        # jobs wait behind a plan that waits for a lock
        database.query("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_MS}ms"])
        there = schema.status_of(database).is_there
        before = _objects(database) if there else {}
        known = database.query("SELECT array_agg(oid) AS oids FROM pg_class WHERE relkind IN ('r', 'p', 'v')")
        begun = time.monotonic()
        migrations = schema.apply(database)
        seconds = time.monotonic() - begun
        locked = database.query(_LOCKED, [known[0]["oids"]])
        return Plan(
            migrations,
            _differences(before, _objects(database)),
            seconds,
            [row["name"] for row in locked if not row["is_view"]],
            [row["name"] for row in locked if row["is_view"]],
        )


def check(conninfo: str) -> list[Difference]:
    """The differences of a database's schema from the one that this fetchwork makes.

    Raises SchemaMismatch if its version is another, DatabaseRefused if the role does not own the schema.
    """
    with Database(conninfo, application_name="fetchwork db") as database, database.transaction(undone=True):
        found = schema.status_of(database)
        if not found.installed or found.pending or found.newer:
            raise SchemaMismatch(
                "the database has another version of the schema: `fetchwork db status` says which"
            )
        database.query("SELECT FROM fetchwork.turn WHERE name = 'schema' FOR UPDATE")
        there = _objects(database)
        database.query(f"ALTER SCHEMA fetchwork RENAME TO {_ASIDE}")
        schema.apply(database, create=True)
        return _differences(there, _objects(database))


def _objects(database: Database) -> dict[tuple[str, str], str]:
    """The definitions of all objects, by type and name."""
    return {
        (type, row["name"]): row["definition"]
        for type, query in _OBJECTS.items()
        for row in database.query(query)
    }


def _differences(
    there: Mapping[tuple[str, str], str], wanted: Mapping[tuple[str, str], str]
) -> list[Difference]:
    return [
        Difference("missing" if key not in there else "more" if key not in wanted else "changed", *key)
        for key in sorted({*there, *wanted})
        if there.get(key) != wanted.get(key)
    ]
