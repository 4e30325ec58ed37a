"""The host's file transfer plugins, those of FILETRANSFER_PLUGINS; each is asked what it moves."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import time

from fetchwork.log import event
from fetchwork.sandbox import names
from fetchwork.sandbox.plugins import QUERY_S, ask

log = logging.getLogger(__name__)

#: plugins are looked for again after this
LIFE_S = 600.0
_COMMAND = ("condor_config_val", "FILETRANSFER_PLUGINS")


class Plugins:
    """The plugins of this host, asked when they are wanted, and again now and then."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bool]] = {}
        self._until = 0.0
        self._lock = asyncio.Lock()

    async def known(self) -> dict[str, tuple[str, bool]]:
        """By scheme the plugin's path, and whether one run takes several files."""
        async with self._lock:
            if time.monotonic() >= self._until:
                self._known = await asyncio.to_thread(find)
                self._until = time.monotonic() + LIFE_S
                event(log, logging.INFO, "plugins", schemes=",".join(sorted(self._known)))
        return self._known


def find() -> dict[str, tuple[str, bool]]:
    """Ask each plugin that HTCondor's configuration names; of two for a scheme the last one counts."""
    try:
        done = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=QUERY_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    known: dict[str, tuple[str, bool]] = {}
    for path in names.words_of(done.stdout.replace("\n", ",")):
        plugin = ask(path) if path.startswith("/") else None
        if plugin is not None:
            known.update(dict.fromkeys(plugin.schemes, (path, plugin.multiple)))
    return known
