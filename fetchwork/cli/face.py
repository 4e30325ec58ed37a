"""HTCondor's commands as commands of fetchwork: their options and tables, with fetchwork's errors."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import click

from fetchwork.cli import output
from fetchwork.cli.progress import looking
from fetchwork.condor import invocation
from fetchwork.condor.arguments import Said, Usage, text_of

if TYPE_CHECKING:
    from fetchwork.condor.printing.printedad import PrintedAd, PrintedValue
    from fetchwork.condor.printing.renderers import PrintAs
    from fetchwork.errors import FetchworkError
    from fetchwork.queue.remote import AnySession

Result = TypeVar("Result")


class Face(invocation.Invocation):
    """A command's arguments, and output through ``output``, which shows a terminal no control characters."""

    #: print nothing
    silent: bool = False

    def write(self, text: str) -> None:
        """Print octets on stdout."""
        self.say(text_of(text))

    def say(self, text: str) -> None:
        """Print text on stdout."""
        if not self.silent:
            output.echo(text, nl=False)

    def complain(self, text: str) -> None:
        """Print text on stderr."""
        if not self.silent:
            output.echo(text, nl=False, err=True)

    def failed(self, text: str, problem: FetchworkError) -> int:
        """Raise the error, which fetchwork prints in its own words."""
        raise problem


class _Searching:
    """A session whose searches show their progress on a terminal."""

    def __init__(self, session: AnySession) -> None:
        self._session = session

    def items(self, name: str, /, **arguments: object) -> Iterator[object]:
        return looking(self._session, self._session.items(name, **arguments))

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)


def made(
    name: str, words: Sequence[str], session: AnySession, renderers: Mapping[str, PrintAs] | None = None
) -> Face:
    """The invocation of a command of HTCondor's name with these words."""
    return Face(
        [name, *words],
        sys.stdin.buffer,
        sys.stdout.buffer,
        sys.stderr.buffer,
        lambda: cast("AnySession", _Searching(session)),
        user=invocation.user_name(),
        columns=shutil.get_terminal_size().columns if sys.stdout.isatty() else -1,
        renderers=renderers or {},
    )


def checked(constraints: Iterable[str]) -> None:
    """Raise ClassAdError, with the text as it was given, if a constraint, in octets, is no expression."""
    from fetchwork.queue.constraints.constraint import names_in

    for constraint in constraints:
        names_in(text_of(constraint))


def told(face: Face, ask: Callable[[], Result]) -> Result:
    """The result of a part of HTCondor's command. Raises UsageError for wrong options."""
    try:
        return ask()
    except Said as said:
        face.say(said.text)
        raise click.exceptions.Exit from None
    except Usage as problem:
        text = re.sub(rf"^(?:Error: |{face.name} ?: )", "", problem.text.strip())
        text = text or "the arguments can't be combined, or one is missing"
        raise click.UsageError(text) from None


def description(*, by_dag: bool) -> PrintAs:
    """The column of a job's command, with the seconds that its end may still take, or a DAG's progress."""
    from fetchwork.condor.printing.renderers import PRINT_AS, PrintAs, render_job_description
    from fetchwork.dag import status

    counted = (status.TOTAL, *status.ATTRIBUTES.values()) if by_dag else ()

    def render(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
        counts = {name: number for name in counted if (number := ad.integer(name)) is not None}
        if status.TOTAL in counts:
            from fetchwork.cli import dagview

            texts = {name: text for name in ("Args", "Arguments") if (text := ad.string(name)) is not None}
            return f"{', '.join(dagview.files(texts))}: {dagview.progress(counts)}"
        killed_at = ad.integer("FetchWorkKillDate")
        left = "" if killed_at is None else f"[killed in {max(0, int(killed_at - time.time()))} s] "
        return f"{left}{render_job_description(value, ad)}"

    return PrintAs(str, render, reads=("FetchWorkKillDate", *PRINT_AS["JOB_DESCRIPTION"].reads, *counted))
