"""Every call that Python makes, against the functions that the database has."""

import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from fetchwork.db import calls
from fetchwork.db.calls import hosts, jobs, matching, reading
from fetchwork.db.calls.call import Call
from fetchwork.db.database import Database
from fetchwork.errors import SchemaMismatch
from fetchwork.pool.postgres import PostgresServer
from tests.support.kept import kept_database

MODULES = [
    importlib.import_module(f"{calls.__name__}.{module.name}")
    for module in pkgutil.iter_modules(calls.__path__)
]

#: every public function that returns a call; ``call`` has the tools that make them
FUNCTIONS: dict[str, Callable[..., Call[Any]]] = {
    name: function
    for module in MODULES
    for name, function in vars(module).items()
    if inspect.isfunction(function)
    and module.__name__ != Call.__module__
    and function.__module__ == module.__name__
    and not name.startswith("_")
    and typing.get_origin(typing.get_type_hints(function)["return"]) is Call
}

#: the PostgreSQL types that a Python type may have; result columns get the first
TYPES: dict[type, tuple[str, ...]] = {
    int: ("integer", "bigint", "numeric"),
    float: ("double precision", "real", "numeric"),
    bool: ("boolean",),
    str: ("text", "name", "uuid", "xid8", "pg_snapshot", "timestamp with time zone"),
    bytes: ("bytea",),
    UUID: ("uuid",),
    datetime: ("timestamp with time zone",),
}


@dataclass
class Signature:
    """A function as in pg_proc."""

    parameters: dict[str, str]
    required: set[str]
    #: columns by name, or the one type
    result: dict[str, str] | str
    many: bool


@pytest.fixture(scope="module")
def conninfo_of_kept(postgres: PostgresServer) -> str:
    return kept_database(postgres)


@pytest.fixture(scope="module")
def signatures(conninfo_of_kept: str) -> dict[str, Signature]:
    with psycopg.connect(conninfo_of_kept) as connection:
        rows = connection.execute(
            "SELECT p.proname, p.pronargs, p.pronargdefaults, p.proretset, p.prorettype::regtype::text,"
            " coalesce(p.proargnames, '{}'), coalesce(p.proargmodes::text[], '{}'),"
            " ARRAY(SELECT t::regtype::text FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) AS t)"
            " FROM pg_proc AS p WHERE p.pronamespace = 'fetchwork'::regnamespace"
        ).fetchall()
    found = {}
    for name, count, defaults, many, result, names, modes_or_none, types_ in rows:
        modes = modes_or_none or ["i"] * len(types_)
        inputs = [(n, t) for n, m, t in zip(names, modes, types_, strict=False) if m in "ib"]
        columns = {n: t for n, m, t in zip(names, modes, types_, strict=False) if m in "tob"}
        if [n for n, _ in inputs] == ["job", "reason"]:
            # the form for one job, whose name is text; calls give an array
            continue
        assert name not in found, f"{name} has two signatures: a call could mean either"
        found[name] = Signature(
            dict(inputs), {n for n, _ in inputs[: count - defaults]}, columns or result, many
        )
    return found


def example(annotation: Any) -> Any:
    """Any value of a type."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return example(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (Sequence, list):
        return [example(typing.get_args(annotation)[0])]
    if typing.get_origin(annotation) in (Mapping, dict):
        return {"A": 1}
    return {
        int: 1,
        float: 1.5,
        bool: True,
        str: "a",
        bytes: b"a",
        UUID: UUID(int=1),
        datetime: datetime(2026, 1, 1),
    }[annotation]


def fits(annotation: Any, sql: str) -> bool:
    """Whether values of a Python type are values of a PostgreSQL type."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(fits(one, sql) for one in arguments if one is not type(None))
    if origin in (Sequence, list):
        # a list of objects may also go as one jsonb value
        return (sql.endswith("[]") and fits(arguments[0], sql[:-2])) or (
            sql == "jsonb" and fits(arguments[0], "jsonb")
        )
    if origin in (Mapping, dict):
        return sql == "jsonb"
    return sql in TYPES.get(annotation, ())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_call_names_a_function_and_its_arguments(name: str, signatures: dict[str, Signature]) -> None:
    function = FUNCTIONS[name]
    hints = typing.get_type_hints(function)
    hints.pop("return")
    call = function(**{argument: example(hint) for argument, hint in hints.items()})
    signature = signatures.get(call.function)
    assert signature is not None, f"there is no fetchwork.{call.function}"
    assert set(call.arguments) <= set(signature.parameters)
    assert signature.required <= set(call.arguments)
    assert set(hints) == set(call.arguments)
    for argument, hint in hints.items():
        assert fits(hint, signature.parameters[argument]), f"{argument}: {hint}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_call_reads_what_the_function_returns(name: str, signatures: dict[str, Signature]) -> None:
    function = FUNCTIONS[name]
    hints = typing.get_type_hints(function)
    (returned,) = typing.get_args(hints.pop("return"))
    call = function(**{argument: example(hint) for argument, hint in hints.items()})
    result = signatures[call.function].result
    if call.record is None:
        # one value, or nothing
        assert isinstance(result, str)
        assert not signatures[call.function].many
        assert (result == "void") if returned is type(None) else fits(returned, result)
        return
    assert isinstance(result, dict)
    fields = typing.get_type_hints(call.record)
    fields.pop("COLUMNS")
    for (field, hint), column in zip(fields.items(), call.record.columns(), strict=True):
        assert column in result, f"{call.function} has no column {column}"
        assert fits(hint, result[column]), f"{field}: {hint} is {result[column]}"
    if typing.get_origin(returned) is list:
        assert typing.get_args(returned) == (call.record,)
        assert signatures[call.function].many
    else:
        assert call.record in (returned, *typing.get_args(returned))


def test_result_without_a_row_is_none_or_an_empty_list() -> None:
    assert matching.prospects(cluster=1, proc=0).read([]) is None
    assert hosts.host_runs(host_id=1).read([]) == []


@pytest.fixture
def database(conninfo_of_kept: str) -> Iterator[Database]:
    with Database(conninfo_of_kept) as database:
        yield database


def test_call_gives_a_record(database: Database) -> None:
    assert database.run(matching.prospects(cluster=1, proc=0)) is None
    edge = reading.run_edge(before=10, n=1)
    assert edge.read([{"runid": 7, "and_more": "of a later schema"}]) == reading.RunEdge(7)
    window = database.run(reading.event_window(after_batch=0, after_id=0))
    assert not window.more
    assert (window.until_batch, window.until_id) == (0, 0)


def test_missing_column_is_another_schema() -> None:
    with pytest.raises(SchemaMismatch, match="no column 'runid'"):
        reading.run_edge(before=10, n=1).read([{"id": 7}])


def test_reason_that_is_no_text_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="reason is of type int; allowed: str, None"):
        jobs.hold(jobs=["1.0"], reason=5)  # type: ignore[arg-type]
