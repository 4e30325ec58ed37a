"""Periodic work of the agent; it goes on after a failed round."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable

from fetchwork.errors import DatabaseUnavailable, FetchworkError, SchemaMismatch
from fetchwork.log import event

log = logging.getLogger(__name__)

#: seconds until the next try after a schema mismatch: an administrator has to upgrade the schema first
SCHEMA_PAUSE_S = 30.0
#: least seconds before a round that ``sooner`` asks for, so that frequent requests share a round
SOONER_S = 0.1


async def every(
    seconds: float, work: Callable[[], Awaitable[None]], sooner: asyncio.Event | None = None
) -> None:
    """Do ``work`` about every ``seconds``, and ``SOONER_S`` after ``sooner`` is set, for ever.

    Failures are logged.
    """
    while True:
        pause_s = random.uniform(0.8, 1.2) * seconds  # noqa: S311
        if sooner is None:
            await asyncio.sleep(pause_s)
        else:
            await _until(sooner, pause_s)
        try:
            await work()
        except DatabaseUnavailable as error:
            # database_away has said it already
            event(log, logging.DEBUG, "periodic", problem=error)
        except SchemaMismatch as error:
            event(log, logging.ERROR, "schema", problem=error)
            await asyncio.sleep(SCHEMA_PAUSE_S)
        except FetchworkError as error:
            event(log, logging.ERROR, "periodic", problem=error)
        except Exception:
            log.exception("periodic work failed")


async def _until(sooner: asyncio.Event, pause_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            await sooner.wait()
            await asyncio.sleep(SOONER_S)
    sooner.clear()
