"""The output files of a sandbox, and the destination of each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fetchwork.sandbox.outputs import Choice, catalogue, ending, use_of

if TYPE_CHECKING:
    from fetchwork.sandbox.outputs import Ending


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    (tmp_path / "input").write_text("input")
    (tmp_path / ".job.ad").write_text("")
    (tmp_path / "condor_exec.exe").write_text("")
    return tmp_path


def chosen(sandbox: Path, how: Ending = "success", before: Any = None, **ad: Any) -> Choice:
    whole = {"Out": "out", "Err": "err", **ad}
    return Choice(whole, str(sandbox), before if before is not None else {}).choose(how)


def fill(sandbox: Path) -> dict[str, tuple[int, int]]:
    before = catalogue(str(sandbox))
    (sandbox / "_condor_stdout").write_text("out")
    (sandbox / "_condor_stderr").write_text("")
    (sandbox / "new").write_text("new")
    (sandbox / "d").mkdir()
    (sandbox / "d/f").write_text("f")
    return before


def test_new_and_changed_files_at_the_top_are_output(sandbox: Path) -> None:
    before = fill(sandbox)
    assert set(chosen(sandbox, before=before).files) == {"new", "_condor_stdout", "_condor_stderr"}
    (sandbox / "input").write_text("INPUT")
    os.utime(sandbox / "input", ns=(1, 1))
    assert "input" in chosen(sandbox, before=before).files


def test_what_htcondor_has_written_is_no_output(sandbox: Path) -> None:
    before = catalogue(str(sandbox))
    of_htcondor = (
        ".job.ad", ".machine.ad", ".execution_overlay.ad", ".update.ad", ".update.ad.tmp", ".chirp.config",
        ".docker_sock", ".docker_stdout", ".docker_stderror", ".condor_container_launched",
    )  # fmt: skip
    for name in (*of_htcondor, ".mine"):
        (sandbox / name).write_text("x")
    assert set(chosen(sandbox, before=before).files) == {".mine"}


def test_a_file_of_the_same_size_and_time_has_not_changed(sandbox: Path) -> None:
    before = fill(sandbox)
    status = (sandbox / "input").stat()
    (sandbox / "input").write_text("INPUT")
    os.utime(sandbox / "input", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "input" not in chosen(sandbox, before=before).files


def test_a_name_that_is_not_utf8_can_not_be_sent(sandbox: Path) -> None:
    before = fill(sandbox)
    (sandbox / os.fsdecode(b"odd\xff")).write_text("x")
    choice = chosen(sandbox, before=before)
    assert choice.failure is not None
    assert choice.failure.subcode == 84
    assert "is not UTF-8" in choice.failure.details


def test_an_absolute_path_may_be_listed_and_has_its_base_name(sandbox: Path, tmp_path: Path) -> None:
    fill(sandbox)
    (sandbox / "d/elsewhere").write_text("x")
    assert "elsewhere" in chosen(sandbox, TransferOutput=f"{tmp_path}/d/elsewhere").files


@pytest.mark.parametrize("listed", ["s", "d"])
def test_a_link_to_a_directory_is_not_sent_and_is_told_as_htcondor_does(sandbox: Path, listed: str) -> None:
    fill(sandbox)
    link = sandbox / ("s" if listed == "s" else "d/again")
    link.symlink_to(sandbox / "d")
    choice = chosen(sandbox, TransferOutput=f"{listed}, new")
    assert {name for name in choice.files if name[0] != "_"} == {"new", *(["d", "d/f"] * (listed == "d"))}
    assert choice.failure is not None
    assert (choice.failure.subcode, choice.failure.details) == (
        21,
        f"reading from file {link}: (errno 21) Is a directory"
        "- Transfer of symlinks to directories is not supported.",
    )
    # but its content may be asked for
    assert "f" in chosen(sandbox, TransferOutput=f"{link.relative_to(sandbox)}/f").files


def test_an_eviction_keeps_the_directories_that_are_listed_and_waits_for_nothing(sandbox: Path) -> None:
    before = fill(sandbox)
    choice = chosen(sandbox, "evicted", before, TransferOutput="d, not-yet")
    assert set(choice.files) == {"new", "d", "d/f"}
    assert choice.failure is None


def test_a_pipe_that_is_listed_is_not_waited_for(sandbox: Path) -> None:
    os.mkfifo(sandbox / "pipe")
    choice = chosen(sandbox, TransferOutput="pipe")
    assert choice.failure is not None
    assert choice.failure.subcode == 22


def test_a_remap_to_a_url_sends_that_file_there(sandbox: Path) -> None:
    before = fill(sandbox)
    choice = chosen(sandbox, before=before, TransferOutputRemaps="new=http://host/x;_condor_stderr=errors")
    assert choice.files["new"].url == "http://host/x"
    assert choice.files["_condor_stderr"].url == ""


def test_output_destination_takes_all_but_output_and_errors_and_no_remap_counts(sandbox: Path) -> None:
    fill(sandbox)
    choice = chosen(
        sandbox,
        TransferOutput="new, d",
        OutputDestination="http://host/box/",
        TransferOutputRemaps="new=http://other/x",
    )
    assert {one.name: one.url for one in choice.files.values()} == {
        "new": "http://host/box/new",
        "d/f": "http://host/box/d/f",
        "_condor_stdout": "",
        "_condor_stderr": "",
    }


def test_output_itself_may_go_to_a_url(sandbox: Path) -> None:
    fill(sandbox)
    choice = chosen(sandbox, TransferOutput="", Out="http://host/log")
    assert choice.files["_condor_stdout"].url == "http://host/log"


def test_remaps_in_a_circle_are_a_failure(sandbox: Path) -> None:
    fill(sandbox)
    choice = chosen(sandbox, TransferOutput="new", TransferOutputRemaps="new=a;a=new")
    assert choice.failure is not None
    assert "in a circle" in choice.failure.details


@pytest.mark.parametrize(
    ("when", "report", "evicted", "how", "use"),
    [
        ("ON_EXIT", {"ExitCode": 1}, False, "success", "output"),
        ("ON_EXIT", {"ExitSignal": 9}, False, "success", "output"),
        ("ON_EXIT", {}, True, "evicted", None),
        ("ON_EXIT_OR_EVICT", {}, True, "evicted", "spool"),
        ("ON_EXIT_OR_EVICT", {"ExitCode": 0}, False, "success", "output"),
        ("ON_SUCCESS", {"ExitCode": 0}, False, "success", "output"),
        ("on_success", {"ExitCode": 1}, False, "failure", "output"),
        ("ON_SUCCESS", {"ExitSignal": 9}, False, "failure", "output"),
        ("ON_SUCCESS", {"ExitCode": 0}, True, "evicted", None),
    ],
)
def test_when_to_transfer_output(
    when: str, report: dict[str, int], evicted: bool, how: Ending, use: str | None
) -> None:
    ad = {"WhenToTransferOutput": when}
    assert ending(ad, report, evicted=evicted) == how
    assert use_of(ad, how) == use


def test_success_is_the_exit_code_that_the_job_names() -> None:
    ad = {"WhenToTransferOutput": "ON_SUCCESS", "JobSuccessExitCode": 3}
    assert ending(ad, {"ExitCode": 3}, evicted=False) == "success"
    assert ending(ad, {"ExitCode": 0}, evicted=False) == "failure"
