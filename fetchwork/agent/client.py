"""A client of the agent for commands: one request, one reply. Hooks have their own, thinner one."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict, cast

from fetchwork.errors import AgentUnavailable
from fetchwork.hook.wire import Reply, ReplyReader, Request, encode_request


class DatabaseStatus(TypedDict):
    """What the agent knows of one of its databases."""

    state: str
    problem: str | None
    last_answer_s: float
    schema: int | None
    listening: bool
    autoclusters_cached: int
    cut_off: bool


class HostFileStatus(TypedDict):
    """What the agent made of its host file."""

    path: str | None
    #: ``stamp_of`` when it was read
    stamp: list[int] | None
    #: why it was not read again: the agent has kept the settings before
    problem: str | None
    #: settings that were changed and are not in force
    needs_restart: list[str]


class RunStatus(TypedDict):
    """A live run of the agent's host."""

    run_id: int
    job: str
    slot: str
    owner: str
    state: str


class AgentStatus(TypedDict):
    """The agent's state, as ``fetchwork agent status`` and ``fetchwork doctor`` show it; without secrets."""

    version: str
    pid: int
    host: str
    master_gone: bool
    started_at: int
    uptime_s: int
    keywords: dict[str, list[str]]
    databases: dict[str, DatabaseStatus]
    runs: list[RunStatus]
    waiting_fetches: int
    max_waiting_fetches: int
    requests: int
    connections: int
    spool: str
    #: by what right it signals jobs: ``rights.How``
    rights: str
    host_file: HostFileStatus


def ask(path: Path, request: Request, timeout_s: float = 5.0) -> Reply:
    """The agent's reply; raises AgentUnavailable if there is none in time."""
    end = time.monotonic() + timeout_s
    reader = ReplyReader()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(timeout_s)
            link.connect(str(path))
            link.sendall(encode_request(request))
            while (reply := reader.next_reply()) is None:
                link.settimeout(max(0.001, end - time.monotonic()))
                data = link.recv(65536)
                if not data:
                    raise AgentUnavailable("agent closed the connection before it answered")
                reader.feed(data)
            return reply
    except TimeoutError:
        raise AgentUnavailable(f"agent at '{path}' does not answer within {timeout_s:g} s") from None
    except OSError as error:
        raise AgentUnavailable(f"cannot connect to agent socket '{path}': {error.strerror}") from error


def status(path: Path, timeout_s: float = 5.0) -> AgentStatus:
    """The agent's state: host, keywords, databases, runs, waiting fetches."""
    return _status(path, Request("status"), timeout_s)


def reload(path: Path, timeout_s: float = 10.0) -> AgentStatus:
    """Have the agent read its host file again, as root or its own account; its state then."""
    return _status(path, Request("reload"), timeout_s)


def stamp_of(path: Path | None) -> list[int] | None:
    """When a file was changed, its length, and which file it is; None where it can't be looked at."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return None if found is None else [found.st_mtime_ns, found.st_size, found.st_ino]


def host_file_problems(agent: AgentStatus) -> Iterator[str]:
    """Yield the settings of the host file that are not in force, and why."""
    # an agent of an earlier version does not say
    status = agent.get("host_file")
    if status is None:
        return
    if status["problem"]:
        yield f"refused, the settings before are in force: {status['problem']}"
    elif status["path"] is not None and stamp_of(Path(status["path"])) != status["stamp"]:
        yield "changed since the agent read it: run `fetchwork config install`, or condor_reconfig"
    if status["needs_restart"]:
        yield f"not in force before the agent is restarted: {', '.join(status['needs_restart'])}"


def _status(path: Path, request: Request, timeout_s: float) -> AgentStatus:
    reply = ask(path, request, timeout_s)
    if reply.code:
        raise AgentUnavailable(f"agent: {reply.message or reply.code}")
    return cast(AgentStatus, json.loads(reply.body))
