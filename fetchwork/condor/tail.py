"""condor_tail: prints the end of a job's output, as its agent last reported it."""

from __future__ import annotations

from fetchwork.condor import texts
from fetchwork.condor.arguments import Words, is_option, job_id
from fetchwork.condor.invocation import Invocation
from fetchwork.errors import FetchworkError, NotFound, one_line


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    words = Words(run.argv[1:])
    id: str | None = None
    stdout, stderr = True, False
    most = 1024
    follow = False
    for word in words:
        if texts.tell(run, word):
            return 0
        if is_option(word, "name", 2) or is_option(word, "pool", 1):
            words.take()
        elif is_option(word, "maxbytes", 1):
            size = words.following
            if size is None or size.startswith("-"):
                run.complain("-maxbytes requires an argument.\n\n" + texts.help_of(run.name))
                return 1
            if not size.isdecimal():
                run.complain(f"Error: maxbytes ({size}) is not valid\n\n" + texts.help_of(run.name))
                return 1
            words.take()
            most = int(size)
        elif is_option(word, "no-stdout", 3):
            stdout = False
        elif is_option(word, "stderr", 2):
            stderr = True
        elif is_option(word, "follow", 1):
            follow = True
        elif is_option(word, "debug", 1) or is_option(word, "auto-retry", 1):
            continue
        elif word.startswith("-"):
            run.complain(f"Invalid Job ID: {word}\n" + texts.help_of(run.name))
            return 1
        elif id is None:
            id = word
    if id is None:
        run.complain("Job ID not specified.\n" + texts.help_of(run.name))
        return 1
    found = job_id(id)
    if found is None:
        run.complain(f"Invalid Job ID: {id}\n" + texts.help_of(run.name))
        return 1
    if follow:
        return _follow(run, found[0], max(found[1], 0), stdout=stdout, stderr=stderr)
    return _print(run, found[0], max(found[1], 0), stdout=stdout, stderr=stderr, most=most)


def _follow(run: Invocation, cluster: int, proc: int, *, stdout: bool, stderr: bool) -> int:
    """Print the job's output until it ends; like HTCondor's, say nothing about its outcome."""
    from fetchwork.following.liveoutput import follow_output

    try:
        for piece in follow_output(run.session, cluster, proc):
            if (stdout and piece.stream == 1) or (stderr and piece.stream == 2):
                run.say(piece.text)
                run.stdout.flush()
    except NotFound:
        run.complain(f"No such job: {cluster}.{proc}\n")
        return 1
    except FetchworkError as problem:
        run.complain(f"{one_line(str(problem))}\n")
        return 1
    return 0


def _print(run: Invocation, cluster: int, proc: int, *, stdout: bool, stderr: bool, most: int) -> int:
    try:
        kept = run.session.perform("kept_output", cluster=cluster, proc=proc)
    except FetchworkError as problem:
        run.complain(f"{one_line(str(problem))}\n")
        return 1
    if kept is None:
        run.complain(f"No such job: {cluster}.{proc}\n")
        return 1
    for wanted, text in ((stdout, kept["stdout"]), (stderr, kept["stderr"])):
        if wanted and text:
            run.stdout.write(text.encode()[-most:])
    return 0
