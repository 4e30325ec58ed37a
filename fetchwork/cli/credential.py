"""``fetchwork credential``: the credentials that jobs show to services."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.credentials.secret import Renewal
    from fetchwork.queue.remote import AnySession

owner_option = click.option(
    "--owner", metavar="ACCOUNT", help="Of this account of the execute hosts.  [default: your own]"
)
handle_option = click.option("--handle", default="", help="The handle: of a service that has several.")


@click.group()
def cli() -> None:
    """Store the tokens that jobs show to services (use_oauth_services).

    They are sealed before they leave this process, and only execute hosts can open them. A job that asks
    for one finds it in the file $_CONDOR_CREDS/SERVICE.use, with a handle SERVICE_HANDLE.use.

    \b
    Example:
      fetchwork credential add box token.jwt
      fetchwork credential list
    """


@cli.command()
@click.argument("service")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), default="-")
@handle_option
@owner_option
@click.option(
    "--permissions", help="The token's permissions: compared with SERVICE_oauth_permissions of jobs."
)
@click.option("--resource", help="The token's audience: compared with SERVICE_oauth_resource of jobs.")
@click.option("--expires", type=click.DateTime(["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"]), help="When, in UTC.")
@click.option("--refresh", is_flag=True, help="FILE says how hosts get new tokens from the issuer.")
@options.performing
def add(
    session: AnySession,
    service: str,
    file: str,
    handle: str,
    owner: str | None,
    permissions: str | None,
    resource: str | None,
    expires: object,
    refresh: bool,
) -> None:
    """Store FILE, or standard input, as the token for SERVICE, in place of an older one.

    Running jobs that have the old one get it within minutes. When it expires is read from the token where it
    says so. With --refresh FILE is a JSON object with token_url, refresh_token, client_id, and as the issuer
    wants them client_secret, scope, resource: hosts ask it for a token when a job starts, and again before
    that expires.

    \b
    Example:
      fetchwork credential add box token.jwt
      htgettoken -o /dev/stdout | fetchwork credential add wlcg
      fetchwork credential add --refresh mydrive refresh.json
    """
    from datetime import UTC, datetime

    from fetchwork.queue import sealing

    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    renewal = _renewal(content) if refresh else None
    name = sealing.add(
        session,
        service,
        b"" if refresh else content,
        handle=handle,
        owner=owner,
        renewal=renewal,
        permissions=permissions,
        resource=resource,
        expires_at=expires.replace(tzinfo=UTC) if isinstance(expires, datetime) else None,
    )
    click.echo(f"credential {name} is stored")


@cli.command(name="list")
@owner_option
@options.json_option
@options.performing
def list_(session: AnySession, owner: str | None, as_json: bool) -> None:
    """Show which credentials are stored, but not their contents.

    \b
    Example:
      fetchwork credential list
    """
    from fetchwork.queue import sealing

    found = sealing.listed(session, owner)
    if as_json:
        output.print_json(found)
        return
    rows = [
        [
            ad["Owner"],
            ad["Name"],
            output.moment(ad.get("StoredAt")),
            output.moment(ad.get("ExpiresAt")),
            "yes" if ad["Renewable"] else "no",
            ad.get("Permissions"),
            ad.get("Resource"),
        ]
        for ad in found
    ]
    output.table(("OWNER", "NAME", "STORED", "EXPIRES", "RENEWED", "PERMISSIONS", "RESOURCE"), rows)


@cli.command()
@click.argument("service")
@handle_option
@owner_option
@options.performing
def rm(session: AnySession, service: str, handle: str, owner: str | None) -> None:
    """Delete a credential. Jobs that ask for it are held when they would start.

    \b
    Example:
      fetchwork credential rm box
    """
    from fetchwork.credentials.secret import name_of
    from fetchwork.errors import NotFound
    from fetchwork.queue import sealing

    name, whose = name_of(service, handle), sealing.owner_of_asker(owner)
    if not session.perform("delete_credential", owner=whose, name=name):
        raise NotFound(f"credential '{name}' of {whose} is not stored")
    click.echo(f"credential {name} is deleted")


@cli.command()
@click.argument("service")
@handle_option
@owner_option
@options.performing
def show_expiry(session: AnySession, service: str, handle: str, owner: str | None) -> int:
    """Print when a credential expires; the exit status is 1 if it has expired or the time is unknown.

    One that hosts renew never does for jobs.

    \b
    Example:
      fetchwork credential show-expiry box || fetchwork credential add box token.jwt
    """
    from fetchwork.credentials.secret import name_of
    from fetchwork.errors import NotFound
    from fetchwork.queue import sealing

    name, whose = name_of(service, handle), sealing.owner_of_asker(owner)
    found = sealing.listed(session, whose, [name])
    if not found:
        raise NotFound(f"credential '{name}' of {whose} is not stored")
    moment = found[0].get("ExpiresAt")
    if found[0]["Renewable"]:
        click.echo("renewed before it expires")
        return 0
    click.echo("unknown" if moment is None else output.moment(moment))
    return 0 if moment is not None and moment > time.time() else 1


def _renewal(content: bytes) -> Renewal:
    from fetchwork.credentials.secret import Renewal
    from fetchwork.errors import CredentialError

    try:
        document = json.loads(content)
        return Renewal(**document)
    except (ValueError, TypeError):
        # the message does not repeat its contents
        raise CredentialError(
            "the file for --refresh is refused; allowed: a JSON object with token_url, refresh_token,"
            " client_id, client_secret, scope, resource"
        ) from None
