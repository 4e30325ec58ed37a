"""The command ``fetchwork``, and ``python -m fetchwork``.

Commands that this host's access point serves go to the compiled program of ``fetchwork.condor.directory``
before anything is imported: the command line takes longer to import than most commands take to run.
"""

# ruff: noqa: PTH110, PTH111, S606 - pathlib takes as long to import as a command takes
import os
import sys

#: as in fetchwork/client/link.py and fetchwork/condor/commands.py, which take too long to import
_SOCKET = "/run/fetchwork/access-point.sock"
_SERVED = frozenset(("q", "history", "rm", "hold", "release", "vacate", "suspend", "continue", "submit"))


def main() -> None:
    """Run the command line and exit."""
    if len(sys.argv) > 1 and sys.argv[1] in _SERVED and os.geteuid() != 0:
        _ask_access_point()
    from fetchwork.cli import main

    main()


def _ask_access_point() -> None:
    """Become the compiled program; return if the program or the access point is missing."""
    named = os.environ.get("FETCHWORK_ACCESS_POINT")
    if named is None:
        named = "" if os.environ.get("FETCHWORK_DSN") else _SOCKET
    if not os.path.exists(named) or any(word.startswith(("--dsn", "-dsn")) for word in sys.argv):
        return
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    for program in (
        f"{sys.prefix}/libexec/fetchwork/condor/fetchwork",
        f"{data}/fetchwork/condor/fetchwork",
    ):
        if os.access(program, os.X_OK):
            os.execv(program, ["fetchwork", *sys.argv[1:]])


if __name__ == "__main__":
    main()
