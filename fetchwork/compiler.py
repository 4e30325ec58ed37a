"""This machine's C compiler: makes fetchwork's programs in C, and tells their builds apart."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from fetchwork.errors import FetchworkError

#: the compiler's options; tests add to them
OPTIONS = ("-std=c11", "-O2", "-Wall", "-Wextra")
# a program without the dynamic linker starts in half the time; some systems lack the static library
_HARDENED = ("-D_FORTIFY_SOURCE=2", "-fstack-protector-strong")
_STATIC = (("-static",), ())
_TIMEOUT_S = 120


def compiler() -> list[str]:
    """The compiler's command line: ``$CC``, else ``cc``."""
    return shlex.split(os.environ.get("CC", "")) or ["cc"]


def has_compiler() -> bool:
    """Whether this machine has a C compiler."""
    return shutil.which(compiler()[0]) is not None


def files_of(source: Path, letters: str) -> list[Path]:
    """A program's source files: the file itself, or a directory's files that end in one of these letters."""
    return sorted(source.glob(f"*.[{letters}]")) if source.is_dir() else [source]


def build_of_source(source: Path) -> str:
    """A hash that names the build of a source: of a file, or of a directory's ``*.c`` and ``*.h``."""
    digest = hashlib.sha256()
    for path in files_of(source, "ch"):
        data = path.read_bytes()
        digest.update(f"{path.name} {len(data)}\n".encode() + data)
    return digest.hexdigest()[:16]


def marked(executable: Path, marker: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """The marker in an executable; None if the file is no ELF program or has no marker. Raises OSError."""
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
    """Compile a program into ``target``; raises FetchworkError with the compiler's first complaint.

    ``source`` is one file, or a directory whose ``*.c`` make the program. ``defined`` are macros with text
    values. ``without`` is the message if there is no compiler. ``options`` replace the options of a release
    build.
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
