"""`fetchwork submit --ads` of output of `condor_q -long`: a schedd's idle jobs move to the queue."""

import json
import os
import re
from pathlib import Path

import pytest

import fetchwork.modules
from fetchwork.queue import Queue
from fetchwork.queue.reading.views import HISTORY
from fetchwork.queue.submitting.jobads import read_ads
from tests.queue.conftest import Run

DATA = Path(__file__).parents[1] / "data/jobs"


@pytest.mark.parametrize("version", ["23.9.6", "25.14.1"])
def test_the_idle_jobs_of_a_real_schedd_come_over(fetchwork: Run, queue: Queue, version: str) -> None:
    file = DATA / f"{version}.queue.ads"
    ads = read_ads(file.read_text())
    idle = [ad for ad in ads if ad["JobStatus"] == 1]
    assert len(idle) > 5
    told = fetchwork("submit", "--ads", str(file), "--partly", "--json")
    assert told.status == 0, told.err
    answer = json.loads(told.out)
    moved = answer["moved"]
    assert sum(one["jobs"] for one in moved) + len(answer["stay"]) == len(idle)
    assert sum(map(len, answer["not_idle"].values())) == len(ads) - len(idle)
    came = queue.query()
    assert len(came) == sum(one["jobs"] for one in moved) > 4
    # a cluster is a cluster again, and each job is unchanged
    originals: dict[str, list[tuple[object, ...]]] = {str(ad["ClusterId"]): [] for ad in idle}
    for ad in idle:
        originals[str(ad["ClusterId"])].append((ad["Cmd"], ad.get("Args"), ad["Owner"], ad["JobPrio"]))
    for one in moved:
        copies = [ad for ad in came if ad["ClusterId"] == one["ClusterId"]]
        found = {(ad["Cmd"], ad.get("Args"), ad["Owner"], ad["JobPrio"]) for ad in copies}
        assert found <= set(originals[str(one["From"])])
    assert not {"AutoClusterAttrs", "SubmitVersion", "DiskUsage_RAW"} & set(came[0])
    assert all(ad["JobStatus"] == 1 and ad["NumJobStarts"] == 0 for ad in came)


AD = {
    "ClusterId": 7,
    "GlobalJobId": "ap#7.0#1",
    "JobStatus": 1,
    "Owner": "alice",
    "Cmd": "/bin/true",
    "Iwd": "/tmp",
    "JobUniverse": 5,
    "ShouldTransferFiles": "NO",
}


def written(tmp_path: Path, *changes: dict[str, object]) -> str:
    """A file with jobs 7.0, 7.1, ... and these differences."""
    file = tmp_path / "jobs.json"
    ads = [
        {**AD, "ProcId": number, "GlobalJobId": f"ap#7.{number}#1", **change}
        for number, change in enumerate(changes)
    ]
    file.write_text(json.dumps(ads))
    return str(file)


def test_what_cannot_come_is_listed_first_and_then_nothing_does(
    fetchwork: Run, queue: Queue, tmp_path: Path
) -> None:
    file = written(
        tmp_path,
        {},
        {"WantDocker": True},
        {"JobStatus": 2},
        {"JobMaterializeLimit": 5},
        {"StageInFinish": 12345},
        {"Args": "last"},
        {"JobStatus": 10},
    )
    told = fetchwork("submit", "--ads", file)
    assert told.status == 1
    lines = told.err.splitlines()
    assert any(line.startswith("7.1 can't come: ") and "container" in line for line in lines)
    assert any(line.startswith("7.3 can't come: ") and "max_materialize" in line for line in lines)
    assert any(line.startswith("7.4 can't come: ") and "spool" in line for line in lines)
    assert "7.2 can't come: it is running, not idle" in lines
    assert "7.6 can't come: it is preparing, not idle" in lines
    assert "3 of 5 idle jobs can't come, so none does; --partly takes the others" in lines[-1]
    assert queue.query() == []
    told = fetchwork("submit", "--ads", file, "--dry-run")
    assert told.out == "2 job(s) of 1 cluster(s) would come.\n" and queue.query() == []
    told = fetchwork("submit", "--ads", file, "--partly")
    assert told.status == 0 and re.fullmatch(r"cluster 7: 2 job\(s\) to cluster \d+\.\n", told.out)
    assert [ad.get("Args") for ad in queue.query()] == [None, "last"]


def test_a_move_that_is_made_again_brings_no_job_twice(fetchwork: Run, queue: Queue, tmp_path: Path) -> None:
    file = written(tmp_path, {}, {"Args": "x"})
    first = fetchwork("submit", "--ads", file)
    again = fetchwork("submit", "--ads", file)
    assert (first.status, again.status) == (0, 0)
    assert first.out == again.out
    assert len(queue.query()) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="reads files with its own rights")
def test_root_reads_no_file_for_an_owner_without_an_account(
    fetchwork: Run, queue: Queue, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("x")
    other: dict[str, object] = {"Owner": "no_such_account"}
    file = written(
        tmp_path, {**other, "ShouldTransferFiles": "YES", "TransferInput": str(tmp_path / "data")}, other
    )
    told = fetchwork("submit", "--ads", file, "--partly")
    assert (
        told.err == "7.0 can't come: its files are its Owner's, and 'no_such_account' has no account here\n"
    )
    assert told.status == 0 and len(queue.query()) == 1


def test_the_schedd_s_file_system_domain_stays_behind(fetchwork: Run, queue: Queue, tmp_path: Path) -> None:
    requirements = '/Expr((TARGET.Arch == "X86_64") && (TARGET.FileSystemDomain == MY.FileSystemDomain))/'
    assert fetchwork("submit", "--ads", written(tmp_path, {"Requirements": requirements})).status == 0
    (ad,) = queue.query()
    assert "FileSystemDomain" not in str(ad["Requirements"])


def test_ads_of_no_schedd_are_submitted_as_before(fetchwork: Run, queue: Queue, tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"Owner": "alice", "Cmd": "/bin/true"}))
    assert fetchwork("submit", "--ads", str(file)).out == "1 job(s) submitted to cluster 1.\n"


def test_options_that_do_not_go_together_are_refused(fetchwork: Run) -> None:
    assert fetchwork("submit", "--originals", "hold", "x.sub").status == 2
    assert fetchwork("submit", "--from-schedd", "ap", "-a", "x = 1").status == 2


def _attributes(version: str) -> set[str]:
    """Those of all jobs in the recorded queue and history of a schedd."""
    texts = [(DATA / f"{version}.{name}").read_text() for name in ("queue.ads", "history")]
    return set(re.findall(r"^(\w+) = ", "\n".join(texts), re.M))


def test_attributes_that_are_new_in_htcondor_25_are_listed() -> None:
    document = Path(fetchwork.modules.__file__).with_name("DIFFERENCES.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", document, re.M))
    assert listed.keys() == _attributes("25.14.1") - _attributes("23.9.6")
    for name, here in listed.items():
        assert (name.lower() in HISTORY.names) != here.startswith("no: ")
