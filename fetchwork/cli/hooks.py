"""``fetchwork hooks``: installs the executables that HTCondor runs."""

from pathlib import Path

import click

from fetchwork.cli import options, output
from fetchwork.errors import ConfigError


@click.group()
def cli() -> None:
    """Install the hooks that HTCondor calls."""


@cli.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@options.host_file_option
@click.option(
    "--keyword", "-k", help="With DIRECTORY: whose hooks these are.  [default: the file's only one]"
)
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    help="The interpreter that runs the hooks.  [default: /usr/bin/python3]",
)
@click.option(
    "--compiled/--no-compiled",
    default=None,
    help="Compile the hooks here, with cc: a call then takes a tenth of the CPU."
    "  [default: as they are; at first in Python]",
)
@options.json_option
def install(
    directory: Path | None,
    file: Path | None,
    keyword: str | None,
    python: Path | None,
    compiled: bool | None,
    as_json: bool,
) -> None:
    """Install the hooks of the host file's keywords, and make the agent's spool.

    Each keyword has its own directory, named in the host file; with DIRECTORY only the hooks of one keyword
    are installed, there. It can be repeated at any time, even while slots are running jobs.

    \b
    Example:
      fetchwork hooks install
      fetchwork hooks install --compiled
      fetchwork hooks install /usr/local/libexec/fetchwork/GPU --keyword GPU
    """
    from fetchwork import config
    from fetchwork.deploy import hooks as hookinstall

    host = config.load(file)
    names = list(host.keywords)
    if keyword is not None and keyword not in names:
        raise ConfigError([f"--keyword {keyword}: is not in the host file; allowed: {', '.join(names)}"])
    if directory is not None:
        if keyword is None and len(names) > 1:
            raise click.UsageError(
                f"DIRECTORY is for one keyword: name it with --keyword ({', '.join(names)})"
            )
        names = [keyword or names[0]]
        table = host.keywords[names[0]].model_copy(update={"hooks": directory.absolute()})
        host = host.model_copy(update={"keywords": {names[0]: table}})
    elif keyword is not None:
        host = host.model_copy(update={"keywords": {keyword: host.keywords[keyword]}})
    written = hookinstall.install_host(host, python=python, compiled=compiled)
    if as_json:
        output.print_json({name: [str(path) for path in paths] for name, paths in written.items()})
        return
    for name, paths in written.items():
        click.echo(f"{name}: {len(paths)} hooks in {paths[0].parent}")
