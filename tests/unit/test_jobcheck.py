"""The faults in a job that PREPARE_JOB finds before the starter does."""

import os
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
from fetchwork.handlers.host.starterlog import fault_of
from fetchwork.hook import client, jobcheck
from fetchwork.hook.jobcheck import find_problem
from fetchwork.sandbox import container, hostsettings

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
        ({"Cmd": "/no/such"}, "Failed to execute '/no/such': (errno=2: 'No such file or directory')"),
        ({"Cmd": "nope"}, "Failed to execute '{}/nope': (errno=2: 'No such file or directory')"),
        ({}, "the job has no Cmd"),
        ({"Cmd": "{}/folder"}, "Failed to execute '{}/folder': (errno=13: 'Permission denied')"),
        ({"Cmd": "{}/pipe"}, "Failed to execute '{}/pipe': (errno=13: 'Permission denied')"),
        ({"Cmd": "{}/data"}, "Failed to execute '{}/data': (errno=13: 'Permission denied')"),
        ({"Cmd": "{}/data/x"}, "Failed to execute '{}/data/x': (errno=20: 'Not a directory')"),
        (
            {"Cmd": "script"},
            "Failed to execute '{}/script': invalid interpreter (/no/such/python) specified on first line of"
            " script (errno=2: 'No such file or directory')",
        ),
        (
            {"Cmd": "/bin/sh", "Iwd": "/no/such"},
            "Cannot access initial working directory /no/such: No such file or directory",
        ),
        (
            {"Cmd": "/bin/sh", "Iwd": "{}/data"},
            "Cannot access initial working directory {}/data: Not a directory",
        ),
        (
            {"Cmd": "/bin/sh", "In": "nope"},
            "Failed to open '{}/nope' as standard input: No such file or directory (errno 2)",
        ),
        ({"Cmd": "/bin/sh", "In": "folder"}, ""),
        (
            {"Cmd": "/bin/sh", "Out": "folder"},
            "Failed to open '{}/folder' as standard output: Is a directory (errno 21)",
        ),
        (
            {"Cmd": "/bin/sh", "Err": "{}/folder"},
            "Failed to open '{}/folder' as standard error: Is a directory (errno 21)",
        ),
        (
            {"Cmd": "/bin/sh", "Out": "nope/out"},
            "Failed to open '{}/nope/out' as standard output: No such file or directory (errno 2)",
        ),
        (
            {"Cmd": "/no/such", "Arguments": "a 'b c' 'it''s'"},
            "Failed to execute '/no/such' with arguments a b' 'c it''''s: "
            "(errno=2: 'No such file or directory')",
        ),
        (
            {"Cmd": "/no/such", "Args": "a 'b c'"},
            "Failed to execute '/no/such' with arguments a ''''b c'''':"
            " (errno=2: 'No such file or directory')",
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
        ({"Cmd": "/bin/sh\x01"}, "Failed to execute '/bin/sh\x01': (errno=2: 'No such file or directory')"),
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


def tool(directory: Path, name: str, script: str) -> Path:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def settings(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets HTCondor's settings of the host, as its own program prints them."""

    def set_them(**values: object) -> None:
        asked = ("SINGULARITY", "SINGULARITY_JOB")
        said = "\\037".join(str(values.get(name, "")) for name in asked)
        macro = "\\037".join(f"$({name})" for name in asked)
        tool(
            place,
            "condor_config_val",
            f"[ \"$*\" = \"$(printf -- '-subsystem STARTER -macro {macro}')\" ] && printf '{said}\\n'",
        )

    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    return set_them


@pytest.mark.parametrize("says", ["WantContainer", "WantSIF", "WantDockerImage", "WantSandboxImage"])
def test_a_container_needs_a_runtime_that_works_and_brings_its_cmd(
    place: Path, settings: Callable[..., None], says: str
) -> None:
    image = place / "image.sif"
    image.touch()
    job = {"Cmd": "/in/the/image", says: True, "ContainerImage": str(image)}
    runtime = place / "runtime"
    settings(SINGULARITY=runtime)
    none = f"this host has no container runtime that works: '{runtime}'"
    assert problem_of(**job) == f"{none} can't be run: No such file or directory"
    tool(place, "runtime", "exit 3")
    assert problem_of(**job) == f"{none} --version ends with 3"
    tool(place, "runtime", '[ "$1" = --version ]')
    assert problem_of(**job) == ""


def test_programs_that_do_not_answer_leave_prepare_job_time_to_say_so() -> None:
    assert client._DEADLINES["prepare_job"] > hostsettings.ANSWER_S + container.ANSWER_S


def test_an_image_that_is_not_there_is_htcondor_s_failed_test(
    place: Path, settings: Callable[..., None]
) -> None:
    settings(SINGULARITY=tool(place, "runtime", "exit 0"))
    job = {"Cmd": "/in/the/image", "WantSIF": True, "Iwd": str(place)}
    problem = problem_of(**job, ContainerImage="none.sif")
    assert problem == f"Singularity test failed:image '{place}/none.sif': No such file or directory"
    assert fault_of(problem).code == 45
    # it comes with the other inputs, or from a registry
    assert problem_of(**job, ContainerImage="none.sif", FetchWorkSandbox=True) == ""
    assert problem_of(**job, ContainerImage="docker://debian") == ""


def test_a_host_s_own_way_to_containers_has_to_be_configured(
    place: Path, settings: Callable[..., None]
) -> None:
    runtime = tool(place, "runtime", "exit 0")
    job = {"Cmd": "/in/the/image", "SingularityImage": "/cvmfs/image"}
    settings(SINGULARITY=runtime)
    assert "makes no containers for SingularityImage" in problem_of(**job)
    settings(SINGULARITY=runtime, SINGULARITY_JOB="!isUndefined(TARGET.SingularityImage)")
    assert problem_of(**job) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another account")
@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (
            {"Cmd": "{}/closed/program"},
            "Failed to execute '{}/closed/program': (errno=13: 'Permission denied')",
        ),
        ({"Cmd": "{}/secret"}, "Failed to execute '{}/secret': (errno=13: 'Permission denied')"),
        (
            {"Cmd": "/bin/sh", "Iwd": "{}/closed"},
            "Cannot access initial working directory {}/closed: Permission denied",
        ),
        (
            {"Cmd": "/bin/sh", "In": "secret"},
            "Failed to open '{}/secret' as standard input: Permission denied (errno 13)",
        ),
        (
            {"Cmd": "/bin/sh", "Out": "secret"},
            "Failed to open '{}/secret' as standard output: Permission denied (errno 13)",
        ),
        (
            {"Cmd": "/bin/sh", "Out": "new"},
            "Failed to open '{}/new' as standard output: Permission denied (errno 13)",
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
    assert jobcheck.split_words(quoted) == words


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
