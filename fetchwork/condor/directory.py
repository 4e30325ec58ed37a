"""The directory that a site puts in front of PATH: one executable, under each name of HTCondor's commands."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from fetchwork.condor.commands import COMMANDS
from fetchwork.errors import FetchworkError

#: -I keeps PYTHONPATH and the user's packages out, and -S the search for packages, which takes time
_EXECUTABLE = """\
#!{python} -IS
import sys
sys.path[0:0] = {path!r}
from fetchwork.condor.process import main
main()
"""

_NAME = "condor-command"


def made() -> Path:
    """The directory, made or brought up to date where it can be written; raises FetchworkError where not."""
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
    wanted = _EXECUTABLE.format(python=sys.executable, path=packages())
    executable = directory / _NAME
    with contextlib.suppress(FileNotFoundError):
        if executable.read_text() == wanted and all((directory / name).is_symlink() for name in COMMANDS):
            return
    directory.mkdir(parents=True, exist_ok=True)
    # whoever runs one at this moment finds the old or the new one
    partial = directory / f".{_NAME}.{os.getpid()}"
    partial.write_text(wanted)
    partial.chmod(0o755)
    partial.replace(executable)
    for name in COMMANDS:
        link = directory / f".{name}.{os.getpid()}"
        link.symlink_to(_NAME)
        link.replace(directory / name)


def packages() -> list[str]:
    """Where this Python has fetchwork and what it needs."""
    installed = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return list(dict.fromkeys([str(Path(__file__).parents[2]), *installed]))
