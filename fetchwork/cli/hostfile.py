"""Files of a host that joins: its host file, and the directory of its identity."""

from __future__ import annotations

import os
import pwd
import re
import tomllib
from pathlib import Path

import click


def change_host_file(file: Path, database: str, conninfo: str) -> bool:
    """Replace the conninfo of a database in a host file; False if it is not one line there."""
    before = file.read_text(encoding="utf-8")
    section = re.compile(
        rf"(?ms)^(\[database\.{re.escape(database)}\]\s*?\n(?:(?!\[)[^\n]*\n)*?conninfo\s*=\s*)[^\n]*"
    )
    after = section.sub(lambda found: f'{found[1]}"{conninfo}"', before, count=1)
    wanted = tomllib.loads(before)
    wanted.get("database", {}).get(database, {})["conninfo"] = conninfo
    if tomllib.loads(after) != wanted:
        return False
    status = file.stat()
    beside = file.with_name(f"{file.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(
        os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as out:
        if os.geteuid() == 0:
            os.fchown(out.fileno(), status.st_uid, status.st_gid)
        os.fchmod(out.fileno(), status.st_mode & 0o777)
        out.write(after)
    beside.rename(file)
    return True


def write_host_file(file: Path, text: str, state: Path) -> None:
    """Write a host file for the agent's account alone, which owns the directory of the identity."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        if os.geteuid() == 0:
            owner = state.stat()
            os.fchown(out.fileno(), owner.st_uid, owner.st_gid)
        out.write(text)


def make_state(state: Path, account: str | None) -> None:
    """Make the directory of the identity, for the agent's account alone."""
    state.mkdir(parents=True, exist_ok=True)
    if account is not None and os.geteuid() == 0:
        try:
            owner = pwd.getpwnam(account)
        except KeyError:
            raise click.UsageError(f"there is no account '{account}' here; allowed: --user ACCOUNT") from None
        os.chown(state, owner.pw_uid, owner.pw_gid)
    state.chmod(0o700)
