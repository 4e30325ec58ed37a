"""The same program on a real schedd and on fetchwork, in one pool: their answers are compared."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import CondorRoot
from tests.sql.test_queue_attributes import TRUE_OF_A_NEW_JOB

PROGRAM = Path(__file__).parent / "beside_schedd.py"
# slot 1 takes alice's jobs, which it fetches, slot 2 those of bob, who has the schedd
CONFIG = """
DAEMON_LIST = $(DAEMON_LIST) SCHEDD NEGOTIATOR
ALLOW_WRITE = $(ALLOW_WRITE), bob@$(UID_DOMAIN)
START = TARGET.Owner =?= undefined || TARGET.Owner == ifThenElse(SlotID == 1, "alice", "bob")
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 2
# the bindings are newer than the schedd, and do not trust its directories
SEC_DEFAULT_AUTHENTICATION_METHODS = CLAIMTOBE
SEC_CLIENT_AUTHENTICATION_METHODS = CLAIMTOBE
"""


class Sides:
    """Asks both the same."""

    def __init__(self, pool: PersonalPool) -> None:
        self.pool = pool
        self._program = pool.directory / "tmp" / PROGRAM.name
        shutil.copy(PROGRAM, self._program)
        self._program.chmod(0o644)

    def ask(self, question: str, given: object = None) -> tuple[Any, Any]:
        """HTCondor's answer, and fetchwork's."""
        text = json.dumps(given)
        python = str(self.pool.machine.venv / "bin/python")
        theirs = self.pool.run_command(
            [python, "-W", "ignore", f"/tmp/{PROGRAM.name}", "htcondor2", question], user="bob", input=text
        )
        assert theirs.returncode == 0, theirs.stderr
        environment = {**os.environ, "FETCHWORK_DSN": self.pool.conninfo, "USER": "alice", "LOGNAME": "alice"}
        ours = subprocess.run(
            [sys.executable, str(PROGRAM), "fetchwork", question],
            input=text,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ours.returncode == 0, ours.stderr
        return json.loads(theirs.stdout), json.loads(ours.stdout)


@pytest.fixture(scope="module")
def sides(root: CondorRoot, make_pool: Callable[..., PersonalPool]) -> Iterator[Sides]:
    """A pool with both."""
    pool = make_pool(slots=2, config=CONFIG, host={"slots": {"fetched_only": False}})
    yield Sides(pool)
    pool.stop()


def test_act_and_edit_answer_as_a_schedd_does(sides: Sides) -> None:
    theirs, ours = sides.ask("acts_and_edits")
    assert ours == theirs


def test_requirements_on_what_the_queue_keeps_decide_as_in_htcondor(sides: Sides) -> None:
    """A job that is to run says so; what is false of a new job stays Idle in both."""
    false = ["ProcId == 7 || never", "NumJobStarts > 0 || never", "LastRemoteHost =!= undefined || never"]
    theirs, ours = sides.ask("requirements", [*false, *TRUE_OF_A_NEW_JOB])
    assert {expression for expression in false if theirs[expression]} == set()
    assert ours == theirs
