"""The host's file transfer plugins, those of FILETRANSFER_PLUGINS; each is asked what it moves."""

from __future__ import annotations

import asyncio
import logging
import time

from fetchwork.log import event
from fetchwork.sandbox.plugins import find

log = logging.getLogger(__name__)

#: plugins are looked for again after this
LIFE_S = 600.0


class Plugins:
    """The plugins of this host, asked when they are wanted, and again now and then."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bool, int]] = {}
        self._until = 0.0
        self._lock = asyncio.Lock()

    async def known(self) -> dict[str, tuple[str, bool, int]]:
        """By scheme the plugin's path, whether one run takes several files, and the protocol it speaks."""
        async with self._lock:
            if time.monotonic() >= self._until:
                found = await asyncio.to_thread(find)
                self._known = {
                    scheme: (one.path, one.multiple, one.protocol) for scheme, one in found.items()
                }
                self._until = time.monotonic() + LIFE_S
                event(log, logging.INFO, "plugins", schemes=",".join(sorted(self._known)))
        return self._known
