"""condor_prio: sets the priority of jobs among their submitter's jobs."""

from __future__ import annotations

import re

from fetchwork.condor import texts
from fetchwork.condor.arguments import Words, job_id, leading_number
from fetchwork.condor.invocation import Invocation
from fetchwork.errors import FetchworkError, one_line


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    words = Words(run.argv[1:])
    absolute: int | None = None
    relative = 0
    named: list[str] = []
    everything = False
    if not run.argv[1:]:
        return _usage(run)
    for word in words:
        if re.fullmatch(r"[+-]\d+", word):
            relative, absolute = int(word), None
        elif word.startswith("-p") and not word.startswith("-po"):
            level = words.take()
            if level is None:
                return _usage(run)
            absolute = leading_number(level)
        elif word == "-a":
            everything = True
        elif word.startswith("-n") or word.startswith("-pool"):
            if words.take() is None:
                option = "pool" if word.startswith("-pool") else "n"
                run.complain(f"{run.name}: -{option} requires another argument\n")
                return 1
        elif word.startswith("-v"):
            run.say(texts.version())
            return 0
        elif word.startswith("-"):
            return _usage(run)
        else:
            named.append(word)
    if absolute is None and not relative:
        run.complain("You must specify a new priority or priority adjustment.\n")
        return _usage(run)
    if not (named or everything):
        return _usage(run)
    try:
        for word in ["" for _ in [0] if everything] or named:
            _change(run, word, absolute, relative)
    except FetchworkError as problem:
        run.complain(f"{run.name}: {one_line(str(problem))}\n")
        return 1
    return 0


def _usage(run: Invocation) -> int:
    run.complain(
        f"Usage: {run.name} [{{+|-}}priority ] [-p priority] [ -a ] [-n schedd_name] [ -pool pool_name ]"
        " [user | cluster | cluster.proc | -a] ...\n"
    )
    return 1


def _change(run: Invocation, word: str, absolute: int | None, relative: int) -> None:
    """Change the priority of the jobs that a word names; '' names all."""
    from fetchwork.errors import InsufficientPrivilege, NotFound

    session = run.session
    id = job_id(word) if word else None
    if id is not None:
        constraint = f"ClusterId == {id[0]}" + (f" && ProcId == {id[1]}" if id[1] >= 0 else "")
    elif word:
        quoted = word.replace("\\", "\\\\").replace('"', '\\"')
        constraint = f'Owner == "{quoted}"'
    else:
        constraint = "true"
    found = list(session.items("jobs", constraint=constraint, projection=["ClusterId", "ProcId", "JobPrio"]))
    if not found and id is not None and id[1] >= 0:
        run.complain(f"Couldn't retrieve current priority for {word}.\n")
    # jobs with the same priority are changed together
    new: dict[int, list[str]] = {}
    for job in found:
        priority = absolute if absolute is not None else int(job.get("JobPrio") or 0) + relative
        new.setdefault(priority, []).append(f"{job['ClusterId']}.{job['ProcId']}")
    if new and absolute is None:
        run.once()
    for priority, ids in new.items():
        try:
            session.perform("edit", spec=ids, changes={"JobPrio": priority})
        except (InsufficientPrivilege, NotFound):
            for one in ids:
                try:
                    session.perform("edit", spec=[one], changes={"JobPrio": priority})
                except (InsufficientPrivilege, NotFound):
                    run.complain(f"Couldn't set new priority for {one}.\n")
