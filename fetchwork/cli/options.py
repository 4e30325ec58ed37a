"""What many commands share: the connection, the options that HTCondor's tools have, how jobs are named."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

_FORMAT = re.compile(r"--?(?:af|autoformat)(?::(?P<letters>[a-zA-Z,]*))?$")


class HTCondorCommand(click.Command):
    """A command with HTCondor's ``-af[:letters] ATTR ...``, which takes every word up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest: list[str] = []
        words = iter(args)
        for word in words:
            found = _FORMAT.match(word)
            if found is None:
                rest.append(word)
                continue
            letters, attributes = found["letters"] or "", []
            following: str | None = None
            for following in words:
                if following.startswith("-"):
                    break
                attributes += [name for name in following.split(",") if name]
                following = None
            if not attributes:
                raise click.UsageError(f"option '{word}' needs attribute names", ctx)
            if unknown := set(letters) - set("hjltnVr,"):
                raise click.UsageError(
                    f"option '{word}': letter {sorted(unknown)[0]!r} is none; allowed: h j l t n V r ,", ctx
                )
            ctx.meta["fetchwork.autoformat"] = (letters, attributes)
            if following is not None:
                return super().parse_args(ctx, [*rest, *self._again(ctx, [following, *words])])
        return super().parse_args(ctx, rest)

    def _again(self, ctx: click.Context, args: list[str]) -> list[str]:
        for word in args:
            if _FORMAT.match(word):
                raise click.UsageError("option '-af' is given twice", ctx)
        return args


def connected(function: Function) -> Function:
    """Give a command the option ``--dsn``, and a ``Queue`` as its first argument."""

    @click.option("--dsn", metavar="CONNINFO", help="The database; as fetchwork --dsn.")
    @click.pass_context
    @functools.wraps(function)
    def command(context: click.Context, /, *args: Any, dsn: str | None, **kwargs: Any) -> Any:
        from fetchwork.queue import Queue

        queue = Queue(conninfo_of(context, dsn))
        context.call_on_close(queue.close)
        return context.invoke(function, queue, *args, **kwargs)

    # functools.wraps promises the same type, which click's decorators have widened
    return command  # type: ignore[return-value]


def conninfo_of(context: click.Context, dsn: str | None = None) -> str:
    """The connection string: --dsn here, --dsn of fetchwork, FETCHWORK_DSN, or '' for libpq's environment."""
    import os

    given = dsn if dsn is not None else context.meta.get("fetchwork.dsn")
    return given if given is not None else os.environ.get("FETCHWORK_DSN", "")


def constraint_option(function: Function) -> Function:
    """The option ``-constraint``."""
    return click.option(
        "-constraint",
        "--constraint",
        "constraints",
        metavar="EXPR",
        multiple=True,
        help="Only jobs for which this ClassAd expression is true. With several, all must be true.",
    )(function)


def json_option(function: Function) -> Function:
    """The option ``--json``."""
    return click.option(
        "-json", "--json", "as_json", is_flag=True, help="Print JSON, as condor_q -json does."
    )(function)


def autoformat_note(function: Function) -> Function:
    """The line of the help for ``-af``, which the command's class handles."""
    return click.option(
        "-af",
        "-autoformat",
        "--autoformat",
        "unused_autoformat",
        metavar="ATTR...",
        expose_value=False,
        help="Print these attributes, one job per line. -af:h adds a heading, :j puts the job id first, :l"
        " prints 'Attr = value', :t or :, separates values by tabs or commas, :n prints one value per"
        " line, :V quotes strings, :r prints expressions unevaluated.",
    )(function)


def jobs_constraint(words: Sequence[str], constraints: Sequence[str]) -> str:
    """One constraint for job ids, cluster numbers and owners (any of them), and further constraints (all)."""
    from fetchwork.classad.constraint import joined

    named = []
    for word in words:
        if found := re.fullmatch(r"(\d{1,9})(?:\.(\d{1,9}))?", word):
            own = f" && ProcId == {int(found[2])}" if found[2] else ""
            named.append(f"ClusterId == {int(found[1])}{own}")
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", word):
            named.append(f'Owner =?= "{word}"')
        else:
            raise click.UsageError(
                f"{word!r} is not a job; allowed: 42.0, 42 for a cluster, or an owner's name"
            )
    parts = [" || ".join(f"({part})" for part in named)] if named else []
    return joined([*parts, *constraints])
