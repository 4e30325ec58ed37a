"""A client of the agent for commands: one request, one reply. Hooks have a thinner client of their own."""

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
    """The agent's knowledge of one of its databases."""

    state: str
    problem: str | None
    last_answer_s: float
    schema: int | None
    listening: bool
    autoclusters_cached: int
    cut_off: bool


class HostFileStatus(TypedDict):
    """The result of the agent's last reading of its host file."""

    path: str | None
    #: ``stamp_of`` the file when it was read
    stamp: list[int] | None
    #: the reason why the agent refused the file and kept its earlier settings
    problem: str | None
    #: changed settings that are not in force
    needs_restart: list[str]


class RunStatus(TypedDict):
    """A live run of the agent's host."""

    run_id: int
    job: str
    slot: str
    owner: str
    state: str


class AgentStatus(TypedDict):
    """The agent's state for ``fetchwork agent status`` and ``fetchwork doctor``, without secrets."""

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
    #: the right by which the agent signals jobs: ``signalrights.How``
    rights: str
    host_file: HostFileStatus


def ask(path: Path, request: Request, timeout_s: float = 5.0) -> Reply:
    """Return the agent's reply; raises AgentUnavailable if none comes in time."""
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
    """Return the agent's state: host, keywords, databases, runs, waiting fetches."""
    return _status(path, Request("status"), timeout_s)


def reload(path: Path, timeout_s: float = 10.0) -> AgentStatus:
    """Have the agent read its host file again and return its new state; for root and the agent's account."""
    return _status(path, Request("reload"), timeout_s)


def stamp_of(path: Path | None) -> list[int] | None:
    """Return a file's time of change, length and inode; None if it can't be inspected."""
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return None
    return None if status is None else [status.st_mtime_ns, status.st_size, status.st_ino]


def host_file_problems(agent: AgentStatus) -> Iterator[str]:
    """Yield the settings of the host file that are not in force, with the reason."""
    # an agent of an earlier version does not report it
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
