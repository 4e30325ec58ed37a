"""condor_rm and its kin: hold, release, vacate_job, suspend, continue."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from fetchwork.condor import texts
from fetchwork.condor.arguments import Given, OptionTable, Usage, ignores, ignores_value, sets, takes
from fetchwork.condor.invocation import Invocation, patiently
from fetchwork.errors import ClassAdError, FetchworkError, InsufficientPrivilege, one_line

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json


@dataclass(frozen=True)
class Action:
    """The words of a command for its action."""

    name: str
    verb: str
    done: str
    already: str
    unfit: str
    reason: str | None = None
    #: as ``verb``, for a job of another user
    denied: str | None = None

    @property
    def again(self) -> str | None:
        """The outcome of naming a job twice; None if the action is done again."""
        return _ALREADY if self.already else _UNFIT if self.name == "Release" else None


ACTIONS = {
    "condor_rm": Action(
        "Remove", "remove", "marked for removal", "already marked for removal", "Invalid result for",
        reason="via condor_rm",
    ),
    "condor_hold": Action("Hold", "hold", "held", "already held", "Invalid result for", "via condor_hold"),
    "condor_release": Action(
        "Release", "release", "released", "", "not held to be released", "via condor_release"
    ),
    "condor_vacate_job": Action("Vacate", "vacate", "vacated", "", "not running to be vacated"),
    "condor_suspend": Action("Suspend", "suspend", "suspended", "", "not running to be suspended"),
    "condor_continue": Action(
        "Continue", "continue", "continued", "already running", "not running to be continued"
    ),
}  # fmt: skip
#: condor_rm -forcex
FORCED = Action(
    "RemoveX", "remove", "removed locally (remote state unknown)", "",
    "not in `X' state to be forcibly removed",
    reason="via condor_rm -forcex",
    denied="force removal of",
)  # fmt: skip
#: condor_vacate_job -fast
_FAST = Action("VacateFast", "fast-vacate", "fast-vacated", "", "not running to be fast-vacated")


# the values of fetchwork.queue.changing.Outcome, which comes from an access point as text
_DONE, _ALREADY, _UNFIT, _DENIED, _UNKNOWN = (
    "done", "already done", "in no state for it",
    "permission denied", "not found",
)  # fmt: skip


#: the counts of -totals: their name in ``Schedd.act`` -> the text
_TOTALS = {
    "TotalSuccess": "Succeeded",
    "TotalError": "Failed",
    "TotalNotFound": "Not Found",
    "TotalBadStatus": "Bad Status",
    "TotalAlreadyDone": "Already Done",
    "TotalPermissionDenied": "Permission Denied",
}


@dataclass
class Asked:
    """The selected jobs, and the options."""

    run: Invocation
    action: Action
    ids: list[str] = field(default_factory=list)
    #: conditions of clusters and users, and with -held of jobs, of which one must hold; with their names
    any_of: list[tuple[str, str | None]] = field(default_factory=list)
    #: constraints, which must all hold
    all_of: list[str] = field(default_factory=list)
    all: bool = False
    held: bool = False
    reason: str | None = None
    subcode: int = 0
    totals: bool = False
    invalid: bool = False

    def said(self) -> Json:
        """The reason, as the arguments of an operation."""
        return {"reason": self.reason, "subcode": self.subcode}

    @property
    def name(self) -> str:
        """The jobs, as a person names them."""
        names = [f"job {id}" for id in self.ids]
        names += [f"jobs{name}" if name else f"jobs for which {part}" for part, name in self.any_of]
        return ", ".join(names) or ("all jobs" if self.all else "jobs that the constraint selects")

    def each(self) -> Iterator[Asked]:
        """The same for each of its jobs, clusters and users alone."""
        for id in self.ids:
            yield dataclasses.replace(self, ids=[id], any_of=[], all_of=[], all=False, held=False)
        selects = self.all_of or self.all or self.held
        for one in [[part] for part in self.any_of] or ([[]] if selects else []):
            yield dataclasses.replace(self, ids=[], any_of=one)


class Acted(NamedTuple):
    """The number of jobs that an action changed, could not change, and did not find."""

    changed: int
    unchanged: int
    missing: int


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    asked = parse(run)
    try:
        return int(asked.invalid or 0 in [acted.changed for acted in act(run, asked)])
    except FetchworkError as problem:
        run.complain(f"{run.name}: {one_line(str(problem))}\n")
        return 1


def act(run: Invocation, asked: Asked) -> Iterator[Acted]:
    """Act on the named jobs, and on those that conditions select, and say so."""
    if asked.ids:
        if asked.all_of or asked.all:
            run.complain("Warning, -constraint is ignored for fully qualified job ids\n")
        yield _by_id(run, asked)
    if asked.any_of or asked.all_of or asked.all or asked.held:
        yield _by_constraint(run, asked)


_UNRECOGNIZED = "Unrecognized option: {word}"
_ANOTHER = "{command}: -{name} requires another argument"


def _all(asked: Asked, given: Given) -> None:
    if asked.all_of or asked.any_of or asked.all:
        raise given.wrong("{command}: can't mix -all with other constraints")
    asked.all = True


def _subcode(asked: Asked, given: Given) -> None:
    text = given.value(_ANOTHER)
    if not re.fullmatch(r"\s*[+-]?\d+", text):
        raise Usage(f"Invalid -subcode {text}!")
    asked.subcode = int(text)


def _forced(asked: Asked, given: Given) -> None:
    if given.command != "condor_rm":
        raise Usage("-forcex is only valid with condor_rm", help=True)
    asked.action = FORCED


def _fast(asked: Asked, given: Given) -> None:
    if given.command != "condor_vacate_job":
        raise Usage("-fast is only valid with condor_vacate_job", help=True)
    asked.action = _FAST


_TRANSFER = "{command}: -transfer is not supported: a removed job's output is deleted"


def _transfer(asked: Asked, given: Given) -> None:
    if given.command != "condor_rm":
        raise given.wrong(_UNRECOGNIZED, help=True)
    raise given.wrong(_TRANSFER)


def _options(command: str) -> OptionTable[Asked]:
    return OptionTable(
        ("debug:", 1, ignores),
        ("long", 1, ignores),
        ("totals", 3, sets(totals=True)),
        ("constraint", 1, takes("all_of", _ANOTHER, dash=False)),
        ("all", 1, _all),
        ("held hold", 3, sets(held=True)),
        ("addr", 2, ignores_value(_ANOTHER, dash=False)),
        ("reason", 1, takes("reason", _ANOTHER)),
        ("subcode", 1, _subcode),
        ("forcex", 1 if command == "condor_rm" else 2, _forced),
        ("fast", 1 if command == "condor_vacate_job" else 2, _fast),
        ("transfer", 2, _transfer),
        ("name pool", 1, ignores_value(_ANOTHER)),
        ("version", 1, texts.print_version),
        ("help", 1, texts.print_help_on_stderr),
    )


def parse(run: Invocation) -> Asked:
    """Read the words; raises Usage in HTCondor's words."""
    action = ACTIONS[run.name]
    if not run.argv[1:]:
        raise Usage("You did not specify any jobs", help=True)
    asked = _options(run.name).read(Asked(run, action), run.argv[1:], run.name, _add)
    if not (asked.ids or asked.any_of or asked.all_of or asked.all or asked.held):
        raise Usage("You did not specify any jobs", help=True)
    if asked.held and asked.ids:
        # only the held ones of the named jobs
        for cluster, proc in (id.split(".") for id in asked.ids):
            asked.any_of.append((f"(ClusterId == {cluster} && ProcId == {proc})", None))
        asked.ids = []
    if (reason := asked.reason or asked.action.reason) is not None:
        # a schedd adds who asked
        asked.reason = f"{reason} (by user {run.user})"
    return asked


def _add(asked: Asked, given: Given) -> None:
    """Take a word that is no option: a job, a cluster or a user."""
    word = given.word
    if word.startswith("-"):
        raise given.wrong(_UNRECOGNIZED, help=True)
    if asked.all:
        raise Usage("", help=True, newline=False)
    id = re.fullmatch(r"(\d+)(?:\.(\d*))?", word)
    if id is None:
        quoted = word.replace("\\", "\\\\").replace('"', '\\"')
        asked.any_of.append((f'Owner == "{quoted}"', f' of user "{word}"'))
    elif not 0 < int(id[1]) < 2**31:
        asked.run.complain(f"Invalid cluster # from {word}.\n")
        asked.invalid = True
    elif id[2] is None:
        asked.any_of.append((f"ClusterId == {int(id[1])}", f" in cluster {int(id[1])}"))
    else:
        asked.ids.append(f"{int(id[1])}.{int(id[2] or 0)}")


def _by_id(run: Invocation, asked: Asked) -> Acted:
    """Act on single jobs."""
    session, action = run.session, asked.action
    outcomes: dict[str, str] = {}
    for id, outcome in session.perform("standing", action=action.name, ids=asked.ids).items():
        if outcome is not None:
            outcomes[id] = outcome
            continue
        # one at a time, as a schedd does: a job without permission does not stop the others
        try:
            number = session.perform("change_jobs", action=action.name, spec=[id], **asked.said())
        except InsufficientPrivilege:
            outcomes[id] = _DENIED
        else:
            outcomes[id] = _DONE if number else _UNFIT
    done = sum(outcome == _DONE for outcome in outcomes.values())
    if not done:
        run.complain("\n")
    for id, times in Counter(asked.ids).items():
        if times > 1 and outcomes.get(id) == _DONE and action.again:
            # a schedd reports the second time
            outcomes[id] = action.again
    for id in asked.ids:
        outcome = outcomes.get(id, _UNKNOWN)
        if outcome == _DONE:
            run.say(f"Job {id} {action.done}\n")
        elif outcome == _UNKNOWN:
            run.complain(f"Job {id} not found\n")
        elif outcome == _DENIED:
            run.complain(f"Permission denied to {action.denied or action.verb} job {id}\n")
        elif outcome == _ALREADY:
            run.complain(f"Job {id} {action.already}\n")
        elif action.unfit.endswith("for"):
            run.complain(f"{action.unfit} job {id}\n")
        else:
            run.complain(f"Job {id} {action.unfit}\n")
    missing = sum(outcomes.get(id) == _UNKNOWN for id in set(asked.ids))
    return Acted(done, len(outcomes) - done - missing, missing)


def _by_constraint(run: Invocation, asked: Asked) -> Acted:
    """Act on clusters, users' jobs and constraints."""
    action = asked.action
    either = " || ".join(condition for condition, _ in asked.any_of)
    named = asked.any_of[0][1] if len(asked.any_of) == 1 else None
    parts = [*asked.all_of, *([either] if either else [])]
    shown = " && ".join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)
    if not shown:
        which = ""
    elif named is not None and not asked.all_of:
        which = named
    else:
        which = f" matching constraint ({shown})"
    jobs = "held jobs" if asked.held else "jobs"
    conditions = [f"({part})" for part in parts] + (["(JobStatus == 5)"] if asked.held else [])
    counts: Json = {}
    try:
        counts = patiently(
            run.environment,
            lambda: run.session.perform(
                "act",
                action=action.name,
                spec=" && ".join(conditions) or "true",
                **asked.said(),
            ),
        )
    except ClassAdError as problem:
        run.failed("DCSchedd::actOnJobs:1:Can't insert constraint into ClassAd\n", problem)
    except InsufficientPrivilege as problem:
        run.failed("\n", problem)
    if asked.totals:
        run.say(", ".join(f"{counts.get(name, 0)} {shown}" for name, shown in _TOTALS.items()) + "\n")
    if counts.get("TotalSuccess"):
        run.say(f"All {jobs}{which} have been {action.done}\n")
    else:
        run.complain("\n" * bool(counts) + f"Couldn't find/{action.verb} all {jobs}{which}\n")
    unchanged = ("TotalBadStatus", "TotalAlreadyDone", "TotalPermissionDenied")
    return Acted(
        counts.get("TotalSuccess", 0),
        sum(counts.get(name, 0) for name in unchanged),
        counts.get("TotalNotFound", 0),
    )
