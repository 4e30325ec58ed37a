"""Builds the compiled hook from ``fetchwork/hook/compiled``, and tells which build an installed one is."""

import re
from pathlib import Path
from typing import NamedTuple

from fetchwork import compiler
from fetchwork.hook.wire import HOOKS, VERSION

SOURCE = Path(__file__).resolve().parents[1] / "hook/compiled"
_MARKER = re.compile(rb"fetchwork-hook protocol=(\S+) build=(\w+)")
_WITHOUT = (
    "compiled hooks need a C compiler, and there is no '{}': apt install gcc libc6-dev,"
    " or --no-compiled: the hooks in Python do the same"
)


class Build(NamedTuple):
    """An executable's description of itself."""

    protocol: str
    build: str


def this_build() -> Build:
    """The build that this version of fetchwork makes."""
    return Build(VERSION, compiler.build_of_source(SOURCE))


def build_of(executable: Path) -> Build | None:
    """The build of an executable; None if it is not a compiled hook of ours.

    Raises OSError if it can't be read.
    """
    match = compiler.marked(executable, _MARKER)
    return Build(match[1].decode(), match[2].decode()) if match else None


def is_compiled(directory: Path) -> bool:
    """Whether the hooks that lie in a directory are compiled ones."""
    try:
        return build_of(directory / HOOKS[0]) is not None
    except OSError:
        return False


def compile_hook(target: Path, options: tuple[str, ...] | None = None) -> None:
    """Compile the hook into ``target``; raises FetchworkError without a compiler, or with its complaint."""
    build = {"BUILD": this_build().build}
    compiler.compile_program(SOURCE, target, build, without=_WITHOUT, options=options)
