"""The directory that a site puts in front of PATH: one executable, under each name of HTCondor's commands.

DIR/condor_q ... -> condor-command
DIR/fetchwork -> condor-command
DIR/condor-command       has the access point run the command: a program in C (``client/command.c``);
without a C compiler the same as the next
DIR/condor-command.py    runs the command in Python
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path

from fetchwork import __version__, compiler
from fetchwork.condor.commands import COMMAND_LINE, COMMANDS
from fetchwork.errors import FetchworkError

NAME = "condor-command"
SOURCE = Path(__file__).resolve().parents[1] / "client/command.c"

_NAMES = (*COMMANDS, COMMAND_LINE)

#: -I keeps PYTHONPATH and the user's packages out, and -S the search for packages, which takes time
_EXECUTABLE = """\
#!{python} -IS
# fetchwork {version}, {build}
import sys
sys.path[0:0] = {path!r}
from fetchwork.condor.process import main
main()
"""


#: root's, where its Python can't be written
SHARED = Path("/var/lib/fetchwork/condor")


def made(*, for_all: bool = False) -> Path:
    """Make or update the directory and return it. Raises FetchworkError if no folder can be written.

    ``for_all``: other accounts run the commands, so the folder has to be one that they may enter.
    """
    reasons: list[str] = []
    for directory in [*_candidates(), *([SHARED] if for_all else [])]:
        try:
            _make(directory)
        except OSError as problem:
            reasons.append(str(problem))
            continue
        closed = _closed(directory) if for_all else None
        if closed is None:
            return directory
        reasons.append(f"'{closed}' is closed to other accounts")
    raise FetchworkError(f"cannot make a directory for HTCondor's commands: {'; '.join(reasons)}")


def _closed(directory: Path) -> Path | None:
    """The first folder on the way to a directory that not every account may enter."""
    folders = [*reversed(directory.resolve().parents), directory]
    return next((folder for folder in folders if not folder.stat().st_mode & stat.S_IXOTH), None)


def _candidates() -> list[Path]:
    """Beside this Python, for all users; else the user's own."""
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return [
        Path(sys.prefix) / "libexec/fetchwork/condor",
        Path(data).expanduser() / "fetchwork/condor",
    ]


def _make(directory: Path) -> None:
    # a compiler that fails is not asked again before there is another source to compile
    build = compiler.build_of_source(SOURCE) if compiler.has_compiler() else "without a compiler"
    wanted = _EXECUTABLE.format(python=sys.executable, version=__version__, build=build, path=packages())
    script, executable = directory / f"{NAME}.py", directory / NAME
    with contextlib.suppress(FileNotFoundError):
        if (
            script.read_text() == wanted
            and executable.exists()
            and all((directory / name).is_symlink() for name in _NAMES)
        ):
            return
    directory.mkdir(parents=True, exist_ok=True)
    # a process that starts a command meanwhile finds the old or the new file
    partial = directory / f".{NAME}.{os.getpid()}"
    try:
        compile_command(partial)
    except FetchworkError:
        partial.write_text(wanted)
    partial.chmod(0o755)
    partial.replace(executable)
    for name in _NAMES:
        link = directory / f".{name}.{os.getpid()}"
        link.symlink_to(NAME)
        link.replace(directory / name)
    # made last: its presence says that the directory is complete
    partial.write_text(wanted)
    partial.chmod(0o755)
    partial.replace(script)


def compile_command(target: Path, options: tuple[str, ...] | None = None) -> None:
    """Compile the commands' program into ``target``; raises FetchworkError."""
    without = "there is no C compiler '{}': apt install gcc libc6-dev"
    compiler.compile_program(SOURCE, target, {"VERSION": __version__}, without=without, options=options)


def packages() -> list[str]:
    """Return the folders in which this Python has fetchwork and its dependencies."""
    installed = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return list(dict.fromkeys([str(Path(__file__).parents[2]), *installed]))
