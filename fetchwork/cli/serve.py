"""``fetchwork serve``: the queue in a browser and over HTTP."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.page.signin import SignIn

DEFAULT_ADDRESS = "127.0.0.1:9080"


@click.command()
@click.option(
    "--listen",
    default=DEFAULT_ADDRESS,
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where browsers and programs ask; ':9080' listens at all addresses.",
)
@click.option(
    "--write", is_flag=True, help="Let people change jobs and queues, as far as the database lets them."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The token that lets in is the first line of FILE, not a new one each time.",
)
@click.option(
    "--user-header",
    metavar="NAME",
    help="A reverse proxy signs people in and names the account in this header. Each has the rights of that"
    " account alone; the database's role must be a member of fetchwork_access_point.",
)
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="The proxy's address or network, with --user-header.  [default: 127.0.0.1 and ::1]",
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
    write: bool,
    token_file: Path | None,
    user_header: str | None,
    proxies: tuple[str, ...],
    admins: tuple[str, ...],
    dsn: str | None,
) -> None:
    """Show the queue in a browser, and serve it to programs as JSON (/api/v1).

    Without a reverse proxy there is one token, in the link that is printed: whoever has it has the rights of
    the database's role. Nothing can be changed without --write. Programs send the token as
    'Authorization: Bearer TOKEN'; /api/v1/openapi.json describes what they may ask.

    \b
    Example:
      fetchwork serve --dsn service=pool
      fetchwork serve --write --token-file /etc/fetchwork/page.token
      fetchwork serve --user-header X-Remote-User --admin alice --write
    """
    try:
        import uvicorn

        from fetchwork.page.application import application
    except ImportError as error:
        raise click.ClickException(
            f"package '{error.name}' is not installed: pip install 'fetchwork[page]'"
        ) from None
    from fetchwork.config.listen import listen_address
    from fetchwork.queue.session import Session
    from fetchwork.queue.summaries import totals

    try:
        address, port = listen_address(listen)
    except ValueError as error:
        raise click.UsageError(f"--listen: {error}") from None
    sign_in = _sign_in(write, token_file, user_header, proxies, admins)
    conninfo = options.conninfo_of(context, dsn)
    # a wrong connection string is told now, not on the first page
    with Session(conninfo) as session:
        session.run(totals())
    link = f"http://{listen if listen[0] != ':' else f'localhost:{port}'}/"
    output.echo(f"serving {link}" + (f"?token={sign_in.token}" if user_header is None else ""))
    config = uvicorn.Config(
        application(conninfo, sign_in),
        host=address,
        port=port,
        log_level="warning",
        # who asks is told by the header that we were given, from addresses that we trust
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    try:
        server.run()
    except SystemExit:
        raise click.ClickException(f"cannot listen at '{listen}'") from None


def _sign_in(
    write: bool,
    token_file: Path | None,
    user_header: str | None,
    proxies: tuple[str, ...],
    admins: tuple[str, ...],
) -> SignIn:
    from fetchwork.page.signin import SignIn

    if user_header is None:
        if proxies or admins:
            raise click.UsageError("--trusted-proxy and --admin go with --user-header")
        if token_file is None:
            return SignIn(may_write=write)
        token = token_file.read_text().partition("\n")[0].strip()
        if len(token) < 16:
            raise click.ClickException(f"'{token_file}': a token has at least 16 characters")
        return SignIn(token=token, may_write=write)
    if token_file is not None:
        raise click.UsageError("--token-file does not go with --user-header")
    try:
        trusted = [ipaddress.ip_network(text) for text in proxies or ("127.0.0.1", "::1")]
    except ValueError as error:
        raise click.UsageError(f"--trusted-proxy: {error}; allowed: an address or a network") from None
    return SignIn(may_write=write, header=user_header, trusted=trusted, admins=frozenset(admins))
