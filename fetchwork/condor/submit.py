"""condor_submit: submits a description, with HTCondor's messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fetchwork.condor import texts
from fetchwork.condor.arguments import (
    Given,
    OptionTable,
    Usage,
    ignores,
    ignores_value,
    refuses,
    sets,
    takes,
)
from fetchwork.condor.invocation import Invocation, patiently
from fetchwork.dag import dagrun
from fetchwork.errors import DatabaseRefused, FetchworkError, SubmitError, one_line

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json
    from fetchwork.queue.submitting.jobads import Jobs

REFUSED = {
    "spool": "input files are kept at submit in any case: say should_transfer_files = YES",
    "remote": "it implies -spool, and there is one queue",
    "interactive": "there is no shadow to talk to",
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
    #: whether to warn of unused lines
    warns: bool = True


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    options = _parse(run)
    try:
        text = _read(run, options)
    except OSError as problem:
        run.complain(f"\nERROR: Failed to open command file ({options.file}) ({problem.strerror})\n")
        return 1
    if not options.terse and not options.verbose:
        run.say("Submitting job(s)" if options.dry_run is None else "Dry-Run job(s)")
    try:
        _submit(run, options, text)
    except Usage:
        raise
    except (SubmitError, DatabaseRefused) as problem:
        reason = str(problem).rpartition("HTCondor's submit refuses the description: ")[2]
        # in a dry run the unfinished line ends on stdout
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
    # after @= a line like a queue statement may be part of a text
    plain = "@=" not in text and options.dry_run is None and options.most is None and options.queue is None
    # a dry run needs no queue
    session = run.session if options.dry_run is None else None
    if plain and isinstance(session, RemoteSession):
        # the description is not read here, so its parser is not imported
        if options.lines:
            from fetchwork.queue.submitting.statements import with_commands

            text = with_commands(text, options.lines)
        whole = "\n".join([*options.macros, text])
        answer = patiently(run.environment, lambda: session.submit_text(whole, key=key))
        _say_submitted(run, options, answer["cluster"], answer["count"], late=answer.get("late", False))
        _warn(run, options, whole, served=True)
        return
    from fetchwork.queue.session import Session
    from fetchwork.queue.submitting import statements

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
    _say_submitted(run, options, made.cluster(), made.num_procs(), late=made.late)
    _warn(run, options, text, served=isinstance(run.session, RemoteSession))


def _warn(run: Invocation, options: _Options, text: str, *, served: bool = True) -> None:
    """Warn of unused lines, and of expectations of the description that are not met."""
    if options.warns:
        from fetchwork.queue.submitting.unused import unused

        for one in unused(text):
            said = f"the line '{one.name} = {one.value}' was unused by condor_submit. Is it a typo?"
            run.complain(f"WARNING: {said}\n")
    if options.dry_run is None:
        from fetchwork.queue.submitting.unmet import unmet

        for line in unmet(text, served=served, on_terminal=run.columns > 0):
            run.complain(f"WARNING: {line}\n")


def _key(run: Invocation, options: _Options) -> str | None:
    """Return the idempotency key of a submission; DAGMan's is made of node and try."""
    dag = run.environment.get(dagrun.VARIABLE)
    macros = dict(macro.split(" = ", 1) for macro in options.macros)
    if dag is None or "JOB" not in macros or "RETRY" not in macros:
        return run.key
    return dagrun.key(dag, macros["JOB"], macros["RETRY"])


def _say_submitted(run: Invocation, options: _Options, cluster: int, count: int, *, late: bool) -> None:
    if options.terse:
        run.say(f"{cluster}.0 - {cluster}.{count - 1}\n")
    elif options.verbose:
        _print_jobs(run, cluster)
    else:
        run.say(("" if late else "." * count) + f"\n{count} job(s) submitted to cluster {cluster}.\n")


def _jobs(run: Invocation, text: str, queue: str | None) -> Jobs:
    from fetchwork.queue.submitting import descriptions

    return descriptions.from_description(
        text, cluster_id=1, owner=run.user, queue=queue or "1", may_be_late=False
    )


def _print_jobs(run: Invocation, cluster: int) -> None:
    """Print the ads of a cluster's jobs, as -verbose does."""
    from fetchwork.condor.arguments import octets
    from fetchwork.condor.printing.printedad import PrintedAd

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
    from fetchwork.condor.printing.printedad import unparse

    return "".join(f"{octets(name)}={unparse(item)}\n" for name, item in part.items())


def _read(run: Invocation, options: _Options) -> str:
    if options.file in (None, "-"):
        return run.stdin.read().decode("utf-8", "replace")
    assert options.file is not None
    return run.path(options.file).read_bytes().decode("utf-8", "replace")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_ANOTHER = "{command}: -{name} requires another argument"


def _batch_name(asked: _Options, given: Given) -> None:
    asked.lines.append(f"MY.JobBatchName = {_quoted(given.value(_ANOTHER))}")


def _queue(asked: _Options, given: Given) -> None:
    if given.words.following is None:
        raise given.wrong(_ANOTHER)
    asked.queue = " ".join(given.words.take_plain())


def _most_jobs(asked: _Options, given: Given) -> None:
    text = given.value(_ANOTHER)
    if not text.isdecimal():
        raise Usage(f"Error: Unable to convert argument ({text}) to a number for -maxjobs.")
    asked.most = int(text)


def _factory(asked: _Options, given: Given) -> None:
    # a late cluster without a limit, unless the description has one
    asked.macros.append("max_materialize = 0")


def _unused(asked: _Options, given: Given) -> None:
    asked.warns = not asked.warns


_OPTIONS: OptionTable[_Options] = OptionTable(
    ("verbose", 1, sets(verbose=True, terse=False)),
    ("terse", 3, sets(terse=True, verbose=False)),
    ("disable", 1, ignores),
    ("debug", 2, ignores),
    ("single-cluster allow-crlf-script", 3, ignores),
    ("file", 1, takes("file", _ANOTHER)),
    ("append", 1, takes("lines", _ANOTHER)),
    ("batch-name", 1, _batch_name),
    ("queue", 1, _queue),
    ("maxjobs", 3, _most_jobs),
    ("dry-run", 2, takes("dry_run", _ANOTHER)),
    ("unused", 1, _unused),
    # there is one queue, which FETCHWORK_DSN names
    ("name pool", 1, ignores_value(_ANOTHER)),
    ("addr", 2, ignores_value(_ANOTHER)),
    ("factory", 2, _factory),
    *((name, 1, refuses(REFUSED, "\nERROR: -{name} is not supported: {why}")) for name in REFUSED),
    ("version", 3, texts.print_version),
    ("help", 1, texts.print_help_on_stderr),
)


def _add(asked: _Options, given: Given) -> None:
    """Take a word that is no option: a macro or the file."""
    word = given.word
    if word == "-":
        asked.file, asked.verbose = word, True
    elif word.startswith("-"):
        raise Usage("", help=True, newline=False)
    elif macro := re.match(r"([^\s=]+)\s*=(.*)", word, re.DOTALL):
        asked.macros.append(f"{macro[1]} = {macro[2].strip()}")
    else:
        asked.file = word


def _parse(run: Invocation) -> _Options:
    asked = _OPTIONS.read(_Options(), run.argv[1:], run.name, _add)
    if asked.terse:
        asked.verbose = False
    if asked.dry_run == "-" and asked.file is None:
        raise Usage(_NO_FILE)
    return asked
