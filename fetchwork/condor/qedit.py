"""condor_qedit: change attributes of jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fetchwork.condor import texts
from fetchwork.condor.arguments import (
    Given,
    OptionTable,
    Usage,
    ignores,
    ignores_value,
    job_id,
    refuses,
)
from fetchwork.condor.invocation import Invocation
from fetchwork.errors import FetchworkError, one_line

_IMMUTABLE = frozenset({"clusterid", "procid", "owner", "user", "mytype", "targettype", "jobstatus"})

REFUSED = {
    "dry-run": "an edit is refused whole or done",
    "edits": "give the edits as ATTRIBUTE=VALUE",
    **dict.fromkeys(("long", "xml", "json"), "give the edits as ATTRIBUTE=VALUE"),
}


@dataclass
class Asked:
    """The jobs, by ids or conditions, and their changes."""

    ids: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    #: attribute -> expression
    edits: dict[str, str] = field(default_factory=dict)


_LACKS = "{command}: {word} requires "


def _constraint(asked: Asked, given: Given) -> None:
    asked.conditions.append(f"({given.value(_LACKS + 'a ClassAd expression an argument', help=True)})")


def _owner(asked: Asked, given: Given) -> None:
    asked.conditions.append(f'(Owner=="{given.value(_LACKS + "a owner name argument", help=True)}")')


def _job_ids(asked: Asked, given: Given) -> None:
    ids = given.value(_LACKS + "a list of job ids as an argument", help=True)
    asked.ids += [id for id in re.split(r"[,\s]+", ids) if id]


_POOL = _LACKS + "a HTCondor collector name or address as an argument"
_OPTIONS: OptionTable[Asked] = OptionTable(
    ("help", 1, texts.print_help),
    ("version", 1, texts.print_version),
    ("debug", 2, ignores),
    ("forward", 1, ignores),
    ("name", 1, ignores_value(_LACKS + "a SCHEDD name as an argument", help=True)),
    ("pool", 1, ignores_value(_POOL, help=True)),
    ("constraint", 1, _constraint),
    ("owner", 1, _owner),
    ("jobids", 1, _job_ids),
    *((f"{name}:", 2, refuses(REFUSED, "{command} : -{name} is not supported: {why}")) for name in REFUSED),
)


def _add(asked: Asked, given: Given) -> None:
    """Take a word that is no option: a job or a user, or the beginning of an edit."""
    word = given.word
    if word.startswith("-"):
        raise given.wrong("{command}: {word} is not a valid option", help=True)
    if not asked.edits and job_id(word) is not None:
        asked.ids.append(word)
    elif "=" in word and not word.startswith("="):
        name, _, assigned = word.partition("=")
        asked.edits[name.strip()] = assigned
    elif "=" not in word and not (asked.edits or asked.conditions or asked.ids):
        asked.conditions.append(f'(Owner=="{word}")')
    else:
        asked.edits[word] = given.value("{command} : expression required after attribute {word}", help=True)


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    return int(not edit(run, parse(run)))


def parse(run: Invocation) -> Asked:
    """Read the words; raises Usage in HTCondor's words."""
    asked = _OPTIONS.read(Asked(), run.argv[1:], run.name, _add)
    if not (asked.ids or asked.conditions):
        raise Usage("", help=True, newline=False)
    if not asked.edits:
        raise Usage(f"{run.name} : Error - no attributes specifed.", help=True)
    return asked


def edit(run: Invocation, asked: Asked) -> int:
    """Change the jobs, and say so; returns how many were changed."""
    from fetchwork.errors import ClassAdError
    from fetchwork.queue.changing import value_of

    ids, conditions, edits = asked.ids, asked.conditions, asked.edits
    for name in edits:
        if name.lower() in _IMMUTABLE:
            run.complain(f'Update of immutable attribute "{name}" is not allowed.\n')
            run.complain("Transaction failed.  No attributes were set.\n")
            return 0
    values = {}
    for name, text in edits.items():
        try:
            values[name] = value_of(text)
        except ClassAdError:
            run.complain(f"Update aborted, illegal value for : {name}\n")
            run.complain("Transaction failed.  No attributes were set.\n")
            return 0
    # in the order of HTCondor's table of edits
    names = sorted(edits)
    of_jobs = not conditions and all("." in id for id in ids)
    shown = [_one(id) for id in ids] + conditions
    spec: list[str] | str = ids if of_jobs else (" && " if conditions else " || ").join(shown)
    about = f"by constraint: ( {' && '.join(shown)} )"
    changed, reason = 0, ""
    try:
        if of_jobs:
            found = run.session.perform("standing", action="Hold", ids=ids)
            about = f"for job {next((id for id in ids if found[id] == 'not found'), ids[0])}."
        changed = run.session.perform("edit", spec=spec, changes=values)
    except FetchworkError as problem:
        run.failed("", problem)
        reason = _reason(problem)
    if not changed:
        run.complain(f'Failed to set attribute "{names[0]}" {about}\n')
        run.complain(f"Queue transaction failed.  No attributes were set.\n{reason}")
        return 0
    for name in names:
        run.say(f'Set attribute "{name}" for {changed} matching jobs.\n')
    return changed


def _one(id: str) -> str:
    cluster, _, proc = id.partition(".")
    return f"(ClusterId == {cluster} && ProcId == {proc})" if proc else f"(ClusterId == {cluster} )"


def _reason(problem: FetchworkError) -> str:
    from fetchwork.errors import NotFound

    return "" if isinstance(problem, NotFound) else one_line(str(problem)) + "\n"
