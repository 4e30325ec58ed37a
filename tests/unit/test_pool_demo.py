"""The demonstration's own verdict, and the advice for a machine that cannot have HTCondor."""

import io
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fetchwork.errors import HTCondorUnavailable
from fetchwork.pool import condorroot, demo


def results(**last: object) -> list[dict[str, Any]]:
    """The results of 20 jobs, the last of them as the arguments say."""
    job: dict[str, Any] = {
        "jobid": "1.0",
        "owner": "alice",
        "batch": "SQL",
        "slot": "slot1@here",
        "exitcode": 3,
        "expected": 3,
        "run_s": 1.0,
        "status": "Completed",
        "completed": True,
        "reason": None,
    }
    return [dict(job) for _ in range(demo.JOBS - 1)] + [{**job, **last}]


def shown(jobs: list[dict[str, Any]]) -> tuple[bool, str]:
    console = Console(file=io.StringIO(), width=120)
    good = demo._show(console, jobs)
    return good, console.file.getvalue()  # type: ignore[attr-defined]


def test_good_when_all_completed_with_the_exit_codes_they_should_have() -> None:
    good, text = shown(results())
    assert good
    assert "all 20 jobs completed" in text


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ({"exitcode": 4}, "wrong exit code"),
        ({"exitcode": None, "slot": None, "run_s": None, "completed": False, "status": "Idle"}, "Idle"),
        ({"completed": False, "status": "Held", "reason": "no such file", "exitcode": None}, "no such file"),
    ],
)
def test_not_good_when_one_did_not(last: dict[str, object], said: str) -> None:
    good, text = shown(results(**last))
    assert not good
    assert said in text
    assert "not all of 20 jobs" in text


def test_not_good_when_one_is_missing() -> None:
    assert not shown(results()[1:])[0]


def test_only_root_is_offered_a_root_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FETCHWORK_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(HTCondorUnavailable, match="only root can install one for the pool"):
        condorroot.condor_root()


def test_without_apt_no_root_directory_can_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FETCHWORK_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(HTCondorUnavailable, match="without apt-get none can be installed"):
        condorroot.condor_root()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
