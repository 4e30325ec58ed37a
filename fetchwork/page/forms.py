"""The fields of forms, and the filter of a request as a constraint."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request

from fetchwork.page.problem import Problem
from fetchwork.queue.constraints.constraint import joined

#: bytes of a form
MAX_FORM = 1 << 20
STATES = {"idle": (1,), "running": (2, 6), "removed": (3,), "held": (5,), "suspended": (7,)}


def constraint_of(request: Request) -> str:
    """The filter of a request: a constraint, an owner and a state, all of which must hold."""
    given = request.query_params
    parts = []
    if owner := given.get("owner", "").strip():
        quoted = owner.replace("\\", "\\\\").replace('"', '\\"')
        parts.append(f'Owner == "{quoted}"')
    if state := given.get("state", ""):
        if state not in STATES:
            raise Problem(400, "bad request", f"state is '{state}'; allowed: {', '.join(STATES)}")
        parts.append(" || ".join(f"JobStatus == {status}" for status in STATES[state]))
    if constraint := given.get("constraint", "").strip():
        parts.append(constraint)
    return joined(parts) if len(parts) > 1 else "".join(parts)


async def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form; raises Problem if it is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise Problem(413, "too large", f"a form has at most {MAX_FORM} bytes")
    try:
        return parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=5000)
    except ValueError as error:
        raise Problem(400, "bad request", f"the form can't be read: {error}") from None
