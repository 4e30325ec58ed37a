"""``fetchwork token``: tokens with which people sign in at the page and the API."""

from __future__ import annotations

from dataclasses import asdict

import click

from fetchwork.cli import options, output


@click.group()
@click.option("--dsn", metavar="CONNINFO", help="The database; as fetchwork --dsn.")
@click.pass_context
def cli(context: click.Context, dsn: str | None) -> None:
    """Make, list and revoke tokens of people, for the page and the API (fetchwork serve).

    A token has the rights of one account. The database has a hash of it alone.

    \b
    Example:
      fetchwork token create --owner alice --valid 30d
    """
    context.obj = options.conninfo_of(context, dsn)


@cli.command()
@click.option(
    "--owner", required=True, metavar="ACCOUNT", help="The account whose jobs it shows and changes."
)
@click.option(
    "--valid",
    metavar="TIME",
    default="30d",
    show_default=True,
    callback=options.seconds,
    help="For how long.",
)
@click.option("--read-only", is_flag=True, help="It changes nothing.")
@options.json_option
@click.pass_obj
def create(conninfo: str, owner: str, valid: float, read_only: bool, as_json: bool) -> None:
    """Print a new token, which is shown this once.

    Administrators make tokens of any account, and people those of their own.

    \b
    Example:
      fetchwork token create --owner alice --valid 30d --read-only
    """
    from fetchwork.db.calls import tokens
    from fetchwork.db.database import Database

    token = tokens.new_token()
    with Database(conninfo) as database:
        made = database.run(
            tokens.create_token(
                owner=owner, digest=tokens.digest_of(token), valid_s=valid, read_only=read_only
            )
        )
    if as_json:
        output.print_json({**asdict(made), "token": token})
        return
    click.echo(token)
    click.echo(
        f"token {made.number} of {owner}, until {made.valid_until:%Y-%m-%d %H:%M:%S}; it is not shown again",
        err=True,
    )


@cli.command(name="list")
@options.json_option
@click.pass_obj
def list_(conninfo: str, as_json: bool) -> None:
    """Show which tokens there are; administrators see all.

    \b
    Example:
      fetchwork token list
    """
    from fetchwork.db.calls import tokens
    from fetchwork.db.database import Database

    with Database(conninfo) as database:
        rows = database.run(tokens.tokens())
    if as_json:
        output.print_json([asdict(row) for row in rows])
        return
    output.table(
        ("TOKEN", "OWNER", "MAY", "STATE", "UNTIL", "MADE", "BY"),
        [
            (
                row.number, row.owner, "read" if row.read_only else "write", row.state,
                f"{row.valid_until:%Y-%m-%d %H:%M}", f"{row.created_at:%Y-%m-%d %H:%M}", row.created_by,
            )
            for row in rows
        ],
    )  # fmt: skip


@cli.command()
@click.argument("number", type=int)
@click.pass_context
def revoke(context: click.Context, number: int) -> None:
    """End a token at once.

    \b
    Example:
      fetchwork token revoke 3
    """
    from fetchwork.db.calls import tokens
    from fetchwork.db.database import Database

    with Database(context.obj) as database:
        ended = database.run(tokens.revoke_token(number=number))
    click.echo(f"token {number} is refused from now on" if ended else f"token {number} had ended before")
