"""The agent and the access point of this host: do they answer, and are they of this fetchwork?"""

import os
from collections.abc import Iterator
from pathlib import Path

from fetchwork import __version__
from fetchwork.agent import client
from fetchwork.client.link import SOCKET, VARIABLE, Link
from fetchwork.config import HostConfig
from fetchwork.doctor import daemons
from fetchwork.doctor.line import Line, failed, ok, warned
from fetchwork.errors import AgentUnavailable, FetchworkError, ProtocolError
from fetchwork.process import Process

TIMEOUT_S = 10.0
ACCESS_POINT_TIMEOUT_S = 5.0


def check(config: HostConfig, *, master_runs: bool) -> Iterator[Line]:
    """Yield whether the agent answers on its socket; condor_master may be what would have started it."""
    try:
        state = client.status(config.socket, TIMEOUT_S)
    except (AgentUnavailable, ProtocolError, ValueError) as error:
        if config.agent.run == "master" and not master_runs:
            yield failed(
                "agent", "does not run: condor_master, which starts it, does not", "start condor_master"
            )
        else:
            yield failed("agent", str(error), _remedy(config))
        return
    version, host = state.get("version"), state.get("host")
    if version != __version__:
        text = f"is version {version}; version {__version__} is installed"
        yield warned("agent", text, "restart it to run the new one")
    elif host != config.name:
        yield warned(
            "agent", f"calls this host '{host}'; the host file calls it '{config.name}'", "restart the agent"
        )
    else:
        yield ok("agent", f"answers at '{config.socket}', version {version}")
    for problem in client.host_file_problems(state):
        yield warned("agent", f"host file {problem}", "restart the agent, or repair the file")
    yield _signals(config, str(state.get("rights")), Process.find(state["pid"]))
    yield _memory(config)
    if config.has_gpus:
        yield _gpus(config)


def _gpus(config: HostConfig) -> Line:
    """May fetched jobs open the GPUs that their environment names?"""
    if not config.hides_gpus:
        return ok("GPUs", "jobs may open every GPU, and their environment names those of their slot")
    return warned(
        "GPUs",
        "HTCondor hides all GPUs from fetched jobs if jobs have cgroups (STARTER_HIDE_GPU_DEVICES)",
        "slots.hide_gpus = false, which shows those of other slots to a schedd's jobs, then fetchwork config"
        " generate and condor_reconfig",
    )


def _memory(config: HostConfig) -> Line:
    """What limits the memory of fetched jobs?"""
    if config.memory_by_cgroup:
        return ok("memory", "HTCondor limits jobs by cgroups, where the machine has them; the agent watches")
    if config.slots.limit_memory is False:
        return ok("memory", "no limits, by the host file (slots.limit_memory)")
    watch = "the agent holds those that use too much" if config.agent_updates else "nothing holds any"
    return ok(
        "memory", f"fetched jobs have no cgroup's limit (slots.limit_memory, for a schedd's too); {watch}"
    )


def _signals(config: HostConfig, rights: str, agent: Process | None) -> Line:
    """Who ends the jobs that are removed, held or vacated?"""
    if not config.agent_updates:
        seconds = config.slots.update_interval_s
        return ok("signals", f"UPDATE_JOB_INFO ends jobs that are removed, every {seconds} s")
    if rights == "root part":
        return ok("signals", "the part of the agent that stays root ends jobs that are removed")
    if rights == "root" or agent is None:
        return ok("signals", "the agent, which is root, ends jobs that are removed")
    accounts = daemons.accounts() - {agent.owner}
    if not accounts:
        return ok("signals", "the agent, which is the account of the jobs, ends those that are removed")
    return failed(
        "signals",
        f"nothing ends jobs that are removed: the agent is uid {agent.owner}, HTCondor uid"
        f" {', '.join(map(str, sorted(accounts)))}, and no hook UPDATE_JOB_INFO is configured",
        f"let root start it with --user {config.agent.user}, as fetchwork config generate writes it; or"
        " agent.root_part = false",
    )


def _remedy(config: HostConfig) -> str:
    if config.agent.run == "systemd":
        return "systemctl start fetchwork-agent; journalctl -u fetchwork-agent says why it ended"
    log = config.agent.log or "FetchworkAgentLog in HTCondor's LOG"
    return f"condor_on -daemon FETCHWORK_AGENT; {log} says why it ended"


def check_access_point() -> Iterator[Line]:
    """Yield a line where this host has an access point, or did: fetching does not need one."""
    path = os.environ.get(VARIABLE) or SOCKET
    if path == "none" or not Path(path).exists():
        return
    try:
        with Link(path, patience_s=0) as link:
            state = link.ask("status", silence_s=ACCESS_POINT_TIMEOUT_S)
    except FetchworkError as error:
        yield warned(
            "access point", str(error), "start it: fetchwork access-point, by systemd or condor_master"
        )
        return
    if state["version"] != __version__:
        text = f"is version {state['version']}; version {__version__} is installed"
        yield warned("access point", text, "restart it to run the new one")
    elif state["database"] != "up":
        yield warned("access point", f"database: {state['database']}", "see its log")
    elif state["logs_behind"]:
        whose = ", ".join(state["logs_behind"])
        yield warned("access point", f"can't write event logs of {whose}", "see its log for the reason")
    else:
        yield ok("access point", f"answers at '{path}', version {state['version']}, serves {state['serves']}")
