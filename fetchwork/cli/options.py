"""Options and arguments that commands share: the connection, HTCondor's options, names of jobs."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from fetchwork.db.database import Database
    from fetchwork.queue.remote import AnySession

Function = TypeVar("Function", bound=Callable[..., object])


class HTCondorCommand(click.Command):
    """A command whose options may be abbreviated, as in HTCondor's tools."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._unabbreviated(ctx, args))

    def _unabbreviated(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Complete unique beginnings of options, as HTCondor's tools do: ``-cons``, ``-tot``."""
        known = {
            name
            for param in self.get_params(ctx)
            for name in (*param.opts, *param.secondary_opts)
            if name.startswith("-") and not name.startswith("--")
        }
        words: list[str] = []
        for number, word in enumerate(args):
            name, equals, value = word.partition("=")
            if name == "--":
                return [*words, *args[number:]]
            if re.fullmatch(r"-[a-z][a-z-]*", name) and name not in known:
                meant = [option for option in known if option.startswith(name)]
                name = meant[0] if len(meant) == 1 else name
            words.append(name + equals + value)
        return words


class Passed(click.Option):
    """An option that HTCondor's command reads: it is here for the help and for completion."""


class FaceCommand(click.Command):
    """A command that hands all words but its own options to one of HTCondor's (``cli.face``)."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {
            name: param
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and not isinstance(param, Passed)
            for name in (*param.opts, *param.secondary_opts)
        }
        mine, passed = list[str](), list[str]()
        words = iter(args)
        for word in words:
            name, equals, value = word.partition("=")
            if (option := own.get(name)) is not None:
                mine += [word] if equals or option.is_flag else [word, *itertools.islice(words, 1)]
            elif equals and name.startswith("--"):
                passed += [name, value]
            else:
                passed.append(word)
        return super().parse_args(ctx, [*mine, "--", *passed])


def passed(
    *names: str, metavar: str | None = None, help: str, hidden: bool = False
) -> Callable[[Function], Function]:
    """An option of HTCondor's command, for the help."""
    return click.option(
        *names,
        cls=Passed,
        is_flag=metavar is None,
        metavar=metavar,
        expose_value=False,
        help=help,
        hidden=hidden,
    )


def words_argument(metavar: str) -> Callable[[Function], Function]:
    """The words that go to HTCondor's command."""
    return click.argument("words", metavar=metavar, nargs=-1, type=click.UNPROCESSED)


def connected(function: Function) -> Function:
    """Give a command ``--dsn`` and ``-name``, and the database's ``Session`` as its first argument."""

    @_dsn_option
    @_name_option
    @click.pass_context
    @functools.wraps(function)
    def command(
        context: click.Context, /, *args: object, dsn: str | None, database: str | None, **kwargs: object
    ) -> object:
        from fetchwork.queue.remote import direct

        session = direct(_given(context, dsn, database), name=database)
        context.call_on_close(session.close)
        return context.invoke(function, session, *args, **kwargs)

    # functools.wraps promises the same type, which click's decorators have widened
    return command  # type: ignore[return-value]


_dsn_option = click.option("--dsn", metavar="CONNINFO", help="The database; as fetchwork --dsn.")
_name_option = click.option(
    "-name", "--name", "database", metavar="NAME", help="One of the databases that FETCHWORK_DATABASES lists."
)


def _given(context: click.Context, dsn: str | None, name: str | None, everywhere: bool = False) -> str | None:
    """Return the given connection string, if any. Raises UsageError if a name was given as well."""
    given = dsn if dsn is not None else context.meta.get("fetchwork.dsn")
    if (given is not None) + (name is not None) + everywhere > 1:
        raise click.UsageError("of --dsn, -name and -global only one can be given")
    return given


def performing(function: Function) -> Function:
    """As ``connected``, but if no database is named the session goes through this host's access point."""
    return _by_session(function, reading=False)


def reading(function: Function) -> Function:
    """As ``performing``, for a command that changes nothing; with ``-global``, for all databases."""
    everywhere = click.option(
        "-global",
        "--global",
        "everywhere",
        is_flag=True,
        help="Of all databases that are known here; ids are each one's own.",
    )
    return everywhere(_by_session(function, reading=True))


def _by_session(function: Function, *, reading: bool) -> Function:
    @_dsn_option
    @_name_option
    @click.pass_context
    @functools.wraps(function)
    def command(
        context: click.Context,
        /,
        *args: object,
        dsn: str | None,
        database: str | None,
        everywhere: bool = False,
        **kwargs: object,
    ) -> object:
        from fetchwork.queue.remote import opened

        given = _given(context, dsn, database, everywhere)
        session = opened(given, name=database, everywhere=everywhere, reading=reading)
        context.call_on_close(session.close)
        return context.invoke(function, session, *args, **kwargs)

    return command  # type: ignore[return-value]


def is_everywhere(session: AnySession) -> bool:
    """Whether a session is that of all known databases."""
    from fetchwork.queue.remote import RemoteSession
    from fetchwork.queue.session import Session

    return not isinstance(session, RemoteSession | Session)


def database_of(session: AnySession) -> Database:
    """Return the database of a session. Raises UsageError if the session goes through an access point."""
    from fetchwork.queue.session import Session

    if not isinstance(session, Session):
        raise click.UsageError(
            "the access point does not do this; it needs the database itself: name it with --dsn"
        )
    return session.database


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
        help="Only those for which this ClassAd expression is true. With several, all must be true.",
    )(function)


def json_option(function: Function) -> Function:
    """The option ``--json``."""
    return click.option("-json", "--json", "as_json", is_flag=True, help="Print JSON.")(function)


def host_file_option(function: Function) -> Function:
    """The option ``--config``: the host file; None where it is not given."""
    return click.option(
        "--config",
        "-c",
        "file",
        metavar="HOST.toml",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The host file.  [default: $FETCHWORK_CONFIG, else /etc/fetchwork/host.toml]",
    )(function)


# generic in newer versions of click only
class JobId(click.ParamType):  # type: ignore[type-arg]
    """A job or a cluster, as ``42.0`` or ``42``."""

    name = "job"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from fetchwork.queue.reading.selecting import parse_id

        if parse_id(value) is None:
            raise click.UsageError(f"{value!r} is not a job; allowed: 42.0, or 42 for a cluster", ctx)
        return value.strip()


JOB_ID = JobId()


def number_or_none(name: str, text: str, *, whole: bool = True) -> float | None:
    """The value of an argument that is a number, or None for 'none'."""
    if text == "none":
        return None
    try:
        return int(text) if whole else float(text)
    except ValueError:
        raise click.UsageError(
            f"{name} is '{text}'; allowed: a {'whole ' if whole else ''}number, or 'none'"
        ) from None


def constraint_note(function: Function) -> Function:
    """The line of the help for HTCondor's ``-constraint``."""
    text = "Only those for which this ClassAd expression is true. With several, all must be true."
    return passed("-constraint", "--constraint", "constraints", metavar="EXPR", help=text)(function)


def forms_note(function: Function) -> Function:
    """The lines of the help for HTCondor's forms of output."""
    long = passed("-long", "-l", "--long", help="Print whole ads, an attribute per line.")
    text = (
        "Print these attributes, one job per line. -af:h adds a heading, :j puts the job id first, :l"
        " prints 'Attr = value', :t or :, separates values by tabs or commas, :n prints one value per"
        " line, :V quotes strings, :r prints expressions unevaluated."
    )
    return long(passed("-af", "-autoformat", "--autoformat", metavar="ATTR...", help=text)(function))


def require_job(session: AnySession, cluster: int, proc: int | None) -> None:
    """Raise NotFound if neither queue nor history has a job, or without ``proc`` any job of a cluster."""
    from fetchwork.errors import NotFound

    here = f"ClusterId == {cluster}" + ("" if proc is None else f" && ProcId == {proc}")
    asked = {"constraint": here, "projection": ["ClusterId"], "limit": 1}
    if not any(session.items("jobs", **asked)) and not any(session.items("view", name="history", **asked)):
        job = f"{cluster}" if proc is None else f"{cluster}.{proc}"
        raise NotFound(f"there is no job {job}, in the queue or in history, or it is not yours to see")


def jobs_constraint(words: Sequence[str], constraints: Sequence[str]) -> str:
    """One constraint for job ids, cluster numbers and owners (any of them), and further constraints (all)."""
    from fetchwork.queue.constraints.constraint import joined
    from fetchwork.queue.reading.selecting import parse_id

    named = []
    for word in words:
        if job := parse_id(word):
            cluster, proc = job
            named.append(f"ClusterId == {cluster}" + ("" if proc is None else f" && ProcId == {proc}"))
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", word):
            named.append(f'Owner =?= "{word}"')
        else:
            raise click.UsageError(
                f"{word!r} is not a job; allowed: 42.0, 42 for a cluster, or an owner's name"
            )
    parts = [" || ".join(f"({part})" for part in named)] if named else []
    return joined([*parts, *constraints])


def seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """The seconds of a time such as 30m."""
    factor = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(value[-1:], 0)
    try:
        return float(value[:-1]) * factor if factor else float(value)
    except ValueError:
        raise click.BadParameter("allowed: a number with s, m, h or d, such as 30m") from None
