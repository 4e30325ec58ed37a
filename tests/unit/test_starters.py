"""The starter that has called a hook, even if a program of the site's stands between."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.agent.runs.starters import starter_of
from fetchwork.process import Process
from tests.support.waiting import until

Start = Callable[..., tuple[Process, Process]]
#: each runs the next as its child
WRAPPED = 'sh -c "sleep 600; true"; true'


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program that runs a line of shell; returns the program, and the last of its descendants."""
    started = []

    def start(name: str, line: str) -> tuple[Process, Process]:
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\n{line}\ntrue\n")
        script.chmod(0o755)
        program = subprocess.Popen([script], start_new_session=True)
        started.append(program)
        first = Process.find(program.pid)
        assert first is not None
        last = [first]

        def sleeps() -> bool:
            while children := last[-1].children():
                last.append(children[0])
            return last[-1].name == "sleep"

        until(sleeps, "the last program")
        return first, last[-1]

    yield start
    for program in started:
        for process in _below(program.pid):
            process.signal(9)
        program.wait()


def _below(pid: int) -> list[Process]:
    process = Process.find(pid)
    found = [process] if process is not None else []
    for one in found:
        found += one.children()
    return found


@pytest.mark.parametrize("line", ["sleep 600", WRAPPED])
def test_starter_of_a_hook_is_the_starter_whatever_runs_it(start: Start, line: str) -> None:
    starter, hook = start("condor_starter", line)
    assert starter_of(hook) == starter


def test_where_nothing_is_called_as_a_starter_is_it_is_the_parent(start: Start) -> None:
    _, hook = start("simulated", WRAPPED)
    assert hook.parent is not None
    assert starter_of(hook) == hook.parent
