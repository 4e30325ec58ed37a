"""condor_status: the slots that fetch work, as their agents last reported them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fetchwork.condor import selection, texts
from fetchwork.condor.arguments import (
    Given,
    OptionTable,
    Usage,
    ignores,
    ignores_value,
    is_option,
    leading_number,
    octets,
    refuses,
    sets,
)
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing.jobtable import JobTable
from fetchwork.condor.printing.printedad import NotAnExpression, PrintedAd, accepting, expression
from fetchwork.condor.status import compactslots, slottables
from fetchwork.condor.status.slotformat import Appended, SlotFormat
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
#: daemons and records of HTCondor that do not exist here: the output is empty
_NONE = (
    "ckptsrvr", "collector", "data", "defrag", "license", "master", "grid", "generic", "negotiator",
    "storage",
)  # fmt: skip
#: options that select other ads than slots, which have no compact form -> their least letters
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
class _Asked(selection.Selection):
    """The options of a command line."""

    run: Invocation = field(kw_only=True)
    appended: Appended = field(default_factory=Appended)
    format: SlotFormat = field(default_factory=SlotFormat)
    #: names of _CONDITIONS
    modes: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    sort_by: list[str] = field(default_factory=list)
    #: the ads: of slots, schedd, submitters, or none
    which: str = "slots"
    table: str = ""
    file: str | None = None
    ads_form: str = "auto"
    wide: bool = False
    totals: bool = False
    compact: bool = False
    #: the number and the word of the first option that -compact can't be used with
    not_compact: tuple[int, str] | None = None

    def own_table(self) -> bool:
        """Whether the command's own table is to be shown."""
        return not (self.format.given or self.prints())


def _sort(asked: _Asked, given: Given) -> None:
    by = given.value(f"{{command}}: -sort requires another argument{selection.MORE}")
    try:
        expression(octets(by))
    except NotAnExpression:
        raise Usage(f"Error:  Parse error of: {by}") from None
    asked.sort_by.append(by)


def _ads(asked: _Asked, given: Given) -> None:
    asked.file = given.value(f"{{command}}: -ads requires a filename argument{selection.MORE}")
    asked.ads_form = given.more or "auto"


def _wide(asked: _Asked, given: Given) -> None:
    asked.wide = given.more is None or leading_number(given.more) > 100


def _condition(asked: _Asked, given: Given) -> None:
    asked.modes.append(given.name)
    asked.table = {"claimed": "claimed", "run": "claimed", "gpus": "gpus"}.get(given.name, asked.table)


def _print_format(asked: _Asked, given: Given) -> None:
    asked.format.read(asked.run, given.words.take(), asked.mask)


def _annex_name(asked: _Asked, given: Given) -> None:
    asked.constraints.append(f'(AnnexName == "{given.words.take()}")')


def _subsystem(asked: _Asked, given: Given) -> None:
    asked.which = "slots" if str(given.words.take()).lower() == "startd" else "none"


class _Options(OptionTable[_Asked]):
    """Options, of which it notes the first that asks for other ads than those of slots."""

    def act(self, asked: _Asked, given: Given) -> bool:
        word = given.word
        if asked.not_compact is None and any(is_option(word, *other) for other in _OTHER_ADS.items()):
            asked.not_compact = list(asked.run.argv).index(word), word
        return super().act(asked, given)


_OPTIONS = _Options(
    *selection.OPTIONS,
    ("help", 1, texts.print_help),
    ("version", 1, texts.print_version),
    ("totals", 1, sets(totals=True)),
    ("pool name", 1, ignores_value()),
    ("sort", 2, _sort),
    ("ads:", 2, _ads),
    ("schedd", 2, sets(which="schedd")),
    ("submitters", 3, sets(which="submitters")),
    ("server", 3, sets(table="server")),
    ("state", 4, sets(table="state")),
    ("compact", 3, sets(compact=True)),
    ("nocompact", 5, sets(compact=False)),
    ("wide:", 2, _wide),
    ("aaf:", 3, lambda asked, given: asked.appended.add(given)),
    ("print-format", 2, _print_format),
    ("statistics", 4, ignores_value(f"{{command}}: -statistics requires another argument{selection.MORE}")),
    *((name, 2, _condition) for name in _CONDITIONS),
    # the queue has only the state that the hosts reported last
    ("startd: slot: natural: debug: expert: snapshot: statistics:", 2, ignores),
    *((name, 3, sets(which="none")) for name in _NONE),
    ("any", 2, ignores),
    ("annex-name", 6, _annex_name),
    ("direct", 3, ignores_value()),
    ("subsystem", 3, _subsystem),
    *((f"{name}:", 3, refuses(REFUSED)) for name in REFUSED),
)


def _add_name(asked: _Asked, given: Given) -> None:
    if given.word.startswith("-"):
        raise given.wrong("Error:  Unknown option {word}", help=True)
    asked.names.append(given.word)


def _parse(run: Invocation) -> _Asked:
    asked = _OPTIONS.read(_Asked(run=run), run.argv[1:], run.name, _add_name)
    if asked.compact:
        _check_compact(asked)
    other_form = asked.totals or asked.form is not None or bool(asked.mask.columns and not asked.format.given)
    if asked.appended.columns and other_form:
        raise Usage("Error: output formatting options conflict with -aaf options")
    if asked.appended.columns and asked.which in ("schedd", "submitters"):
        raise Usage(f"Error: -aaf is not supported with -{asked.which}: use -af")
    if asked.format.given:
        asked.appended.to(asked.mask)
    return asked


def _check_compact(asked: _Asked) -> None:
    """Raise Usage if an option was given that -compact can't be used with."""
    if asked.not_compact is not None:
        number, word = asked.not_compact
        advice = _NO_STARTDS if is_option(word, "startd", 4) else ""
        raise Usage(f"Error:  arg (-compact) contradicts arg {number} ({word}) {advice}")
    if mode := next((mode for mode in asked.modes if mode in _NOT_COMPACT), None):
        raise Usage(f"Error: -compact is not supported with -{mode}: leave it out, or use -af Machine")


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    asked = _parse(run)
    try:
        if asked.which == "none":
            if asked.prints():
                asked.print(run, [])
        elif asked.which != "slots":
            _show_queue(run, asked)
        else:
            _show_slots(run, asked)
    except ClassAdError:
        run.complain(f"Invalid constraint expression : ( {' && '.join(asked.constraints)} )\n")
    except FetchworkError as problem:
        run.complain(f"Error: {one_line(str(problem))}\n")
        return 1
    return 0


def _show_slots(run: Invocation, asked: _Asked) -> None:
    slots = _slots(run, asked)
    if asked.compact and asked.totals:
        run.complain("Warning: ignoring -compact option because -total option is also set\n")
    elif asked.compact:
        if asked.own_table():
            if slots:
                compactslots.show(run, slots, asked.table, asked.appended, wide=asked.wide)
            return
        if asked.form is None:
            slots = asked.format.accepted(slots)
            # columns are as wide as if all slots had lines
            asked.mask.rows(JobTable.of(slots))
        slots = compactslots.first_of_each(slots)
    if asked.format.given and asked.form is None:
        asked.format.print(run, slots, asked.mask, headings=not asked.totals)
    elif asked.prints():
        asked.print(run, slots)
    elif slots:
        slottables.show(run, slots, asked.table, asked.appended, only_totals=asked.totals, wide=asked.wide)


def _of_file(run: Invocation, file: str, form: str) -> list[PrintedAd]:
    """The ads of a file, or of stdin."""
    from fetchwork.condor.printing import adfiles

    try:
        data = run.stdin.read() if file == "-" else run.path(file).read_bytes()
    except OSError:
        # HTCondor's ends as if it were empty
        run.complain(f"Can't open file of ClassAds: {file}\n")
        return []
    return list(adfiles.read(data.decode("utf-8", "replace"), form))


def _conditions(asked: _Asked) -> list[str]:
    """Return the conditions that each displayed slot must fulfil."""
    modes = asked.modes
    # the message about a wrong constraint shows these too
    conditions = asked.constraints
    if asked.compact:
        conditions += compactslots.conditions(modes, asked.table if asked.own_table() else None)
        modes = [mode for mode in modes if mode not in compactslots.CONDITIONS]
    # with whole ads, HTCondor's own shows other slots too
    modes = [mode for mode in modes if mode != "gpus" or asked.form is None]
    conditions += [f"({_CONDITIONS[mode]})" for mode in modes]
    if "no" not in asked.sort_by:
        # HTCondor shows no slot without a value to sort by
        conditions += [f"({by} =!= UNDEFINED)" for by in asked.sort_by]
    if not asked.names:
        return conditions
    parts = []
    for name in asked.names:
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        parts.append(f'Name == "{quoted}" || Machine == "{quoted}"')
    return [*conditions, f"({' || '.join(parts)})"]


def _slots(run: Invocation, asked: _Asked) -> list[PrintedAd]:
    """The slots that are meant, in their order."""
    constraint = " && ".join(_conditions(asked)) or "true"
    if asked.file is None:
        ads = run.session.items("view", name="slots", constraint=constraint, limit=asked.limit)
        slots = [PrintedAd(ad) for ad in ads]
    else:
        slots = _of_file(run, asked.file, asked.ads_form)
        try:
            slots = list(filter(accepting(octets(constraint)), slots))
        except NotAnExpression:
            raise ClassAdError(constraint) from None
        slots = slots[: asked.limit] if asked.limit > 0 else slots
    slots = _sorted(slots, asked.sort_by)
    return compactslots.in_order(slots) if asked.compact else slots


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


def _show_queue(run: Invocation, asked: _Asked) -> None:
    """The queue as a schedd, or its submitters."""
    from fetchwork.condor.invocation import host_name

    name = host_name()
    rows = run.session.perform("totals", by="owner")
    if asked.which == "schedd":
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
    if asked.prints():
        asked.print(run, ads)
        return
    width = max([4, *(len(str(ad["Name"])) for ad in found)])
    machine = max(7, len(name))
    run.write(f"{'Name'.ljust(width)} {'Machine'.ljust(machine)} RunningJobs   IdleJobs   HeldJobs\n\n")
    for ad in found:
        numbers = " ".join(f"{ad[key]:>{size}}" for key, size in zip(counts, (11, 10, 10), strict=True))
        run.write(f"{octets(str(ad['Name'])).ljust(width)} {octets(name).ljust(machine)} {numbers}\n")
