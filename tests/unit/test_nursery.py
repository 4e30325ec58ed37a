"""A process that the nursery forks is as one that was executed."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.nursery import Nursed, Subprocess

#: prints the facts of its start, and ends as its argument says
PROGRAM = """
import json, os, resource, signal, sys
facts = {
    "argv": sys.argv,
    "name": __name__,
    "environ": {name: value for name, value in os.environ.items() if name != "LC_CTYPE"},
    "cwd": os.getcwd(),
    "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
    "umask": os.umask(0),
    "most files": resource.getrlimit(resource.RLIMIT_NOFILE),
    "leads a session": os.getsid(0) == os.getpid(),
    "files": sorted(os.listdir("/proc/self/fd"))[:-1],
    "signals": [str(signal.getsignal(number)).partition(" at ")[0] for number in range(1, 32)],
    "input": sys.stdin.read(),
}
print(json.dumps(facts), flush=True)
print("to stderr", file=sys.stderr)
exec(sys.argv[1])
"""
ENDS = {
    "pass": 0,
    "sys.exit(7)": 7,
    "sys.exit('told')": 1,
    "1 / 0": 1,
    "os.kill(os.getpid(), 9)": -signal.SIGKILL,
}


@pytest.fixture
def few_open_files(nursery: bytes) -> Iterator[None]:
    """Another limit than the nursery's."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (777, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("end", ENDS)
def test_a_forked_process_is_like_an_executed_one(
    nursery: bytes, few_open_files: None, end: str, tmp_path: Path
) -> None:
    """In its arguments, environment, descriptors, limits, account, signals, output and exit status."""
    reader, writer = os.pipe()

    def run(popen: Any) -> tuple[int, Any, list[str]]:
        process = popen(
            [sys.executable, "-c", PROGRAM, end],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[writer],
            env={"WORD": "some words", "TZ": "Asia/Tokyo"},
            cwd=tmp_path,
            start_new_session=True,
            text=True,
        )
        out, err = process.communicate("said")
        return process.returncode, json.loads(out), [err.splitlines()[0], err.splitlines()[-1]]

    forked = Subprocess(nursery).Popen
    assert run(forked) == run(subprocess.Popen)
    assert run(forked)[0] == ENDS[end]
    os.close(reader)
    os.close(writer)


def test_other_programs_are_executed(nursery: bytes) -> None:
    with Subprocess(nursery).Popen(["/bin/true"]) as process:
        assert not isinstance(process, Nursed)
