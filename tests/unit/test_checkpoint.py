"""Self-checkpointing: the saved files, the moments, and the memory between executions."""

from pathlib import Path
from time import monotonic
from typing import Any, cast

import pytest

from fetchwork.agent.files.parked import OutputSpool
from fetchwork.errors import AgentUnavailable, FetchworkError
from fetchwork.hook import checkpointed, sandboxed
from fetchwork.hook.wire import Request, encode_request
from fetchwork.sandbox import checkpoint, names, outputs
from fetchwork.sandbox.failure import TransferFailure
from fetchwork.sandbox.jsontext import to_json
from fetchwork.sandbox.leave import Ended, leave, read_notes
from fetchwork.sandbox.parking import SUFFIX
from tests.support.there import there

AD: dict[str, Any] = {
    "Out": "out",
    "Err": "err",
    "WantFTOnCheckpoint": True,
    "SuccessCheckpointExitCode": 85,
}
ENDED = encode_request(Request("job_exit", b"FetchWorkRunId = 7\n", keyword="K", arg="evict"))
SAVING = encode_request(Request("save_checkpoint", b"FetchWorkRunId = 7\n", keyword="K"))


@pytest.fixture
def spool(tmp_path: Path) -> OutputSpool:
    made = OutputSpool(tmp_path / "spool.outputs")
    made.make()
    return made


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    """A sandbox in which a job has run."""
    made = tmp_path / "sandbox"
    made.mkdir()
    (made / "input").write_text("input")
    write_notes(made)
    (made / "_condor_stdout").write_text("out")
    (made / "_condor_stderr").write_text("")
    (made / "state").write_text("state")
    (made / "d").mkdir()
    (made / "d/f").write_text("f")
    return made


def write_notes(sandbox: Path, **ad: Any) -> None:
    notes = {
        "ad": {**AD, **ad},
        "plugins": {},
        "plugin_limit_s": 60,
        "before": outputs.catalogue(str(sandbox)),
    }
    (sandbox / names.NOTES).write_text(to_json(notes))


def progress_of(sandbox: Path, **attributes: Any) -> checkpoint.Progress:
    progress = checkpoint.Progress("/bin/true", "FetchWorkRunId = 7\n", 3)
    for name, value in attributes.items():
        setattr(progress, name, value)
    progress.write(str(sandbox))
    return progress


def saved(sandbox: Path, spool: OutputSpool, progress: checkpoint.Progress) -> str:
    notes = there(read_notes(str(sandbox)))
    return checkpoint.park(str(sandbox), notes, str(spool.directory), progress, SAVING, str)


def names_in(spool: OutputSpool, directory: str) -> set[str]:
    return {one.name for one in spool.read(directory).files}


def evicted(sandbox: Path, spool: OutputSpool, **status: int) -> str | None:
    ended = Ended(evicted=True, unwanted=False, status=status)
    return leave(str(sandbox), str(spool.directory), ended, ENDED, float("inf"), str)


@pytest.mark.parametrize(
    ("ad", "status", "is_one"),
    [
        ({}, {"ExitCode": 85}, True),
        ({}, {"ExitCode": 0}, False),
        ({}, {"ExitSignal": 15}, False),
        ({}, {}, False),
        ({"SuccessCheckpointExitCode": None}, {"ExitCode": 0}, True),
        ({"WantFTOnCheckpoint": False}, {"ExitCode": 85}, False),
        (
            {"SuccessCheckpointExitBySignal": True, "SuccessCheckpointExitSignal": 10},
            {"ExitSignal": 10},
            True,
        ),
        ({"SuccessCheckpointExitBySignal": True, "SuccessCheckpointExitSignal": 10}, {"ExitCode": 85}, False),
        ({"SuccessCheckpointExitBySignal": True}, {}, False),
    ],
)
def test_what_ends_for_a_checkpoint_is_what_the_starter_starts_again(
    ad: dict[str, Any], status: dict[str, int], is_one: bool
) -> None:
    whole = {name: value for name, value in {**AD, **ad}.items() if value is not None}
    assert checkpoint.is_one(whole, status) is is_one


def test_progress_is_what_was_written_and_junk_is_none(sandbox: Path) -> None:
    assert checkpoint.read(str(sandbox)) is None
    wrote = progress_of(sandbox, begun=True, saving=True, pending=["a", "b"], failed=(36, 2, 'a "reason"\n'))
    read = there(checkpoint.read(str(sandbox)))
    assert {**vars(read), "failed": tuple(read.failed or ())} == vars(wrote)
    for junk in ("", "[]", "{}", '{"command": 1}', "null", "\0"):
        (sandbox / names.PROGRESS).write_text(junk)
        assert checkpoint.read(str(sandbox)) is None


def test_a_checkpoint_is_a_copy_of_what_would_be_the_output(sandbox: Path, spool: OutputSpool) -> None:
    directory = saved(sandbox, spool, progress_of(sandbox))
    found = spool.read(directory)
    assert (found.use, found.number, found.after) == ("checkpoint", 3, ())
    assert names_in(spool, directory) == {"state", "_condor_stdout", "_condor_stderr"}
    assert (sandbox / "state").read_text() == "state"


@pytest.mark.parametrize(
    ("ad", "expected"),
    [
        ({"TransferOutput": "state, d"}, {"state", "d", "d/f"}),
        ({"TransferOutput": "none", "TransferCheckpoint": "d"}, {"d", "d/f"}),
        ({"TransferCheckpoint": ""}, set()),
    ],
)
def test_listed_files_are_saved_with_output_and_errors(
    sandbox: Path, spool: OutputSpool, ad: dict[str, str], expected: set[str]
) -> None:
    write_notes(sandbox, **ad)
    directory = saved(sandbox, spool, progress_of(sandbox))
    assert names_in(spool, directory) == expected | {"_condor_stdout", "_condor_stderr"}


def test_a_checkpoint_that_lacks_a_file_is_none(sandbox: Path, spool: OutputSpool) -> None:
    write_notes(sandbox, TransferCheckpoint="state,none")
    with pytest.raises(TransferFailure) as failure:
        saved(sandbox, spool, progress_of(sandbox))
    assert (failure.value.code, failure.value.subcode) == (36, -1)
    assert spool.names() == []


def test_what_is_parked_comes_after_what_was_parked_before(sandbox: Path, spool: OutputSpool) -> None:
    first = saved(sandbox, spool, progress_of(sandbox))
    gone = "0" * 20 + "-" + "0" * 32
    second = saved(sandbox, spool, progress_of(sandbox, pending=[gone, first]))
    assert spool.read(second).after == (first,)
    progress_of(sandbox, pending=[first, second])
    last = there(evicted(sandbox, spool, ExitSignal=15))
    assert (spool.read(last).use, spool.read(last).after) == ("nothing", (first, second))


def test_nothing_waits_for_itself_or_for_what_is_no_directory(sandbox: Path, spool: OutputSpool) -> None:
    progress = progress_of(sandbox)
    directory = saved(sandbox, spool, progress)
    path = spool.directory / directory / "manifest"
    later = "9" * 20 + "-" + "0" * 32
    after = to_json([directory, later, "../x", 7, "0" * 20 + "-" + "0" * 32])
    path.write_text(path.read_text().replace('"after":[]', f'"after":{after}'))
    assert spool.read(directory).after == ("0" * 20 + "-" + "0" * 32,)


@pytest.mark.parametrize("use", ["output", "spool", "nothing"])
def test_a_checkpoint_s_report_ends_no_run(sandbox: Path, spool: OutputSpool, use: str) -> None:
    directory = saved(sandbox, spool, progress_of(sandbox))
    path = spool.directory / directory / "manifest"
    path.write_text(path.read_text().replace('"use":"checkpoint"', f'"use":"{use}"'))
    with pytest.raises(FetchworkError, match="names no use"):
        spool.read(directory)


def test_an_eviction_saves_what_the_job_ended_for(sandbox: Path, spool: OutputSpool) -> None:
    progress_of(sandbox, begun=True)
    assert evicted(sandbox, spool, ExitSignal=9) is None
    directory = there(evicted(sandbox, spool, ExitCode=85))
    found = spool.read(directory)
    assert (found.use, found.number, found.request.name) == ("spool", 3, "job_exit")
    assert names_in(spool, directory) == {"state", "_condor_stdout", "_condor_stderr"}


def test_an_eviction_saves_what_was_being_saved(sandbox: Path, spool: OutputSpool) -> None:
    progress_of(sandbox, begun=True, saving=True)
    directory = there(evicted(sandbox, spool, ExitSignal=15))
    assert spool.read(directory).number == 3


def test_half_a_checkpoint_is_not_left_at_an_eviction(sandbox: Path, spool: OutputSpool) -> None:
    write_notes(sandbox, TransferCheckpoint="state,none")
    progress_of(sandbox, begun=True, saving=True)
    assert evicted(sandbox, spool, ExitSignal=15) is None
    assert list(spool.directory.glob("*/manifest")) == []


# ---- the wait for the agent


class Asked:
    """An agent that gives its answers one after the other, and then repeats the last for ever."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.count = 0

    def ask(self, name: str, arg: str, body: bytes = b"", timeout_s: float = 0.0) -> bytes:
        self.count += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise AgentUnavailable("nobody there")
        return answer

    def close(self) -> None:
        """End the connection."""


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointed, "AGAIN_S", 0.0)


def wait_for(*answers: bytes | None) -> Asked:
    asked = Asked(*answers)
    checkpointed._until_delivered(asked, "name")  # type: ignore[arg-type]
    return asked


def test_the_job_goes_on_when_the_checkpoint_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = wait_for(None, b"saving 0\n", None, b"saving 5\n", b"saving 5\n", b"saved\n", b"never\n")
    assert asked.count == 6


def test_one_that_is_refused_says_why() -> None:
    with pytest.raises(TransferFailure, match="no room") as failure:
        wait_for(b"saving 0\n", b"refused no room\n")
    assert (failure.value.code, failure.value.subcode) == (36, -1)


@pytest.mark.parametrize("answer", [None, b"saving 7\n"])
def test_an_agent_that_gets_nowhere_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, answer: bytes | None
) -> None:
    clock = iter(range(0, 10_000, 50))
    monkeypatch.setattr(checkpointed, "monotonic", lambda: float(next(clock)))
    assert 3 <= wait_for(answer).count <= checkpointed.PATIENCE_S / 50


def test_the_job_s_environment_is_the_starter_s() -> None:
    found = checkpointed._environment()
    with open("/proc/self/environ", "rb") as stream:
        assert b"".join(name + b"=" + value + b"\0" for name, value in found.items()) == stream.read()


# ---- the effects of too many checkpoints, and of a checkpoint that cannot be saved


@pytest.fixture
def home(tmp_path: Path, spool: OutputSpool) -> Path:
    """The directory of the hooks."""
    made = tmp_path / "hooks"
    made.mkdir()
    directory = str(spool.directory).removesuffix(SUFFIX)
    (made / "hook.conf").write_text(f"keyword = K\nsocket = /none\nspool = {directory}\n")
    return made


def test_a_checkpoint_is_not_parked_where_too_much_waits(
    sandbox: Path, spool: OutputSpool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(b"full 2 bytes wait; allowed: 1\n")
    monkeypatch.setattr(checkpointed, "Files", lambda *_: asked)
    with pytest.raises(TransferFailure, match="Failed to checkpoint: 2 bytes wait; allowed: 1") as failure:
        checkpointed._save(str(sandbox), progress_of(sandbox), (str(home),))
    assert (failure.value.code, failure.value.subcode) == (36, -1)
    assert spool.names() == []


@pytest.mark.parametrize("pending", [True, False])
def test_a_job_that_is_held_for_one_keeps_those_that_wait_to_be_delivered(
    sandbox: Path, spool: OutputSpool, monkeypatch: pytest.MonkeyPatch, pending: bool
) -> None:
    before = saved(sandbox, spool, progress_of(sandbox))
    progress_of(sandbox, pending=[before] if pending else [], failed=(36, 2, "no file"))
    monkeypatch.chdir(sandbox)
    monkeypatch.setattr(sandboxed, "_set_timer", lambda seconds: None)
    body = b"FetchWorkRunId = 7\nJobPid = 5\nExitCode = 1\n"
    found = sandboxed.park(
        cast(sandboxed.Files, Asked(b"")),
        {"spool": str(spool.directory).removesuffix(SUFFIX)},
        body,
        Request("job_exit", body, keyword="K", arg="exit", slot="slot1"),
        monotonic(),
    )
    held = body + b'FetchWorkTransferFailure = "36 2 no file"\n'
    if not pending:
        assert found == held
        return
    assert isinstance(found, str)
    parked = spool.read(found)
    assert (parked.use, parked.after, parked.files) == ("nothing", (before,), ())
    assert (parked.request.body, parked.request.arg, parked.request.slot) == (held, "exit", "slot1")
