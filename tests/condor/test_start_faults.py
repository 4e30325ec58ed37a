"""Jobs that cannot start: a schedd's and fetchwork's are held with the same code, subcode and reason.

If a shadow moves files, its reason names both hosts: then only the numbers are compared. HTCondor holds
a job that used too much memory (34, 102) only with a cgroup, which these pools lack: there the agent gives
its code and subcode, and its words (vanilla_proc.cpp) but for one: HTCondor says "cgroup memory limit", and
the agent's limit is not a cgroup's. HTCondor by itself does not hold a job for its disk (34, 104), nor for an
image that does not work (45): the tests show that.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import CondorRoot
from tests.condor import container_runtime
from tests.condor.conftest import NEWEST
from tests.condor.sides import CONFIG_OF_HALVES, HOST, Sides
from tests.support.waiting import until

PROGRAM = Path(__file__).parent / "start_faults.py"
HOOKS = "/usr/local/site-hooks"
# a site's own PREPARE_JOB, of a keyword that a schedd's job may name; fetchwork's hook runs behind the same
# one
MORE_CONFIG = f"""
SITE_HOOK_PREPARE_JOB = {HOOKS}/prepare
FETCHWORK_HOOK_PREPARE_JOB = {HOOKS}/prepare
"""
# 50 MiB for each slot
DISK_KIB = 50 * 1024
RUNTIME = "SINGULARITY = $(LOCAL_DIR)/../runtime/apptainer\nALLOW_ADMINISTRATOR = *\n"
PREPARE = """#!/bin/sh
ad=$(cat)
case "$ad" in
*FailsQuietly*) exit 33 ;;
*FailsAloud*) echo 'HookStatusMessage = "no luck"'; exit 34 ;;
*ReportsFault*) echo 'HookStatusCode = 190'; echo 'HookStatusMessage = "really bad"'; exit 0 ;;
*TriesElsewhere*) echo 'HookStatusCode = 390'; echo 'HookStatusMessage = "not here"'; exit 0 ;;
*GetsKilled*) kill -9 $$ ;;
esac
case "$ad" in
*FetchWorkRunId*) printf '%s\n' "$ad" | FETCHWORK_HOOK || exit ;;
esac
case "$ad" in
*ReportsLate*) echo 'HookStatusCode = 191'; exit 0 ;;
*Warns*) echo 'HookStatusCode = 0'; echo 'HookStatusMessage = "beware"'; exit 7 ;;
*ReportsNothing*) echo 'HookStatusCode = -5'; exit 0 ;;
esac
exit 0
"""
JOBS = {
    "no program": "executable = /no/such/program",
    "no program, arguments": "executable = /no/such/program\narguments = a 'b c'",
    "no program, quoted arguments": "executable = /no/such/program\narguments = \"a 'b c' 'it''s' '' x\"",
    "not executable": "executable = /etc/passwd",
    "a directory": "executable = /etc",
    "no interpreter": "executable = /tmp/no-interpreter",
    "no format": "executable = /tmp/no-format",
    "under a file": "executable = /etc/passwd/x",
    "relative program": "executable = nosuch",
    "no directory": "initialdir = /tmp/gone",
    "no input": "input = /no/such/file",
    "input not ours": "input = /etc/shadow",
    "output in no directory": "output = /no/such/directory/file",
    "output not ours": "output = /etc/passwd",
    "output a directory": "output = /tmp",
    "error in no directory": "error = /no/such/directory/file",
    "relative output": "output = nosuch/file",
    "too late": "deferral_time = 1000",
    "hook": "+FailsQuietly = true",
    "hook with a message": "+FailsAloud = true",
    "hook with a status": "+ReportsFault = true",
    "hook with a status, after ours": "+ReportsLate = true",
}
FILES = {
    "no such URL": "should_transfer_files = YES\ntransfer_input_files = file:///no/such/file",
    "no such place for an output": (
        "should_transfer_files = YES\nexecutable = /bin/sh\narguments = \"-c 'echo > x'\"\n"
        'transfer_output_files = x\ntransfer_output_remaps = "x = file:///no/such/directory/x"'
    ),
    "no listed output": "should_transfer_files = YES\ntransfer_output_files = nosuch",
    "no such checkpoint": (
        "should_transfer_files = YES\nexecutable = /bin/sh\narguments = \"-c 'exit 85'\"\n"
        "checkpoint_exit_code = 85\ntransfer_checkpoint_files = nosuch"
    ),
}
#: curl_plugin tries it for three minutes, on either side: only a run of everything includes it
LONG = ("no such place for an output",)
CODES = {6, 7, 8, 12, 13, 14, 19, 20, 36}
# the job would fit no slot
EDITS = {"too late": {"Requirements": "true"}}
#: HTCondor tries these again, elsewhere
AGAIN = {
    "hook": (
        "+TriesElsewhere = true",
        "PREPARE_JOB (prepare) failed (reported status 390): not here",
    ),
    "killed hook": (
        "+GetsKilled = true",
        "PREPARE_JOB (prepare) failed (died with signal 9): <no message>",
    ),
}
#: and these run
NO_FAULT = {"a status that is none": "+ReportsNothing = true", "a warning": "+Warns = true"}
NO_PLUGIN = {"no plugin": "should_transfer_files = YES\ntransfer_input_files = nosuch://host/file"}
BROKEN = {"image": "container_image = /tmp/broken.sif\ntransfer_container = false"}
FILLING = {
    "disk": (
        "executable = /bin/sh\nshould_transfer_files = YES\n"
        f"arguments = \"-c 'head -c {2 * DISK_KIB * 1024} /dev/zero > x; sleep 900'\""
    )
}


@pytest.fixture(scope="module")
def sides(root: CondorRoot, make_pool: Callable[..., PersonalPool]) -> Sides:
    """A pool with both, and the faults that the jobs of JOBS meet.

    Each job has a slot: a schedd avoids a slot after such a job, that of 25.14 for a minute.
    """
    number = len(JOBS) + len(FILES) + len(AGAIN) + len(NO_FAULT)
    number += len(NO_PLUGIN) + len(BROKEN) + len(FILLING)
    slots = 2 * number
    config = f"{CONFIG_OF_HALVES}{MORE_CONFIG}{RUNTIME}DISK = {slots * DISK_KIB}\n"
    host = {"slots": {**HOST["slots"], "limit_disk": True}}
    pool = make_pool(slots=slots, config=config, host=host)
    if shutil.which("cc") is not None:
        container_runtime.make(pool.directory / "runtime")
        # a startd looks for the runtime only once
        assert pool.run_command(["condor_restart", "-fast", "-startd"]).returncode == 0
        until(
            lambda: pool.run_command(["condor_status", "-af", "HasSIF"]).stdout.split() == ["true"] * slots,
            "slots with containers",
        )
    tmp = pool.directory / "tmp"
    for name, data in (
        ("no-interpreter", b"#!/no/such/interpreter\n"),
        ("no-format", b"\x7fELFx\0x"),
        ("broken.sif", b"no image"),
    ):
        (tmp / name).write_bytes(data)
        (tmp / name).chmod(0o755)
    hook = pool.run_command(["condor_config_val", "FETCHWORK_HOOK_FETCH_WORK"]).stdout.strip()
    prepare = PREPARE.replace("FETCHWORK_HOOK", f"{Path(hook).parent}/prepare_job")
    made = pool.run_command(
        ["sh", "-c", f"mkdir -p {HOOKS} && cat > {HOOKS}/prepare && chmod 755 {HOOKS} {HOOKS}/prepare"],
        input=prepare,
    )
    assert made.returncode == 0, made.stderr
    return Sides(pool, PROGRAM)


def test_each_fault_holds_the_job_as_a_shadow_does(sides: Sides, request: pytest.FixtureRequest) -> None:
    jobs = {**JOBS, **FILES}
    if not request.config.getoption("--all"):
        jobs = {name: text for name, text in jobs.items() if name not in LONG}
    edits = {name: changes for name, changes in EDITS.items() if name in jobs}
    given = {"gone": ["/tmp/gone"], "edits": edits}
    theirs, ours = sides.ask_each("faults", {**given, "jobs": _with_hook(jobs)}, {**given, "jobs": jobs})
    assert theirs.keys() == jobs.keys()
    assert {held["HoldReasonCode"] for held in theirs.values()} == CODES
    found, expected = ({name: _held(side.get(name), name) for name in jobs} for side in (ours, theirs))
    assert found == expected


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_an_image_that_does_not_work_holds_a_job_that_a_schedd_would_try_for_ever(sides: Sides) -> None:
    theirs, ours = sides.ask("tries", {"jobs": BROKEN})
    assert theirs["image"]["HoldReasonCode"] is None
    assert theirs["image"]["NumShadowStarts"] >= 2
    held = ours["image"]
    assert (held["HoldReasonCode"], held["HoldReasonSubCode"]) == (45, -1000)
    assert "Singularity test failed:FATAL:   could not open image" in held["HoldReason"]


def test_a_hook_that_asks_for_another_try_gets_it_and_at_last_the_job_is_held(sides: Sides) -> None:
    jobs = {name: text for name, (text, _) in AGAIN.items()}
    theirs = sides.theirs("tries", {"jobs": _with_hook(jobs)})
    ours = sides.ours("faults", {"gone": [], "edits": {}, "jobs": jobs})
    for name, (_, text) in AGAIN.items():
        assert theirs[name]["HoldReasonCode"] is None
        assert theirs[name]["NumShadowStarts"] >= 2
        held = ours[name]
        assert (held["HoldReasonCode"], held["HoldReasonSubCode"]) == (6, 0)
        assert held["HoldReason"].startswith("could not start 3 times, last on slot")
        assert held["HoldReason"].endswith(f": {text}")


def test_a_hook_that_reports_no_fault_starts_the_job_whatever_its_exit_status(sides: Sides) -> None:
    given = {"jobs": _with_hook(NO_FAULT)}, {"jobs": NO_FAULT}
    for side in sides.ask_each("tries", *given):
        ends = {name: (side[name]["JobStatus"], side[name]["ExitCode"]) for name in NO_FAULT}
        assert ends == dict.fromkeys(NO_FAULT, (4, 0))


def test_an_input_that_no_plugin_moves_is_tried_elsewhere_and_at_last_the_job_is_held(
    sides: Sides, suite: str
) -> None:
    given = {"jobs": NO_PLUGIN, "edits": {name: {"Requirements": "true"} for name in NO_PLUGIN}}
    theirs = sides.theirs("tries", given)["no plugin"]
    held = sides.ours("faults", {"gone": [], **given})["no plugin"]
    assert (held["HoldReasonCode"], held["HoldReasonSubCode"]) == (13, -1001)
    assert held["HoldReason"].startswith("could not start 3 times, last on slot")
    if suite == NEWEST:
        assert theirs["HoldReasonCode"] is None
        assert theirs["NumShadowStarts"] >= 2
    else:
        # with the errno of any earlier error
        assert theirs["HoldReasonCode"] == 13


def test_a_job_that_takes_more_memory_than_its_slot_has_is_held_without_a_cgroup(sides: Sides) -> None:
    told = sides.pool.run_command(["condor_status", "-af", "Memory"]).stdout.split()
    # the reader keeps text without an end of line
    taken = f"(head -c {2 * max(map(int, told)) * 1024 * 1024} /dev/zero; sleep 900) | tail"
    jobs = {"memory": f"executable = /bin/sh\narguments = \"-c '{taken}'\""}
    held = sides.ours("faults", {"gone": [], "edits": {}, "jobs": jobs})["memory"]
    assert (held["HoldReasonCode"], held["HoldReasonSubCode"]) == (34, 102)
    assert held["HoldReason"].startswith("Job has gone over memory limit of ")


def test_a_job_that_takes_more_disk_than_its_slot_has_is_held_where_the_host_says_so(sides: Sides) -> None:
    told = sides.pool.run_command(["condor_status", "-af", "Disk"]).stdout.split()
    assert max(map(int, told)) <= DISK_KIB
    held = sides.ours("faults", {"gone": [], "edits": {}, "jobs": FILLING})["disk"]
    assert (held["HoldReasonCode"], held["HoldReasonSubCode"]) == (34, 104)
    assert re.fullmatch(
        r"Job has exceeded allocated disk \([\d.]+ MB\). Consider increasing the value of request_disk.",
        held["HoldReason"],
    )


def _with_hook(jobs: dict[str, str]) -> dict[str, str]:
    return {
        name: f'{text}\n+HookKeyword = "SITE"' if text.startswith("+") else text
        for name, text in jobs.items()
    }


def _held(found: Any, name: str) -> Any:
    """A job's hold, without the names of its slot. A schedd leaves a subcode of 0 out if it has none."""
    if found is None:
        return None
    if name in FILES:
        return found["HoldReasonCode"], found["HoldReasonSubCode"]
    reason = re.sub(r"slot\d+@", "slot@", str(found["HoldReason"]))
    return found["HoldReasonCode"], found["HoldReasonSubCode"] or 0, reason
