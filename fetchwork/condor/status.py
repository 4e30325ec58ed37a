"""condor_status: the slots that fetch work, as their agents last reported them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fetchwork.condor import compactslots, slottables, texts
from fetchwork.condor.arguments import Usage, Words, is_colon_option, is_option, leading_number, octets
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printedad import NotAnExpression, PrintedAd, accepting, expression
from fetchwork.condor.selection import Selection
from fetchwork.condor.slotformat import Appended, SlotFormat
from fetchwork.errors import ClassAdError, FetchworkError, one_line

_CONDITIONS = {
    "available": compactslots.CONDITIONS["available"],
    "claimed": 'State == "Claimed"',
    "run": 'State == "Claimed"',
    "gpus": "(PartitionableSlot && AssignedGPUs isnt undefined) ?: Gpus",
    "java": "HasJava",
    "vm": "HasVM",
    "annex-slots": "IsAnnex",
    "broken": "size(BrokenReasons) > 0",
    "absent": "false",
    "cod": "false",
}
#: daemons and records of HTCondor's that there are none of: nothing is shown
_NONE = (
    *("ckptsrvr", "collector", "data", "defrag", "license", "master", "grid", "generic", "negotiator"),
    "storage",
)
#: options that ask for other ads than slots', of which there is no compact form -> their least letters
_OTHER_ADS = {
    **{"schedd": 2, "submitters": 3, "startd": 4, "run": 2, "any": 2},
    **dict.fromkeys(_NONE, 3),
}
_NO_STARTDS = "remove -startd from command or use -slot instead"
#: conditions with tables of their own in HTCondor
_NOT_COMPACT = ("gpus", "java", "vm", "broken")
#: options that are refused by name -> why
REFUSED = {
    "diagnose": "there is no collector that would get the query",
    "healthy": "'fetchwork doctor' checks a host",
    "merge": "compare the output of two calls",
    "target": "'fetchwork match' shows which waiting jobs a slot would get",
}


@dataclass
class _Compact:
    """Is -compact asked for, and the first option that it can't be used with?"""

    asked: bool = False
    other: tuple[int, str] | None = None

    def note(self, word: str, argv: Sequence[str]) -> None:
        """Note an option that asks for other ads than those of slots."""
        if self.other is None and any(is_option(word, name, least) for name, least in _OTHER_ADS.items()):
            self.other = list(argv).index(word), word

    def check(self, modes: Sequence[str]) -> None:
        """Raise Usage where something else was asked for as well."""
        if self.other is not None:
            number, word = self.other
            advice = _NO_STARTDS if is_option(word, "startd", 4) else ""
            raise Usage(f"Error:  arg (-compact) contradicts arg {number} ({word}) {advice}")
        if mode := next((mode for mode in modes if mode in _NOT_COMPACT), None):
            raise Usage(f"Error: -compact is not supported with -{mode}: leave it out, or use -af Machine")


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    words = Words(run.argv[1:])
    compact = _Compact()
    modes: list[str] = []
    wide = False
    appended = Appended(run.name)
    selection = Selection(run.name)
    names: list[str] = []
    totals = False
    which, table = "slots", ""
    file: str | None = None
    ads_form = "auto"
    sort_by: list[str] = []
    format = SlotFormat()
    try:
        for word in words:
            compact.note(word, run.argv)
            if selection.take(word, words):
                continue
            if texts.tell(run, word):
                return 0
            if is_option(word, "totals", 1):
                totals = True
            elif is_option(word, "pool", 1) or is_option(word, "name", 1):
                words.take()
            elif is_option(word, "sort", 2):
                by = words.take()
                if by is None:
                    raise Usage(f"{run.name}: -sort requires another argument{selection.help}")
                try:
                    expression(octets(by))
                except NotAnExpression:
                    raise Usage(f"Error:  Parse error of: {by}") from None
                sort_by.append(by)
            elif (form := is_colon_option(word, "ads", 2))[0]:
                file = words.take()
                if file is None:
                    raise Usage(f"{run.name}: -ads requires a filename argument{selection.help}")
                ads_form = form[1] or "auto"
            elif is_option(word, "schedd", 2):
                which = "schedd"
            elif is_option(word, "submitters", 3):
                which = "submitters"
            elif is_option(word, "server", 3):
                table = "server"
            elif is_option(word, "state", 4):
                table = "state"
            elif is_option(word, "compact", 3):
                compact.asked = True
            elif is_option(word, "nocompact", 5):
                compact.asked = False
            elif (width := is_colon_option(word, "wide", 2))[0]:
                wide = width[1] is None or leading_number(width[1]) > 100
            elif (more := is_colon_option(word, "aaf", 3))[0]:
                appended.add(word, more[1] or "", words)
            elif is_option(word, "print-format", 2):
                format.read(run, words.take(), selection.mask)
            elif is_option(word, "statistics", 4) and words.take() is None:
                raise Usage(f"{run.name}: -statistics requires another argument{selection.help}")
            elif condition := next((c for c, _ in _CONDITIONS.items() if is_option(word, c, 2)), None):
                modes.append(condition)
                table = {"claimed": "claimed", "run": "claimed", "gpus": "gpus"}.get(condition, table)
            elif any(
                is_colon_option(word, name, 2)[0]
                for name in (
                    "startd",
                    "slot",
                    "natural",
                    "debug",
                    "expert",
                    # the state that the hosts reported last is all that there is
                    "snapshot",
                    "statistics",
                )
            ):
                continue
            elif any(is_option(word, name, 3) for name in _NONE):
                which = "none"
            elif is_option(word, "any", 2):
                continue
            elif is_option(word, "annex-name", 6):
                selection.constraints.append(f'(AnnexName == "{words.take()}")')
            elif is_option(word, "direct", 3):
                words.take()
            elif is_option(word, "subsystem", 3):
                which = "slots" if str(words.take()).lower() == "startd" else "none"
            elif refused := next((n for n in REFUSED if is_colon_option(word, n, 3)[0]), None):
                raise Usage(f"Error: -{refused} is not supported: {REFUSED[refused]}")
            elif word.startswith("-"):
                raise Usage(f"Error:  Unknown option {word}", help=True)
            else:
                names.append(word)
        if compact.asked:
            compact.check(modes)
        own_table = not (format.given or selection.prints())
        if appended.columns and (totals or selection.form is not None or not (format.given or own_table)):
            raise Usage("Error: output formatting options conflict with -aaf options")
        if appended.columns and which in ("schedd", "submitters"):
            raise Usage(f"Error: -aaf is not supported with -{which}: use -af")
        if format.given:
            appended.to(selection.mask)
    except Usage as problem:
        run.complain(problem.text + (texts.help_of(run.name) if problem.help else ""))
        return 1
    try:
        if which == "none":
            selection.print(run, []) if selection.prints() else None
            return 0
        if which != "slots":
            return _of_queue(run, selection, which)
        if compact.asked:
            selection.constraints += compactslots.conditions(modes, table if own_table else None)
            modes = [mode for mode in modes if mode not in compactslots.CONDITIONS]
        # of whole ads, HTCondor's shows those of other slots too
        modes = [mode for mode in modes if mode != "gpus" or selection.form is None]
        selection.constraints += [f"({_CONDITIONS[mode]})" for mode in modes]
        if "no" not in sort_by:
            # HTCondor shows no slot without a value to sort by
            selection.constraints += [f"({by} =!= UNDEFINED)" for by in sort_by]
        slots = _of_file(run, file, ads_form) if file is not None else None
        found = _slots(run, selection, names, slots, sort_by)
        if compact.asked:
            found = compactslots.in_order(found)
        if compact.asked and totals:
            run.complain("Warning: ignoring -compact option because -total option is also set\n")
        elif compact.asked:
            if own_table:
                if found:
                    compactslots.show(run, found, table, appended, wide=wide)
                return 0
            if selection.form is None:
                found = format.accepted(found)
                # columns are as wide as if all slots had lines
                for slot in found:
                    selection.mask.row(slot)
            found = compactslots.first_of_each(found)
        if format.given and selection.form is None:
            format.print(run, found, selection.mask, headings=not totals)
        elif selection.prints():
            selection.print(run, found)
        elif found:
            slottables.show(run, found, table, appended, only_totals=totals, wide=wide)
        return 0
    except ClassAdError:
        run.complain(f"Invalid constraint expression : ( {' && '.join(selection.constraints)} )\n")
        return 0
    except FetchworkError as problem:
        run.complain(f"Error: {one_line(str(problem))}\n")
        return 1


def _of_file(run: Invocation, file: str, form: str) -> list[PrintedAd]:
    """The ads of a file, or of stdin."""
    from fetchwork.condor import adfiles

    try:
        data = run.stdin.read() if file == "-" else run.path(file).read_bytes()
    except OSError:
        # HTCondor's ends as if it were empty
        run.complain(f"Can't open file of ClassAds: {file}\n")
        return []
    return list(adfiles.read(data.decode("utf-8", "replace"), form))


def _slots(
    run: Invocation,
    selection: Selection,
    names: Sequence[str],
    slots: list[PrintedAd] | None,
    sort_by: Sequence[str],
) -> list[PrintedAd]:
    """The slots that are meant, in their order."""
    conditions = list(selection.constraints)
    if names:
        parts = []
        for name in names:
            quoted = name.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'Name == "{quoted}" || Machine == "{quoted}"')
        conditions.append(f"({' || '.join(parts)})")
    constraint = " && ".join(conditions) or "true"
    if slots is None:
        asked = run.session.items("view", name="slots", constraint=constraint, limit=selection.limit)
        found = [PrintedAd(ad) for ad in asked]
    else:
        try:
            accepts = accepting(octets(constraint))
        except NotAnExpression:
            raise ClassAdError(constraint) from None
        found = list(filter(accepts, slots))
        found = found[: selection.limit] if selection.limit > 0 else found
    return _sorted(found, sort_by)


def _sorted(slots: list[PrintedAd], by: Sequence[str]) -> list[PrintedAd]:
    """In HTCondor's natural order, or by the values of expressions; 'no': as they came."""
    if not by:
        return sorted(slots, key=_order)
    for text in reversed(by):
        if text == "no":
            continue
        tree = expression(octets(text))
        slots = sorted(slots, key=lambda slot: _rank(slot.value_of_expression(tree)))
    return slots


def _rank(value: object) -> tuple[int, float, str]:
    if isinstance(value, bool | int | float):
        return (0, float(value), "")
    return (1, 0.0, value.lower()) if isinstance(value, str) else (2, 0.0, "")


def _order(slot: PrintedAd) -> list[tuple[int, int, str]]:
    """HTCondor's natural order of slots: by machine and name."""
    parts = (slot.string(name) for name in ("Machine", "Name"))
    return compactslots.natural(" ".join("undefined" if part is None else part for part in parts))


def _of_queue(run: Invocation, selection: Selection, which: str) -> int:
    """The queue as a schedd, or its submitters."""
    from fetchwork.condor.qsource import host_name

    name = host_name()
    rows = run.session.perform("totals", by="owner")
    if which == "schedd":
        held, idle, running = (sum(int(row[key]) for row in rows) for key in ("held", "idle", "running"))
        found = [{"MyType": "Scheduler", "Name": name, "Machine": name, "TotalRunningJobs": running}]
        found[0] |= {"TotalIdleJobs": idle, "TotalHeldJobs": held, "TotalJobAds": idle + running + held}
        counts = ("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs")
    else:
        found = [
            {
                "MyType": "Submitter",
                "Name": row["owner"],
                "Machine": name,
                "ScheddName": name,
                "RunningJobs": int(row["running"]),
                "IdleJobs": int(row["idle"]),
                "HeldJobs": int(row["held"]),
            }
            for row in rows
        ]
        counts = ("RunningJobs", "IdleJobs", "HeldJobs")
    ads = [PrintedAd(ad) for ad in found]
    if selection.prints():
        selection.print(run, ads)
        return 0
    width = max([4, *(len(str(ad["Name"])) for ad in found)])
    machine = max(7, len(name))
    run.write(f"{'Name'.ljust(width)} {'Machine'.ljust(machine)} RunningJobs   IdleJobs   HeldJobs\n\n")
    for ad in found:
        numbers = " ".join(f"{ad[key]:>{size}}" for key, size in zip(counts, (11, 10, 10), strict=True))
        run.write(f"{octets(str(ad['Name'])).ljust(width)} {octets(name).ljust(machine)} {numbers}\n")
    return 0
