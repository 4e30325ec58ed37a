"""Inputs from neither the agent nor a valid URL: shared files, and URLs that have expired."""

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from fetchwork.sandbox import fill
from fetchwork.sandbox.failure import TransferFailure

#: accepts only URLs that end in signed=WORD
PLUGIN = """#!/bin/sh
[ "$1" = -classad ] && { echo 'SupportedMethods = "https"'; exit 0; }
case "$1" in *signed=WORD) echo "$1" > "$2";; *) echo expired >&2; exit 1;; esac
"""


class Agent:
    """Signs anew for each plan that is requested."""

    def __init__(self, home: Path, word: str) -> None:
        self.plans = 0
        self._plugin = home / "plugin"
        self._plugin.write_text(PLUGIN.replace("WORD", word))
        self._plugin.chmod(stat.S_IRWXU)

    def ask(self, name: str, arg: str) -> bytes:
        assert (name, arg) == ("input_plan", "")
        self.plans += 1
        file = {"direction": "input", "mode": 0o644, "size": None, "source": "url"}
        files = [
            file | {"name": one, "url": f"https://b/{one}?signed={self.plans}", "shown": f"s3://b/{one}"}
            for one in ("a", "b")
        ]
        plan = {"ad": {}, "plugins": {"https": [str(self._plugin), False]}, "plugin_limit_s": 60}
        return json.dumps(plan | {"executable": False, "has_key": True, "files": files}).encode()


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    made = tmp_path / "sandbox"
    made.mkdir()
    return made


def test_urls_that_have_ended_are_signed_anew_and_tried_once_more(
    sandbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "_SIGNED_S", -1.0)
    agent = Agent(tmp_path, "2")
    filled = fill.fill(str(sandbox), agent.ask, lambda seconds: None)
    assert [(sandbox / name).read_text() for name in "ab"] == [
        f"https://b/{name}?signed=2\n" for name in "ab"
    ]
    assert filled.size == 2 * len("https://b/a?signed=2\n")
    assert agent.plans == 2


def test_what_fails_by_new_urls_too_holds_the_job(
    sandbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "_SIGNED_S", -1.0)
    agent = Agent(tmp_path, "never")
    with pytest.raises(TransferFailure, match="expired") as failure:
        fill.fill(str(sandbox), agent.ask, lambda seconds: None)
    assert (failure.value.code, agent.plans) == (13, 2)
    assert "signed=" not in failure.value.reason


def test_what_fails_by_urls_that_live_is_not_tried_again(sandbox: Path, tmp_path: Path) -> None:
    agent = Agent(tmp_path, "2")
    with pytest.raises(TransferFailure):
        fill.fill(str(sandbox), agent.ask, lambda seconds: None)
    assert agent.plans == 1


# ---- the host's shared files


def filled_with(sandbox: Path, source: Path) -> None:
    file = {"direction": "input", "name": "in", "mode": 0o750, "size": 5, "source": "shared"}
    plan = {"ad": {}, "plugins": {}, "plugin_limit_s": 60, "executable": False, "has_key": False}
    body = json.dumps({**plan, "files": [file | {"path": str(source)}]}).encode()
    fill.fill(str(sandbox), lambda name, arg: body, lambda seconds: None)


def test_a_shared_file_is_copied_by_who_fills_the_sandbox(sandbox: Path, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("bytes")
    (sandbox / "in").symlink_to(tmp_path / "elsewhere")
    filled_with(sandbox, tmp_path / "source")
    made = sandbox / "in"
    assert (made.read_text(), made.is_symlink(), made.stat().st_mode & 0o777) == ("bytes", False, 0o750)
    assert made.stat().st_uid == os.geteuid()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("source", "number"), [("missing", errno.ENOENT), ("directory", errno.EINVAL), ("pipe", errno.EINVAL)]
)
def test_a_shared_file_that_is_none_holds_the_job(
    sandbox: Path, tmp_path: Path, source: str, number: int
) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TransferFailure) as failure:
        filled_with(sandbox, tmp_path / source)
    assert (failure.value.code, failure.value.subcode) == (13, number)
    assert f"reading from file {tmp_path}/{source}" in failure.value.reason
