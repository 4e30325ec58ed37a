"""The commands by which an administrator invites a host and the host joins."""

import re
from pathlib import Path

from click.testing import CliRunner

from fetchwork.cli import host as host_command


def run_host(conninfo: str, *words: object) -> str:
    """The output of a command of ``fetchwork host``."""
    ended = CliRunner().invoke(
        host_command.cli, ["--dsn", conninfo, *map(str, words)], catch_exceptions=False
    )
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def invite(conninfo: str, *words: object) -> str:
    """A new invitation."""
    # older versions of click don't keep the warnings apart
    found = re.search(r"^fetchwork-invitation:\S+$", run_host(conninfo, "invite", *words), re.M)
    assert found is not None
    return found[0]


def join(conninfo: str, invitation: str, directory: Path, name: str = "ep1") -> Path:
    """Join as host ``name``; the host file that was written, with the identity in ``directory``/id."""
    file = directory / f"{name}-joined.toml"
    there = ["--config", file, "--state", directory / "id", "--user", "root"]
    run_host(conninfo, "join", invitation, "--name", name, *there)
    return file
