"""Run a benchmark so that no process of it is left, no matter how it ends: ``make bench-X``.

SIGTERM ends it as Ctrl-C does, through its own cleanup. A process in a session of its own kills the remains
once this one has ended, even if the whole process group was killed.
"""

import runpy
import signal
import sys
from pathlib import Path
from types import FrameType

from tests.support.leftovers import watch_over_this_run


def main() -> None:
    """Run the named benchmark with the arguments that follow."""

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    path = Path(__file__).with_name(f"bench_{sys.argv[1].replace('-', '_')}.py")
    if not path.exists():
        sys.exit(f"there is no benchmark '{sys.argv[1]}'")
    watch_over_this_run()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, end)
    sys.argv[:2] = [str(path)]
    # as if it were started by itself
    sys.path[:0] = [str(path.parent), str(path.parents[2])]
    runpy.run_path(str(path), run_name="__main__")


if __name__ == "__main__":
    main()
