"""The join of a host, and its files: the host file, and the directory of its identity."""

from __future__ import annotations

import os
import pwd
import re
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fetchwork.config.identity import InvitationText


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


def write_environment(file: Path, name: str, value: str) -> None:
    """Set a variable in a file of systemd's EnvironmentFile=, for its owner alone; other lines stay."""
    from fetchwork.config.identity import write_private

    before = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    lines = [line for line in before if not line.startswith(f"{name}=")]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, "".join(f"{line}\n" for line in [*lines, f"{name}={value}"]))


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


def joined(invited: InvitationText, host: str, path: Path) -> str:
    """Get an identity, write its file, and return the connection string that uses it."""
    from fetchwork.config import conninfo as text
    from fetchwork.config.identity import (
        IdentityFile,
        new_password,
        next_path,
        read_identity,
        verifier_of,
        write_identity,
    )
    from fetchwork.db.calls import hosts
    from fetchwork.db.database import Database

    server = dict(invited.server)
    passfile, root = path.with_suffix(".pgpass"), path.with_suffix(".crt")
    if invited.ca is not None:
        root.write_text(invited.ca, encoding="utf-8")
        # an invitation through PgBouncer, which has no channel binding, says so itself
        server = {"channel_binding": "require", **server, "sslrootcert": str(root)}
        server["require_auth"] = "scram-sha-256"
    # a password from before a crash, which may have been used
    begun = read_identity(next_path(passfile))
    password = begun.password if begun is not None and begun.role == server["user"] else new_password()
    write_identity(next_path(passfile), IdentityFile(server["user"], password, 0, 0, 0))
    with Database(text.text_of({**server, "password": invited.password})) as database:
        got = database.run(hosts.join_host(host=host, verifier=verifier_of(password)))
    ends = int(got.valid_until.timestamp())
    write_identity(passfile, IdentityFile(got.role, password, got.generation, int(time.time()), ends))
    next_path(passfile).unlink()
    return text.text_of({**server, "user": got.role, "passfile": str(passfile)})
