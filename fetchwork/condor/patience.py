"""Waiting for a queue that is away, where condor_dagman asks: for it every refusal is for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from fetchwork.dag import dagrun
from fetchwork.errors import AccessPointUnavailable, DatabaseUnavailable

T = TypeVar("T")

#: less than the 180 s after which DAGMan gives a command up
PATIENCE_S = 150.0
_PAUSE_S = 1.0


def patiently(environment: Mapping[str, str], ask: Callable[[], T]) -> T:
    """What ``ask`` returns; in a DAG it is asked again while nobody answers. So it must do no harm twice."""
    end = time.monotonic() + (PATIENCE_S if dagrun.VARIABLE in environment else 0.0)
    while True:
        try:
            return ask()
        except (AccessPointUnavailable, DatabaseUnavailable):
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE_S)
