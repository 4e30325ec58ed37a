"""SQL functions are called from db/ only, and commands hold no statement of their own."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, python_files, shown, tree

#: a function in a statement or, for people, in a text
FUNCTION = re.compile(r"\bfetchwork\.[a-z_]+\(")
ALLOWED = {
    # constraints become SQL that uses functions
    "fetchwork/queue/constraints/constraint.py",
    "fetchwork/queue/constraints/source.py",
    # shows SQL to people
    "fetchwork/pool/demo.py",
}


def strings(path: Path) -> Iterator[str]:
    """The strings of a module, docstrings apart."""
    module = tree(path)
    documentation = {
        node.value
        for node in ast.walk(module)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documentation:
            yield node.value


def modules_outside_db() -> list[Path]:
    return [path for path in python_files() if PACKAGE in path.parents and PACKAGE / "db" not in path.parents]


@pytest.mark.parametrize("path", modules_outside_db(), ids=shown)
def test_no_sql_function_is_named_in_a_string(path: Path) -> None:
    if shown(path) not in ALLOWED:
        assert not [text for text in strings(path) if FUNCTION.search(text)]


@pytest.mark.parametrize("path", sorted((PACKAGE / "cli").glob("*.py")), ids=shown)
def test_command_holds_no_query(path: Path) -> None:
    assert not [text for text in strings(path) if re.search(r"\bSELECT\b", text)]
