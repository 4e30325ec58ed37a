"""The answers to the six hooks' requests.

``handle`` is the one entry. A handler reads its request, calls one or a few SQL functions, and builds the
reply; a change that must be atomic is one SQL function. A handler waits for nothing longer than its request's
deadline, raises nothing, and its ``Answer`` says what happened.

FETCH_WORK is the only request that may wait. The agent decides how: it passes a handler of its own to
``handle``, built on ``fetch.FetchAttempt``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from fetchwork.errors import (
    NOT_NOW,
    ClassAdError,
    DatabaseRefused,
    FetchworkError,
    NotFound,
    SubmitError,
    one_line,
)
from fetchwork.handlers.context import Answer, Denied, ErrorCode, Task
from fetchwork.handlers.requests.chain import chain_first, chain_next
from fetchwork.handlers.requests.files import FILE_HANDLERS
from fetchwork.handlers.requests.finish import job_exit
from fetchwork.handlers.requests.left import job_left
from fetchwork.handlers.requests.reply import evict_claim, reply_fetch
from fetchwork.handlers.requests.start import prepare_job
from fetchwork.handlers.requests.update import update_job_info
from fetchwork.hook.wire import Reply
from fetchwork.log import event

__all__ = ["HANDLERS", "STARTD_HOOKS", "Answer", "Handler", "Task", "handle"]

log = logging.getLogger(__name__)

Handler = Callable[[Task], Awaitable[Answer]]

#: the handlers of all requests but FETCH_WORK
HANDLERS: dict[str, Handler] = {
    "reply_fetch": reply_fetch,
    "evict_claim": evict_claim,
    "prepare_job": prepare_job,
    "update_job_info": update_job_info,
    "job_exit": job_exit,
    "job_left": job_left,
    "chain_first": chain_first,
    "chain_next": chain_next,
    **FILE_HANDLERS,
}

#: hooks that the startd runs: no other account may send their requests
STARTD_HOOKS = frozenset({"fetch_work", "reply_fetch", "evict_claim"})


async def handle(task: Task, *, fetch_work: Handler | None = None) -> Answer:
    """Answer ``task.request``; every failure becomes an error reply with a code of PROTOCOL.md."""
    name = task.request.name
    handler = fetch_work if name == "fetch_work" else HANDLERS.get(name)
    if handler is None:
        return _failure("unknown_request", f"request '{one_line(name, 40)}' is not known")
    if name in STARTD_HOOKS and not task.caller.trusted:
        return _failure("denied", f"uid {task.caller.uid} may not send {name}: only the startd's account may")
    try:
        return await handler(task)
    except ClassAdError as error:
        return _failure("bad_request", str(error))
    except NOT_NOW as error:
        # not the request's fault: the hook keeps the result until an administrator has mended the cause
        return _failure("unavailable", str(error))
    except (Denied, NotFound, DatabaseRefused, SubmitError) as error:
        return _failure("denied", str(error))
    except FetchworkError as error:
        return _failure("failed", str(error))
    except Exception as error:
        uid = task.caller.uid
        event(log, logging.ERROR, "request_failed", person=uid, exc_info=True, name=name, uid=uid)
        return _failure("failed", f"{type(error).__name__} in {name}; the agent's log has more")


def _failure(code: ErrorCode, message: str) -> Answer:
    return Answer(Reply(code=code, message=one_line(message)), code, details={"problem": message})
