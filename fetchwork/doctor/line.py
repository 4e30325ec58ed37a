"""One line of a doctor's report."""

from typing import Literal, NamedTuple

Verdict = Literal["ok", "warn", "FAIL"]


class Line(NamedTuple):
    """A verdict on one thing, and what to do where it is not ``ok``."""

    verdict: Verdict
    subject: str
    text: str
    remedy: str = ""


def ok(subject: str, text: str) -> Line:
    """The thing is as it should be."""
    return Line("ok", subject, text)


def warned(subject: str, text: str, remedy: str) -> Line:
    """Fetching can work, but this is worth knowing."""
    return Line("warn", subject, text, remedy)


def failed(subject: str, text: str, remedy: str) -> Line:
    """Fetching can't work, or not for all, until this is put right."""
    return Line("FAIL", subject, text, remedy)
