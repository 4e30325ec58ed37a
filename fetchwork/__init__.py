"""fetchwork: a PostgreSQL job queue for HTCondor's fetch-work hooks.

The public names are imported on first use, because the hooks import this package and may not pay for
psycopg or classad2.
"""

# not from typing, which would cost every hook 4 ms of CPU
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"
__all__ = ["AsyncQueue", "PersonalPool", "Queue", "__version__"]

_HOMES = {"Queue": "fetchwork.queue", "AsyncQueue": "fetchwork.queue", "PersonalPool": "fetchwork.pool"}


def __getattr__(name: str) -> "Any":
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'fetchwork' has no attribute {name!r}")
