"""``fetchwork host``: invitations, hosts that join by them, and their identities."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.cli.hostfile import change_host_file, joined, make_state, write_environment, write_host_file

if TYPE_CHECKING:
    from fetchwork.config.identity import InvitationText

#: a directory that the agent may write: it renews the identity
STATE = Path("/var/lib/fetchwork/identity")
HOST_FILE = Path("/etc/fetchwork/host.toml")
#: the same for an access point, whose service has its connection string in its environment
POINT_STATE = Path("/var/lib/fetchwork-access-point/identity")
POINT_FILE = Path("/etc/fetchwork/access-point.env")


@click.group()
@click.option("--dsn", metavar="CONNINFO", help="The database; as fetchwork --dsn.")
@click.pass_context
def cli(context: click.Context, dsn: str | None) -> None:
    """Invite hosts, join as one, and revoke one.

    Each host that joins has a database role of its own, by which it can act for itself alone.

    \b
    Example:
      fetchwork host invite --uses 20 --valid 1h
      fetchwork host list
    """
    context.obj = options.conninfo_of(context, dsn)


@cli.command()
@click.option("--name", "hosts", metavar="PATTERN", default="*", help="Names of the hosts, with * and ?.")
@click.option("--queue", "queues", metavar="QUEUE", multiple=True, help="Serve this queue only; repeatable.")
@click.option("--uses", metavar="N", default=1, show_default=True, help="The number of hosts that may join.")
@click.option(
    "--valid", metavar="TIME", default="1h", show_default=True, callback=options.seconds, help="For how long."
)
@click.option("--max-slots", metavar="N", type=int, help="Jobs of each host at once, and their cores.")
@click.option("--trusted", is_flag=True, help="They also do work that shows the jobs of all.")
@click.option("--ephemeral", is_flag=True, help="Pilots: each is forgotten an hour after its last beat.")
@click.option("--access-point", is_flag=True, help="For access points, not for execute hosts.")
@click.option(
    "--owners", metavar="PATTERN", help="For access points that act for these accounts, with * and ?."
)
@click.option(
    "--ca",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Certificate (PEM) of the authority that signed the server's; hosts then verify the server.",
)
@click.option("--address", metavar="HOST", help="The server's name for hosts, if it is another than here.")
@options.json_option
@click.pass_obj
def invite(
    conninfo: str,
    hosts: str,
    queues: tuple[str, ...],
    uses: int,
    valid: float,
    max_slots: int | None,
    trusted: bool,
    ephemeral: bool,
    access_point: bool,
    owners: str | None,
    ca: Path | None,
    address: str | None,
    as_json: bool,
) -> None:
    """Print an invitation: one line, by which hosts join while it is valid.

    It is a secret: it gives an identity of a host, with these bounds.

    \b
    Example:
      fetchwork host invite --name 'ep*.example.org' --queue default --uses 200 --ca root.crt
      fetchwork host invite --name submit1.example.org --access-point --owners 'atlas*' --ca root.crt
    """
    from fetchwork.config.identity import InvitationText, new_password, server_for_hosts, verifier_of
    from fetchwork.db.calls import hosts as calls
    from fetchwork.db.database import Database

    if access_point and owners is None:
        owners = "*"
    password = new_password()
    with Database(conninfo) as database:
        server = server_for_hosts(database.settings(), address, verified=ca is not None)
        made = database.run(
            calls.invite_host(
                verifier=verifier_of(password),
                hosts=hosts,
                queues=list(queues) or None,
                uses=uses,
                valid_s=valid,
                max_slots=max_slots,
                trusted=trusted,
                ephemeral=ephemeral,
                owners=owners,
            )
        )
    server.update(dbname=made.database, user=made.role)
    certificate = ca.read_text(encoding="utf-8") if ca is not None else None
    for_point = owners is not None
    line = InvitationText(server, password, list(queues) or ["default"], for_point, certificate).encode()
    if not server.get("sslmode", "").startswith("verify-"):
        click.echo("hosts will not verify the server; that needs --ca FILE", err=True)
    if as_json:
        output.print_json({**asdict(made), "invitation": line})
        return
    click.echo(line)
    told = f"invitation {made.number} for {uses} hosts, until {made.valid_until:%Y-%m-%d %H:%M:%S}"
    click.echo(f"{told}; there: `fetchwork host join INVITATION`", err=True)


@cli.command()
@options.json_option
@click.pass_obj
def invitations(conninfo: str, as_json: bool) -> None:
    """Show the invitations, without their secrets.

    \b
    Example:
      fetchwork host invitations
    """
    from fetchwork.db.calls import hosts
    from fetchwork.db.database import Database

    with Database(conninfo) as database:
        rows = database.run(hosts.invitations())
    if as_json:
        output.print_json([asdict(row) for row in rows])
        return
    output.table(
        ("NUMBER", "HOSTS", "QUEUES", "OWNERS", "USED", "JOINED", "SLOTS", "UNTIL", "BY"),
        [
            (
                row.number, row.hosts, "-" if row.owners else ",".join(row.queues or ["all"]),
                row.owners or "-", f"{row.used}/{row.uses}", row.joined, row.max_slots or "-",
                "ended" if row.ended_at else f"{row.valid_until:%Y-%m-%d %H:%M}", row.invited_by,
            )
            for row in rows
        ],
        right=(0, 4, 5, 6),
    )  # fmt: skip


@cli.command()
@click.argument("number", type=int)
@click.pass_obj
def uninvite(conninfo: str, number: int) -> None:
    """End an invitation; the hosts that joined by it stay.

    \b
    Example:
      fetchwork host uninvite 3
    """
    from fetchwork.db.calls import hosts
    from fetchwork.db.database import Database

    with Database(conninfo) as database:
        ended = database.run(hosts.uninvite(number=number))
    click.echo(f"invitation {number} {'has ended' if ended else 'had ended before'}")


@cli.command()
@click.argument("invitation", envvar="FETCHWORK_INVITATION")
@click.option("--name", metavar="HOST", help="The host's name.  [default: HTCondor's FULL_HOSTNAME]")
@click.option("--database", metavar="NAME", default="main", show_default=True, help="Its name in host files.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"A directory for the identity, which is renewed there.  [default: {STATE}; of an access point"
    f" {POINT_STATE}]",
)
@click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"The host file: written, or given the new conninfo if it is there.  [default: {HOST_FILE}; of an"
    f" access point {POINT_FILE}]",
)
@click.option("--user", metavar="ACCOUNT", help="The agent's account.  [default: condor if root joins]")
def join(
    invitation: str, name: str | None, database: str, state: Path | None, file: Path | None, user: str | None
) -> None:
    """Join a pool: get an identity for this host, and write its host file.

    By an invitation for access points it writes the file with the connection string of that service.

    INVITATION is the line of 'fetchwork host invite'; '-' reads it from stdin, where no other account
    sees it. To repeat this after a crash is harmless.

    \b
    Example:
      fetchwork host join - < invitation
      FETCHWORK_INVITATION=fetchwork-invitation:... fetchwork host join
    """
    from fetchwork.config import load
    from fetchwork.config.hostname import full_hostname
    from fetchwork.config.identity import InvitationText, own_key_path, write_private
    from fetchwork.credentials.keys import own_key_text

    if invitation == "-":
        invitation = sys.stdin.readline()
    invited = InvitationText.decode(invitation)
    if invited.access_point:
        _join_as_point(invited, name or full_hostname(), database, state or POINT_STATE, file or POINT_FILE)
        return
    file = file or HOST_FILE
    state = state or STATE
    account = user or ("condor" if os.geteuid() == 0 else None)
    there = load(file) if file.exists() else None
    make_state(state, account)
    conninfo = joined(invited, name or (there.name if there else full_hostname()), state / database)
    # its agent registers the public key
    write_private(own_key_path(state / database), own_key_text())
    if there is not None:
        if database in there.databases and there.databases[database].credential_key is not None:
            key_file = there.databases[database].credential_key
            click.echo(
                f"'{key_file}' opens the credentials of all jobs: only a trusted host needs it from now on",
                err=True,
            )
        if change_host_file(file, database, conninfo):
            click.echo(f"joined; '{file}' has the new connection: next is `fetchwork config install`")
            return
        click.echo(f"joined; '{file}' is there already, and needs in [database.{database}]:")
        click.echo(f'conninfo = "{conninfo}"')
        return
    queues = ", ".join(f'"{queue}"' for queue in invited.queues)
    named = f'[host]\nname = "{name}"\n\n' if name else ""
    text = (
        f'{named}[database.{database}]\nconninfo = "{conninfo}"\n\n[keyword.FETCHWORK]\nqueues = [{queues}]\n'
    )
    write_host_file(file, text, state)
    click.echo(f"joined; wrote '{file}': next is `fetchwork config install && condor_restart`")


def _join_as_point(invited: InvitationText, name: str, database: str, state: Path, file: Path) -> None:
    make_state(state, None)
    conninfo = joined(invited, name, state / database)
    write_environment(file, "FETCHWORK_DSN", conninfo)
    click.echo(f"joined; wrote '{file}': next is to start `fetchwork access-point` with this environment")


@cli.command(name="list")
@options.json_option
@click.pass_obj
def list_(conninfo: str, as_json: bool) -> None:
    """Show the hosts that joined, and the state of their identities.

    A 'copied' identity was found on two hosts: neither gets jobs until it is revoked or admitted.

    \b
    Example:
      fetchwork host list
    """
    from fetchwork.db.calls import hosts
    from fetchwork.db.database import Database

    with Database(conninfo) as database:
        rows = database.run(hosts.identities())
    if as_json:
        output.print_json([asdict(row) for row in rows])
        return
    output.table(
        ("HOST", "IDENTITY", "UNTIL", "JOINED", "INVITATION", "VERSION", "SEEN", "AT"),
        [
            (
                row.host, row.state, f"{row.valid_until:%Y-%m-%d %H:%M}", f"{row.joined_at:%Y-%m-%d %H:%M}",
                row.invitation, row.agent_version or "-", f"{row.seen_at:%Y-%m-%d %H:%M:%S}",
                row.location or "-",
            )
            for row in rows
        ],
    )  # fmt: skip


@cli.command()
@click.argument("host")
@click.pass_context
def revoke(context: click.Context, host: str) -> None:
    """End a host's identity at once; its jobs run again elsewhere.

    \b
    Example:
      fetchwork host revoke ep17.example.org
    """
    from fetchwork.db.calls import hosts
    from fetchwork.db.database import Database

    with Database(context.obj) as database:
        revoked = database.run(hosts.revoke_host(host=host))
    if revoked is None:
        click.echo(f"host {host} has not joined by an invitation", err=True)
        context.exit(1)
    click.echo(f"host {host} is revoked: the database refuses it from now on")
    if revoked.open:
        click.echo(
            f"invitation {revoked.invitation}, by which it came, lets hosts of other names in; to end it:"
            f" `fetchwork host uninvite {revoked.invitation}`"
        )
    if revoked.sessions:
        click.echo(f"{revoked.sessions} of its sessions go on, without rights: end them as a superuser")


@cli.command()
@click.argument("host")
@click.pass_context
def admit(context: click.Context, host: str) -> None:
    """Let a host in again whose identity is over or was copied.

    A revoked host needs an invitation by its name: 'fetchwork host invite --name HOST'.

    \b
    Example:
      fetchwork host admit ep17.example.org
    """
    from fetchwork.db.calls import hosts
    from fetchwork.db.database import Database

    with Database(context.obj) as database:
        admitted = database.run(hosts.admit_host(host=host))
    if not admitted:
        click.echo(f"host {host} has no identity that could be admitted", err=True)
        context.exit(1)
    click.echo(f"host {host} is let in again")


@cli.command()
@click.argument("host")
@click.pass_context
def forget(context: click.Context, host: str) -> None:
    """Delete a host that is gone, with its identity; its name is free again.

    Its agent must have been silent for a lease; 'fetchwork host revoke' ends a host that is not gone.

    \b
    Example:
      fetchwork host forget ep17.example.org
    """
    from fetchwork.db.calls import hosts
    from fetchwork.db.database import Database

    with Database(context.obj) as database:
        forgotten = database.run(hosts.forget_host(host=host))
    if not forgotten:
        click.echo(f"there is no host {host}", err=True)
        context.exit(1)
    click.echo(f"host {host} is forgotten")


@cli.command(name="require-join")
@click.option("--force", "forced", is_flag=True, help="Even if hosts that have not joined are at work.")
@click.option("--off", is_flag=True, help="Serve hosts that share a role again.")
@click.pass_obj
def require_join(conninfo: str, forced: bool, off: bool) -> None:
    """Serve joined hosts alone: those that share a role are refused from now on.

    Until then both kinds are served beside each other, so that a pool moves over while it runs.

    \b
    Example:
      fetchwork host require-join
    """
    from fetchwork.db.calls import hosts
    from fetchwork.db.database import Database

    with Database(conninfo) as database:
        shared = database.run(hosts.require_join(required=not off, forced=forced))
    if off:
        click.echo("hosts that share a role are served again")
        return
    click.echo("hosts that have not joined are refused from now on")
    if shared:
        click.echo(f"these roles still read all jobs; drop those that hosts share: {', '.join(shared)}")
