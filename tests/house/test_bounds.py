"""Limits on the size of modules and functions, on repeated names, and on types without meaning."""

import ast
from collections import defaultdict
from pathlib import Path

from tests.house.source import nodes, python_files, shown

#: lines of a module, beyond which it has more than one subject
MAX_LINES = 425
#: lines of a function, its docstring counted
MAX_FUNCTION_LINES = 60
#: a module with fewer lines is a fragment, and this many are allowed
SMALL_LINES = 50
MAX_SMALL = 25
#: a base name may occur in this many folders
MAX_FOLDERS = 3
#: names of ``typing.Any`` in the package, imports counted
MAX_ANY = 119


def test_modules_are_of_a_size_to_be_read_at_once() -> None:
    long = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    assert {path: lines for path, lines in long.items() if lines > MAX_LINES} == {}


def test_functions_fit_on_a_page() -> None:
    long = {
        f"{shown(path)}:{node.name}"
        for path in python_files()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= MAX_FUNCTION_LINES
    }
    assert not long


def test_few_modules_are_fragments() -> None:
    small = [
        shown(path)
        for path in python_files()
        if path.name != "__init__.py" and path.read_text(encoding="utf-8").count("\n") < SMALL_LINES
    ]
    assert len(small) <= MAX_SMALL, small


def test_a_name_says_its_subject_without_its_folder() -> None:
    folders = defaultdict(set)
    for path in python_files():
        if path.name != "__init__.py":
            folders[path.name].add(path.parent)
    shared = {name for name, found in folders.items() if len(found) > MAX_FOLDERS}
    assert not shared


def test_types_say_something() -> None:
    counts = {shown(path): _any_in(path) for path in python_files()}
    most = sorted(((count, path) for path, count in counts.items() if count), reverse=True)[:10]
    assert sum(counts.values()) <= MAX_ANY, f"object, TypedDict and Protocol say more; most are in {most}"


def _any_in(path: Path) -> int:
    imported = sum(
        alias.name == "Any"
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module == "typing"
        for alias in node.names
    )
    named = sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes(path))
    return imported + named if imported else 0
