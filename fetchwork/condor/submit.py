"""condor_submit: a submit description into the queue, in HTCondor's words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fetchwork.condor import texts
from fetchwork.condor.arguments import Usage, Words, is_option
from fetchwork.condor.invocation import Invocation, patiently
from fetchwork.dag import dagrun
from fetchwork.errors import FetchworkError, SubmitError, one_line

if TYPE_CHECKING:
    from fetchwork.queue.jobads import Jobs
    from fetchwork.queue.views import Json

#: options with a value that mean nothing here: there is one queue, which FETCHWORK_DSN names
_IGNORED = {"name": 1, "pool": 1, "addr": 2}
#: options that change nothing here
_PASSED_OVER = {"disable": 1, "debug": 2, "single-cluster": 3, "allow-crlf-script": 3}

REFUSED = {
    "spool": "input files are kept at submit in any case: say should_transfer_files = YES",
    "remote": "it implies -spool, and there is one queue",
    "interactive": "there is no shadow to talk to",
    "factory": "what the jobs of a cluster have in common is kept once anyway",
    "dump": "-dry-run FILE writes the ads",
    "capabilities": "there is no schedd to ask",
}


_NO_FILE = """
ERROR: No submit filename was provided, and '-'
  was given as the output filename for -dump or -dry-run. Was this intended?
  To to avoid confusing the output file with the submit file when using these
  commands, an explicit submit filename argument must be given. You can use -
  as the submit filename argument to read from stdin."""


@dataclass
class _Options:
    file: str | None = None
    #: KEY=VALUE words, and the lines of -append
    macros: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    queue: str | None = None
    terse: bool = False
    verbose: bool = False
    dry_run: str | None = None
    most: int | None = None
    #: of lines that nothing uses
    warns: bool = True


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    try:
        options = _parse(run)
    except Usage as problem:
        run.complain(problem.text)
        if problem.help:
            run.complain(texts.help_of("condor_submit"))
        return 1
    if options is None:
        return 0
    try:
        text = _read(run, options)
    except OSError as problem:
        run.complain(f"\nERROR: Failed to open command file ({options.file}) ({problem.strerror})\n")
        return 1
    if not options.terse and not options.verbose:
        run.say("Submitting job(s)" if options.dry_run is None else "Dry-Run job(s)")
    try:
        _submit(run, options, text)
    except Usage as problem:
        run.complain(problem.text)
        return 1
    except SubmitError as problem:
        reason = str(problem).rpartition("HTCondor's submit refuses the description: ")[2]
        # the line that was begun ends on stdout in a dry run
        run.say("" if options.dry_run is None else "\n")
        run.complain(f"{'' if options.dry_run is not None else chr(10)}ERROR: {one_line(reason)}\n")
        return 1
    except FetchworkError as problem:
        run.complain(f"\nERROR: Failed to connect to local queue manager\n{one_line(str(problem))}\n")
        return 1
    return 0


def _submit(run: Invocation, options: _Options, text: str) -> None:
    from fetchwork.queue.remote import RemoteSession

    key = _key(run, options)
    # with @= a line that begins so may be part of a text
    plain = "@=" not in text and options.dry_run is None and options.most is None and options.queue is None
    # a dry run needs no queue
    session = run.session if options.dry_run is None else None
    if plain and isinstance(session, RemoteSession):
        # nothing of it is read here, and nothing imported that could
        if options.lines:
            from fetchwork.queue.statements import with_commands

            text = with_commands(text, options.lines)
        whole = "\n".join([*options.macros, text])
        answer = patiently(run.environment, lambda: session.submit_text(whole, key=key))
        _say_submitted(run, options, answer["cluster"], answer["count"])
        _warn(run, options, whole, served=True)
        return
    from fetchwork.queue import statements
    from fetchwork.queue.session import Session

    text = "\n".join([*options.macros, statements.with_commands(text, options.lines)])
    statement = statements.queue_statement(text)
    if statement is not None and options.queue is not None:
        raise SubmitError(
            f"on Line {statement.line} of {options.file or '<stdin>'}:"
            " -queue argument conflicts with queue statement in submit file"
        )
    if options.dry_run is not None:
        _dry_run(run, options, text)
        _warn(run, options, text)
        return
    if options.most is not None:
        count = sum(1 for _ in _jobs(run, text, options.queue).own)
        if count > options.most:
            raise Usage(f"\nERROR: Number of submitted jobs would exceed -maxjobs ({options.most})")
    if options.queue is not None:
        text = f"{text}\nqueue {options.queue}\n"
    # an access point knows who asks
    made = run.session.submit(text, owner=run.user if isinstance(run.session, Session) else None, key=key)
    _say_submitted(run, options, made.cluster(), made.num_procs())
    _warn(run, options, text, served=isinstance(run.session, RemoteSession))


def _warn(run: Invocation, options: _Options, text: str, *, served: bool = True) -> None:
    """Say which lines nothing uses; to a person, not to a program, what the description expects in vain."""
    if options.warns:
        from fetchwork.queue.unused import unused

        for one in unused(text):
            said = f"the line '{one.name} = {one.value}' was unused by condor_submit. Is it a typo?"
            run.complain(f"WARNING: {said}\n")
    if run.columns > 0 and options.dry_run is None:
        from fetchwork.queue.descriptions import unmet

        for line in unmet(text, served=served):
            run.complain(f"WARNING: {line}\n")


def _key(run: Invocation, options: _Options) -> str | None:
    """By which a submission is known: one of DAGMan's by node and try, so that these are not made twice."""
    dag = run.environment.get(dagrun.VARIABLE)
    macros = dict(macro.split(" = ", 1) for macro in options.macros)
    if dag is None or "JOB" not in macros or "RETRY" not in macros:
        return run.key
    return dagrun.key(dag, macros["JOB"], macros["RETRY"])


def _say_submitted(run: Invocation, options: _Options, cluster: int, count: int) -> None:
    if options.terse:
        run.say(f"{cluster}.0 - {cluster}.{count - 1}\n")
    elif options.verbose:
        _print_jobs(run, cluster)
    else:
        run.say("." * count + f"\n{count} job(s) submitted to cluster {cluster}.\n")


def _jobs(run: Invocation, text: str, queue: str | None) -> Jobs:
    from fetchwork.queue import descriptions

    return descriptions.from_description(text, cluster_id=1, owner=run.user, queue=queue or "1")


def _print_jobs(run: Invocation, cluster: int) -> None:
    """Print the ads of a cluster's jobs, as -verbose does."""
    from fetchwork.condor.arguments import octets
    from fetchwork.condor.printedad import PrintedAd

    for json in run.session.items("jobs", constraint=f"ClusterId == {cluster}"):
        ad = PrintedAd(json)
        run.say(f"\n** Proc {cluster}.{json['ProcId']}:\n")
        run.write("".join(f"{octets(name)} = {ad.unparsed(name)}\n" for name in ad.names()))
    run.say("\n")


def _dry_run(run: Invocation, options: _Options, text: str) -> None:
    """Write the ads that would be submitted, those of later jobs as far as they differ from the first."""
    jobs = _jobs(run, text, options.queue)
    parts: list[Json] = []
    for number, own in enumerate(jobs.own):
        first: Json = {"ClusterId": 1, **jobs.common} if number == 0 else {}
        parts.append({**first, **own, "ProcId": number, "JobStatus": jobs.common.get("JobStatus", 1)})
    lines = [_plain(part) for part in parts]
    if options.dry_run == "-":
        for part in lines:
            run.write(f"\n{part}.")
    else:
        assert options.dry_run is not None
        try:
            run.path(options.dry_run).write_bytes("".join(f"\n{part}" for part in lines).encode("latin-1"))
        except OSError as problem:
            raise Usage(f"\nERROR: Failed to open -dry-run output file ({problem.strerror})") from None
        run.say("." * len(lines))
    run.say(f"\n{len(lines)} job(s) dry-run to cluster 1.\n")


def _plain(part: Json) -> str:
    from fetchwork.condor.arguments import octets
    from fetchwork.condor.printedad import unparse

    return "".join(f"{octets(name)}={unparse(item)}\n" for name, item in part.items())


def _read(run: Invocation, options: _Options) -> str:
    if options.file in (None, "-"):
        return run.stdin.read().decode("utf-8", "replace")
    assert options.file is not None
    return run.path(options.file).read_bytes().decode("utf-8", "replace")


def _parse(run: Invocation) -> _Options | None:
    words = Words(run.argv[1:])
    found = _Options()

    def value(what: str) -> str:
        following = words.take()
        if following is None:
            raise Usage(f"{run.name}: -{what} requires another argument")
        return following

    for word in words:
        if word == "-" or not word.startswith("-"):
            if word != "-" and (macro := re.match(r"([^\s=]+)\s*=(.*)", word, re.DOTALL)):
                found.macros.append(f"{macro[1]} = {macro[2].strip()}")
            else:
                found.file = word
                found.verbose = found.verbose or word == "-"
        elif is_option(word, "verbose", 1):
            found.verbose, found.terse = True, False
        elif is_option(word, "terse", 3):
            found.terse, found.verbose = True, False
        elif any(is_option(word, name, least) for name, least in _PASSED_OVER.items()):
            pass
        elif is_option(word, "file", 1):
            found.file = value("file")
        elif is_option(word, "append", 1):
            found.lines.append(value("append"))
        elif is_option(word, "batch-name", 1):
            found.lines.append(f"MY.JobBatchName = {_quoted(value('batch-name'))}")
        elif is_option(word, "queue", 1):
            if words.following is None:
                raise Usage(f"{run.name}: -queue requires another argument")
            found.queue = " ".join(words.take_plain())
        elif is_option(word, "maxjobs", 3):
            text = value("maxjobs")
            if not text.isdecimal():
                raise Usage(f"Error: Unable to convert argument ({text}) to a number for -maxjobs.")
            found.most = int(text)
        elif is_option(word, "dry-run", 2):
            found.dry_run = value("dry-run")
        elif is_option(word, "unused", 1):
            found.warns = not found.warns
        elif option := next((name for name, least in _IGNORED.items() if is_option(word, name, least)), None):
            value(option)
        elif option := next((name for name in REFUSED if is_option(word, name, 1)), None):
            raise Usage(f"\nERROR: -{option} is not supported: {REFUSED[option]}")
        elif is_option(word, "version", 3):
            run.say(texts.version())
            return None
        elif is_option(word, "help", 1):
            run.complain(texts.help_of("condor_submit"))
            return None
        else:
            raise Usage("", help=True, newline=False)
    if found.terse:
        found.verbose = False
    if found.dry_run == "-" and found.file is None:
        raise Usage(_NO_FILE)
    return found


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
