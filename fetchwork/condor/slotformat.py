"""condor_status -print-format FILE: slots in the columns that a print format has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fetchwork.condor import printformat
from fetchwork.condor.arguments import Usage
from fetchwork.condor.columns import NotShown, PrintMask
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.octets import text_of
from fetchwork.condor.printedad import NotAnExpression, PrintedAd, PrintedValue, accepting
from fetchwork.condor.renderers import PrintAs

#: the letters of states and activities, as -print-format and -compact have them
_STATES = {"Owner": "O", "Unclaimed": "U", "Matched": "M", "Claimed": "C", "Preempting": "P", "Drained": "D"}
_ACTIVITIES = {
    **{"Idle": "i", "Busy": "b", "Retiring": "r", "Vacating": "v", "Suspended": "s"},
    **{"Benchmarking": "e", "Killing": "k"},
}


def _activity_code(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    state, activity = ad.string("State"), ad.string("Activity")
    if state is None or activity is None:
        raise NotShown
    return _STATES.get(state, " ") + _ACTIVITIES.get(activity, " ")


def _activity_time(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    since, now = ad.integer("EnteredCurrentActivity"), ad.integer("MyCurrentTime")
    if since is None or now is None:
        raise NotShown
    return max(0, now - since)


def _elapsed_time(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    now = ad.integer("LastHeardFrom")
    if now is None or not isinstance(value, int | float):
        raise NotShown
    return max(0, now - int(value))


def _due_date(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    now = ad.integer("LastHeardFrom")
    if now is None or not isinstance(value, int | float):
        raise NotShown
    return now + int(value)


def _platform(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
    arch, system = ad.string("Arch"), ad.string("OpSysAndVer")
    if arch is None or system is None:
        raise NotShown
    return f"{'x64' if arch == 'X86_64' else arch}/{system}"


#: functions of PRINTAS that condor_status has beside condor_q's
_OF_SLOTS = {
    "ACTIVITY_CODE": PrintAs(str, _activity_code),
    "ACTIVITY_TIME": PrintAs(int, _activity_time, format="%T"),
    "DUE_DATE": PrintAs(int, _due_date, format="%Y"),
    "ELAPSED_TIME": PrintAs(int, _elapsed_time, format="%T"),
    "PLATFORM": PrintAs(str, _platform),
}


@dataclass
class SlotFormat:
    """The print format of a command line, or none."""

    given: bool = False
    header: bool = True
    #: which ads are shown: all WHERE lines
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
            data.decode("latin-1").splitlines(), mask, PrintMask(), _OF_SLOTS, texts_alone=True
        )
        for message in found.messages:
            run.complain(text_of(message) + "\n")
        if found.unique:
            raise Usage(f"print-format aggregation not supported\nError: invalid select file {file}")
        self.given, self.header = True, found.header
        self.where += [found.where] if found.where else []

    def print(self, run: Invocation, slots: Sequence[PrintedAd], mask: PrintMask, *, headings: bool) -> None:
        """Print slots, those that all WHERE lines accept."""
        shown: Iterable[PrintedAd] = slots
        for where in self.where:
            try:
                shown = list(filter(accepting(where), shown))
            except NotAnExpression:
                shown = []
        rows = [mask.row(slot) for slot in shown]
        if headings and self.header and mask.headings:
            run.write(mask.heading_line())
        for row in rows:
            run.write(mask.line(row))
