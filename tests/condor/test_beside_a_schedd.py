"""The same program on a real schedd and on fetchwork, in one pool: their answers are compared."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.db.database import Database
from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import VENV, CondorRoot
from tests.condor.sides import CONFIG, HOST, Sides
from tests.support.new_job import TRUE_OF_A_NEW_JOB
from tests.support.waiting import until

PROGRAM = Path(__file__).parent / "beside_schedd.py"


@pytest.fixture(scope="module")
def sides(root: CondorRoot, make_pool: Callable[..., PersonalPool]) -> Sides:
    """A pool with both."""
    pool = make_pool(slots=2, config=CONFIG, host=HOST)
    # the agent reports slots every few seconds, and jobs that start before lack their provisioned resources
    with Database(pool.conninfo) as database:
        until(lambda: database.query("SELECT name FROM fetchwork.slot WHERE name ~ '^slot1@'"), "the slot")
    return Sides(pool, PROGRAM)


def test_act_and_edit_answer_as_a_schedd_does(sides: Sides) -> None:
    theirs, ours = sides.ask("acts_and_edits")
    assert ours == theirs


def test_requirements_on_what_the_queue_keeps_decide_as_in_htcondor(sides: Sides) -> None:
    """A job that should run reports it; if its Requirements are false of a new job, it stays Idle in both."""
    false = ["ProcId == 7 || never", "NumJobStarts > 0 || never", "LastRemoteHost =!= undefined || never"]
    theirs, ours = sides.ask("requirements", [*false, *TRUE_OF_A_NEW_JOB])
    assert {expression for expression in false if theirs[expression]} == set()
    assert ours == theirs


def test_each_way_to_submit_makes_the_jobs_that_a_schedd_gets(sides: Sides) -> None:
    items = sides.pool.directory / "tmp" / "items"
    items.write_text("x\ny\n")
    items.chmod(0o644)
    theirs, ours = sides.ask("submits", str(items))
    assert ours == theirs


# attributes of a schedd's ads that fetchwork's lack, and the reason
ABSENT = {
    # the job moves no files
    "TransferIn", "TransferOut", "TransferErr", "TransferExecutable", "TransferInputSizeMB",
    "TransferInputStats", "TransferOutputStats", "TransferSocket", "BytesSent", "BytesRecvd",
    "TransferInputFileCounts",
    # no version of a schedd made them
    "CondorVersion", "CondorPlatform", "ShadowVersion",
    # no negotiator reads them; q --better-analyze explains why a job waits
    "AutoClusterAttrs", "LastRejMatchTime", "LastRejMatchReason", "LastRejMatchNegotiator",
    # of the shadow, the claim and the daemons' addresses
    "MyAddress", "ShadowIpAddr", "ShadowBday", "StartdIpAddr", "StartdPrincipal", "RemoteSlotID",
    "PublicClaimId", "LastPublicClaimId", "LastJobLeaseRenewal", "JobCurrentReconnectAttempt", "UidDomain",
    "TerminationPending", "OrigMaxHosts", "JobAbortEventLogged", "ExecuteDirWasEncrypted", "OsUser",
    # no hook learns how long the starter took before and after the job, nor such statistics
    "ActivationDuration", "ActivationSetupDuration", "ActivationExecutionDuration",
    "ActivationTeardownDuration", "StatsLifetimeStarter", "RecentStatsLifetimeStarter",
    "RecentBlockReads", "RecentBlockWrites", "RecentBlockReadKbytes", "RecentBlockWriteKbytes",
    # SlotWeight is charged, and not written into the job
    "MachineAttrSlotWeight0",
    # without a JOB_EXIT no report has the blocks; and the job ends before the agent reads its memory
    "BlockReads", "BlockWrites", "BlockReadKbytes", "BlockWriteKbytes",
    "MemoryUsage", "ResidentSetSize", "ResidentSetSize_RAW",
    # a schedd's ad has it only if the starter sent an update while the job ran, as on a slow machine
    "CpusUsage",
    # of the executable, which is on the execute host
    "DiskUsage_RAW", "ExecutableSize_RAW",
    # of a query, not of a job
    "ErrorCode",
}  # fmt: skip
OF_ITS_OWN = {
    # attributes that Requirements of jobs and slots refer to, unlike the schedd's
    "autocluster": {"Rank", "DiskUsage", "ImageSize"},
    # attributes that its jobs have in common, and that they will not come to differ in; a summary counts jobs
    "of cluster": {
        "User", "ServerTime", "JobStatus", "EnteredCurrentStatus", "ImageSize_RAW",
        "NumJobStarts", "NumJobCompletions",
        "RemoteUserCpu", "RemoteSysCpu", "RemoteWallClockTime",
        "ClusterSize", "JobsPresent", "JobsIdle", "JobsRunning", "JobsHeld",
    },
}  # fmt: skip
# an epoch has the run's report and the job's identity; later results are in the job's ad
OF_THE_JOB = {
    "ToE", "AutoClusterId", "ProvisionedResources", "MachineAttrCpus0",
    "CpusProvisioned", "MemoryProvisioned", "DiskProvisioned", "GpusProvisioned",
    "ImageSize_RAW", "FirstJobMatchDate", "InitialWaitDuration",
}  # fmt: skip
# account, host, time, size of the executable (of another root), attributes that only a schedd's submit omits
DIFFERENT = {
    *(
        "Owner",
        "User",
        "GlobalJobId",
        "AutoClusterId",
        "JobIds",
        "FileSystemDomain",
        "RemoteHost",
        "LastRemoteHost",
    ),
    "QDate", "ServerTime", "EnteredCurrentStatus", "JobStartDate", "LastMatchTime", "CompletionDate",
    "JobCurrentStartDate", "JobCurrentStartExecutingDate", "JobFinishedHookDone", "EpochWriteDate", "ToE",
    "FirstJobMatchDate", "InitialWaitDuration",
    "DiskUsage", "ExecutableSize", "ImageSize", "ImageSize_RAW",
    "ResidentSetSize", "ResidentSetSize_RAW", "MemoryUsage", "RequestDisk", "RequestMemory",
    "RemoteWallClockTime", "LastRemoteWallClockTime", "CommittedTime",
    "CumulativeSlotTime", "CommittedSlotTime",
    "RemoteUserCpu", "RemoteSysCpu", "CumulativeRemoteUserCpu", "CumulativeRemoteSysCpu", "CpusUsage",
    "BlockReads", "BlockWrites", "BlockReadKbytes", "BlockWriteKbytes", "DiskProvisioned",
    # the bindings give no reason to a schedd of 23.9
    "RemoveReason", "HoldReason", "LastHoldReason", "ReleaseReason",
}  # fmt: skip


def test_ads_have_the_attributes_and_values_of_a_schedd_s(sides: Sides) -> None:
    theirs, ours = sides.ask("ads")
    assert ours.keys() == theirs.keys()
    for sort, ad in theirs.items():
        own = {name.lower(): value for name, value in ours[sort].items()}
        absent = ABSENT | OF_ITS_OWN.get(sort, set()) | (OF_THE_JOB if sort == "epoch" else set())
        assert {name for name in ad if name.lower() not in own} <= absent, sort
        different = {name for name, value in ad.items() if own.get(name.lower(), value) != value}
        assert different <= DIFFERENT, sort


#: facts about a run that only the shadow and its starter know
NOT_IN_OUR_EVENTS = {"ToE", "GPUs", "DiskUsage", "TimeSlotBusyUsage"}
#: values that the agent does not measure in so short a job
NOT_OF_SHORT_JOBS = {"MemoryUsage"}


def _shapes(text: str) -> dict[int, set[tuple[str, str]]]:
    """By the type of an event: the names of its attributes, and the types of their values."""
    found: dict[int, set[tuple[str, str]]] = {}
    for record in re.findall(r"^<c>\n(.*?)^</c>\n", text, re.DOTALL | re.MULTILINE):
        attributes = re.findall(r'^    <a n="(\w+)"><(\w+)', record, re.MULTILINE)
        number = re.search(r'n="EventTypeNumber"><i>(\d+)', record)
        assert number is not None, record
        found.setdefault(int(number[1]), set()).update(attributes)
    return found


def test_an_event_log_in_xml_is_that_of_a_schedd(sides: Sides) -> None:
    theirs, ours = sides.ask("xml_log")
    # the agent measures no size of so short a job
    assert ours["read"] == [[name for name in names if name != "IMAGE_SIZE"] for names in theirs["read"]]
    their_shapes, our_shapes = _shapes(theirs["text"]), _shapes(ours["text"])
    assert our_shapes.keys() == their_shapes.keys() - {6}
    for number, shape in our_shapes.items():
        more = {name for name, _ in shape - their_shapes[number]}
        # the bindings' reason does not reach the events of that schedd; and it omits the CPUs of a job that
        # begins and ends within one second of its clock
        assert more <= {"Reason", "HoldReason", "CpusUsage"}, number
        lacking = {name for name, _ in their_shapes[number] - shape}
        assert lacking <= NOT_IN_OUR_EVENTS | NOT_OF_SHORT_JOBS, number


def test_the_idle_jobs_of_a_living_schedd_come_over_and_none_twice(sides: Sides) -> None:
    sides.theirs("idle")
    submit = ["submit", "--from-schedd", "--constraint", "Mine == 9", "--originals", "hold"]
    words = ["env", f"FETCHWORK_DSN={sides.pool.conninfo}", f"{VENV}/bin/fetchwork", *submit]
    moved = sides.pool.run_command(words, user="bob")
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert "3 job(s) to cluster" in moved.stdout
    # each original is Held, after its copy is there
    assert sides.theirs("states") == [[n, 5, "bob"] for n in range(3)]
    assert sides.ours("states") == [[n, 1, "bob"] for n in range(3)]
    again = sides.pool.run_command(words, user="bob")
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(sides.ours("states")) == 3
