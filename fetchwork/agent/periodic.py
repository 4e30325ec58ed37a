"""Periodic work of the agent, which goes on when one round of it fails."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from fetchwork.errors import DatabaseUnavailable, FetchworkError, SchemaMismatch
from fetchwork.log import event

log = logging.getLogger(__name__)

#: an administrator has to upgrade the schema: that takes longer
SCHEMA_PAUSE_S = 30.0


async def every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Do ``work`` about every so many seconds, for ever; its failures are logged."""
    while True:
        await asyncio.sleep(random.uniform(0.8, 1.2) * seconds)  # noqa: S311
        try:
            await work()
        except DatabaseUnavailable as error:
            # database_away says it once
            event(log, logging.DEBUG, "periodic", problem=error)
        except SchemaMismatch as error:
            event(log, logging.ERROR, "schema", problem=error)
            await asyncio.sleep(SCHEMA_PAUSE_S)
        except FetchworkError as error:
            event(log, logging.ERROR, "periodic", problem=error)
        except Exception:
            log.exception("periodic work failed")
