"""``fetchwork demo``: 20 jobs through a private pool."""

import click


@click.command()
@click.pass_context
def cli(context: click.Context) -> None:
    """Run 20 jobs through a private pool, from SQL and submit description to their results.

    The pool is made for it and removed afterwards. The exit status is 1 if a job did not
    complete as it should.

    \b
    Example:
      fetchwork demo
    """
    from fetchwork.pool import demo

    context.exit(demo.run())
