"""The same job by a schedd and by fetchwork, on slots of one startd: the job's view, and its end.

All differences are listed in fetchwork/handlers/JOBS.md, for users: an unlisted difference fails here, and so
does a listed one that does not exist.
"""

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from fetchwork import handlers
from fetchwork.db.database import Database
from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import CondorRoot
from tests.condor.compiled_hooks import compile_hooks, hook_directory
from tests.condor.sides import CONFIG, Sides

HERE = Path(__file__).parent
LIST = Path(handlers.__file__).parent / "JOBS.md"
PROBE = HERE / "same_job_probe.py"
# slots of each type: one fetches alice's jobs, one runs those of bob, who submits to the schedd
TYPES = [
    {"number": 1, "count": 2, "cpus": 2, "gpus": 1, "memory_mib": 512},
    {"number": 2, "count": 2, "cpus": 1, "memory_mib": 256},
    {"number": 3, "count": 2, "cpus": 6, "gpus": 2, "memory_mib": 2048, "partitionable": True},
]
GPU_CONFIG = """
GPU_DISCOVERY_EXTRA = -simulate:0,6 -extra
ALLOW_READ = *
"""
STATIC = "requirements = TARGET.SlotTypeID == 2"
STATIC_GPU = "requirements = TARGET.SlotTypeID == 1"
# not a dynamic slot that another job has left and that is larger than this job's request
DIVIDED = (
    "requirements = (TARGET.SlotTypeID == 3 || TARGET.SlotTypeID == -3) && (TARGET.PartitionableSlot =?= true"
    " || TARGET.Cpus == MY.RequestCpus"
    " && TARGET.GPUs == ifThenElse(isUndefined(MY.RequestGPUs), 0, MY.RequestGPUs))"
)
SLEEPS = "executable = /bin/sleep\narguments = 8"
#: all of a partitionable slot
WHOLE = "request_cpus = 6"
#: signals that the job asks for, all different
SIGNALS = "kill_sig = SIGUSR1\nremove_kill_sig = SIGINT\nhold_kill_sig = SIGQUIT"


def _job(*lines: str, ending: str = "exit 0", **more: object) -> dict[str, object]:
    head = ["request_memory = 64", "request_disk = 1000", f"arguments = PROBE FILE.json {ending}"]
    return {"description": "\n".join([*head, *lines]), **more}


def _more(job: dict[str, Any], *lines: str, **more: object) -> dict[str, Any]:
    whole = {**job, "description": "\n".join([job["description"], *lines]), **more}
    return {key: value for key, value in whole.items() if value is not None}


JOBS: dict[str, dict[str, Any]] = {
    "static": _job(STATIC),
    "static-gpu": _job(STATIC_GPU, "request_gpus = 1"),
    "static-gpu-unused": _job(STATIC_GPU),
    "divided": _job(DIVIDED, "request_cpus = 2"),
    "divided-gpu": _job(DIVIDED, "request_gpus = 1"),
    "divided-gpus": _job(DIVIDED, "request_gpus = 2"),
    "environment": _job(
        STATIC_GPU,
        "environment = \"A=1 'B=x y' 'C=it''''s' OMP_NUM_THREADS=7 MKL_NUM_THREADS= CUDA_VISIBLE_DEVICES=9\"",
    ),
    "old-environment": _job(STATIC, "environment = A=1;B=x y;OMP_NUM_THREADS=7"),
    "arguments": _job(STATIC, "arguments = \"PROBE FILE.json exit 0 'a b' 'it''''s' '' \\ x\""),
    "input": _job(STATIC, "input = PROBE"),
    "priority": _job(STATIC, "priority = 7", "+Mine = 4", 'batch_name = "b"'),
    "coresize": _job(STATIC, "coresize = 123456"),
    "exit-3": _job(STATIC, ending="exit 3"),
    "killed": _job(STATIC, ending="kill 11"),
    "hard-killed": _job(STATIC_GPU, ending="kill 9"),
    "removed": _job(DIVIDED, SIGNALS, ending="wait 0", act="Remove"),
    "removed-plain": _job(DIVIDED, ending="wait 0", act="Remove"),
    "held": _job(DIVIDED, SIGNALS, ending="wait 0", act="Hold"),
    "vacated": _job(DIVIDED, SIGNALS, ending="wait 0", act="Vacate"),
    "transfer": {
        "description": "\n".join(
            [
                "request_memory = 64\nrequest_disk = 1000\nshould_transfer_files = YES",
                "transfer_input_files = PROBE",
                "arguments = same_job_probe.py FILE.json",
                STATIC,
            ]
        )
    },
}
#: jobs that follow another one in its chain: their slots have the same requests, or no room for a second job
CHAINED: dict[str, dict[str, Any]] = {
    **{
        name: JOBS[name]
        for name in (
            "static", "old-environment", "arguments", "input", "priority", "exit-3", "killed",
            "static-gpu-unused", "environment", "hard-killed",
        )
    },
    "static-gpu": _more(JOBS["static-gpu"], "priority = -6"),
    **{name: _more(JOBS[name], WHOLE) for name in ("removed", "removed-plain", "held", "vacated")},
}  # fmt: skip
#: the first jobs of these chains
FIRST: dict[str, dict[str, Any]] = {
    "first-static": _more(JOBS["static"], SLEEPS, "priority = 20"),
    "first-unused": _more(JOBS["static-gpu-unused"], SLEEPS, "priority = 20"),
    "first-gpu": _more(JOBS["static-gpu"], SLEEPS, "priority = -5"),
    "first-divided": _more(JOBS["removed-plain"], SLEEPS, "priority = 20", WHOLE, act=None),
}
# both in parallel in one partitionable slot
TOGETHER: dict[str, dict[str, Any]] = {
    name: _job(DIVIDED, "request_gpus = 1", ending="wait 0", act="Remove", beside=[other])
    for name, other in (("first", "second"), ("second", "first"))
}
#: the values of these are compared; of an ad's other attributes only whether they exist
MACHINE_VALUES = ("Cpus", "Memory", "GPUs", "Name", "SlotType", "SlotTypeID", "TotalSlotGPUs", "AssignedGPUs")
JOB_VALUES = (
    "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs", "JobPrio", "NumJobStarts", "JobStatus",
    "CpusProvisioned", "MemoryProvisioned", "GpusProvisioned", "AssignedGPUs", "RemoteHost", "Owner",
    "ProcId", "Environment", "Args", "Arguments", "Cmd", "Iwd", "JobUniverse", "Mine", "NumShadowStarts",
)  # fmt: skip


_DEVICE = re.compile(r"^gpus_gpu_.*")
#: different at each run: processes, times, measurements, and the previous claim
PASSING = re.compile(
    r"env _CONDOR_ANCESTOR|env CONDOR_STARTER_PID|scratch \.update\.ad|"
    r"machine ad (total.*(idle|busy|time)|.*usage|.*size|job(id|start|universe)|globaljobid|claim.*|remote.*|"
    r"publicclaimid|last.*|client.*|accounting.*|numpids|.*load.*|.*idle|cpubusy.*|current.*|entered.*|"
    r"issplittable|"
    r"recent.*|continue|isowner|kill|preempt|suspend|want_.*|periodic_checkpoint|runbenchmarks)|"
    r"job ad (last.*|.*usage(_raw)?|residentset.*|activation.*|cumulative.*|.*stats|.*starter|.*block.*)$"
)


def _sides(make_pool: Callable[..., PersonalPool], **keyword: object) -> Sides:
    config = CONFIG.replace("SlotID == 1", "SlotID % 2 == 1") + GPU_CONFIG
    host = {"slots": {"fetched_only": False, "type": TYPES}, "keyword": {"FETCHWORK": keyword}}
    return Sides(make_pool(slots=18, config=config, host=host), HERE / "same_job.py")


def _given(sides: Sides, side: str, jobs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The question about these jobs for one side."""
    tmp = sides.pool.directory / "tmp"
    shutil.copy(PROBE, tmp)
    head = (
        f"executable = {sides.pool.machine.venv}/bin/python\ntransfer_executable = false\n"
        "should_transfer_files = IF_NEEDED\noutput = FILE.out\nerror = FILE.err\n"
    )
    directory = tmp / side
    directory.mkdir()
    directory.chmod(0o1777)
    return {
        "directory": str(directory),
        "jobs": {
            name: {**job, "description": head + job["description"].replace("PROBE", str(tmp / PROBE.name))}
            for name, job in jobs.items()
        },
    }


@pytest.fixture(scope="module")
def seen(root: CondorRoot, make_pool: Callable[..., PersonalPool]) -> dict[str, tuple[Any, Any]]:
    """By job, the facts about a schedd's and fetchwork's."""
    sides = _sides(make_pool)
    jobs = {**JOBS, **TOGETHER}
    theirs = sides.theirs("jobs", _given(sides, "theirs", jobs))
    ours = sides.ours("jobs", _given(sides, "ours", jobs))
    return {name: (theirs.get(name), ours.get(name)) for name in jobs}


def _found(names: Iterable[str], seen: dict[str, tuple[Any, Any]]) -> dict[str, str]:
    """The differences between both sides, each with an example."""
    found: dict[str, str] = {}
    for name in sorted(names):
        theirs, ours = seen[name]
        assert theirs and ours, f"{name} has not ended: {theirs is None}, {ours is None}"
        assert theirs["seen"] and ours["seen"], f"{name}: {theirs['stderr']}, {ours['stderr']}"
        flat = _flat(theirs), _flat(ours)
        for key in flat[0].keys() | flat[1].keys():
            # further attributes in a job's .machine.ad do no harm
            more = key.startswith("machine ad") and key not in flat[0]
            if flat[0].get(key) != flat[1].get(key) and not more:
                found.setdefault(key, f"{name}: {flat[0].get(key)!r}, {flat[1].get(key)!r}")
    return found


def test_only_listed_differences_are_seen_by_a_job(seen: dict[str, tuple[Any, Any]], suite: str) -> None:
    listed = differences(LIST.read_text(), suite)
    found = _found(JOBS, seen)
    assert {key: example for key, example in found.items() if key not in listed} == {}
    assert listed - found.keys() == set()


@pytest.mark.all
def test_a_job_in_a_chain_sees_no_more_differences(
    root: CondorRoot, make_pool: Callable[..., PersonalPool], suite: str
) -> None:
    """Each compared job is the second of its chain, or a later one."""
    sides = _sides(make_pool, chain_s=600)
    compile_hooks(hook_directory(sides.pool))
    asked = _given(sides, "theirs", CHAINED), _given(sides, "ours", {**FIRST, **CHAINED})
    theirs, ours = sides.ask_each("jobs", *asked)
    with Database(sides.pool.conninfo) as database:
        rows = database.query(
            "SELECT clusterid, chain FROM fetchwork.runs WHERE outcome IS NOT NULL ORDER BY started_at DESC"
        )
    # each job's first run
    chains = {row["clusterid"]: row["chain"] for row in rows}
    assert [name for name in CHAINED if chains[ours[name]["cluster"]] is None] == []
    found = _found(CHAINED, {name: (theirs.get(name), ours.get(name)) for name in CHAINED})
    sides.pool.stop()
    listed = differences(LIST.read_text(), suite)
    of_chains = differences(LIST.read_text(), "chains") - differences(LIST.read_text(), "none")
    assert {key: example for key, example in found.items() if key not in listed | of_chains} == {}
    assert of_chains - found.keys() == set()


def test_two_jobs_of_a_partitionable_slot_get_different_devices(seen: dict[str, tuple[Any, Any]]) -> None:
    for side in (0, 1):
        first, second = (seen[name][side]["seen"]["env"] for name in TOGETHER)
        for variable in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "_CONDOR_AssignedGPUs"):
            devices = first[variable], second[variable]
            assert "," not in "".join(devices) and devices[0] != devices[1], variable


def test_bytes_of_a_job_s_files_are_those_that_a_shadow_counts(seen: dict[str, tuple[Any, Any]]) -> None:
    theirs, ours = seen["transfer"]
    assert theirs["bytes"]["BytesRecvd"] > 0
    assert ours["bytes"] == theirs["bytes"]


def differences(text: str, suite: str) -> set[str]:
    """The names of the listed differences of the versions that a suite stands for."""
    found: set[str] = set()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        kind = {"trixie": "23.9", "chains": "chains", "none": "none"}.get(suite, "25.14")
        if line.startswith("| `") and cells[1] in ("all", kind):
            found.update(re.findall(r"`([^`]+)`", cells[0]))
    return found


def _flat(job: dict[str, Any]) -> dict[str, object]:
    """The facts as one mapping, without those that two runs of one job would not share."""
    seen = job["seen"]
    flat: dict[str, object] = {"signals heard": job["signals"], "standard error": job["stderr"] or ""}
    if not job["end"]:
        # it may be running again, and sees either this run or the last
        return flat
    for part in ("env", "limits", "descriptors", "scratch", "signals", "privileges"):
        flat |= {f"{part} {name}": value for name, value in (seen[part] or {}).items()}
    flat |= {f"end {name}": value for name, value in job["end"].items()}
    rest = ("argv", "cwd", "umask", "ids", "groups", "nice", "affinity", "oom_score_adj", "cgroup", "leads")
    flat |= {name: seen[name] for name in (*rest, "stdin", "scratch itself")}
    flat |= _of_ad("machine ad", seen["machine ad"], MACHINE_VALUES)
    flat |= _of_ad("job ad", seen["job ad"], JOB_VALUES)
    return {key: _same(value) for key, value in flat.items() if not PASSING.match(key)}


def _of_ad(name: str, text: str | None, compared: tuple[str, ...]) -> dict[str, object]:
    lines = [line.partition(" = ") for line in (text or "").splitlines() if " = " in line]
    by_lower = {each.lower() for each in compared}
    return {
        f"{name} {attribute}": value if attribute in by_lower else "there"
        for attribute, value in ((_DEVICE.sub("gpus_gpu", line[0].lower()), line[2]) for line in lines)
    }


def _same(value: object) -> object:
    """A value without the names and numbers that belong to the side or the run."""
    if isinstance(value, list):
        return [_same(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return "account" if 21000 < value < 21010 else value
    if not isinstance(value, str):
        return value
    for pattern, same in (
        (r"\b(alice|bob)\b", "owner"),
        (r"/(theirs|ours)\b", "/side"),
        # of a job in a chain: a directory below the starter's (JOBS.md)
        (r"\bdir_\d+(/scratch)?(/job\b)?", r"dir\1"),
        (r"\bslot[12]\b", "slot of type 1"),
        (r"\bslot[34]\b", "slot of type 2"),
        (r"\bslot[56](_\d+)?\b", "slot of type 3"),
        (r"GPU-[0-9a-f-]{8,}", "GPU"),
    ):
        value = re.sub(pattern, same, value)
    return value
