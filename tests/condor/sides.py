"""A schedd and fetchwork in one pool: both get the same questions, and each has slots of its own."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fetchwork.pool import PersonalPool

# slot 1 fetches alice's jobs, slot 2 runs those of bob, who submits to the schedd
CONFIG = """
DAEMON_LIST = $(DAEMON_LIST) SCHEDD NEGOTIATOR
ALLOW_WRITE = $(ALLOW_WRITE), bob@$(UID_DOMAIN)
START = TARGET.Owner =?= undefined || TARGET.Owner == ifThenElse(SlotID == 1, "alice", "bob")
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 2
JOB_EPOCH_HISTORY = $(SPOOL)/epoch_history
# the bindings are newer than the schedd, and do not trust its directories
SEC_DEFAULT_AUTHENTICATION_METHODS = CLAIMTOBE
SEC_CLIENT_AUTHENTICATION_METHODS = CLAIMTOBE
"""
#: the same with half of the slots for each, for questions about several jobs
CONFIG_OF_HALVES = CONFIG.replace("SlotID == 1", "SlotID % 2 == 1")
#: for a pool with both
HOST = {"slots": {"fetched_only": False}}


class Sides:
    """Asks both the same, with ``program``, which runs by itself: ``python program MODULE QUESTION``."""

    def __init__(self, pool: PersonalPool, program: Path) -> None:
        self.pool = pool
        self._program = program
        copy = pool.directory / "tmp" / program.name
        shutil.copy(program, copy)
        copy.chmod(0o644)

    def ask(self, question: str, given: object = None) -> tuple[Any, Any]:
        """HTCondor's answer, and fetchwork's; both are asked in parallel."""
        return self.ask_each(question, given, given)

    def ask_each(self, question: str, theirs: object, ours: object) -> tuple[Any, Any]:
        """The same with different inputs."""
        with ThreadPoolExecutor() as both:
            asked = both.submit(self.theirs, question, theirs), both.submit(self.ours, question, ours)
            return asked[0].result(), asked[1].result()

    def theirs(self, question: str, given: object = None) -> Any:
        """The answer of the schedd."""
        python = str(self.pool.machine.venv / "bin/python")
        answer = self.pool.run_command(
            [python, "-W", "ignore", f"/tmp/{self._program.name}", "schedd", question],
            user="bob",
            input=json.dumps(given),
        )
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def ours(self, question: str, given: object = None) -> Any:
        """The answer of fetchwork."""
        environment = {**os.environ, "FETCHWORK_DSN": self.pool.conninfo, "USER": "alice", "LOGNAME": "alice"}
        answer = subprocess.run(
            [
                sys.executable,
                "-m",
                "fetchwork",
                "env",
                "--",
                sys.executable,
                str(self._program),
                "fetchwork",
                question,
            ],
            input=json.dumps(given),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)
