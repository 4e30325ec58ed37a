"""A schema later than this checkout's, for tests of upgrades."""

import re
import shutil
from pathlib import Path

from fetchwork.db import schema

#: a column, a table with rows, and a constraint on a table that has some
MIGRATIONS = (
    """
    ALTER TABLE fetchwork.host ADD COLUMN rack text NOT NULL DEFAULT 'none';
    UPDATE fetchwork.host SET rack = 'of ' || name;
    """,
    """
    CREATE TABLE fetchwork.rack (name text PRIMARY KEY);
    INSERT INTO fetchwork.rack (name) SELECT DISTINCT h.rack FROM fetchwork.host AS h;
    ALTER TABLE fetchwork.host
        ADD CONSTRAINT host_rack_is_known FOREIGN KEY (rack) REFERENCES fetchwork.rack (name);
    """,
)


def later_schema(directory: Path, *migrations: str) -> Path:
    """Copy ``sql/`` to ``directory/sql`` with these migrations behind its own; return that directory."""
    copy = directory / "sql"
    shutil.copytree(schema.sql_directory(), copy)
    listed = copy / "install.sql"
    text = listed.read_text(encoding="utf-8")
    last = re.findall(r"^\\ir migrations/.*\n", text, re.M)[-1]
    lines = ""
    for number, statements in enumerate(migrations, schema.latest() + 1):
        path = f"migrations/{number:04}_of_tests.sql"
        row = f"INSERT INTO fetchwork.migration (version, name) VALUES ({number}, 'of_tests');\n"
        (copy / path).write_text(row + statements, encoding="utf-8")
        lines += f"\\ir {path}\n"
    listed.write_text(text.replace(last, last + lines), encoding="utf-8")
    return copy
