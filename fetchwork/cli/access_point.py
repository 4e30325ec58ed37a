"""``fetchwork access-point``: the resident service of a host where people submit, and its state."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import resource
import socket
from pathlib import Path

import click

from fetchwork.cli import options, output
from fetchwork.client.link import SOCKET, VARIABLE, Link
from fetchwork.errors import FetchworkError

_logger = logging.getLogger(__name__)

OPEN_FILES = 16_384


@click.group(invoke_without_command=True)
@click.option("--dsn", metavar="CONNINFO", help="The database; as fetchwork --dsn.")
@click.option(
    "--socket",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"The socket to listen at.  [default: ${VARIABLE}, else {SOCKET}; not as root: one in"
    " $XDG_RUNTIME_DIR]",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory for its state.  [default: /var/lib/fetchwork-access-point; not as root: one in"
    " ~/.local/state/fetchwork]",
)
@click.option("--name", help="Its name, in the ads of jobs that are submitted here.  [default: this host's]")
@click.option(
    "--min-uid",
    type=click.IntRange(1),
    help="Accounts with a smaller uid are the system's, and are not served.  [default: UID_MIN of"
    " /etc/login.defs, else 1000]",
)
@click.option(
    "--log-file", type=click.Path(dir_okay=False, path_type=Path), help="Log to this file.  [default: stderr]"
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning"]), default="info", show_default=True
)
@click.pass_context
def cli(
    context: click.Context,
    dsn: str | None,
    path: Path | None,
    state: Path | None,
    name: str | None,
    min_uid: int | None,
    log_file: Path | None,
    log_level: str,
) -> None:
    """Serve the people who submit on this host, in the foreground, until SIGTERM.

    As root it serves every account; its database role is a member of fetchwork_access_point. As any other
    account it serves that account alone.

    \b
    Example:
      fetchwork access-point
      fetchwork access-point status
    """
    context.obj = path
    if context.invoked_subcommand is None:
        conninfo = options.conninfo_of(context, dsn)
        _serve(conninfo, path, state, name, min_uid, log_file, log_level)


@cli.command()
@options.json_option
@click.pass_obj
def status(path: Path | None, as_json: bool) -> None:
    """Show the state of the running access point.

    \b
    Example:
      fetchwork access-point status
    """
    with Link(str(path or default_socket()), patience_s=2.0) as link:
        state = link.ask("status")
    if as_json:
        output.print_json(state)
        return
    click.echo(
        f"access point {state['version']} '{state['name']}', pid {state['pid']}, up {state['uptime_s']} s"
    )
    click.echo(f"serves    {state['serves']}")
    click.echo(f"database  {state['database']}")
    click.echo(f"requests  {state['requests']}, of which {state['shared']} were answered from what was known")
    behind = f"; behind for {', '.join(state['logs_behind'])}" if state["logs_behind"] else ""
    click.echo(f"logs      {state['log_entries']} entries written{behind}")


def default_socket() -> Path:
    """Return the socket of this account's access point."""
    named = os.environ.get(VARIABLE)
    if named and named != "none":
        return Path(named)
    if os.geteuid() == 0 or "XDG_RUNTIME_DIR" not in os.environ:
        return Path(SOCKET)
    return Path(os.environ["XDG_RUNTIME_DIR"]) / "fetchwork-access-point.sock"


def _default_state() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/fetchwork-access-point")
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "fetchwork" / "access-point"


def _default_min_uid() -> int:
    try:
        found = re.search(r"^\s*UID_MIN\s+(\d+)", Path("/etc/login.defs").read_text(), re.M)
    except OSError:
        found = None
    return max(1, int(found[1])) if found else 1000


def _serve(
    conninfo: str,
    path: Path | None,
    state: Path | None,
    name: str | None,
    min_uid: int | None,
    log_file: Path | None,
    log_level: str,
) -> None:
    from fetchwork.accesspoint.main import AccessPoint, Settings
    from fetchwork.condor import directory
    from fetchwork.log import configure, event

    settings = Settings(
        conninfo=conninfo,
        socket=(path or default_socket()).absolute(),
        state=(state or _default_state()).absolute(),
        name=name or socket.getfqdn(),
        min_uid=min_uid or _default_min_uid(),
    )
    configure(log_level, log_file)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, OPEN_FILES)), hard))

    # the program by which `fetchwork q` asks this access point; a host without it asks in Python
    try:
        directory.made(for_all=os.geteuid() == 0)
    except FetchworkError as problem:
        # without it DAGs are refused, and nothing else
        event(_logger, logging.WARNING, "commands_not_made", problem=problem)

    async def serve() -> None:
        await AccessPoint(settings).run()

    try:
        asyncio.run(serve())
    except FetchworkError as error:
        event(_logger, logging.ERROR, "access_point_failed", problem=error)
        raise
