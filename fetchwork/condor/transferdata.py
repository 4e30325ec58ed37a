"""condor_transfer_data: delivers the outputs of ended jobs to where they were submitted."""

from __future__ import annotations

from fetchwork.condor import texts
from fetchwork.condor.arguments import Words, is_option, job_id
from fetchwork.condor.invocation import Invocation
from fetchwork.errors import FetchworkError, one_line
from fetchwork.queue.remote import ended_too


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    words = Words(run.argv[1:])
    jobs: list[str] = []
    everything = False
    constraint: str | None = None
    for word in words:
        if texts.tell(run, word):
            return 0
        if taking := next((name for name in ("name", "pool", "addr") if is_option(word, name, 1)), None):
            if words.take() is None:
                run.complain(f"{run.name}: -{taking} requires another argument\n")
                return 1
        elif is_option(word, "all", 2):
            everything = True
        elif is_option(word, "debug", 1):
            continue
        elif is_option(word, "constraint", 1):
            constraint = words.take() or ""
        elif word.startswith("-") or job_id(word) is None:
            run.complain(f"Unrecognized argument: {word}\n" + texts.help_of(run.name))
            return 1
        else:
            jobs.append(word)
    if constraint is not None and (jobs or everything):
        run.complain(f"{run.name}: -constraint can't be used with job ids or -all\n")
        return 1
    if not jobs and not everything and constraint is None:
        run.complain("You did not specify any jobs\n" + texts.help_of(run.name))
        return 1
    run.say("Fetching data files...\n")
    try:
        meant = constraint if constraint is not None else None if everything else jobs
        brought = run.session.retrieve(ended_too(run.session, meant))
    except (FetchworkError, ValueError) as problem:
        run.complain(f"Failed to spool job files.\n{one_line(str(problem))}\n")
        return 1
    failed = [one for one in brought if one["problem"] is not None]
    for one in failed:
        run.complain(f"Job {one['job']}: {one_line(str(one['problem']))}\n")
    return 1 if failed else 0
