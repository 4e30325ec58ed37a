"""How large a module may be, and how often a type may say nothing."""

import ast

from tests.house.source import python_files, shown, tree

#: lines of a module, beyond which it has more than one subject
MAX_LINES = 425
#: names of ``typing.Any`` in the package, imports counted
MAX_ANY = 119


def test_modules_are_of_a_size_to_be_read_at_once() -> None:
    long = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    assert {path: lines for path, lines in long.items() if lines > MAX_LINES} == {}


def test_types_say_something() -> None:
    counts = {shown(path): _any_in(tree(path)) for path in python_files()}
    most = sorted(((count, path) for path, count in counts.items() if count), reverse=True)[:10]
    assert sum(counts.values()) <= MAX_ANY, f"object, TypedDict and Protocol say more; most are in {most}"


def _any_in(module: ast.Module) -> int:
    imported = sum(
        alias.name == "Any"
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module == "typing"
        for alias in node.names
    )
    named = sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(module))
    return imported + named if imported else 0
