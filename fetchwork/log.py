"""The agent's log: one line for each event, ``event key=value ...``, without secrets.

``event`` writes a line; ``configure`` sets the destination. Text that looks like a token, a claim id or a
password is replaced in every line, whichever code logged it. A person can cause lines but no flood: ``event``
limits the lines that name the person (a uid, an owner) who causes them.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import re
import stat
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from pathlib import Path

#: the attribute of a log record that has the event's name
NAME = "event_name"
#: the attribute with the number of lines that were withheld before it
WITHHELD = "withheld"
MAX_BYTES = 10 * 1024 * 1024
#: characters of one value; longer values are cut
MAX_VALUE = 300

#: lines of one event that one person can cause at once; afterwards one in EVERY_S seconds
BURST = 20
EVERY_S = 60.0
_MOST_KNOWN = 10_000

#: pattern, replacement, and a text without which the pattern is not searched for
_SECRETS = (
    # run tokens
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<token>", "-"),
    # passwords in connection strings, quoted or not, and in URIs
    (re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)", re.I), r"\1<password>", "="),
    (re.compile(r"(\w+://[^\s:/@]*):[^\s/@]+@"), r"\1:<password>@", "://"),
    # HTCondor's claim ids: <address>#birth#number#secret
    (re.compile(r"(<[^>\s]*>#\d+#\d+#)\S+"), r"\1<claim>", "#"),
    (
        re.compile(r"\b(ClaimIds?|Capability|TransferKey)(\s*=\s*)(\"(?:[^\"\\]|\\.)*\"|\S+)"),
        r"\1\2<claim>",
        "=",
    ),
)
#: by event and person: lines left, the monotonic time of that count, lines withheld since the last logged one
_caused: OrderedDict[tuple[str, Hashable], tuple[float, float, int]] = OrderedDict()
_lock = threading.Lock()
_PLAIN = re.compile(r"[A-Za-z0-9_.@:/+,#<>-]+\Z")


def redact(text: str) -> str:
    """The text, with secrets replaced."""
    for pattern, replacement, needed in _SECRETS:
        if needed in text:
            text = pattern.sub(replacement, text)
    return text


def line(name: str, fields: Mapping[str, object]) -> str:
    """``name key=value ...``; a value with blanks or quotes is put in double quotes, None is left out."""
    return " ".join([name, *(f"{key}={_value(value)}" for key, value in fields.items() if value is not None)])


def _value(value: object) -> str:
    # redact before quoting: the escaped quotes of a quoted password would hide it from the pattern
    text = f"{value:.3g}" if isinstance(value, float) else redact(str(value))
    if len(text) > MAX_VALUE:
        text = text[: MAX_VALUE - 3] + "..."
    if _PLAIN.match(text):
        return text
    text = "".join(char if char.isprintable() else " " for char in text)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def event(
    logger: logging.Logger,
    level: int,
    name: str,
    /,
    *,
    person: Hashable = None,
    exc_info: object = False,
    **fields: object,
) -> None:
    """Log one event, with the traceback if ``exc_info`` is true.

    ``person`` can cause the event, so only some lines of this event and person are logged. The next logged
    line has the number of lines withheld before it (``withheld``).
    """
    if not logger.isEnabledFor(level):
        return
    withheld = 0 if person is None else _may_cause(name, person)
    if withheld is None:
        return
    text = line(name, {**fields, WITHHELD: withheld or None})
    logger.log(level, "%s", text, extra={NAME: name, WITHHELD: withheld}, exc_info=bool(exc_info))


def _may_cause(name: str, person: Hashable) -> int | None:
    """The number of lines withheld since the last one; None if this line is to be withheld too."""
    now = time.monotonic()
    with _lock:
        left, then, withheld = _caused.pop((name, person), (BURST, now, 0))
        left = min(BURST, left + (now - then) / EVERY_S)
        _caused[name, person] = (left, now, withheld + 1) if left < 1 else (left - 1, now, 0)
        while len(_caused) > _MOST_KNOWN:
            _caused.popitem(last=False)
    return None if left < 1 else withheld


class Formatter(logging.Formatter):
    """``2026-11-21T01:23:45.678Z INFO fetch_work slot=slot1@ep17 ...``, tracebacks indented below."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The whole line, redacted."""
        text = redact(super().format(record))
        return text.replace("\n", "\n    ")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """The time in UTC with milliseconds."""
        return f"{time.strftime(datefmt or '', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


class _Rotating(logging.handlers.RotatingFileHandler):
    """Checks the file's size alone: the library formats each line a second time to know its length."""

    def shouldRollover(self, record: logging.LogRecord) -> int:  # noqa: N802
        """Whether the file is full."""
        if self.stream is None:
            self.stream = self._open()
        found = os.fstat(self.stream.fileno())
        return int(stat.S_ISREG(found.st_mode) and found.st_size >= MAX_BYTES)


def configure(level: str = "info", file: Path | None = None) -> logging.Handler:
    """Log to ``file``, kept below twice 10 MB, or to stderr; return the handler.

    If another program rotates the file, call ``reopen`` afterwards.
    """
    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        handler = _Rotating(file, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8")
    handler.setFormatter(Formatter())
    logger = logging.getLogger("fetchwork")
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
    # a full disk must neither end the process nor cause tracebacks
    logging.raiseExceptions = False
    # our lines show neither thread nor process; finding them takes longer than formatting the text
    logging.logThreads = logging.logMultiprocessing = logging.logProcesses = False
    return handler


def reopen() -> None:
    """Close the log file; the next line opens it anew under its name."""
    for handler in logging.getLogger("fetchwork").handlers:
        if isinstance(handler, logging.FileHandler):
            handler.acquire()
            try:
                if handler.stream is not None:
                    handler.stream.close()
                    handler.stream = None
            finally:
                handler.release()
