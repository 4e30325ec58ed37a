"""Builds the compiled hook from ``fetchwork/hook/client.c``, and tells which build an installed one is."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from fetchwork.errors import FetchworkError
from fetchwork.hook.wire import HOOKS, VERSION

SOURCE = Path(__file__).resolve().parents[1] / "hook/client.c"
#: how hooks are built; tests add to it
OPTIONS = ("-std=c11", "-O2", "-Wall", "-Wextra")
# without the dynamic linker a hook starts in half of the time; some systems lack the static library
_HARDENED = ("-D_FORTIFY_SOURCE=2", "-fstack-protector-strong")
_STATIC = (("-static",), ())
_TIMEOUT_S = 120
_MARKER = re.compile(rb"fetchwork-hook protocol=(\S+) build=(\w+)")


class Build(NamedTuple):
    """What an executable says of itself."""

    protocol: str
    build: str


def this_build() -> Build:
    """The build that this version of fetchwork makes."""
    return Build(VERSION, hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16])


def build_of(executable: Path) -> Build | None:
    """The build that an executable is of; None where it is no compiled hook of ours.

    Raises OSError where it can't be read.
    """
    with executable.open("rb") as stream:
        if stream.read(4) != b"\x7fELF":
            return None
        match = _MARKER.search(stream.read())
    return Build(match[1].decode(), match[2].decode()) if match else None


def is_compiled(directory: Path) -> bool:
    """Whether the hooks that lie in a directory are compiled ones."""
    try:
        return build_of(directory / HOOKS[0]) is not None
    except OSError:
        return False


def compile_hook(target: Path, options: tuple[str, ...] | None = None) -> None:
    """Compile the hook into ``target``; raises FetchworkError without a compiler, or with its complaint.

    The compiler is ``$CC``, else ``cc``. ``options`` stand in place of those of a release.
    """
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(compiler[0]) is None:
        raise FetchworkError(
            f"compiled hooks need a C compiler, and there is no '{compiler[0]}': apt install gcc libc6-dev,"
            " or --no-compiled: the hooks in Python do the same"
        )
    tried = [(*_HARDENED, *linked) for linked in _STATIC] if options is None else [options]
    command = [*compiler, *OPTIONS, f'-DBUILD="{this_build().build}"']
    problem = ""
    for more in tried:
        try:
            done = subprocess.run(
                [*command, *more, "-o", str(target), str(SOURCE)],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as exc:
            raise FetchworkError(f"cannot run the C compiler '{compiler[0]}': {exc}") from exc
        if done.returncode == 0:
            return
        said = done.stderr.strip().splitlines()
        problem = next((line for line in said if "error" in line), said[-1] if said else "no message")
    raise FetchworkError(f"'{compiler[0]}' cannot compile '{SOURCE}': {problem}")
