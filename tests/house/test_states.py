"""fetchwork/STATES.md agrees with the schema: in the states, and in the functions that change them."""

import re
from pathlib import Path

import psycopg
import pytest

from fetchwork.hook.sandboxed import SAVER
from fetchwork.hook.wire import HOOKS
from tests.house.source import PACKAGE, ROOT, tracked

PAGE = (PACKAGE / "STATES.md").read_text(encoding="utf-8")

#: changes of a state: a status or an outcome is written, or a row moves between live and history
_MOVES = re.compile(
    r"\bUPDATE fetchwork\.(run|job)\b[^;]*?\bSET\b[^;]*?\b(job_status|state) = "
    r"|\bPERFORM fetchwork\.close_run\("
    r"|\b(DELETE FROM|INSERT INTO) fetchwork\.(run|job)\b"
)

#: functions that write these rows without changing a state, and the reason
NO_MOVE = {
    "edit": "changes attributes; the job keeps its state",
}


def sql_functions() -> dict[str, Path]:
    folder = ROOT / "sql" / "functions"
    return {path.stem: path for path in tracked() if folder in path.parents}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading of the page whose first column has this title."""
    table = PAGE[PAGE.index(f"| {heading} ") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def names(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", text))


@pytest.mark.parametrize(
    ("type_name", "heading"),
    [("run_state", "state (`fetchwork.run_state`)"), ("run_outcome", "outcome (`fetchwork.run_outcome`)")],
)
def test_states_of_runs_are_those_of_the_schema(
    connection: psycopg.Connection, type_name: str, heading: str
) -> None:
    labels = connection.execute(
        "SELECT enumlabel FROM pg_enum WHERE enumtypid = %s::regtype ORDER BY enumsortorder",
        [f"fetchwork.{type_name}"],
    ).fetchall()
    assert [f"`{label}`" for (label,) in labels] == [row[0] for row in rows(heading)]


def test_states_of_jobs_are_those_that_the_schema_allows(connection: psycopg.Connection) -> None:
    found = connection.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conname IN ('job_status_is_htcondors', 'job_history_status_is_final')"
    ).fetchall()
    allowed = {int(number) for (text,) in found for number in re.findall(r"\b\d\b", text)}
    assert sorted(allowed) == [int(row[0].split()[0]) for row in rows("JobStatus")]


def test_each_function_on_the_page_is_in_the_schema(connection: psycopg.Connection) -> None:
    moving = {
        name
        for heading, column in (
            ("state (`fetchwork.run_state`)", slice(2, 4)),
            ("outcome (`fetchwork.run_outcome`)", slice(3, 4)),
            ("JobStatus", slice(2, 4)),
            ("hook", slice(2, 3)),
        )
        for row in rows(heading)
        for cell in row[column]
        for name in names(cell)
    }
    known = {
        name
        for (name,) in connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'fetchwork'::regnamespace"
        )
    }
    states = {row[0].strip("`") for row in rows("state (`fetchwork.run_state`)")}
    assert moving - known - {"max_not_started", "max_lost"} - states == set()


def test_each_function_that_changes_a_state_is_on_the_page() -> None:
    moving = {
        name for name, path in sql_functions().items() if _MOVES.search(path.read_text(encoding="utf-8"))
    }
    assert len(moving) > 10
    assert moving - names(PAGE) - set(NO_MOVE) == set()


def test_every_hook_is_on_the_page() -> None:
    executables = {path.name for path in tracked() if path.parent == ROOT / "hooks"}
    assert executables == {*HOOKS, SAVER}
    assert {row[0] for row in rows("hook")} == {name.upper() for name in HOOKS}
