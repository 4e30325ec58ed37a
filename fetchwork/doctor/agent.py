"""The agent of this host: does it answer, and is it the agent of this fetchwork?"""

import json
import socket
from collections.abc import Iterator
from typing import Any

import fetchwork
from fetchwork import wire
from fetchwork.config import HostConfig
from fetchwork.doctor.line import Line, failed, ok, warned
from fetchwork.errors import AgentUnavailable, ProtocolError

TIMEOUT_S = 10.0


def check(config: HostConfig) -> Iterator[Line]:
    """Yield whether the agent answers on its socket."""
    if config.agent.run == "none":
        yield ok("agent", "none on this host: each hook connects to the database by itself")
        return
    try:
        state = ask_status(config.socket)
    except (AgentUnavailable, ProtocolError) as error:
        yield failed("agent", str(error), _remedy(config))
        return
    version = str(state.get("version", "?"))
    if version != fetchwork.__version__:
        yield warned(
            "agent",
            f"is version {version}, installed is {fetchwork.__version__}",
            "restart it to run the new one",
        )
    else:
        yield ok("agent", f"answers at '{config.socket}', version {version}")


def ask_status(path: Any) -> dict[str, Any]:
    """Return the agent's state; raises AgentUnavailable or ProtocolError."""
    reader = wire.ReplyReader()
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(str(path))
            connection.sendall(wire.encode_request(wire.Request("status")))
            while (reply := reader.next_reply()) is None:
                data = connection.recv(65536)
                if not data:
                    raise AgentUnavailable(f"agent at '{path}' closed the connection without an answer")
                reader.feed(data)
    except TimeoutError:
        raise AgentUnavailable(f"agent at '{path}' does not answer within {TIMEOUT_S:.0f} s") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AgentUnavailable(f"cannot connect to agent socket '{path}': {reason}") from error
    if reply.code:
        raise AgentUnavailable(f"agent at '{path}' answers {reply.code}: {reply.message}")
    try:
        state = json.loads(reply.body)
    except ValueError as error:
        raise ProtocolError(f"agent at '{path}' answers status with what is not JSON") from error
    return state if isinstance(state, dict) else {}


def _remedy(config: HostConfig) -> str:
    if config.agent.run == "systemd":
        return "systemctl start fetchwork-agent; journalctl -u fetchwork-agent says why it ended"
    log = config.agent.log or "FetchworkAgentLog in HTCondor's LOG"
    return f"condor_on -daemon FETCHWORK_AGENT; {log} says why it ended"
