"""What PREPARE_JOB finds wrong with a job before the starter does."""

import os
import posix
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchwork.classad.ads import parse_expr, print_old
from fetchwork.classad.values import ClassAd
from fetchwork.hook import jobcheck
from fetchwork.hook.jobcheck import find_problem

ADS = Path(__file__).parent.parent / "data" / "ads"


def problem_of(**attributes: Any) -> str:
    ad = ClassAd()
    for name, value in attributes.items():
        ad[name] = value
    return find_problem(print_old(ad).encode())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "data").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "script").write_text("#!/no/such/python -u\n")
    (tmp_path / "script").chmod(0o755)
    os.mkfifo(tmp_path / "pipe", 0o777)
    return tmp_path


@pytest.mark.parametrize("path", sorted(ADS.glob("*-prepare_job*.ad")), ids=lambda path: path.name)
def test_captured_jobs_are_well(path: Path) -> None:
    assert find_problem(path.read_bytes()) == ""


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"Cmd": "{}/program"}, ""),
        ({"Cmd": "program"}, ""),
        ({"Cmd": "./program", "In": "data", "Out": "new", "Err": "folder/new"}, ""),
        ({"Cmd": "/bin/sh", "In": "", "Out": "/dev/null", "Err": "/dev/null"}, ""),
        ({"Cmd": "/no/such"}, "Cmd '/no/such' does not exist"),
        ({"Cmd": "nope"}, "Cmd '{}/nope' does not exist"),
        ({}, "the job has no Cmd"),
        ({"Cmd": "{}/folder"}, "Cmd '{}/folder' is a directory"),
        ({"Cmd": "{}/pipe"}, "Cmd '{}/pipe' is not a regular file"),
        ({"Cmd": "{}/data"}, "Cmd '{}/data' is not executable by this account"),
        ({"Cmd": "{}/data/x"}, "Cmd '{}/data/x' lies under a file, not a directory"),
        ({"Cmd": "script"}, "Cmd '{}/script': its interpreter '/no/such/python' does not exist"),
        ({"Cmd": "/bin/sh", "Iwd": "/no/such"}, "Iwd '/no/such' does not exist"),
        ({"Cmd": "/bin/sh", "Iwd": "{}/data"}, "Iwd '{}/data' is not a directory"),
        ({"Cmd": "/bin/sh", "In": "nope"}, "In 'nope' does not exist"),
        ({"Cmd": "/bin/sh", "In": "folder"}, "In 'folder' is a directory"),
        ({"Cmd": "/bin/sh", "Out": "folder"}, "Out 'folder' is a directory"),
        ({"Cmd": "/bin/sh", "Err": "{}/folder"}, "Err '{}/folder' is a directory"),
        (
            {"Cmd": "/bin/sh", "Out": "nope/out"},
            "Out 'nope/out' can't be created: directory '{}/nope' does not exist",
        ),
        ({"Cmd": "/bin/sh", "Arguments": "it''s 'fine'"}, ""),
        ({"Cmd": "/bin/sh", "Arguments": "it's"}, "Arguments has an unbalanced single quote"),
        ({"Cmd": "/bin/sh", "Arguments": "two\nlines '"}, "Arguments has an unbalanced single quote"),
        ({"Cmd": "/bin/sh", "Environment": "A=1 B='x y' C=''''"}, ""),
        ({"Cmd": "/bin/sh", "Environment": "A='x"}, "Environment has an unbalanced single quote"),
        ({"Cmd": "/bin/sh", "Environment": "A=1 B"}, "Environment has a word that is not NAME=VALUE"),
        ({"Cmd": "/bin/sh", "Environment": "=1"}, "Environment has a word that is not NAME=VALUE"),
        ({"Cmd": "/bin/sh", "Environment": "A=one\ntwo"}, "Environment has a word that is not NAME=VALUE"),
        ({"Cmd": "/bin/sh", "Environment": "A='one\ntwo'"}, ""),
        ({"Cmd": "/bin/sh\x01"}, "Cmd '/bin/sh\x01' does not exist"),
    ],
)
def test_a_problem_is_named(place: Path, attributes: dict[str, Any], expected: str) -> None:
    filled = {"Iwd": str(place)} | {
        name: value.replace("{}", str(place)) for name, value in attributes.items()
    }
    assert problem_of(**filled) == expected.replace("{}", str(place))


@pytest.mark.parametrize("name", ["Cmd", "Iwd", "In", "Arguments", "Environment"])
def test_an_expression_is_left_to_the_starter(place: Path, name: str) -> None:
    ad = {"Cmd": "/bin/sh", "Iwd": str(place), name: parse_expr('strcat("/no", "/such\'")')}
    assert problem_of(**ad) == ""


def test_a_container_needs_its_runtime_and_brings_its_cmd(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobcheck, "_PATH", b"/no/such")
    monkeypatch.setattr(posix, "environ", {b"PATH": str(place).encode()})
    docker = {"Cmd": "/in/the/image", "WantDocker": True}
    container = {"Cmd": "/in/the/image", "WantContainer": True}
    assert problem_of(**docker) == "WantDocker is true, and this host has no docker"
    assert (
        problem_of(**container)
        == "WantContainer is true, and this host has neither apptainer nor singularity"
    )
    for runtime in ("docker", "singularity"):
        (place / runtime).symlink_to("/bin/true")
    assert problem_of(**docker) == problem_of(**container) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another account")
@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"Cmd": "{}/closed/program"}, "Cmd '{}/closed/program' is not accessible to this account"),
        ({"Cmd": "{}/secret"}, "Cmd '{}/secret' is not executable by this account"),
        ({"Cmd": "/bin/sh", "Iwd": "{}/closed"}, "Iwd '{}/closed' is not accessible to this account"),
        ({"Cmd": "/bin/sh", "In": "secret"}, "In 'secret' is not readable by this account"),
        ({"Cmd": "/bin/sh", "Out": "secret"}, "Out 'secret' is not writable by this account"),
        (
            {"Cmd": "/bin/sh", "Out": "new"},
            "Out 'new' can't be created: directory '{}' is not writable by this account",
        ),
        ({"Cmd": "/bin/sh", "Err": "/dev/null"}, ""),
    ],
)
def test_what_counts_are_the_rights_of_the_jobs_account(
    public_directory: Callable[[], Path], attributes: dict[str, Any], expected: str
) -> None:
    place = public_directory()
    (place / "closed").mkdir(mode=0o700)
    (place / "secret").touch(mode=0o700)
    ad = ClassAd()
    for name, value in ({"Iwd": str(place)} | attributes).items():
        ad[name] = value.replace("{}", str(place))
    package = public_directory() / "fetchwork"
    (package / "hook").mkdir(parents=True)
    (package / "hook" / "jobcheck.py").write_text(Path(jobcheck.__file__).read_text())
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from fetchwork.hook.jobcheck import find_problem;"
        " print(find_problem(sys.stdin.buffer.read()))"
    )
    found = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", code, str(package.parent)],
        input=print_old(ad).encode(),
        capture_output=True,
        user="nobody",
        extra_groups=[],
        cwd="/",
    )
    assert found.stdout.decode().strip() == expected.replace("{}", str(place)), found.stderr


@given(st.binary(max_size=200) | st.binary(max_size=80).map(b'Cmd = "'.__add__))
def test_any_bytes_are_judged(data: bytes) -> None:
    assert isinstance(find_problem(data), str)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_string_is_read_as_it_was_printed(text: str) -> None:
    ad = ClassAd()
    ad["Cmd"] = text
    assert jobcheck.read_literals(print_old(ad).encode(), frozenset(["cmd"])) == {"cmd": text}


@given(st.lists(st.text(st.sampled_from("ab'\" \n"), max_size=5), max_size=4))
def test_words_are_split_as_htcondor_does(words: Any) -> None:
    quoted = " ".join("'" + word.replace("'", "''") + "'" for word in words)
    assert jobcheck._split(quoted) == words


def test_no_module_of_the_library_is_imported() -> None:
    code = "old = set(sys.modules); import fetchwork.hook.jobcheck; print(*sorted(set(sys.modules) - old))"
    path = str(Path(jobcheck.__file__).parents[2])
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {path!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["_stat", "fetchwork", "fetchwork.hook", "fetchwork.hook.jobcheck"]
