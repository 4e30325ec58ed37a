"""The trace context of a job: W3C's ``traceparent``, and the ids of the spans about the job.

Source of the form: W3C Trace Context, section 3.2. A job's TraceParent names the span that submitted it. The
job's process gets the span of its run in its environment, so that its own spans belong to that run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

#: the attribute of a job's ad, and the variable of an environment
ATTRIBUTE = "TraceParent"
VARIABLE = "TRACEPARENT"
#: version, trace, span, flags; a later version may add fields
_FORM = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def read(text: object) -> str | None:
    """Return a traceparent in the form of version 00; None for any other value."""
    found = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or (found[1] == "00" and found[5] is not None):
        return None
    return f"00-{found[2]}-{found[3]}-{found[4]}"


def is_sampled(parent: str) -> bool:
    """Whether the spans of a trace are wanted, by the flags of its traceparent."""
    return bool(int(parent[-2:], 16) & 1)


def span_id(parent: str, *what: object) -> str:
    """Return the id of a span about a job with this traceparent, 16 hexadecimal digits.

    It is the same each time, so a span that is sent twice is one span.
    """
    text = " ".join(map(str, (parent, *what)))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def of_run(parent: str, job: str, run_id: int) -> str:
    """Return the traceparent for the process of a run: its trace and flags, and the run's span."""
    return f"{parent[:36]}{span_id(parent, job, run_id)}{parent[52:]}"


def variables(ad: Mapping[str, object], job: str, run_id: int) -> dict[str, str]:
    """Return the variable for the environment of a run, if its job's ad has a traceparent."""
    parent = read(ad.get(ATTRIBUTE))
    return {} if parent is None else {VARIABLE: of_run(parent, job, run_id)}
