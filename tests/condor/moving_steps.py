"""Runs `fetchwork ARGUMENTS`, and a shell command once at a step of a move.

`python moving_steps.py STEP COMMAND ARGUMENTS`: it runs by itself on the pool's machine. COMMAND may kill
this process, its parent.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from fetchwork.classad.schedd import ScheddQueue
from fetchwork.cli import main
from fetchwork.queue.submitting.fromschedd import Originals

#: by step, the method that it is before (0) or behind (1)
STEPS: dict[str, tuple[type, str, int]] = {
    "before the hold": (Originals, "hold", 0),
    "half held": (ScheddQueue, "act", 1),
    "held": (Originals, "hold", 1),
    "committed": (Originals, "have_moved", 0),
    "marked": (Originals, "have_moved", 1),
}


def stepping(method: Callable[..., Any], behind: int, command: str) -> Callable[..., Any]:
    """The method with a command before or behind its first call."""
    left = [command]

    def run(*arguments: Any) -> Any:
        if not behind and left:
            subprocess.run(["sh", "-c", left.pop()], check=True)
        answer = method(*arguments)
        if behind and left:
            subprocess.run(["sh", "-c", left.pop()], check=True)
        return answer

    return run


if __name__ == "__main__":
    step, command, *sys.argv[1:] = sys.argv[1:]
    owner, name, behind = STEPS[step]
    setattr(owner, name, stepping(getattr(owner, name), behind, command))
    main()
