"""The entries of a list of input files: files, directories, links, relative paths, URLs."""

import os
import socket
from pathlib import Path

import pytest

from fetchwork.sandbox.failure import FileFailure
from fetchwork.sandbox.inputs import Input, executable_of, expand, of_job


@pytest.fixture
def iwd(tmp_path: Path) -> Path:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").write_text("deep")
    (tmp_path / "d/g").write_text("g")
    (tmp_path / "a").write_text("a")
    (tmp_path / "a").chmod(0o640)
    return tmp_path


def named(found: list[Input]) -> dict[str, str]:
    return {one.name + "/" * one.directory: one.source for one in found}


def test_a_file_has_its_base_name_its_mode_and_its_size(iwd: Path) -> None:
    assert expand(["a"], str(iwd)) == [Input("a", f"{iwd}/a", 0o640, 1)]
    assert named(expand(["d/e/f", f"{iwd}/a"], str(iwd))) == {"f": f"{iwd}/d/e/f", "a": f"{iwd}/a"}


def test_a_directory_comes_whole_and_with_a_slash_only_what_is_in_it(iwd: Path) -> None:
    assert set(named(expand(["d"], str(iwd)))) == {"d/", "d/e/", "d/e/f", "d/g"}
    assert set(named(expand(["d/"], str(iwd)))) == {"e/", "e/f", "g"}


def test_relative_paths_are_kept_where_the_job_says_so(iwd: Path) -> None:
    assert set(named(expand(["d/e/f", f"{iwd}/a"], str(iwd), preserve=True))) == {"d/", "d/e/", "d/e/f", "a"}
    assert set(named(expand(["d/e/"], str(iwd), preserve=True))) == {"d/", "d/e/", "d/e/f"}
    with pytest.raises(FileFailure, match="outside of the job's directory"):
        expand(["../x/y"], str(iwd / "d"), preserve=True)


def test_a_directory_is_before_what_is_in_it_and_urls_are_last(iwd: Path) -> None:
    found = [one.name for one in expand(["http://host/u", "d"], str(iwd))]
    assert found[-1] == "u"
    assert found.index("d") < found.index("d/e") < found.index("d/e/f")


def test_of_two_with_one_name_the_later_wins(iwd: Path) -> None:
    (iwd / "d/a").write_text("other")
    assert named(expand(["a", "d/a"], str(iwd))) == {"a": f"{iwd}/d/a"}


def test_a_link_to_a_file_is_the_file_and_one_to_a_directory_needs_a_slash(iwd: Path) -> None:
    (iwd / "to_a").symlink_to("a")
    (iwd / "to_d").symlink_to("d")
    assert expand(["to_a"], str(iwd))[0].size == 1
    assert set(named(expand(["to_d/"], str(iwd)))) == {"e/", "e/f", "g"}
    with pytest.raises(FileFailure) as failure:
        expand(["to_d"], str(iwd))
    assert failure.value.subcode == 21


def test_sockets_and_pipes_stay_where_they_are(iwd: Path) -> None:
    os.mkfifo(iwd / "d/pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(iwd / "d/socket"))
        assert set(named(expand(["d"], str(iwd)))) == {"d/", "d/e/", "d/e/f", "d/g"}


def test_what_is_not_there_is_told_with_errno_and_path(iwd: Path) -> None:
    with pytest.raises(
        FileFailure, match=r"reading from file .*/none: \(errno 2\) No such file or directory"
    ):
        expand(["none"], str(iwd))


def test_a_job_lists_its_files_its_stdin_and_its_executable() -> None:
    ad = {"TransferInput": "a, b", "PublicInputFiles": "c", "In": "in", "Cmd": "/bin/x"}
    assert of_job(ad) == ["a", "b", "c", "in"]
    assert of_job({"In": "/dev/null"}) == of_job({"In": "in", "TransferIn": False}) == []
    assert executable_of(ad) == "/bin/x"
    assert executable_of({**ad, "TransferExecutable": False}) is None
