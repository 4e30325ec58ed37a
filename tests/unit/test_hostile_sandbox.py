"""A job changes the files from which its end is reported: the report arrives, and nothing hangs or grows."""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from fetchwork.agent.files.parked import OutputSpool
from fetchwork.errors import ProtocolError
from fetchwork.hook import sandboxed
from fetchwork.hook.wire import Request, encode_request
from fetchwork.sandbox import checkpoint, destination, leave, names, outputs, plugins
from fetchwork.sandbox.failure import FileFailure
from fetchwork.sandbox.outputs import Output
from fetchwork.sandbox.parking import SUFFIX, Parking
from fetchwork.sandbox.plugins import Move, Plugin, Runner
from tests.support.there import there

BODY = b"FetchWorkRunId = 7\nJobPid = 5\nExitCode = 0\n"
REPORT = Request("job_exit", BODY, keyword="K", arg="exit", slot="slot1")


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "sandbox"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def spool(tmp_path: Path) -> OutputSpool:
    made = OutputSpool(tmp_path / f"spool{SUFFIX}")
    made.make()
    return made


class Agent:
    """Takes each request of the hook."""

    def ask(self, *_: object, **__: object) -> bytes:
        return b""


def job_exit(spool: OutputSpool, conf: dict[str, str]) -> str | bytes:
    before = signal.getsignal(signal.SIGALRM)
    try:
        whole = {"spool": str(spool.directory).removesuffix(SUFFIX), **conf}
        return sandboxed.park(cast(sandboxed.Files, Agent()), whole, BODY, REPORT, time.monotonic())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def says(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


@pytest.mark.parametrize(
    "make",
    [
        pipe,
        device,
        says("[" * 100_000),
        says('{"before": {}}'),
        says('{"before": {}, "ad": 7}'),
        says('{"before": {}, "ad": {"OutputDestination": "x://y"}, "plugins": 7, "plugin_limit_s": "z"}'),
    ],
)
def test_notes_that_the_job_has_changed_cost_its_outputs_and_not_its_report(
    sandbox: Path, spool: OutputSpool, make: Callable[[Path], object]
) -> None:
    (sandbox / "result").write_text("r")
    make(sandbox / names.NOTES)
    reported = job_exit(spool, {})
    assert isinstance(reported, bytes)
    assert reported.startswith(BODY + b'FetchWorkTransferFailure = "12 ')
    assert spool.names() == []


@pytest.mark.parametrize("make", [pipe, device, says("[" * 100_000)])
def test_a_record_of_checkpoints_that_is_no_file_is_none(
    sandbox: Path, make: Callable[[Path], object]
) -> None:
    make(sandbox / names.PROGRESS)
    assert checkpoint.read(str(sandbox)) is None


def test_outputs_that_take_too_long_are_given_up_and_the_report_says_so(
    sandbox: Path, spool: OutputSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    never, kept = os.pipe()
    monkeypatch.setattr(leave, "leave", lambda *_: os.read(never, 1))
    reported = job_exit(spool, {"job_exit_timeout_s": "2"})
    os.close(never)
    os.close(kept)
    assert isinstance(reported, bytes)
    assert b"the files were not staged in the time" in reported


class Growing:
    """``os.read`` beside a process that appends to the file after each reading."""

    def __init__(self, path: Path) -> None:
        self._path, self._read, self.times = path, os.read, 0

    def __call__(self, fd: int, most: int) -> bytes:
        data = self._read(fd, most)
        self.times += 1
        assert self.times < 10, "it is read for ever"
        with self._path.open("ab") as file:
            file.write(b"more")
        return data


def test_a_file_that_grows_as_fast_as_it_is_read_is_copied_as_it_was(
    sandbox: Path, spool: OutputSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sandbox / "a").write_text("text")
    parking = Parking(str(spool.directory), copy=True)
    monkeypatch.setattr(os, "read", Growing(sandbox / "a"))
    assert parking.take([Output("a", str(sandbox / "a"), 0o644, 4)]) is None
    monkeypatch.undo()
    name = parking.finish(encode_request(REPORT), "output", None)
    assert (spool.directory / name / "0").read_text() == "text"


def test_the_manifest_of_a_checkpoint_ends_with_each_file_and_has_no_pipe_or_device(
    sandbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sandbox / "a"
    path.write_text("text")
    listed = [Output("a", str(path), 0o644, 4)]
    expected = destination.manifest_of(listed, 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", Growing(path))
        assert destination.manifest_of(listed, 1) == expected
    for make in (pipe, device):
        path.unlink()
        make(path)
        with pytest.raises(FileFailure, match="Invalid argument"):
            destination.manifest_of(listed, 1)


@pytest.mark.parametrize("make", [pipe, device, lambda path: path.symlink_to("/none")])
def test_an_output_that_is_swapped_after_the_choice_is_a_failure_of_its_own(
    sandbox: Path, spool: OutputSpool, make: Callable[[Path], object]
) -> None:
    for name in ("a", "b"):
        (sandbox / name).write_text(name)
    choice = outputs.Choice({}, str(sandbox), {}).choose("success")
    (sandbox / "a").unlink()
    make(sandbox / "a")
    parking = Parking(str(spool.directory))
    failure = there(parking.take(choice.files.values()))
    assert failure.subcode in (errno.EINVAL, errno.ENOENT)
    name = parking.finish(encode_request(REPORT), "output", None)
    assert [one.name for one in spool.read(name).files] == ["b"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_link_to_anothers_staged_files_in_place_of_the_own_directory_reads_nothing(
    sandbox: Path, spool: OutputSpool
) -> None:
    staged = []
    for uid in (12345, 12346):
        (sandbox / "a").write_text("secret")
        parking = Parking(str(spool.directory))
        assert parking.take([Output("a", str(sandbox / "a"), 0o644, 6)]) is None
        staged.append(spool.directory / parking.finish(encode_request(REPORT), "output", None))
        for path in (staged[-1], *staged[-1].iterdir()):
            os.chown(path, uid, -1)
    own, another = staged
    found = spool.read(own.name)
    own.rename(sandbox / "away")
    own.symlink_to(another)
    with pytest.raises(ProtocolError, match="belongs to another account"):
        spool.open(found, 0)
    with pytest.raises(ProtocolError, match="is not a directory"):
        spool.read(own.name)
    spool.delete(own.name)
    assert (another / "0").read_text() == "secret"


# ---- plugins


#: a plugin that says whether its files are there, and leaves its stderr to a process of another session
PLUGIN = """#!/bin/sh
case "$1" in stay*) ;; *) [ -f "$2" ] && [ -f "$4" ] || exit 9; cat "$2" >&2; exit 8;; esac
setsid sleep 600 & echo $! > child; wait
"""


def toy(tmp_path: Path, *, multiple: bool) -> Plugin:
    path = tmp_path / "toy"
    path.write_text(PLUGIN)
    path.chmod(0o755)
    return Plugin(str(path), frozenset(("toy", "stay")), multiple)


@pytest.mark.parametrize("name", ["in", "out"])
@pytest.mark.parametrize("make", [pipe, lambda path: path.symlink_to("../own")])
def test_names_of_a_plugin_s_files_that_the_job_has_taken_are_no_obstacle(
    sandbox: Path, tmp_path: Path, make: Callable[[Path], object], name: str
) -> None:
    (tmp_path / "own").write_text("own")
    make(sandbox / f".toy.1.{name}")
    plugin = toy(tmp_path, multiple=True)
    runner = Runner({"toy": plugin}, str(sandbox), 30.0)
    [moved] = runner.move([Move("toy://a", str(sandbox / "a"))], upload=True)
    assert there(moved.failure).subcode == 8 << 8
    assert "Url" in there(moved.failure).details
    assert (tmp_path / "own").read_text() == "own"
    assert list(sandbox.iterdir()) == []


def test_a_plugin_s_child_of_another_session_is_not_waited_for(
    sandbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(subprocess.Popen[bytes]):
        """Is at its limit when its child runs."""

        def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[bytes, bytes]:
            while not (sandbox / "child").exists() or not (sandbox / "child").read_text():
                time.sleep(0.01)
            return super().communicate(input, None if timeout is None else 0.1)

    plugin = toy(tmp_path, multiple=False)
    monkeypatch.setattr(subprocess, "Popen", Hanging)
    runner = Runner({"stay": plugin}, str(sandbox), 30.0)
    try:
        [moved] = runner.move([Move("stay://a", "stay")], upload=True)
        assert there(moved.failure).subcode == plugins.TIMED_OUT
    finally:
        os.kill(int((sandbox / "child").read_text()), 9)
