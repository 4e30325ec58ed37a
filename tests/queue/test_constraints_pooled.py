"""Constraints through PgBouncer's transaction pooling: what they select is tried once more, and seldom."""

import pytest

# collected here once more, where "conninfo" is another
from tests.queue.test_constraints import *  # noqa: F403
from tests.queue.test_pgbouncer import bouncer, conninfo  # noqa: F401 - fixtures

pytestmark = pytest.mark.all
