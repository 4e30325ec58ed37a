"""``fetchwork serve``: the queue in a browser and over HTTP."""

from __future__ import annotations

import grp
import ipaddress
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.page.signin import SignIn

DEFAULT_ADDRESS = "127.0.0.1:9080"
_UNIX = "unix:"


@click.command()
@click.option(
    "--listen",
    default=DEFAULT_ADDRESS,
    show_default=True,
    metavar="ADDRESS:PORT|unix:PATH",
    help="The address to listen at; ':9080' is all addresses, 'unix:PATH' a Unix socket.",
)
@click.option(
    "--socket-group",
    metavar="GROUP",
    help="The group that may connect to the Unix socket: the reverse proxy's.",
)
@click.option(
    "--write", is_flag=True, help="Let people change jobs and queues, as far as the database lets them."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The token for sign-in is the first line of FILE, instead of a new one at each start.",
)
@click.option(
    "--user-header",
    metavar="NAME",
    help="A reverse proxy signs people in and names the account in this header. Each has the rights of that"
    " account alone; the database's role must be a member of fetchwork_access_point. The proxy is known by a"
    " Unix socket, --proxy-secret-file or --trusted-proxy.",
)
@click.option(
    "--proxy-secret-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The first line of FILE is a secret that the proxy sends in the header X-Fetchwork-Proxy-Secret.",
)
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="The proxy's address or network, with --user-header.  [default with --proxy-secret-file: 127.0.0.1"
    " and ::1]",
)
@click.option(
    "--admin",
    "admins",
    multiple=True,
    metavar="ACCOUNT",
    help="An account that has all rights of the database's role, with --user-header.",
)
@click.option("--dsn", metavar="CONNINFO", help="The database; as fetchwork --dsn.")
@click.pass_context
def cli(
    context: click.Context,
    listen: str,
    socket_group: str | None,
    write: bool,
    token_file: Path | None,
    user_header: str | None,
    proxy_secret_file: Path | None,
    proxies: tuple[str, ...],
    admins: tuple[str, ...],
    dsn: str | None,
) -> None:
    """Show the queue in a browser, and serve it to programs as JSON (/api/v1).

    Without a reverse proxy there is one token, in the link that is printed: it gives the rights of the
    database's role. Nothing can be changed without --write. Programs send the token as
    'Authorization: Bearer TOKEN'; /api/v1/openapi.json describes the requests.

    \b
    Example:
      fetchwork serve --dsn service=pool
      fetchwork serve --write --token-file /etc/fetchwork/page.token
      fetchwork serve --listen unix:/run/fetchwork/page.sock --socket-group www-data \\
                      --user-header X-Remote-User --admin alice --write
    """
    try:
        from fetchwork.page import serving
        from fetchwork.page.application import application
    except ImportError as error:
        raise click.ClickException(
            f"package '{error.name}' is not installed: pip install 'fetchwork[page]'"
        ) from None
    from fetchwork.queue.reading.summaries import totals
    from fetchwork.queue.session import Session

    at_path = listen.startswith(_UNIX)
    if socket_group is not None and not at_path:
        raise click.UsageError("--socket-group goes with --listen unix:PATH")
    sign_in = _sign_in(write, token_file, user_header, proxy_secret_file, proxies, admins, at_path)
    conninfo = options.conninfo_of(context, dsn)
    # a wrong connection string is told now, not on the first page
    with Session(conninfo) as session:
        session.run(totals())
    listener, link = _listen(listen, socket_group)
    if at_path or user_header is not None:
        output.echo(f"serving {link}")
    else:
        output.echo(f"serving {link}?token={sign_in.token}")
    # a journal or a container's log gets the line now, not when the page ends
    sys.stdout.flush()
    proxies_known = sign_in.trusted if user_header is not None else None
    try:
        serving.serve(application(conninfo, sign_in), listener, proxies_known or ())
    finally:
        if at_path:
            Path(listen.removeprefix(_UNIX)).unlink(missing_ok=True)


def _listen(listen: str, group: str | None) -> tuple[socket.socket, str]:
    """Return the socket, and the address to print for people."""
    from fetchwork.config.hostname import listen_address
    from fetchwork.page import serving

    try:
        if listen.startswith(_UNIX):
            gid = None if group is None else grp.getgrnam(group).gr_gid
            return serving.listen_at_path(Path(listen.removeprefix(_UNIX)), gid), listen
        address, port = listen_address(listen)
        host = listen if listen[0] != ":" else f"localhost:{port}"
        return serving.listen(address, port), f"http://{host}/"
    except KeyError:
        raise click.UsageError(f"--socket-group: there is no group '{group}'") from None
    except ValueError as error:
        raise click.UsageError(f"--listen: {error}") from None
    except OSError as error:
        raise click.ClickException(f"cannot listen at '{listen}': {error.strerror or error}") from None


def _sign_in(
    write: bool,
    token_file: Path | None,
    user_header: str | None,
    secret_file: Path | None,
    proxies: tuple[str, ...],
    admins: tuple[str, ...],
    at_path: bool,
) -> SignIn:
    from fetchwork.page.signin import SignIn

    if user_header is None:
        if proxies or admins or secret_file:
            raise click.UsageError("--trusted-proxy, --proxy-secret-file and --admin go with --user-header")
        if token_file is None:
            return SignIn(may_write=write)
        return SignIn(token=_secret_in(token_file, "token"), may_write=write)
    if token_file is not None:
        raise click.UsageError("--token-file does not go with --user-header")
    if at_path and proxies:
        raise click.UsageError("--trusted-proxy does not go with --listen unix:PATH")
    if not (at_path or secret_file or proxies):
        raise click.UsageError(
            "--user-header: every account of this machine could name any account; give --listen unix:PATH,"
            " --proxy-secret-file FILE or --trusted-proxy ADDRESS"
        )
    try:
        trusted = [ipaddress.ip_network(text) for text in proxies or ("127.0.0.1", "::1")]
    except ValueError as error:
        raise click.UsageError(f"--trusted-proxy: {error}; allowed: an address or a network") from None
    own = map(ipaddress.ip_address, ("127.0.0.1", "::1"))
    if not at_path and secret_file is None and any(one in network for one in own for network in trusted):
        output.echo(
            "fetchwork: warning: --trusted-proxy trusts this machine: each of its accounts can act for any"
            " account; --listen unix:PATH or --proxy-secret-file prevents that",
            err=True,
        )
    return SignIn(
        may_write=write,
        header=user_header,
        trusted=None if at_path else trusted,
        proxy_secret=None if secret_file is None else _secret_in(secret_file, "secret"),
        admins=frozenset(admins),
    )


def _secret_in(path: Path, name: str) -> str:
    """The first line of a file."""
    try:
        text = path.read_text().partition("\n")[0].strip()
    except OSError as error:
        raise click.ClickException(f"'{path}': {error.strerror}") from None
    if len(text) < 16:
        raise click.ClickException(f"'{path}': a {name} has at least 16 characters")
    return text
