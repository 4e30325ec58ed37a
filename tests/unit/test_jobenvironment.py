"""A job's environment variables about its slot: as HTCondor's starter makes them from the slot's ad."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from fetchwork.classad.ads import parse_old
from fetchwork.classad.values import ClassAd
from fetchwork.handlers.host.jobenvironment import StarterSettings, line, of_slot
from fetchwork.handlers.requests.adfiles import SEPARATOR, ad_files
from fetchwork.hook import adfiles
from fetchwork.hook.jobcheck import split_words

DEFAULT = "GPU_DEVICE_ORDINAL=/(CUDA|OCL)//  CUDA_VISIBLE_DEVICES=/CUDA//"
SLOT = b"""MachineResources = "Cpus Memory Disk Swap GPUs"
Name = "slot1_2@h1"
Cpus = 2
Memory = 256
GPUs = 2
AssignedGPUs = "GPU-a0223334,CUDA1"
AvailableGPUs = { GPUs_A,GPUs_B }
GPUs_A = [ Id = "GPU-a0223334"; DeviceUuid = "a0223334-4445" ]
GPUs_B = [ Id = "CUDA1"; DeviceUuid = "b1223334-4445" ]
"""


def settings(version: tuple[int, ...] = (23, 9, 6), *, rules: str = DEFAULT, **more: bool) -> StarterSettings:
    return StarterSettings(
        version, ("OMP_NUM_THREADS", "MKL_NUM_THREADS"), {"GPUs": rules}, {"GPUs": "10000"}, **more
    )


def forced(slot: bytes = SLOT, **made: object) -> dict[str, str]:
    return of_slot(parse_old(slot), settings(**made))[0]  # type: ignore[arg-type]


def test_a_slot_with_devices_names_them_in_four_variables() -> None:
    assert forced() == {
        "GPU_DEVICE_ORDINAL": "GPU-a0223334,1",
        "CUDA_VISIBLE_DEVICES": "GPU-a0223334,1",
        "_CONDOR_AssignedGPUs": "GPU-a0223334,CUDA1",
        "NVIDIA_VISIBLE_DEVICES": "GPU-a0223334-4445,GPU-b1223334-4445",
    }


@pytest.mark.parametrize(
    ("version", "long"),
    [
        ((23, 9, 6), False),
        ((24, 0, 13), False),
        ((24, 0, 14), True),
        ((24, 12, 13), False),
        ((24, 12, 14), True),
        ((25, 0, 2), False),
        ((25, 0, 3), True),
        ((25, 3, 0), False),
        ((25, 3, 1), True),
        ((25, 14, 1), True),
    ],
)
def test_newer_versions_name_cuda_devices_at_length(version: tuple[int, ...], long: bool) -> None:
    assert ("4445" in forced(version=version)["CUDA_VISIBLE_DEVICES"]) is long


def test_a_slot_without_devices_on_a_machine_with_some_hides_them() -> None:
    none = b'MachineResources = "Cpus GPUs"\nCpus = 1\nGPUs = 0\nAvailableGPUs = {}\n'
    hidden = {"GPU_DEVICE_ORDINAL": "10000", "CUDA_VISIBLE_DEVICES": "10000", "_CONDOR_AssignedGPUs": "10000"}
    assert forced(none) == {**hidden, "NVIDIA_VISIBLE_DEVICES": "none"}


def test_a_machine_without_gpus_gets_no_variables_of_theirs() -> None:
    assert of_slot(parse_old(b'MachineResources = "Cpus Memory"\nCpus = 4\n'), settings()) == (
        {},
        {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"},
    )


def test_slices_of_a_device_keep_their_own_names() -> None:
    slices = SLOT.replace(b'Id = "GPU-a0223334"', b'Id = "MIG-1"').replace(
        b'DeviceUuid = "', b'DeviceUuid = "MIG-'
    )
    assert forced(slices)["NVIDIA_VISIBLE_DEVICES"] == "MIG-a0223334-4445,MIG-b1223334-4445"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEVICES", {"DEVICES": "GPU-a0223334,CUDA1"}),
        ("CUDA_VISIBLE_DEVICES", {"CUDA_VISIBLE_DEVICES": "0223334,1"}),
        ("X=/CUDA(.)/$1-$1-$7/, Y=|GPU|$0|", {"X": "GPU-a0223334,1-1-", "Y": "GPU-a0223334,CUDA1"}),
        ("X=/(/x/ Y=/a/b/", {}),
        ("", {}),
    ],
)
def test_a_site_says_by_rules_what_its_devices_are_called(rules: str, expected: dict[str, str]) -> None:
    names = {"_CONDOR_AssignedGPUs", "NVIDIA_VISIBLE_DEVICES"}
    made = forced(rules=rules)
    assert {name: value for name, value in made.items() if name not in names} == expected


def test_nvidias_variable_can_be_turned_off() -> None:
    assert "NVIDIA_VISIBLE_DEVICES" not in forced(sets_nvidia=False)


def words(job: Mapping[str, object], *, over: dict[str, str], under: dict[str, str]) -> list[str]:
    made = line(job, over, under)  # type: ignore[arg-type]
    assert made is not None
    return split_words(str(parse_old(made)["Environment"]))


def test_devices_override_what_the_job_says_and_threads_do_not() -> None:
    job = {"Environment": "A='x y''z' CUDA_VISIBLE_DEVICES=9 OMP_NUM_THREADS=7 MKL_NUM_THREADS="}
    made = dict(
        word.split("=", 1)
        for word in words(
            job,
            over={"CUDA_VISIBLE_DEVICES": "0"},
            under={"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"},
        )
    )
    assert made == {
        "A": "x y'z",
        "CUDA_VISIBLE_DEVICES": "0",
        "OMP_NUM_THREADS": "7",
        "MKL_NUM_THREADS": "2",
    }


@pytest.mark.parametrize("value", ["a\nb", "tab\there", "back\\slash\\", 'a "quote"', "", "ä", "it's"])
def test_what_the_job_has_in_its_environment_stays_as_it_is(value: str) -> None:
    quoted = value.replace("'", "''")
    assert words({"Environment": f"'A={quoted}'"}, over={"B": "1"}, under={}) == [f"A={value}", "B=1"]


def test_the_environment_of_old_syntax_is_taken_along() -> None:
    assert words({"Env": "A=1;B=x y; C="}, over={}, under={"T": "2"}) == ["A=1", "B=x y", "C=", "T=2"]
    assert words({"Env": "A=1|B=2", "EnvDelim": "|"}, over={}, under={}) == ["A=1", "B=2"]


def test_an_environment_that_is_an_expression_is_left_to_the_starter() -> None:
    assert line({"Environment": None}, {"A": "1"}, {}) is None


def test_a_job_finds_its_slot_and_itself_in_its_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (".machine.ad", ".job.ad"):
        (tmp_path / name).write_text("before")
    job = b'Cmd = "/bin/true"\nFetchWorkToken = "secret"\nJobPrio = 3\n'
    files = ad_files(job, SLOT, parse_old(SLOT), {"JobPrio": 7, "QDate": 5})
    assert adfiles.write(b'Environment = "A=1"\n' + files) == (b'Environment = "A=1"\n', "")
    assert (tmp_path / ".machine.ad").read_bytes() == SLOT
    written: ClassAd = parse_old((tmp_path / ".job.ad").read_text(), strict=True)
    assert "FetchWorkToken" not in written
    found = {name: written[name] for name in ("Cmd", "JobPrio", "QDate", "JobStatus", "RemoteHost")}
    assert found == {"Cmd": "/bin/true", "JobPrio": 7, "QDate": 5, "JobStatus": 2, "RemoteHost": "slot1_2@h1"}
    provided = {name: written[name] for name in ("CpusProvisioned", "GPUsProvisioned", "AssignedGPUs")}
    assert provided == {"CpusProvisioned": 2, "GPUsProvisioned": 2, "AssignedGPUs": "GPU-a0223334,CUDA1"}
    assert (tmp_path / ".job.ad").stat().st_mode & 0o777 == 0o644


def test_files_are_written_only_over_those_of_the_starter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    os.symlink(elsewhere, tmp_path / ".machine.ad")
    assert adfiles.write(SEPARATOR + b"A = 1\n" + SEPARATOR + b"B = 2\n") == (b"", "")
    assert elsewhere.read_text() == "mine"
    assert (tmp_path / ".machine.ad").read_text() == "A = 1\n"
    assert not (tmp_path / ".job.ad").exists()


@pytest.mark.parametrize("body", [b"", b"A = 1\n", b'A = "-----"\n', b'HookStatusMessage = "x -----"\n'])
def test_an_answer_without_ads_is_left_as_it_is(
    body: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert adfiles.write(body) == (body, "")


def test_a_directory_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".machine.ad").mkdir()
    changes, problem = adfiles.write(b"A = 1\n" + SEPARATOR + b"B = 2\n")
    assert changes == b"A = 1\n"
    assert problem.startswith("cannot write '.machine.ad'")
