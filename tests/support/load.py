"""``--load N``: N processes that do nothing but keep a processor busy while the tests run.

They check their parent in each turn, so that they end with it in any case.
"""

import subprocess
import sys

BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(200_000))
"""


class Load:
    """Busy processes; ``stop`` ends them."""

    def __init__(self, count: int) -> None:
        # a group of their own: Ctrl-C is for pytest, which then stops them
        command = [sys.executable, "-I", "-S", "-c", BUSY]
        self._processes = [subprocess.Popen(command, process_group=0) for _ in range(count)]

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
