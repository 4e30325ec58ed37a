"""``fetchwork limit``: concurrency limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.session import Session


@click.command()
@click.argument("name", required=False)
@click.argument("maximum", metavar="[N|none]", required=False)
@options.json_option
@options.connected
def cli(session: Session, name: str | None, maximum: str | None, as_json: bool) -> None:
    """Show and set concurrency limits (HTCondor's <NAME>_LIMIT).

    N is the number that running jobs may use together; 'none' takes the limit away.

    \b
    Example:
      fetchwork limit
      fetchwork limit license 20
      fetchwork limit license none
    """
    from fetchwork.db.calls import administration
    from fetchwork.queue.reading import ads
    from fetchwork.queue.views import LIMITS

    if name is not None and maximum is not None:
        session.database.run(
            administration.set_limit(name=name, maximum=options.number_or_none("N", maximum, whole=False))
        )
    limits = [ad for ad in session.each(ads(LIMITS, None, session.memory)) if name in (None, ad["Name"])]
    if as_json:
        output.print_json(limits)
        return
    output.table(
        ("LIMIT", "MAXIMUM", "IN_USE"),
        [[ad["Name"], output.number(ad["Maximum"]), output.number(ad["Used"])] for ad in limits],
        right=(1, 2),
    )
