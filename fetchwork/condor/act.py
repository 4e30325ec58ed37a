"""condor_rm and its kin: hold, release, vacate_job; suspend and continue are refused."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fetchwork.condor import texts
from fetchwork.condor.arguments import Given, OptionTable, Usage, ignores, ignores_value, sets, takes
from fetchwork.condor.invocation import Invocation, patiently
from fetchwork.errors import ClassAdError, FetchworkError, InsufficientPrivilege, one_line

if TYPE_CHECKING:
    from fetchwork.queue.views import Json


@dataclass(frozen=True)
class Action:
    """The words of a command for its action."""

    name: str
    verb: str
    done: str
    already: str
    unfit: str
    reason: str | None = None
    refused: str | None = None
    #: as ``verb``, for a job of another user
    denied: str | None = None

    @property
    def again(self) -> str | None:
        """The outcome of naming a job twice; None if the action is done again."""
        return _ALREADY if self.already else _UNFIT if self.name == "Release" else None


_NO_SUSPEND = "a fetched job can't be suspended from here: 'condor_hold' takes it off its slot"

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
    "condor_suspend": Action(
        "Suspend", "suspend", "suspended", "", "not running to be suspended", refused=_NO_SUSPEND
    ),
    "condor_continue": Action(
        "Continue", "continue", "continued", "already running", "not running to be continued",
        refused=_NO_SUSPEND,
    ),
}  # fmt: skip
#: condor_rm -forcex
_FORCED = Action(
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
class _Asked:
    """The selected jobs, and the options."""

    run: Invocation
    action: Action
    ids: list[str] = field(default_factory=list)
    #: conditions of clusters and users, and with -held of jobs, of which one must hold
    any_of: list[str] = field(default_factory=list)
    #: constraints, which must all hold
    all_of: list[str] = field(default_factory=list)
    all: bool = False
    held: bool = False
    reason: str | None = None
    subcode: int = 0
    totals: bool = False
    invalid: bool = False
    #: the name of the jobs in messages; None for a constraint
    named: str | None = None

    def said(self) -> Json:
        """The reason, as the arguments of an operation."""
        return {"reason": self.reason, "subcode": self.subcode}


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    action = ACTIONS[run.name]
    asked = _parse(run, action)
    if action.refused is not None:
        run.complain(f"{run.name}: {action.refused}\n")
        return 1
    failed = asked.invalid
    try:
        if asked.ids:
            if asked.all_of or asked.all:
                run.complain("Warning, -constraint is ignored for fully qualified job ids\n")
            failed = _by_id(run, asked) or failed
        if asked.any_of or asked.all_of or asked.all or asked.held:
            failed = _by_constraint(run, asked) or failed
    except FetchworkError as problem:
        run.complain(f"{run.name}: {one_line(str(problem))}\n")
        return 1
    return int(failed)


_UNRECOGNIZED = "Unrecognized option: {word}"
_ANOTHER = "{command}: -{name} requires another argument"


def _all(asked: _Asked, given: Given) -> None:
    if asked.all_of or asked.any_of or asked.all:
        raise given.wrong("{command}: can't mix -all with other constraints")
    asked.all = True


def _subcode(asked: _Asked, given: Given) -> None:
    text = given.value(_ANOTHER)
    if not re.fullmatch(r"\s*[+-]?\d+", text):
        raise Usage(f"Invalid -subcode {text}!")
    asked.subcode = int(text)


def _forced(asked: _Asked, given: Given) -> None:
    if given.command != "condor_rm":
        raise Usage("-forcex is only valid with condor_rm", help=True)
    asked.action = _FORCED


def _fast(asked: _Asked, given: Given) -> None:
    if given.command != "condor_vacate_job":
        raise Usage("-fast is only valid with condor_vacate_job", help=True)
    asked.action = _FAST


_TRANSFER = "{command}: -transfer is not supported: a removed job's output is deleted"


def _transfer(asked: _Asked, given: Given) -> None:
    if given.command != "condor_rm":
        raise given.wrong(_UNRECOGNIZED, help=True)
    raise given.wrong(_TRANSFER)


def _options(command: str) -> OptionTable[_Asked]:
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


def _parse(run: Invocation, action: Action) -> _Asked:
    if not run.argv[1:]:
        raise Usage("You did not specify any jobs", help=True)
    asked = _options(run.name).read(_Asked(run, action), run.argv[1:], run.name, _add)
    if not (asked.ids or asked.any_of or asked.all_of or asked.all or asked.held):
        raise Usage("You did not specify any jobs", help=True)
    if asked.held and asked.ids:
        # only the held ones of the named jobs
        for cluster, proc in (id.split(".") for id in asked.ids):
            asked.any_of.append(f"(ClusterId == {cluster} && ProcId == {proc})")
        asked.ids, asked.named = [], None
    if (reason := asked.reason or asked.action.reason) is not None:
        # a schedd adds who asked
        asked.reason = f"{reason} (by user {run.user})"
    return asked


def _add(asked: _Asked, given: Given) -> None:
    """Take a word that is no option: a job, a cluster or a user."""
    word = given.word
    if word.startswith("-"):
        raise given.wrong(_UNRECOGNIZED, help=True)
    if asked.all:
        raise Usage("", help=True, newline=False)
    id = re.fullmatch(r"(\d+)(?:\.(\d*))?", word)
    if id is None:
        quoted = word.replace("\\", "\\\\").replace('"', '\\"')
        asked.any_of.append(f'Owner == "{quoted}"')
        asked.named = f' of user "{word}"' if len(asked.any_of) == 1 else None
    elif not 0 < int(id[1]) < 2**31:
        asked.run.complain(f"Invalid cluster # from {word}.\n")
        asked.invalid = True
    elif id[2] is None:
        asked.any_of.append(f"ClusterId == {int(id[1])}")
        asked.named = f" in cluster {int(id[1])}" if len(asked.any_of) == 1 else None
    else:
        asked.ids.append(f"{int(id[1])}.{int(id[2] or 0)}")


def _by_id(run: Invocation, asked: _Asked) -> bool:
    """Act on single jobs; return whether the action failed for all of them."""
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
    return not done


def _by_constraint(run: Invocation, asked: _Asked) -> bool:
    """Act on clusters, users' jobs and constraints; return whether no job was changed."""
    action = asked.action
    either = " || ".join(asked.any_of)
    parts = [*asked.all_of, *([either] if either else [])]
    shown = " && ".join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)
    if not shown:
        which = ""
    elif asked.named is not None and not asked.all_of:
        which = asked.named
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
    except ClassAdError:
        run.complain("DCSchedd::actOnJobs:1:Can't insert constraint into ClassAd\n")
    except InsufficientPrivilege:
        run.complain("\n")
    if asked.totals:
        run.say(", ".join(f"{counts.get(name, 0)} {shown}" for name, shown in _TOTALS.items()) + "\n")
    if counts.get("TotalSuccess"):
        run.say(f"All {jobs}{which} have been {action.done}\n")
        return False
    if counts:
        run.complain("\n")
    run.complain(f"Couldn't find/{action.verb} all {jobs}{which}\n")
    return True
