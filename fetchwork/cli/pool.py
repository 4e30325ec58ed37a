"""``fetchwork pool``: starts, shows and stops a private pool in one directory; and ``fetchwork demo``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.pool import PersonalPool


def default_directory() -> Path:
    """Return the default directory of the pool."""
    if os.geteuid() == 0:
        return Path("/var/lib/fetchwork/pool")
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "fetchwork/pool"


def _tell(text: str) -> None:
    click.echo(f"{text} ...", err=True)


@click.group()
@click.option(
    "--directory",
    "-d",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="FETCHWORK_POOL",
    help="The pool's directory; also FETCHWORK_POOL.  [default: /var/lib/fetchwork/pool for root, else"
    " ~/.local/share/fetchwork/pool]",
)
@click.pass_context
def cli(context: click.Context, directory: Path | None) -> None:
    """A private pool: PostgreSQL, agent and HTCondor in one directory."""
    context.obj = directory or default_directory()


@cli.command()
@click.option("--slots", type=click.IntRange(1, 1024), help="Cores; each becomes a slot.  [default: 4]")
@click.option(
    "--partitionable/--static", default=None, help="One partitionable slot with all cores, or static slots."
)
@click.option(
    "--suite",
    help="HTCondor of this Debian suite (trixie, sid) in a root directory.  [default: the machine's"
    " HTCondor, or else that of trixie]",
)
@click.option(
    "--condor-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file with additional HTCondor configuration.",
)
@click.option(
    "--host-of",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Make it a further host of the pool in this directory, without a database of its own.",
)
@options.json_option
@click.pass_obj
def up(
    directory: Path,
    slots: int | None,
    partitionable: bool | None,
    suite: str | None,
    condor_config: Path | None,
    host_of: Path | None,
    as_json: bool,
) -> None:
    """Start the pool; make it first if it does not exist.

    Settings without an option stay as they were at the last start.

    \b
    Example:
      fetchwork pool up
      fetchwork pool -d /tmp/pool up --slots 8 --partitionable
      fetchwork pool -d /tmp/ep2 up --host-of /tmp/pool
    """
    from fetchwork.pool import PersonalPool

    given: dict[str, Any] = {
        "slots": slots,
        "partitionable": partitionable,
        "suite": suite,
        "config": condor_config.read_text() if condor_config else None,
        "host_of": str(host_of.absolute()) if host_of else None,
    }
    asked = {name: value for name, value in given.items() if value is not None}
    pool = PersonalPool.open(directory, say=_tell, **asked).detach()
    pool.start()
    if pool.has_database and pool.page.installed():
        pool.page.start(pool.conninfo)
    _show(pool, as_json)


@cli.command()
@options.json_option
@click.pass_obj
@click.pass_context
def status(context: click.Context, directory: Path, as_json: bool) -> None:
    """Show which parts run; the exit status is 1 if one does not.

    \b
    Example:
      fetchwork pool status
    """
    from fetchwork.pool import PersonalPool

    pool = PersonalPool.attach(directory)
    _show(pool, as_json)
    if not pool.running:
        context.exit(1)


@cli.command()
@click.option("--graceful", is_flag=True, help="Let jobs end by their own signal (SIGTERM) first.")
@click.pass_obj
def down(directory: Path, graceful: bool) -> None:
    """Stop the pool; its data stays where it is.

    \b
    Example:
      fetchwork pool down
    """
    from fetchwork.pool import PersonalPool

    PersonalPool.attach(directory, say=_tell).stop("graceful" if graceful else "fast")


def _show(pool: PersonalPool, as_json: bool) -> None:
    processes = pool.processes()
    service_file = pool.directory / "pg_service.conf"
    if as_json:
        state = {
            "directory": str(pool.directory),
            "running": pool.running,
            "processes": processes,
            "host_file": str(pool.host_file),
            "service_file": str(service_file),
            "access_point": str(pool.access_point.socket),
            "page": pool.page.link,
            "condor_config": str(pool.condor.config_file),
        }
        output.print_json(state)
        return
    click.echo(f"pool in {pool.directory}")
    for part, pid in processes.items():
        click.echo(f"  {part:<12} {f'running, pid {pid}' if pid else 'not running'}")
    if not pool.has_database:
        return
    if pool.running:
        click.echo("to use it:")
        click.echo(f"  export PGSERVICEFILE={service_file} PGSERVICE=pool")
        click.echo("  psql        fetchwork submit FILE.sub        fetchwork q")
        owners = ", ".join(pool.machine.job_owners())
        click.echo(f"without a password, as an account of the pool's machine ({owners}):")
        click.echo(f"  export FETCHWORK_ACCESS_POINT={pool.access_point.socket}")
        link = pool.page.link
        missing = "not served: pip install 'fetchwork[page]'"
        click.echo("in a browser:")
        click.echo(f"  {link or missing}")


@click.command()
@click.pass_context
def demo(context: click.Context) -> None:
    """Run 20 jobs through a private pool, from SQL and submit description to their results.

    The pool is made for it and removed afterwards. The exit status is 1 if a job did not
    complete as it should.

    \b
    Example:
      fetchwork demo
    """
    from fetchwork.pool.demo import run

    context.exit(run())
