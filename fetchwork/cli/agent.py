"""``fetchwork agent``: the resident process of a host, in the foreground, and its state."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.errors import FetchworkError

if TYPE_CHECKING:
    from fetchwork.agent.client import AgentStatus
    from fetchwork.agent.root.privilegedclient import PrivilegedClient
    from fetchwork.agent.root.signalrights import SignalRights
    from fetchwork.config import HostConfig

_logger = logging.getLogger(__name__)

#: enough for server.MAX_CONNECTIONS and a starter on each of thousands of slots
OPEN_FILES = 16_384


@click.group(invoke_without_command=True)
@options.host_file_option
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Log to this file.  [default: agent.log of the host file; else under condor_master its LOG"
    " directory, else stderr]",
)
@click.option(
    "--user",
    metavar="ACCOUNT",
    help="Started as root: serve as this account, and leave a small part that stays root to signal jobs.",
)
@click.pass_context
def cli(context: click.Context, file: Path | None, log_file: Path | None, user: str | None) -> None:
    """Serve the hooks of this host, in the foreground, until SIGTERM.

    condor_master or systemd runs this. SIGHUP opens the log file anew and reads the host
    file again, SIGQUIT ends it at once.

    \b
    Example:
      fetchwork agent --config /etc/fetchwork/host.toml
      fetchwork agent status
    """
    if context.invoked_subcommand is None:
        # before any file is read
        part = _split(user) if user is not None and os.geteuid() == 0 else None
        from fetchwork import config as host_file
        from fetchwork.agent.root.signalrights import SignalRights
        from fetchwork.log import configure, event

        try:
            config = host_file.load(file)
        except FetchworkError as error:
            # the host file may name the log
            configure("info", log_file or _log_of_master())
            event(_logger, logging.ERROR, "agent_failed", problem=error)
            raise
        _serve(config, file or host_file.default_file(), log_file, SignalRights(part), user)
    context.obj = file


@cli.command()
@options.host_file_option
@options.json_option
@click.pass_obj
def status(of_agent: Path | None, file: Path | None, as_json: bool) -> None:
    """Show the state of the running agent: keywords, databases, waiting fetches, runs.

    \b
    Example:
      fetchwork agent status
    """
    from fetchwork import config as host_file
    from fetchwork.agent import client

    _show(client.status(host_file.load(file or of_agent).socket), as_json)


def _split(user: str) -> PrivilegedClient:
    from fetchwork.agent.root import privilegedpart

    try:
        return privilegedpart.split(user)
    except KeyError:
        raise FetchworkError(f"there is no account '{user}' on this host") from None
    except (OSError, LookupError) as error:
        raise FetchworkError(f"the agent cannot become '{user}': {error}") from error


def _serve(
    config: HostConfig, file: Path, log_file: Path | None, rights: SignalRights, user: str | None
) -> None:
    if os.geteuid() == 0 and config.agent.user:
        # its socket, spool and log would be root's, and the agent of that account could not use them
        raise FetchworkError(
            f"the agent of this host runs as '{config.agent.user}' (agent.user), not as root\n"
            f"start it with: fetchwork agent --user {config.agent.user}"
        )
    if rights.how == "root part" and user != config.agent.user:
        raise FetchworkError(
            f"the agent of this host runs as '{config.agent.user}' (agent.user), not as '{user}'"
        )
    from fetchwork.agent.main import Agent
    from fetchwork.log import configure, event

    configure(config.agent.log_level, log_file or config.agent.log or _log_of_master())
    # HTCondor's session keys are not needed here, and would leak into core files and children
    for name in ("CONDOR_PRIVATE_INHERIT", "CONDOR_INHERIT", "CONDOR_PRIVATE_SHARED_PORT_COOKIE"):
        os.environ.pop(name, None)

    # 1024 is what shells and systemd allow by default
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, OPEN_FILES)), hard))

    async def serve() -> None:
        await Agent(config, rights, file).run()

    # imported objects stay; each search for cycles visited them, a tenth of a busy agent's time
    gc.collect()
    gc.freeze()
    try:
        asyncio.run(serve())
    except FetchworkError as error:
        # under condor_master stderr goes nowhere
        event(_logger, logging.ERROR, "agent_failed", problem=error)
        raise
    except Exception:
        _logger.exception("agent_failed")
        raise


def _log_of_master() -> Path | None:
    """Under condor_master the working directory is its LOG, and stderr is the null device."""
    return Path.cwd() / "FetchworkAgentLog" if "CONDOR_INHERIT" in os.environ else None


def _show(status: AgentStatus, as_json: bool) -> None:
    if as_json:
        output.print_json(status)
        return
    click.echo(
        f"agent {status['version']} on {status['host']}, pid {status['pid']}, up {status['uptime_s']} s"
    )
    for name, queues in status["keywords"].items():
        click.echo(f"keyword   {name}: queues {', '.join(queues)}")
    for name, database in status["databases"].items():
        problem = f": {database['problem']}" if database["problem"] else ""
        click.echo(f"database  {name}: {database['state']}{problem}")
    from fetchwork.agent.client import host_file_problems

    for text in host_file_problems(status):
        click.echo(f"host file {text}")
    click.echo(f"fetches   {status['waiting_fetches']} of {status['max_waiting_fetches']} wait")
    for run in status["runs"]:
        click.echo(
            f"run       {run['run_id']}: job {run['job']} of {run['owner']}, {run['state']} on {run['slot']}"
        )
