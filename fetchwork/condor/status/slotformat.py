"""The columns of condor_status's tables, and those of -print-format FILE and -aaf."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from fetchwork.condor.arguments import Given, Usage, octets, text_of
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing import printformat
from fetchwork.condor.printing.autoformat import append_autoformat
from fetchwork.condor.printing.columns import NotShown, PrintMask, is_expression
from fetchwork.condor.printing.jobtable import JobTable
from fetchwork.condor.printing.printedad import NotAnExpression, PrintedAd, PrintedValue, accepting
from fetchwork.condor.printing.renderers import PrintAs
from fetchwork.condor.selection import MORE

#: the letters of states and activities, as -print-format and -compact have them
STATES = {
    **{"Owner": "O", "Unclaimed": "U", "Matched": "M", "Claimed": "C", "Preempting": "P", "Shutdown": "S"},
    **{"Delete": "X", "Backfill": "F", "Drained": "D"},
}
ACTIVITIES = {
    **{"Idle": "i", "Busy": "b", "Retiring": "r", "Vacating": "v", "Suspended": "s"},
    **{"Benchmarking": "e", "Killing": "k"},
}


def _activity_code(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    # of an activity, with the slot's state; or of a state, with the slot's activity
    state: str | None
    activity: str | None
    if value in ACTIVITIES:
        state, activity = ad.string("State"), str(value)
    elif value in STATES:
        state, activity = str(value), ad.string("Activity")
    else:
        raise NotShown
    return STATES.get(state or "", " ") + ACTIVITIES.get(activity or "", " ")


def _activity(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    # OCU: slots whose owner gets them back at once
    if not value:
        return "??"
    return "OCU" if value == "Idle" and ad.truth("OCU") else value


def _activity_time(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    since = ad.integer("EnteredCurrentActivity")
    if since is None:
        raise NotShown
    return max(0, _now(ad, "MyCurrentTime", "LastHeardFrom") - since)


def _now(ad: PrintedAd, *names: str) -> int:
    """Return when the ad was made. A collector adds LastHeardFrom, which ads from a hook lack."""
    return next((moment for name in names if (moment := ad.integer(name))), None) or int(time.time())


def _elapsed_time(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    if not isinstance(value, int | float):
        raise NotShown
    return max(0, _now(ad, "LastHeardFrom", "MyCurrentTime") - int(value))


def _due_date(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    now = ad.integer("LastHeardFrom")
    if now is None or not isinstance(value, int | float):
        raise NotShown
    return now + int(value)


def _platform(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    system = ad.string("OpSysAndVer")
    if system is None:
        raise NotShown
    # without an architecture, HTCondor shows the column's own value there
    arch = ad.string("Arch") or value
    return f"{'x64' if arch == 'X86_64' else arch}/{system}"


def _count_tag(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    # after a number of slots comes the letter of their type; partitionable slots have none
    return "" if type(value) is not str else " " if value == "Partitionable" else value[:1]


#: functions of PRINTAS that condor_status has beside condor_q's
OF_SLOTS = {
    "ACTIVITY_CODE": PrintAs(str, _activity_code),
    "ACTIVITY_OR_OCU": PrintAs(str, _activity),
    "ACTIVITY_TIME": PrintAs(int, _activity_time, format="%T"),
    "DUE_DATE": PrintAs(int, _due_date, format="%Y"),
    "ELAPSED_TIME": PrintAs(int, _elapsed_time, format="%T"),
    "SLOT_COUNT_TAG": PrintAs(str, _count_tag),
    "PLATFORM": PrintAs(str, _platform),
}


@dataclass
class Appended:
    """The columns of -aaf, which stand behind those of a table."""

    columns: list[tuple[str, list[str]]] = field(default_factory=list)

    def add(self, given: Given) -> None:
        """Take an option's letters and attributes; raises Usage in HTCondor's words."""
        taken = given.plain(f"Error: Argument {{word}} requires at least one attribute parameter{MORE}")
        letters = given.more or ""
        rest = letters[1:] if letters[:1] in tuple("TVYr") else letters
        if rest:
            allowed = "only one of V, r, T or Y is permitted"
            raise Usage(f"Error: {rest} is invalid -aaf format qualifier. {allowed}.")
        if bad := next((word for word in taken if not is_expression(octets(word))), None):
            raise Usage(f"Error: invalid expression : {bad}")
        self.columns.append((letters, [octets(attribute) for attribute in taken]))

    def to(self, mask: PrintMask) -> None:
        """Add the columns to a table's."""
        for letters, attributes in self.columns:
            append_autoformat(mask, letters, attributes)


@dataclass
class SlotFormat:
    """The print format of a command line, or none."""

    given: bool = False
    header: bool = True
    #: the WHERE lines, which all must accept an ad
    where: list[str] = field(default_factory=list)

    def read(self, run: Invocation, file: str | None, mask: PrintMask) -> None:
        """Add a file's columns to the mask; raises Usage in HTCondor's words."""
        if file is None or (file.startswith("-") and file != "-"):
            raise Usage("Error: Argument -print-format requires a filename argument")
        if file == "!":
            # the command's own table
            return
        try:
            data = run.stdin.read() if file == "-" else run.path(file).read_bytes()
        except OSError:
            raise Usage(f"Can't open select file: {file}\nError: invalid select file {file}") from None
        found = printformat.read(
            data.decode("latin-1").splitlines(), mask, PrintMask(), OF_SLOTS, texts_alone=True
        )
        for message in found.messages:
            run.complain(text_of(message) + "\n")
        if found.unique:
            raise Usage(f"print-format aggregation not supported\nError: invalid select file {file}")
        self.given, self.header = True, found.header
        self.where += [found.where] if found.where else []

    def accepted(self, slots: Sequence[PrintedAd]) -> list[PrintedAd]:
        """The slots that all WHERE lines accept."""
        for where in self.where:
            try:
                slots = list(filter(accepting(where), slots))
            except NotAnExpression:
                return []
        return list(slots)

    def print(self, run: Invocation, slots: Sequence[PrintedAd], mask: PrintMask, *, headings: bool) -> None:
        """Print slots, those that all WHERE lines accept."""
        rows = mask.rows(JobTable.of(self.accepted(slots)))
        if headings and self.header and mask.headings:
            run.write(mask.heading_line())
        run.write("".join(mask.lines(rows)))
