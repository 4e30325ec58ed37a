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


def made() -> Path:
    """Make or update the directory and return it. Raises FetchworkError if no folder can be written."""
    last: OSError | None = None
    for directory in _candidates():
        try:
            _make(directory)
        except OSError as problem:
            last = problem
            continue
        return directory
    raise FetchworkError(f"cannot make a directory for HTCondor's commands: {last}")


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
