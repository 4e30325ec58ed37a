"""The files that the tests of the house read: the repository's own, and the syntax trees of its Python."""

import ast
import functools
import gc
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "fetchwork"


@functools.cache
def tracked() -> tuple[Path, ...]:
    """Every file of the repository that git knows or would add, without those that were deleted."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    paths = (ROOT / name for name in sorted(set(names.split("\0"))) if name)
    return tuple(path for path in paths if path.is_file())


def shown(path: Path) -> str:
    """A path as messages write it: relative to the root of the repository."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree(path: Path) -> ast.Module:
    parsed = ast.parse(path.read_text(encoding="utf-8"), filename=shown(path))
    # the trees stay: garbage collection would go through all of them for each few that are parsed
    gc.freeze()
    return parsed


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a module's tree."""
    return tuple(ast.walk(tree(path)))


@functools.cache
def python_files() -> tuple[Path, ...]:
    """The modules of the package."""
    return tuple(path for path in tracked() if path.suffix == ".py" and PACKAGE in path.parents)


@functools.cache
def hook_files() -> frozenset[Path]:
    """The executables that HTCondor runs."""
    return frozenset(path for path in tracked() if path.parent == ROOT / "hooks")


@functools.cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name; a package goes by its folder's name."""
    named = {}
    for path in python_files():
        parts = path.relative_to(ROOT).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


@dataclass(frozen=True)
class Import:
    """One name that one line imports."""

    path: Path
    line: int
    target: str
    """The dotted module; for ``from fetchwork.hook import wire`` it is fetchwork.hook.wire."""
    name: str | None = None
    """The name taken from the module, if it is not itself a module."""

    @property
    def where(self) -> str:
        return f"{shown(self.path)}:{self.line}"


@functools.cache
def imports(path: Path) -> tuple[Import, ...]:
    """Every import of a file, inside functions and under TYPE_CHECKING too."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[Import]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(path, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            for alias in node.names:
                if f"{module}.{alias.name}" in modules():
                    yield Import(path, node.lineno, f"{module}.{alias.name}")
                else:
                    yield Import(path, node.lineno, "." * node.level + module, alias.name)
