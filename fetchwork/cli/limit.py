"""``fetchwork limit``: concurrency limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession


@click.command()
@click.argument("name", required=False)
@click.argument("maximum", metavar="[N|none]", required=False)
@options.json_option
@options.performing
def cli(session: AnySession, name: str | None, maximum: str | None, as_json: bool) -> None:
    """Show and set concurrency limits (HTCondor's <NAME>_LIMIT).

    N is the number that running jobs may use together; 'none' takes the limit away.

    \b
    Example:
      fetchwork limit
      fetchwork limit license 20
      fetchwork limit license none
    """
    from fetchwork.db.calls import administration

    if name is not None and maximum is not None:
        options.database_of(session).run(
            administration.set_limit(name=name, maximum=options.number_or_none("N", maximum, whole=False))
        )
    limits = [ad for ad in session.items("view", name="limits") if name in (None, ad["Name"])]
    if as_json:
        output.print_json(limits)
        return
    output.table(
        ("LIMIT", "MAXIMUM", "IN_USE"),
        [[ad["Name"], output.number(ad["Maximum"]), output.number(ad["Used"])] for ad in limits],
        right=(1, 2),
    )
