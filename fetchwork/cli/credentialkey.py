"""``fetchwork db credential-key``: the keys that credentials are sealed to."""

from __future__ import annotations

from pathlib import Path

import click

#: credentials that are sealed anew with one look
_PIECE = 100


@click.group()
def credential_key() -> None:
    """Make and change the keys that credentials are sealed to.

    The private keys are in a file that agents read ([database.NAME] credential_key in the host file), the
    database has the public one. To begin, and to change keys: 'new' on one host, copy the file to all hosts,
    then 'use'.
    """


@credential_key.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def new(file: Path) -> None:
    """Put a new key at the end of FILE, which is made for root alone if it is not there.

    The account of the agents (agent.user) has to be able to read it, and no other account of the hosts.
    Nothing is sealed to the key before 'use'.

    \b
    Example:
      fetchwork db credential-key new /etc/fetchwork/credential.key
    """
    from fetchwork.credentials.keys import KeyFile

    click.echo(f"key {KeyFile(file).add()} is in {file}")


@credential_key.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.pass_obj
def use(conninfo: str, file: Path) -> None:
    """Have credentials sealed to the newest key of FILE, those that are stored as well.

    Once every host has the file. The keys before it can be deleted from FILE, and from the hosts, when this
    says that nothing else is sealed to them.

    \b
    Example:
      fetchwork db credential-key use /etc/fetchwork/credential.key
    """
    from fetchwork.credentials.keys import KeyFile, key_id, seal
    from fetchwork.db import calls
    from fetchwork.db.database import Database
    from fetchwork.errors import CredentialError

    keys = KeyFile(file)
    public = keys.newest()
    name = key_id(public)
    resealed = 0
    with Database(conninfo) as database:
        changed = database.run(calls.publish_credential_key(public_key=public))
        click.echo(f"credentials are {'now' if changed else 'already'} sealed to key {name}")
        while rows := database.run(calls.sealed_otherwise(n=_PIECE)):
            done = 0
            for row in rows:
                sealed = seal(keys.open(row.sealed, row.key_id), public)
                done += database.run(
                    calls.reseal_credential(
                        owner=row.owner, name=row.name, version=row.version, key_id=name, sealed=sealed
                    )
                )
            if not done:
                raise CredentialError("another key was published meanwhile")
            resealed += done
        # the keys that nothing is sealed to any more go
        database.run(calls.publish_credential_key(public_key=public))
    click.echo(f"{resealed} stored credentials were sealed anew; nothing is sealed to another key")
