"""condor_qedit: change attributes of jobs."""

from __future__ import annotations

import re

from fetchwork.condor import texts
from fetchwork.condor.arguments import Words, is_colon_option, is_option, job_id
from fetchwork.condor.invocation import Invocation
from fetchwork.errors import FetchworkError, one_line

_IMMUTABLE = frozenset({"clusterid", "procid", "owner", "user", "mytype", "targettype", "jobstatus"})


#: what HTCondor says that an option takes
_ARGUMENTS = {
    "name": "a SCHEDD name as an argument",
    "pool": "a HTCondor collector name or address as an argument",
    "constraint": "a ClassAd expression an argument",
    "owner": "a owner name argument",
    "jobids": "a list of job ids as an argument",
}
REFUSED = {
    "dry-run": "an edit is refused whole or done",
    "edits": "give the edits as ATTRIBUTE=VALUE",
    **dict.fromkeys(("long", "xml", "json"), "give the edits as ATTRIBUTE=VALUE"),
}


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    words = Words(run.argv[1:])
    ids: list[str] = []
    conditions: list[str] = []
    edits: dict[str, str] = {}
    named = False
    for word in words:
        if texts.tell(run, word):
            return 0
        if is_option(word, "debug", 2) or is_option(word, "forward", 1):
            continue
        if word.startswith("-") and len(word) > 1 and (following := words.following) is not None:
            if is_option(word, "name", 1) or is_option(word, "pool", 1):
                words.take()
                continue
            if is_option(word, "constraint", 1):
                conditions.append(f"({following})")
                words.take()
                continue
            if is_option(word, "owner", 1):
                conditions.append(f'(Owner=="{following}")')
                words.take()
                continue
            if is_option(word, "jobids", 1):
                ids += [id for id in re.split(r"[,\s]+", following) if id]
                words.take()
                continue
        refused = next((name for name in REFUSED if is_colon_option(word, name, 2)[0]), None)
        if refused is not None:
            run.complain(f"{run.name} : -{refused} is not supported: {REFUSED[refused]}\n")
            return 1
        if lacking := next((what for name, what in _ARGUMENTS.items() if is_option(word, name, 1)), None):
            run.complain(f"{run.name}: {word} requires {lacking}\n" + texts.help_of(run.name))
            return 1
        if word.startswith("-"):
            run.complain(f"{run.name}: {word} is not a valid option\n" + texts.help_of(run.name))
            return 1
        if (
            not edits
            and not named
            and not conditions
            and job_id(word) is None
            and "=" not in word
            and not ids
        ):
            conditions.append(f'(Owner=="{word}")')
            named = True
        elif not edits and job_id(word) is not None:
            ids.append(word)
        elif "=" in word and not word.startswith("="):
            name, _, assigned = word.partition("=")
            edits[name.strip()] = assigned
        elif (expression := words.take()) is not None:
            edits[word] = expression
        else:
            message = f"{run.name} : expression required after attribute {word}\n"
            run.complain(message + texts.help_of(run.name))
            return 1
    if not edits or not (ids or conditions):
        missing = "" if not (ids or conditions) else f"{run.name} : Error - no attributes specifed.\n"
        run.complain(missing + texts.help_of(run.name))
        return 1
    return _edit(run, ids, conditions, edits)


def _edit(run: Invocation, ids: list[str], conditions: list[str], edits: dict[str, str]) -> int:
    from fetchwork.errors import ClassAdError
    from fetchwork.queue.changing import value_of

    for name in edits:
        if name.lower() in _IMMUTABLE:
            run.complain(f'Update of immutable attribute "{name}" is not allowed.\n')
            run.complain("Transaction failed.  No attributes were set.\n")
            return 1
    values = {}
    for name, text in edits.items():
        try:
            values[name] = value_of(text)
        except ClassAdError:
            run.complain(f"Update aborted, illegal value for : {name}\n")
            run.complain("Transaction failed.  No attributes were set.\n")
            return 1
    last = list(edits)[-1]
    single = len(ids) == 1 and "." in ids[0] and not conditions
    shown = conditions
    if ids and not single:
        shown = [f"(ClusterId == {id} )" if "." not in id else _one(id) for id in ids] + conditions
    spec = ids[0] if single else " && ".join(shown) if conditions or not ids else " || ".join(shown)
    try:
        session = run.session
        changed = session.perform("edit", spec=spec, changes=values)
    except FetchworkError as problem:
        about = f"for job {ids[0]}." if single else f"by constraint: ( {' && '.join(shown)} )"
        run.complain(f'Failed to set attribute "{last}" {about}\n')
        run.complain(f"Queue transaction failed.  No attributes were set.\n{_reason(problem)}")
        return 1
    if not changed:
        about = f"for job {ids[0]}." if single else f"by constraint: ( {' && '.join(shown)} )"
        run.complain(f'Failed to set attribute "{last}" {about}\n')
        run.complain("Queue transaction failed.  No attributes were set.\n")
        return 1
    for name in edits:
        run.say(
            f'Set attribute "{name}" for {changed} matching jobs.\n'
            if not single
            else f'Set attribute "{name}".\n'
        )
    return 0


def _one(id: str) -> str:
    cluster, _, proc = id.partition(".")
    return f"(ClusterId == {cluster} && ProcId == {proc})"


def _reason(problem: FetchworkError) -> str:
    from fetchwork.errors import NotFound

    return "" if isinstance(problem, NotFound) else one_line(str(problem)) + "\n"
