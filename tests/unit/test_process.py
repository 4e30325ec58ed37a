"""Processes, by the kernel's data."""

import os
import subprocess
import time

import pytest

from fetchwork.process import Process
from tests.support.there import there
from tests.support.waiting import PATIENCE_S, until


def test_process_is_not_taken_for_a_later_one_of_its_number() -> None:
    before = time.time()
    with subprocess.Popen(["/bin/sleep", "1000"]) as child:
        process = there(Process.find(child.pid))
        assert process.alive
        assert Process.of_key(process.key) == process
        assert not Process(child.pid, 1).alive
        assert process.parent == Process.find(os.getpid())
        assert process.owner == os.getuid()
        assert process.started_at is not None
        assert before - 2 < process.started_at < time.time() + 2
        child.kill()
        child.wait()
    assert not process.alive
    assert process.owner is None
    assert process.parent is None
    assert process.command == []
    assert process.children() == []
    assert Process.find(child.pid) is None


def test_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["/bin/true"])
    process = there(Process.find(child.pid))
    until(lambda: not process.alive)
    child.wait()


@pytest.mark.parametrize("key", [None, "", "x", "1", ":", "-1:5", "1:x", "\N{SUPERSCRIPT TWO}:1"])
def test_nonsense_is_no_key(key: str | None) -> None:
    assert Process.of_key(key) is None


def test_number_that_no_process_has_is_not_alive() -> None:
    process = there(Process.of_key("99999999:1"))
    assert not process.alive
    process.signal(9)


def test_signal_to_the_group_reaches_the_children_of_its_leader_only() -> None:
    leader = subprocess.Popen(
        ["sh", "-c", "sleep 1000 & echo ready; wait"], stdout=subprocess.PIPE, process_group=0
    )
    assert leader.stdout is not None
    assert leader.stdout.readline() == b"ready\n"
    process = there(Process.find(leader.pid))
    (child,) = process.children()
    # it leads no group, so only the child gets the signal
    child.signal(0, group=True)
    process.signal(9, group=True)
    assert child.wait(PATIENCE_S)
    assert leader.wait(PATIENCE_S) == -9
    leader.stdout.close()
