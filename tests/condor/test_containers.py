"""Jobs in containers, on real slots, by the starter's own support of them.

The cases of HTCondor's own tests of containers (its test_container_uni, test_singularity_sif), written anew
for jobs that are fetched; and the faults at which HTCondor's starter calls no hook, or hangs.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.pool import PersonalPool
from tests.condor.container_runtime import image, make, make_docker
from tests.condor.file_jobs import FileJobs
from tests.condor.pool_jobs import jobs_in
from tests.support.by_name import scalar
from tests.support.living import files
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

ROOT = Path(__file__).parents[2]
SIF: dict[str, Any] = {"WantContainer": True, "WantSIF": True, "ContainerImage": "job.sif"}
CONFIG = """\
STARTER_UPDATE_INTERVAL = 2
SINGULARITY = $(LOCAL_DIR)/../runtime/apptainer
SINGULARITY_JOB = !isUndefined(TARGET.SingularityImage)
SINGULARITY_IMAGE_EXPR = TARGET.SingularityImage
DOCKER = $(LOCAL_DIR)/../runtime/docker
DOCKER_PERFORM_TEST = False
MACHINE_RESOURCE_GPUs = CUDA0 CUDA1 CUDA2 CUDA3
"""
# as in the configuration of hosts with GPUs
CONFIG += "".join(
    line
    for line in (ROOT / "config-examples/gpu-slots.conf").read_text().splitlines(keepends=True)
    if line.startswith("SINGULARITY_")
)


class ContainerJobs(FileJobs):
    """Jobs in containers, and the runtime that makes the containers."""

    @property
    def runtime(self) -> Path:
        return self.pool.directory / "runtime/apptainer"

    def calls(self, job_image: str) -> list[dict[str, Any]]:
        """The runtime's calls for an image."""
        lines = (self.runtime.parent / "calls").read_text().splitlines()
        return [call for call in map(json.loads, lines) if call["image"].endswith(job_image)]

    def shown(self, job: str) -> list[str]:
        """The lines that a job has printed, once it has ended."""
        self.completed(job)
        stdout = self.outputs(job)["_condor_stdout"]
        assert isinstance(stdout, bytes)
        return stdout.decode().splitlines()


@pytest.fixture(scope="module")
def container_pool(suite: str, make_pool: Callable[..., PersonalPool]) -> PersonalPool:
    """A host with a container runtime, that shares nothing."""
    pool = make_pool(config=CONFIG, host={"files": {"shared": []}})
    make(pool.directory / "runtime")
    make_docker(pool.directory / "runtime")
    # a startd looks for the runtime only once
    assert pool.run_command(["condor_restart", "-fast", "-startd"]).returncode == 0

    def offers_containers() -> bool:
        told = pool.run_command(
            ["condor_status", "-af", "HasSIF", "HasDockerURL", "HasSandboxImage", "HasDocker"]
        )
        return "true true true true" in told.stdout

    until(offers_containers, "slots with containers")
    return pool


@pytest.fixture
def jobs(container_pool: PersonalPool) -> Iterator[ContainerJobs]:
    with jobs_in(container_pool, ContainerJobs, max_not_started=3) as jobs:
        yield jobs


def test_a_job_has_the_root_of_its_image_and_its_files_come_and_go(jobs: ContainerJobs) -> None:
    job = jobs.submit(
        "cat /image data; ls -d /etc/passwd; echo made > new; exit 7",
        {"job.sif": image("first"), "data": b"data\n"},
        **SIF,
    )
    assert jobs.completed(job)["exitcode"] == 7
    assert jobs.shown(job) == ["first", "data"]
    outputs = jobs.outputs(job)
    assert outputs["new"] == b"made\n"
    assert b"/etc/passwd" in bytes(outputs["_condor_stderr"] or b"")  # type: ignore[arg-type]
    assert "job.sif" not in outputs


def test_arguments_environment_and_directory_are_those_of_the_job(jobs: ContainerJobs) -> None:
    job = jobs.submit(
        'echo "$1,$2,$A"; pwd; echo $_CONDOR_SCRATCH_DIR',
        {"job.sif": image("x")},
        Arguments="one 'two three'",
        Environment="A='b c'",
        **SIF,
    )
    said, directory, scratch = jobs.shown(job)
    assert said == "one,two three,b c"
    assert directory == scratch
    tested, ran = jobs.calls("job.sif")[-2:]
    assert (tested["verb"], ran["verb"]) == ("test", "exec")
    options = ran["options"]
    assert options[options.index("--pwd") + 1] == scratch
    assert {"--contain", "--cleanenv"} <= set(options)
    assert ran["command"][1:] == ["one", "two three"]


def test_container_target_dir_is_the_job_s_directory(jobs: ContainerJobs) -> None:
    job = jobs.submit(
        "pwd; cat data; echo made > new",
        {"job.sif": image("x"), "data": b"data\n"},
        ContainerTargetDir="/work",
        **SIF,
    )
    directory, data = jobs.shown(job)
    # HTCondor 25 has the sandbox in a subdirectory of this name
    assert (directory in ("/work", "/work/scratch"), data) == (True, "data")
    assert jobs.outputs(job)["new"] == b"made\n"


def test_an_image_of_a_registry_is_the_runtime_s_to_fetch(jobs: ContainerJobs) -> None:
    job = jobs.submit(
        "cat /image",
        WantContainer=True,
        WantDockerImage=True,
        ContainerImage="docker://debian:12",
    )
    assert jobs.shown(job) == ["docker://debian:12"]


def test_a_directory_of_the_host_is_an_image(jobs: ContainerJobs) -> None:
    directory = jobs.runtime.parent / "directory-image"
    directory.mkdir(exist_ok=True)
    (directory / "image").write_text("a directory\n")
    job = jobs.submit("cat /image", WantContainer=True, WantSandboxImage=True, ContainerImage=str(directory))
    assert jobs.shown(job) == ["a directory"]


def test_gpus_come_into_the_container_of_a_job_that_asks_for_some(jobs: ContainerJobs) -> None:
    for gpus in (0, 1):
        name = f"gpus-{gpus}.sif"
        job = jobs.submit(
            f"echo {name}",
            {name: image("x")},
            RequestGPUs=gpus,
            **{**SIF, "ContainerImage": name},
        )
        assert jobs.shown(job) == [name]
        called = jobs.calls(name)
        assert {"test", "exec"} <= {call["verb"] for call in called}
        assert all(("--nv" in call["options"]) is bool(gpus) for call in called)


def test_a_site_s_own_attribute_makes_a_container(jobs: ContainerJobs) -> None:
    path = jobs.runtime.parent / "site.sif"
    path.write_bytes(image("the site's"))
    job = jobs.submit("cat /image", SingularityImage=str(path))
    assert jobs.shown(job) == ["the site's"]


def test_a_job_hears_the_signal_in_its_container(jobs: ContainerJobs) -> None:
    mark = jobs.pool.directory / "tmp/container.mark"
    mark.unlink(missing_ok=True)
    job = jobs.submit(
        'if [ -f heard ]; then cat heard; exit 0; fi; trap "echo heard > heard; exit 0" TERM\n'
        "echo > started; while true; do sleep 0.05; done",
        {"job.sif": image("x")},
        WhenToTransferOutput="ON_EXIT_OR_EVICT",
        **SIF,
    )

    def runs() -> bool:
        if any(path.name == "started" for path in files(jobs.pool.condor.directory)):
            return True
        return any(call["verb"] == "exec" for call in jobs.calls("job.sif")[before:])

    before = len(jobs.calls("job.sif")) if (jobs.runtime.parent / "calls").exists() else 0
    until(runs, "the job to run")
    scalar(jobs.database, "vacate", jobs=[job])
    assert jobs.shown(job) == ["heard"]


def test_a_suspended_container_stands_still_and_goes_on(jobs: ContainerJobs) -> None:
    job = jobs.submit(
        "(setsid sh -c 'while [ ! -e stop ]; do echo >> left; sleep 0.05; done' &)\n"
        "while [ ! -e stop ]; do echo >> lines; sleep 0.05; done",
        {"job.sif": image("x")},
        **SIF,
    )
    run = jobs.running(job)

    def sizes() -> dict[str, int]:
        found = [path for path in files(jobs.pool.condor.directory) if path.name in ("left", "lines")]
        return {path.name: path.stat().st_size for path in found}

    jobs.wait(lambda: len(sizes()) == 2, "the job at work")
    assert scalar(jobs.database, "suspend", jobs=[job]) == 1
    jobs.wait(lambda: jobs.status(job) == 7, "the job suspended")
    before = sizes()
    time.sleep(1)
    assert sizes() == before
    assert scalar(jobs.database, "continue", jobs=[job]) == 1
    jobs.wait(lambda: all(size > before[name] for name, size in sizes().items()), "the job at work again")
    (lines,) = [path for path in files(jobs.pool.condor.directory) if path.name == "lines"]
    lines.with_name("stop").touch()
    assert jobs.completed(job)["runid"] == run["runid"]


# ---- faults


def test_an_image_that_does_not_work_holds_the_job_as_htcondor_does(jobs: ContainerJobs) -> None:
    held = jobs.held(jobs.submit("true", {"broken.sif": b""}, **{**SIF, "ContainerImage": "broken.sif"}))
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (45, -1000), held["holdreason"]
    assert "Singularity test failed:" in held["holdreason"]
    assert "could not open image" in held["holdreason"]


@pytest.mark.parametrize("path", ["/no/such/image.sif", "not-sent.sif"])
def test_an_image_that_is_not_there_holds_the_job(jobs: ContainerJobs, path: str) -> None:
    held = jobs.held(jobs.submit(f"true {path}", **{**SIF, "ContainerImage": path}))
    assert held["holdreasoncode"] == 45
    assert path in held["holdreason"]


def test_a_runtime_that_has_gone_keeps_no_slot_and_the_job_runs_when_it_is_back(jobs: ContainerJobs) -> None:
    away = jobs.runtime.with_name("away")
    jobs.runtime.rename(away)
    try:
        held = jobs.held(jobs.submit("true", {"job.sif": image("x")}, **SIF))
        assert "this host has no container runtime that works" in held["holdreason"]
        # its slot is free for others
        assert jobs.shown(jobs.submit("echo bare")) == ["bare"]
    finally:
        away.rename(jobs.runtime)
    scalar(jobs.database, "release", jobs=[held["jobid"]])
    jobs.completed(held["jobid"])


# ---- why the docker universe is refused


def test_a_docker_job_would_have_no_limits_and_end_by_an_image_that_is_not_there(jobs: ContainerJobs) -> None:
    """The behaviour of HTCondor's starter with a fetched docker job, which submit refuses."""
    database = jobs.database
    asked: dict[str, Any] = {"WantDocker": True, "RequestMemory": 64, "RequestCpus": 1, "RequestGPUs": 1}
    with database.transaction():
        database.query("CREATE TEMP TABLE rules AS SELECT * FROM fetchwork.attribute WHERE key ~ 'docker'")
        database.query("DELETE FROM fetchwork.attribute AS a USING rules AS r WHERE a.key = r.key")
    try:
        good = jobs.submit("echo run; exit 7", {}, DockerImage="good", **asked)
        bad = jobs.submit("echo run", {}, DockerImage="broken", **asked)
        assert jobs.completed(good)["exitcode"] == 7
        # docker's exit status, without its message: under a schedd the job is held (35)
        assert jobs.completed(bad)["exitcode"] == 125
    finally:
        database.query("INSERT INTO fetchwork.attribute SELECT * FROM rules")
    lines = (jobs.runtime.parent / "docker-calls").read_text().splitlines()
    # HTCondor 25 adds a tag
    (options,) = [call["options"] for call in map(json.loads, lines) if call["image"].startswith("good")]
    assert "--cpu-shares=100" in options
    assert not [option for option in options if option.startswith(("--memory", "--device"))]
