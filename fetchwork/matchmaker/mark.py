"""The worker's current item, in memory shared with its zygote, which reads it when the worker has ended."""

from __future__ import annotations

import mmap
import signal
import struct

from fetchwork.matchmaker.bounds import ITEM_CPU_S

_ITEM = struct.Struct("=cq")

#: phases: reading a slot's ad, reading an autocluster's ad, matching the two, printing the ad of a run,
#: evaluating a job's policy
NOTHING, SLOT, AUTOCLUSTER, MATCH, PRINT, POLICY = b"\0", b"s", b"a", b"m", b"p", b"j"


class Mark:
    """One item's phase and number in shared memory, and the timer of its CPU time."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)

    def begin(self, phase: bytes, number: int) -> None:
        """Begin an item: it has ``ITEM_CPU_S`` of CPU from now on; then SIGPROF ends the process."""
        _ITEM.pack_into(self._memory, 0, phase, number)
        signal.setitimer(signal.ITIMER_PROF, ITEM_CPU_S)

    def end(self) -> None:
        """End the item and its timer."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        _ITEM.pack_into(self._memory, 0, NOTHING, 0)

    def read(self) -> tuple[bytes, int]:
        """Return the item that was begun last, ``NOTHING`` if it has ended."""
        phase, number = _ITEM.unpack_from(self._memory, 0)
        return phase, number
