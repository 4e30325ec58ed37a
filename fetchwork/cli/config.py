"""``fetchwork config``: from a host file to HTCondor configuration, and is it in force?"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.errors import ConfigError, FetchworkError

if TYPE_CHECKING:
    from fetchwork.config import HostConfig
    from fetchwork.deploy.check import Finding


@click.group("config")
def cli() -> None:
    """Turn a host file into HTCondor configuration.

    \b
    Example:
      fetchwork config generate -o /etc/condor/config.d
      fetchwork config check
    """


@cli.command()
@options.host_file_option
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Write DIR/50-fetchwork.conf, instead of stdout; DIR is one of HTCondor's LOCAL_CONFIG_DIR.",
)
@click.option(
    "--unit-output",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Write DIR/fetchwork-agent.service too, for a host whose agent systemd runs.",
)
def generate(file: Path | None, output: Path | None, unit_output: Path | None) -> None:
    """Write HTCondor configuration from a host file.

    \b
    Example:
      fetchwork config generate -c /etc/fetchwork/host.toml -o /etc/condor/config.d
      condor_reconfig
    """
    from fetchwork import config as host_file
    from fetchwork.deploy import CONDOR_FILE, UNIT_FILE, render

    path = file or host_file.default_file()
    config = host_file.load(path)
    texts = render(config, _installed_version())
    if unit_output is not None and UNIT_FILE not in texts:
        raise FetchworkError(
            f"'{path}' has no agent run by systemd, so there is no unit: agent.run is not 'systemd'"
        )
    if output is None:
        click.echo(texts[CONDOR_FILE], nl=False)
    else:
        _write(output / CONDOR_FILE, texts[CONDOR_FILE])
    if unit_output is not None:
        _write(unit_output / UNIT_FILE, texts[UNIT_FILE])
    elif UNIT_FILE in texts:
        _note(f"the unit of the agent is not written: give --unit-output /etc/systemd/system for {UNIT_FILE}")
    if path.resolve() != config.host.file.resolve():
        _note(f"the agent will read '{config.host.file}', not '{path}': put it there, or set host.file")


@cli.command()
@options.host_file_option
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="HTCondor's directory for configuration files.  [default: the last of its LOCAL_CONFIG_DIR]",
)
def install(file: Path | None, output: Path | None) -> None:
    """Install what a host file describes: hooks, spool, HTCondor configuration, the agent's unit.

    For a pilot it also makes the directories and the condor_config of an HTCondor of its own.

    It combines `fetchwork hooks install` and `fetchwork config generate`, can be repeated after each change
    of the file, has a running agent read the file again, and restarts nothing. Run it on the host, as root
    where HTCondor is run by root.

    \b
    Example:
      fetchwork config install
      condor_restart
    """
    from fetchwork import config as host_file
    from fetchwork.deploy import CONDOR_FILE, UNIT_FILE, pilot, render
    from fetchwork.deploy import hooks as hookinstall
    from fetchwork.deploy.check import UNIT_DIRECTORY, check_leftovers
    from fetchwork.deploy.condorconfig import CondorConfig, installed
    from fetchwork.deploy.layout import shortage

    path = file or host_file.default_file()
    config = host_file.load(path)
    if path.resolve() != config.host.file.resolve():
        raise FetchworkError(
            f"the agent will read '{config.host.file}', not '{path}': put it there, or set host.file"
        )
    if installed() and (problem := shortage(config, CondorConfig())):
        raise FetchworkError(f"{path}: slots.type {problem}: the startd would not start")
    texts = render(config, _installed_version())
    if config.pilot:
        file_of_pilot, text = pilot.prepare(config, CondorConfig())
        _write(file_of_pilot, text)
        directory = output or file_of_pilot.parent / pilot.CONFIG_DIRECTORY
    else:
        directory = output or _condor_directory()
    if UNIT_FILE in texts and not UNIT_DIRECTORY.is_dir():
        raise FetchworkError(f"no directory '{UNIT_DIRECTORY}' for the agent's unit: agent.run is 'systemd'")
    for keyword, hooks in hookinstall.install_host(config).items():
        _note(f"wrote {len(hooks)} hooks of {keyword} into {hooks[0].parent}")
    _write(directory / CONDOR_FILE, texts[CONDOR_FILE])
    if UNIT_FILE in texts:
        _write(UNIT_DIRECTORY / UNIT_FILE, texts[UNIT_FILE])
    if config.pilot:
        _note(f"start the pilot with CONDOR_CONFIG={file_of_pilot} condor_master")
    for leftover in check_leftovers(config):
        _note(f"{leftover.where}: {leftover.wrong}; remedy: {leftover.allowed}")
    _tell_agent(config)


@cli.command()
def settings() -> None:
    """Print every setting of a host file, with its default and what is allowed.

    \b
    Example:
      fetchwork config settings | less
    """
    from fetchwork.config.reference import reference

    click.echo(reference(), nl=False)


@cli.command()
@options.host_file_option
@click.option("--offline", is_flag=True, help="Check the file alone: it is meant for another machine.")
@options.json_option
def check(file: Path | None, offline: bool, as_json: bool) -> None:
    """Check a host file, the paths it names, and HTCondor's use of it.

    Prints one line for each problem: where it is, what is wrong, what is allowed. The exit status is 1 if
    there is a problem that is not a warning.

    \b
    Example:
      fetchwork config check -c /etc/fetchwork/host.toml
    """
    from fetchwork import config as host_file

    path = file or host_file.default_file()
    findings = list(_findings(path, offline))
    if as_json:
        output.print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            click.echo(str(finding))
    if wrong := sum(not finding.warning for finding in findings):
        raise FetchworkError(f"{wrong} {'thing is' if wrong == 1 else 'things are'} wrong with '{path}'")
    if not as_json:
        click.echo(f"{path}: nothing wrong")


def _findings(path: Path, offline: bool) -> Iterator[Finding]:
    from fetchwork import config as host_file
    from fetchwork.deploy.check import Finding, Locator, check_condor, check_paths
    from fetchwork.deploy.condorconfig import CondorConfig, installed
    from fetchwork.deploy.layout import shortage

    try:
        config = host_file.load(path)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding.parse(problem)
        return
    if offline:
        return
    yield from check_paths(config, Locator(path))
    if installed():
        if wrong := shortage(config, CondorConfig()):
            yield Finding(Locator(path)("slots", "type"), wrong, "fewer or smaller slots")
        yield from check_condor(config, CondorConfig())
    else:
        _note("no HTCondor on this machine: not compared with what it would use")


def _tell_agent(config: HostConfig) -> None:
    """Have a running agent read the host file again."""
    from fetchwork.agent import client
    from fetchwork.errors import AgentUnavailable

    if not config.socket.exists():
        return
    try:
        status = client.reload(config.socket)
    except AgentUnavailable as error:
        _note(f"no agent has read the host file again: {error}")
        return
    problems = list(client.host_file_problems(status))
    for problem in problems:
        _note(f"host file {problem}")
    if not problems:
        _note("the agent has read the host file again")


def _condor_directory() -> Path:
    """The directory that HTCondor reads last, so that our settings override those of its package."""
    from fetchwork.deploy.condorconfig import CondorConfig

    named = CondorConfig().value("LOCAL_CONFIG_DIR") or ""
    directories = [Path(part) for part in named.replace(",", " ").split()]
    there = [directory for directory in directories if directory.is_dir()]
    if not there:
        raise FetchworkError("HTCondor names no LOCAL_CONFIG_DIR that is there: say where with --output DIR")
    return there[-1]


def _installed_version() -> tuple[int, ...] | None:
    from fetchwork.deploy.condorconfig import CondorConfig, CondorConfigError, installed

    if not installed():
        return None
    try:
        return CondorConfig().version()
    except CondorConfigError as error:
        _note(f"HTCondor's version is not known, so the output suits every version: {error}")
        return None


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all: HTCondor may read its directory at any moment."""
    try:
        # HTCondor does not read names that begin with a dot
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        raise FetchworkError(f"cannot write '{path}': {error.strerror}") from error
    _note(f"wrote {path}")


def _note(text: str) -> None:
    click.echo(f"fetchwork: {text}", err=True)
