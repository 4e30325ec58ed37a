"""Constraints through PgBouncer's transaction pooling: tested once more, in `make test-all`."""

import pytest

# these tests are collected here again, with another "conninfo"
from tests.queue.test_constraints import *  # noqa: F403
from tests.queue.test_pgbouncer import bouncer, conninfo  # noqa: F401 - fixtures

pytestmark = pytest.mark.all
