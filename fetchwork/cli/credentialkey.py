"""``fetchwork db credential-key``: the keys that credentials are sealed to."""

from __future__ import annotations

from pathlib import Path

import click

#: credentials that are resealed in one batch
_PIECE = 100


@click.group()
def credential_key() -> None:
    """Make and change the keys that credentials are sealed to.

    The private keys are in a file that agents read ([database.NAME] credential_key in the host file), the
    database has the public one. To begin, and to change keys: 'new' on one host, copy the file to all hosts,
    then 'use'.

    \b
    Example:
      fetchwork db credential-key new /etc/fetchwork/credential.key
      fetchwork db credential-key use /etc/fetchwork/credential.key
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
    """Seal credentials to the newest key of FILE, stored ones too.

    Once every host has the file. The keys before it can be deleted from FILE, and from the hosts, when this
    says that nothing is sealed to another key. It names each credential that it can't open, and exits with 1.

    \b
    Example:
      fetchwork db credential-key use /etc/fetchwork/credential.key
    """
    from fetchwork.credentials.keys import KeyFile, key_id, seal
    from fetchwork.db.calls import credentials
    from fetchwork.db.database import Database
    from fetchwork.errors import CredentialError

    keys = KeyFile(file)
    public = keys.newest()
    name = key_id(public)
    resealed = 0
    closed: dict[tuple[str, str], str] = {}
    with Database(conninfo) as database:
        changed = database.run(credentials.publish_credential_key(public_key=public))
        click.echo(f"credentials are {'now' if changed else 'already'} sealed to key {name}")
        owner = of_owner = ""
        while rows := database.run(
            credentials.sealed_otherwise(n=_PIECE, after_owner=owner, after_name=of_owner)
        ):
            owner, of_owner = rows[-1].owner, rows[-1].name
            for row in rows:
                try:
                    opened = keys.open(row.sealed, row.key_id)
                except CredentialError as error:
                    # a row may hold arbitrary bytes; it must not keep other people's credentials back
                    closed[row.owner, row.name] = str(error)
                    continue
                resealed += database.run(
                    credentials.reseal_credential(
                        owner=row.owner,
                        name=row.name,
                        version=row.version,
                        key_id=name,
                        sealed=seal(opened, public),
                    )
                )
        left = {(row.owner, row.name) for row in database.run(credentials.sealed_otherwise(n=_PIECE))}
        # delete the keys to which nothing is sealed any more
        database.run(credentials.publish_credential_key(public_key=public))
    click.echo(f"{resealed} stored credentials were sealed anew")
    for (owner, of_owner), problem in closed.items():
        click.echo(f"not sealed anew, to be added again: {of_owner} of {owner}: {problem}")
    if left - closed.keys():
        raise CredentialError("credentials were stored or a key was published meanwhile; use it again")
    if closed:
        click.get_current_context().exit(1)
    click.echo("nothing is sealed to another key")
