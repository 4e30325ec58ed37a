"""The files of this host's runs: inputs to sandboxes, outputs from them, and transfer plugins."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from fetchwork.agent.files.contents import Content, Contents, Reader
from fetchwork.agent.files.outputs import Outputs
from fetchwork.agent.files.parked import OutputSpool
from fetchwork.config import HostConfig
from fetchwork.db.calls import files
from fetchwork.db.calls.call import Call
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NotFound
from fetchwork.handlers.context import Task
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.host.runs import Runs
from fetchwork.handlers.host.session import HostSession
from fetchwork.handlers.runad import RunKey
from fetchwork.log import event
from fetchwork.sandbox.parking import SUFFIX
from fetchwork.sandbox.plugins import find

T = TypeVar("T")

log = logging.getLogger(__name__)

#: most runs whose contents are remembered
_MAX_PLANS = 10_000
CALL_S = 8.0
#: seconds after which the plugins are queried again
PLUGINS_LIFE_S = 600.0


class AgentFiles:
    """The handlers' access to files (``handlers.context.HostFiles``), and the upload of staged outputs."""

    def __init__(
        self,
        config: HostConfig,
        contexts: Mapping[str, KeywordContext],
        sessions: Iterable[HostSession],
        runs: Runs,
        trusted: frozenset[int],
    ) -> None:
        spool: Path = config.agent.spool
        self.plugin_limit_s = float(config.files.plugin_limit_s)
        # connections of their own, so that files never delay a hook or a lease
        self._databases: dict[HostSession, AsyncDatabase] = {
            session: session.database.another() for session in sessions
        }
        self._plugins = _Plugins()
        self._contents = Contents(
            spool.with_name(f"{spool.name}.cache"), config.files.cache_mib * 1024 * 1024
        )
        self._spool = OutputSpool(spool.with_name(spool.name + SUFFIX), config.files.parked_mib << 20)
        self.outputs = Outputs(self._spool, contexts, runs, trusted, self._databases)
        self._parked_mib = config.files.parked_mib
        self._plans: OrderedDict[tuple[HostSession, int], dict[int, Content]] = OrderedDict()

    def open(self) -> None:
        """Make the directories; raises FetchworkError."""
        self._spool.make()
        self._contents.open()

    async def close(self) -> None:
        """Stop uploads and downloads; the next agent goes on with them."""
        await self.outputs.close()
        await self._contents.close()
        for database in self._databases.values():
            await database.close()

    async def plugins(self) -> Mapping[str, tuple[str, bool, int]]:
        """Return the transfer plugins by scheme: path, whether one run takes several files, protocol."""
        return await self._plugins.known()

    def expect(self, task: Task, key: RunKey, plan: files.RunFiles) -> None:
        """Remember the contents of a plan, which will be asked for."""
        owner = (task.context.session.name, plan.owner)
        self._plans[task.context.session, key.run_id] = {
            file["content_id"]: Content(owner, file["sha256"], file["size"], file.get("in_bucket", False))
            for file in plan.files
            if file["source"] == "content"
        }
        while len(self._plans) > _MAX_PLANS:
            self._plans.popitem(last=False)

    async def chunk(self, task: Task, key: RunKey, content_id: int, number: int) -> bytes:
        """Return a chunk of a content of the run's plan; raises FetchworkError."""
        session = task.context.session
        if (session, key.run_id) not in self._plans:
            # this agent started after the plan was given
            plan = await self._databases[session].run(
                files.run_files(run_id=key.run_id, token=key.token), timeout_s=task.left(CALL_S)
            )
            if plan is None:
                raise NotFound(f"run {key.run_id} is over")
            self.expect(task, key, plan)
        content = self._plans[session, key.run_id].get(content_id)
        if content is None:
            raise NotFound(f"run {key.run_id} has no content {content_id}")
        reader = Reader(self._databases[session], key.run_id, key.token, content.in_bucket)
        return await self._contents.chunk(content, content_id, reader, number, task.left())

    async def carry(self, task: Task, call: Call[T]) -> T:
        """Make a call that carries files, on a connection for files; raises FetchworkError."""
        return await self._databases[task.context.session].carry(call, timeout_s=task.left(CALL_S))

    async def saved(self, task: Task, name: str) -> str:
        """Return the state of the checkpoint staged in the directory ``name``."""
        return await self.outputs.saved(name, task.caller.uid, task.end - 0.5)

    def full(self, uid: int) -> str | None:
        """Return the reason why an account may stage no more outputs; None if it may."""
        waiting = self.outputs.bytes_of(uid)
        if waiting < self._parked_mib << 20:
            return None
        return (
            f"{waiting} bytes of the account's files wait on this host to be delivered;"
            f" allowed: {self._parked_mib} MiB (setting [files] parked_mib)"
        )

    async def parked(self, task: Task, key: RunKey, name: str) -> None:
        """Begin to upload the directory ``name`` with the run's outputs and the report of its end."""
        await self.outputs.deliver(name)


class _Plugins:
    """The transfer plugins of this host (FILETRANSFER_PLUGINS), each queried now and then for its schemes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bool, int]] = {}
        self._until = 0.0
        self._lock = asyncio.Lock()

    async def known(self) -> dict[str, tuple[str, bool, int]]:
        """Return by scheme the plugin's path, whether one run takes several files, and its protocol."""
        async with self._lock:
            if time.monotonic() >= self._until:
                plugins = await asyncio.to_thread(find)
                self._known = {
                    scheme: (plugin.path, plugin.multiple, plugin.protocol)
                    for scheme, plugin in plugins.items()
                }
                self._until = time.monotonic() + PLUGINS_LIFE_S
                event(log, logging.INFO, "plugins", schemes=",".join(sorted(self._known)))
        return self._known
