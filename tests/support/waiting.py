"""Waiting in tests: for an expected event, with one generous bound, and never for a time to pass.

No test may depend on how fast a machine is. Tests wait for an expected event until it has come:
``PATIENCE_S`` is only the time after which a test reports a defect, so no good test takes that long;
``FETCHWORK_TEST_PATIENCE=3`` makes it three times as long. A test of an event that must not come waits for
another event, which would come after it. Measurements of speed are benchmarks.
"""

import asyncio
import os
import time
from collections.abc import Callable

#: the limit of a wait for an expected event; ends a hanging test, and decides no other
PATIENCE_S = 120.0 * float(os.environ.get("FETCHWORK_TEST_PATIENCE", "1"))


def until(condition: Callable[[], object], what: object = "it", every_s: float = 0.02) -> None:
    """Wait until ``condition()`` is true; a function ``what`` is asked when the wait has been in vain."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, (
            f"waited {PATIENCE_S} s in vain for {what() if callable(what) else what}"
        )
        time.sleep(every_s)


async def until_async(condition: Callable[[], object], what: object = "it", every_s: float = 0.02) -> None:
    """Wait until ``condition()``, which may block, is true."""
    end = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end, f"waited {PATIENCE_S} s in vain for {what}"
        await asyncio.sleep(every_s)
