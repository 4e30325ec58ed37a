"""condor_wait: waits until the jobs of an event log have ended, by its file."""

from __future__ import annotations

import re
import time
from typing import BinaryIO, NamedTuple

from fetchwork.condor import texts
from fetchwork.condor.arguments import Usage, Words, is_colon_option, is_option, leading_number
from fetchwork.condor.invocation import Invocation

_EVENT = re.compile(r"(\d{3}) \((\d+)\.(\d+)\.(\d+)\) ")
_SUBMIT, _EXECUTE, _TERMINATED, _ABORTED = 0, 1, 5, 9

#: seconds between two reads of the file
PAUSE_S = 0.1


#: the same in a log of log_xml
_IN_XML = re.compile(r'<a n="(EventTypeNumber|Cluster|Proc|Subproc)"><i>(\d+)</i></a>')
_HOST_IN_XML = re.compile(r'<a n="ExecuteHost"><s>([^<]*)</s></a>')


class _Event(NamedTuple):
    """An entry of a log: its number, its job, where it executes, and its text."""

    number: int
    id: list[int]
    host: str
    text: str


def _read(text: str) -> _Event | None:
    """Return the event of an entry, or None if the entry is no event."""
    if text.lstrip().startswith("<"):
        numbers = {name: int(number) for name, number in _IN_XML.findall(text)}
        if "EventTypeNumber" not in numbers:
            return None
        id = [numbers.get(name, 0) for name in ("Cluster", "Proc", "Subproc")]
        host = _HOST_IN_XML.search(text)
        return _Event(numbers["EventTypeNumber"], id, _unescaped(host[1]) if host else "", f"{text}</c>\n")
    found = _EVENT.match(text.lstrip("\n"))
    if found is None:
        return None
    number, *id = (int(part) for part in found.groups())
    host = re.search(r"on host: (\S+)", text)
    return _Event(number, id, host[1] if host else "", f"{text}...\n")


def _unescaped(text: str) -> str:
    # the standard library's unescape takes longer to import than the command runs
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


class _Log:
    """The events of a file, as it grows."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._rest = b""

    def new(self) -> list[_Event]:
        """The events that were completed since the last call."""
        self._rest += self._file.read()
        *whole, self._rest = re.split(rb"^(?:\.\.\.[^\n]*|</c>)\n", self._rest, flags=re.MULTILINE)
        found = (_read(text.decode("utf-8", "replace")) for text in whole)
        return [one for one in found if one is not None]


class _Options:
    def __init__(self) -> None:
        self.file: str | None = None
        self.job: list[int] = []
        self.status = self.echo = self.all_events = False
        self.number = 0
        self.deadline: float | None = None


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    try:
        options = _parse(run)
    except Usage as problem:
        run.complain(problem.text)
        if problem.help:
            run.complain("\n" + texts.help_of(run.name, "Use"))
        return 1
    if options is None:
        return 0
    assert options.file is not None
    try:
        with run.path(options.file).open("rb") as file:
            return _wait(run, options, _Log(file))
    except OSError as problem:
        run.complain(f"Couldn't open {options.file}: {problem.strerror}\n")
        return 1


def _wait(run: Invocation, options: _Options, log: _Log) -> int:
    live: set[str] = set()
    seen = False
    ended = 0
    while True:
        for event, id, host, text in log.new():
            seen = True
            if options.job and id[: len(options.job)] != options.job:
                continue
            key = ".".join(map(str, id))
            if options.echo:
                run.say(text.lstrip("\n"))
            said = {_SUBMIT: "submitted", _TERMINATED: "completed", _ABORTED: "aborted"}.get(event)
            if event == _SUBMIT:
                live.add(key)
            elif event in (_TERMINATED, _ABORTED):
                live.discard(key)
                ended += 1
            elif event == _EXECUTE and options.status:
                said = f"executing on host {host}"
            if options.status and said:
                run.say(f"{key} {said}\n")
            if options.number and ended >= options.number:
                run.say(f"Specifed number of jobs ({options.number}) done.\n")
                return 0
        if seen and not live and not options.number and not options.all_events:
            run.say("All jobs done.\n")
            return 0
        if options.deadline is not None and time.monotonic() >= options.deadline:
            run.say("Time expired.\n")
            return 1
        run.stdout.flush()
        time.sleep(PAUSE_S)


def _parse(run: Invocation) -> _Options | None:
    words = Words(run.argv[1:])
    found = _Options()
    job: str | None = None
    for word in words:
        if is_option(word, "help", 1):
            run.complain(texts.help_of(run.name))
            return None
        if is_option(word, "version", 1):
            run.say(texts.version())
            return None
        if is_colon_option(word, "debug", 1)[0]:
            continue
        if is_option(word, "status", 1):
            found.status = True
        elif is_colon_option(word, "echo", 1)[0]:
            found.echo = True
        elif is_option(word, "allevents", 3):
            found.all_events = True
        elif is_option(word, "wait", 1):
            seconds = words.take()
            if seconds is None:
                raise Usage("-wait requires an argument", help=True)
            found.deadline = time.monotonic() + leading_number(seconds)
        elif is_option(word, "num", 1):
            ended = words.take()
            if ended is None:
                raise Usage("-num requires an argument", help=True)
            found.number = leading_number(ended)
            if found.number < 1:
                raise Usage("-num must be greater than zero", help=True)
        elif word.startswith("-"):
            raise Usage("", help=True, newline=False)
        elif found.file is None:
            found.file = word
        elif job is None:
            job = word
        else:
            raise Usage(f"Extra argument: {word}\n", help=True)
    if found.all_events and found.number:
        raise Usage("-num cannot be used with -allevents", help=True)
    if found.file is None:
        raise Usage("", help=True, newline=False)
    if job is not None:
        if not re.fullmatch(r"\d+(?:\.\d+){0,2}", job):
            raise Usage(f"Couldn't understand job number: {job}")
        found.job = [int(part) for part in job.split(".")]
    return found
