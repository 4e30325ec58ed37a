"""How tests wait: for what must come, with one generous bound, and never for a time to pass.

No test may depend on how fast a machine is. What must come is waited for until it has come: ``PATIENCE_S`` is
only when a test gives up on a defect, so no good test takes that long; ``FETCHWORK_TEST_PATIENCE=3`` makes it
three times as long. What must not come has something else to wait for, which would come after it. What is
about speed is a benchmark.
"""

import asyncio
import os
import time
from collections.abc import Callable

#: when to give up on what must come; ends a hanging test, decides no other
PATIENCE_S = 120.0 * float(os.environ.get("FETCHWORK_TEST_PATIENCE", "1"))


def until(condition: Callable[[], object], what: object = "it", every_s: float = 0.02) -> None:
    """Wait until ``condition()`` is true."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE_S} s in vain for {what}"
        time.sleep(every_s)


async def until_async(condition: Callable[[], object], what: object = "it", every_s: float = 0.02) -> None:
    """Wait until ``condition()``, which may block, is true."""
    end = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end, f"waited {PATIENCE_S} s in vain for {what}"
        await asyncio.sleep(every_s)
