"""The C compiler of this machine: makes fetchwork's programs in C, and tells which build one is."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from fetchwork.errors import FetchworkError

#: how the programs are built; tests add to it
OPTIONS = ("-std=c11", "-O2", "-Wall", "-Wextra")
# without the dynamic linker a program starts in half of the time; some systems lack the static library
_HARDENED = ("-D_FORTIFY_SOURCE=2", "-fstack-protector-strong")
_STATIC = (("-static",), ())
_TIMEOUT_S = 120


def compiler() -> list[str]:
    """The compiler's words: ``$CC``, else ``cc``."""
    return shlex.split(os.environ.get("CC", "")) or ["cc"]


def has_compiler() -> bool:
    """Whether there is one."""
    return shutil.which(compiler()[0]) is not None


def files_of(source: Path, letters: str) -> list[Path]:
    """The source of a program: the file, or those of the directory that end in one of these letters."""
    return sorted(source.glob(f"*.[{letters}]")) if source.is_dir() else [source]


def build_of_source(source: Path) -> str:
    """By which a build of a source is known: a file, or a directory of ``*.c`` and ``*.h``."""
    digest = hashlib.sha256()
    for path in files_of(source, "ch"):
        data = path.read_bytes()
        digest.update(f"{path.name} {len(data)}\n".encode() + data)
    return digest.hexdigest()[:16]


def marked(executable: Path, marker: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """What an executable says of itself; None where it is none, or says nothing. Raises OSError."""
    with executable.open("rb") as stream:
        if stream.read(4) != b"\x7fELF":
            return None
        return marker.search(stream.read())


def compile_program(
    source: Path,
    target: Path,
    defined: dict[str, str],
    *,
    without: str,
    options: tuple[str, ...] | None = None,
) -> None:
    """Compile a program into ``target``; raises FetchworkError with what the compiler complains of.

    ``source`` is one file, or a directory whose ``*.c`` make the program. ``defined`` are
    macros that are texts, ``without`` what to say where there is no compiler. ``options`` stand in place of
    those of a release.
    """
    words = compiler()
    if not has_compiler():
        raise FetchworkError(without.format(words[0]))
    tried = [(*_HARDENED, *linked) for linked in _STATIC] if options is None else [options]
    command = [*words, *OPTIONS, *(f'-D{name}="{text}"' for name, text in defined.items())]
    problem = ""
    for more in tried:
        try:
            done = subprocess.run(
                [*command, *more, "-o", str(target), *map(str, files_of(source, "c"))],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as exc:
            raise FetchworkError(f"cannot run the C compiler '{words[0]}': {exc}") from exc
        if done.returncode == 0:
            return
        said = done.stderr.strip().splitlines()
        problem = next((line for line in said if "error" in line), said[-1] if said else "no message")
    raise FetchworkError(f"'{words[0]}' cannot compile '{source}': {problem}")
