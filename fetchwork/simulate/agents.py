"""Agents of simulated hosts: ``fetchwork agent`` processes, each with a host file of its own."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fetchwork.agent import client
from fetchwork.config.toml import to_toml
from fetchwork.errors import AgentUnavailable
from fetchwork.hook.wire import RUNNER

_READY_S = 60.0
#: the simulated hooks make the updates: an agent that updates runs itself signals the processes below a
#: starter, and below a simulated starter that may be the simulation itself. Chains need an agent that could
PROGRAM = """
import sys
import fetchwork.agent.main as agent
from fetchwork.cli import main
from fetchwork.config import HostConfig

class Updates(agent.Updates):
    async def _update(self, run, to_end):
        pass

agent.Updates = Updates
HostConfig.agent_updates = property(lambda host: any(keyword.chain_s for keyword in host.keywords.values()))
sys.exit(main())
"""


class AgentProcess:
    """The agent of a host called ``name``, with everything that it keeps in ``directory``.

    ``agent`` and ``keyword`` are settings of these tables of a host file; ``program`` is the Python that
    runs the agent, ``wrapper`` a command before it.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        conninfo: str,
        *,
        agent: Mapping[str, object] | None = None,
        keyword: Mapping[str, object] | None = None,
        keyword_name: str = "FETCHWORK",
        program: str = PROGRAM,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.socket = directory / f"{name}.sock"
        self.spool = directory / f"{name}-spool"
        self.log = directory / f"{name}.log"
        self.file = directory / f"{name}.toml"
        tables = {
            "host": {"name": name},
            "database": {"main": {"conninfo": conninfo}},
            "agent": {
                "run": "master",
                "socket": str(self.socket),
                "spool": str(self.spool),
                "log": str(self.log),
                "user": "",
                **(agent or {}),
            },
            "keyword": {keyword_name: dict(keyword or {})},
        }
        if keyword and keyword.get("chain_s"):
            # the simulation is the runner
            hooks = directory / f"{name}-hooks"
            hooks.mkdir(exist_ok=True)
            (hooks / RUNNER).touch(0o755)
            tables["keyword"] = {keyword_name: {"hooks": str(hooks), **keyword}}
        self.file.touch(0o600)
        self.file.write_text(to_toml(tables))
        self._command = [*wrapper, sys.executable, "-c", program, "agent", "--config", str(self.file)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process, while there is one."""
        assert self._process is not None, "it was started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start it and wait until it answers."""
        self.spawn()
        await self.ready()

    def spawn(self) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    async def ready(self, timeout_s: float = _READY_S) -> None:
        """Wait until it answers; AgentUnavailable if it does not."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                await self.status()
                return
            except AgentUnavailable as error:
                if not self.running or time.monotonic() > end:
                    last = self.log.read_text(errors="replace").strip().rpartition("\n")[2]
                    raise AgentUnavailable(
                        f"agent of simulated host '{self.name}': {error}: {last}"
                    ) from None
            await asyncio.sleep(0.02)

    async def status(self, timeout_s: float = _READY_S) -> client.AgentStatus:
        """Return the agent's state; raises AgentUnavailable if no agent answers."""
        return await asyncio.to_thread(client.status, self.socket, timeout_s)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; SIGKILL is waited for."""
        if not self.running:
            return
        os.kill(self.pid, number)
        if number is signal.SIGKILL:
            assert self._process is not None
            self._process.wait()

    async def stop(self) -> None:
        """End it in good order."""
        if self.running:
            self.signal(signal.SIGTERM)
            assert self._process is not None
            await asyncio.to_thread(self._process.wait)
