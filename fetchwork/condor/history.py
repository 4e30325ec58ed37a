"""condor_history: the jobs that left the queue, or those of a history file, as HTCondor shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fetchwork.condor.arguments import octets, text_of
from fetchwork.condor.historyoptions import HistoryOptions, constraint_of, parse
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing import printformat
from fetchwork.condor.printing.adforms import XML_FOOTER, XML_HEADER, chosen_names, json_ad, json_line, xml_ad
from fetchwork.condor.printing.columns import PrintMask, names_read
from fetchwork.condor.printing.printedad import NotAnExpression, PrintedAd, expression

if TYPE_CHECKING:
    from fetchwork.classad.values import ExprTree
    from fetchwork.queue.reading.views import Json
    from fetchwork.queue.remote import AnySession

TABLE = [
    "SELECT",
    "ClusterId AS ' ID         ' WIDTH AUTO PRINTAS JOB_ID",
    "Owner AS OWNER WIDTH -14 PRINTAS OWNER OR ??",
    "QDate AS '  SUBMITTED' WIDTH 11 PRINTAS QDATE OR ??",
    "RemoteWallClockTime ?:(RemoteUserCpu?:0) AS '  RUN_TIME  ' WIDTH 12 PRINTF %T",
    "JobStatus AS ST PRINTAS JOB_STATUS",
    "CompletionDate AS '  COMPLETED' WIDTH 11 PRINTAS QDATE",
    "Cmd AS CMD WIDTH 0 PRINTAS JOB_DESCRIPTION",
    "SUMMARY NONE",
]
#: with a column for a function EXIT
WITH_EXIT = [*TABLE[:6], "ExitCode AS EXIT WIDTH 4 PRINTAS EXIT", *TABLE[6:]]


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    return show(run, parse(run), TABLE)


def show(run: Invocation, options: HistoryOptions, table: Sequence[str]) -> int:
    """Show the jobs that the options ask for, by default in this table; returns the exit status."""
    constraint = constraint_of(options)
    try:
        wanted = expression(constraint) if constraint else None
    except NotAnExpression:
        run.complain(f"Error:  could not parse constraint {text_of(constraint)}\n")
        return 1
    since = expression(options.since) if options.since is not None else None
    printer = _Printer(run, options, table)
    printer.begin()
    if options.file is not None:
        try:
            ads = _of_file(run, options)
        except OSError as error:
            name = text_of(options.file)
            run.complain(f"Error opening history file {name}: {error.strerror}\n")
            return 1
        _select(printer, options, ads, wanted, since)
    else:
        names = options.attributes
        if options.form is None:
            names = sorted(names_read(options.mask.columns))
        found = history_items(run.session, options, constraint, names)
        _select(printer, options, map(PrintedAd, found), None, None)
    printer.end()
    return 0


class _Printer:
    """Prints ads, one at a time."""

    def __init__(self, run: Invocation, options: HistoryOptions, table: Sequence[str]) -> None:
        self._run, self._options, self._table = run, options, table
        self._mask = options.mask
        self._printed = 0

    def begin(self) -> None:
        options = self._options
        if options.form is None:
            if not options.custom:
                printformat.read(self._table, self._mask, PrintMask(), dict(self._run.renderers))
                if not options.wide or options.width:
                    width = options.width or (self._run.columns - 1 if self._run.columns > 0 else 1024)
                    self._mask.overall_width = width
            if self._mask.headings:
                self._run.write(self._mask.heading_line())
        elif options.form == "xml":
            self._run.write(XML_HEADER + "\n")
        elif options.form == "json":
            self._run.write("[\n")

    def ad(self, ad: PrintedAd) -> None:
        form = self._options.form
        if form is None:
            self._run.write("".join(self._mask.lines([self._mask.row(ad)])))
        else:
            names = chosen_names(ad, self._options.attributes or None)
            if form == "xml":
                text = xml_ad(ad, names) + "\n"
            elif form == "json":
                text = (",\n" if self._printed else "") + json_ad(ad, names) + "\n"
            elif form == "jsonl":
                text = json_line(ad, names) + "\n"
            else:
                text = "".join(f"{octets(name)} = {ad.unparsed(name)}\n" for name in names) + "\n"
            self._run.write(text)
        self._printed += 1

    def end(self) -> None:
        form = self._options.form
        if form == "xml":
            self._run.write(XML_FOOTER + "\n")
        elif form == "json":
            self._run.write("]\n")


def _select(
    printer: _Printer,
    options: HistoryOptions,
    ads: Iterable[PrintedAd],
    wanted: ExprTree | None,
    since: ExprTree | None,
) -> None:
    """Print the ads that are wanted, until a limit is reached or ``since`` is true."""
    matched = 0
    for scanned, ad in enumerate(ads):
        if 0 < options.limit <= matched or 0 < options.scan_limit <= scanned:
            return
        if since is not None and ad.is_true(since):
            return
        if wanted is None or ad.is_true(wanted):
            printer.ad(ad)
            matched += 1


def _of_file(run: Invocation, options: HistoryOptions) -> Iterator[PrintedAd]:
    """The ads of a history file, each ended by a line that begins with ``***``."""
    from fetchwork.condor.printing import adfiles

    assert options.file is not None
    text = run.path(text_of(options.file)).read_bytes().decode("utf-8", "replace")
    parts = re.split(r"^\*\*\*.*\n?", text, flags=re.MULTILINE)
    if options.backwards:
        # when the file is read from its end, text after the last banner does not count
        parts = parts[-2::-1] if len(parts) > 1 else []
    return (ad for part in parts for ad in adfiles.read(_without_blank_lines(part), "long"))


def _without_blank_lines(part: str) -> str:
    return "\n".join(line for line in part.split("\n") if line.strip())


def history_items(
    session: AnySession, options: HistoryOptions, constraint: str, names: Sequence[str]
) -> Iterator[Json]:
    """The ads of the jobs that left the queue, the last first, with some attributes (none: all)."""
    found = session.items(
        "view",
        name="history",
        constraint=text_of(constraint) or "true",
        projection=[*names, "ClusterId", "ProcId", "Owner"] if names else [],
        limit=options.limit if options.limit > 0 else -1,
        since=None if options.since is None else text_of(options.since),
    )
    return found if options.backwards else reversed(list(found))
