"""The accounts of jobs' owners on this host, as the name service knows them.

A name service may be slow, or silent: a thread asks it, with a short timeout. Its answers are kept for a
minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import pwd
import time
from collections.abc import Collection

ANSWER_LIFE_S = 60.0
LOOKUP_S = 2.0
MAX_ANSWERS = 10_000

#: owner -> uid (None: no account), and the monotonic time until which the answer is valid
_answers: dict[str, tuple[int | None, float]] = {}
_UNASKED = (None, -math.inf)


async def known(owners: Collection[str]) -> set[str]:
    """Return the owners that have an account on this host.

    While the name service does not answer, this leaves out the owners not asked about before, and is_missing
    is false for them; the next fetch asks again.
    """
    now = time.monotonic()
    unknown = [owner for owner in owners if _answers.get(owner, _UNASKED)[1] < now]
    if unknown:
        if len(_answers) > MAX_ANSWERS:
            _answers.clear()
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(LOOKUP_S):
                uids = await asyncio.to_thread(lambda: [_ask(owner) for owner in unknown])
                until = now + ANSWER_LIFE_S
                _answers.update({owner: (uid, until) for owner, uid in zip(unknown, uids, strict=True)})
    return {owner for owner in owners if uid_of(owner) is not None}


def uid_of(owner: str) -> int | None:
    """The uid of the owner's account by the last answer; None if unknown."""
    return _answers.get(owner, _UNASKED)[0]


def is_missing(owner: str) -> bool:
    """Whether the name service said within the last minute that there is no such account."""
    uid, until = _answers.get(owner, _UNASKED)
    return uid is None and time.monotonic() < until


def _ask(owner: str) -> int | None:
    """The uid of an account that jobs may run as; None if there is no such account, and for root."""
    try:
        return pwd.getpwnam(owner).pw_uid or None
    except KeyError:
        return None
