"""Slots that serve a negotiator, too: a schedd's job takes them from fetched jobs, which run again later."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fetchwork.pool import PersonalPool
from tests.condor.pool_jobs import PoolJobs, jobs_in
from tests.support.by_name import call, scalar

EXAMPLE = Path(__file__).parents[2] / "config-examples/backfill"
CONFIG = """
DAEMON_LIST = $(DAEMON_LIST) SCHEDD NEGOTIATOR
ALLOW_WRITE = $(ALLOW_WRITE), alice@$(UID_DOMAIN)
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 2
"""
#: a static slot, and a partitionable one for two jobs; each has a keyword, and so a queue, of its own
HOST = {
    "host": {"cpus": 3, "memory_mib": 600},
    "keyword": {"STATIC": {"queues": ["static"]}, "DIVIDED": {"queues": ["divided"]}},
    "slots": {
        "fetched_only": False,
        "type": [
            {"cpus": 1, "memory_mib": 200, "disk": "10%", "keyword": "STATIC"},
            {"cpus": 2, "memory_mib": 400, "disk": "20%", "keyword": "DIVIDED", "partitionable": True},
        ],
    },
}
#: it runs until the test makes its file
SCHEDDS_JOB = """
executable = /bin/sh
arguments = "-c 'until [ -e /tmp/{name}.end ]; do sleep 0.1; done'"
log = /tmp/{name}.log
initialdir = /tmp
transfer_executable = false
should_transfer_files = NO
request_cpus = {cpus}
request_memory = 100
request_disk = 1000
requirements = TARGET.SlotID == {slot}
queue
"""
#: in its first run
IGNORES_SIGTERM_ONCE = (
    "-c '[ -e /tmp/ran ] && exec sleep 600; >/tmp/ran; trap : TERM; while :; do sleep 0.1; done'"
)
ENDS_ON_SIGTERM = "-c 'trap \">/tmp/ended; exit\" TERM; while :; do sleep 0.1; done'"
#: of the static slot when it waits for work
FETCHES = 'SlotID == 1 && State == "Unclaimed" && LastFetchWorkSpawned > LastFetchWorkCompleted'


@dataclass
class ScheddsJob:
    """A job in the schedd's queue, by HTCondor's condor_submit; its owner has fetched jobs, too."""

    jobs: PoolJobs
    name: str

    def events(self) -> set[str]:
        """The numbers of the events in its log."""
        lines = (self.jobs.pool.directory / f"tmp/{self.name}.log").read_text().splitlines()
        return {line.partition(" ")[0] for line in lines if line[:3].isdigit()}

    def wait_until_it_runs(self) -> None:
        self.jobs.wait(lambda: "001" in self.events(), "the start of the schedd's job")

    def end(self) -> None:
        (self.jobs.pool.directory / f"tmp/{self.name}.end").touch()
        self.jobs.wait(lambda: "005" in self.events(), "the end of the schedd's job")


class BackfillJobs(PoolJobs):
    """The fetched jobs of a test, and those of the schedd."""

    def submit(self, queue: str, arguments: str = "-c 'exec sleep 600'") -> str:
        job = {"cmd": "/bin/sh", "arguments": arguments, "owner": "alice", "iwd": "/tmp", "queue": queue}
        return str(
            scalar(self.database, "submit", **job, request_cpus=1, request_memory=100, request_disk=1000)
        )

    def submit_to_schedd(self, name: str, slot: int, cpus: int = 1) -> ScheddsJob:
        text = SCHEDDS_JOB.format(name=name, slot=slot, cpus=cpus)
        submitted = self.pool.run_command(["condor_submit", "-"], user="alice", input=text)
        assert submitted.returncode == 0, submitted.stderr
        return ScheddsJob(self, name)

    def evicted(self, job: str) -> dict[str, object]:
        """Wait until the job is Idle after an eviction; none of its runs counts as a failure."""
        sql = "SELECT * FROM fetchwork.jobs WHERE jobid = %s AND jobstatus = 1 AND numevicted = 1"
        row = self.wait(lambda: self.one(sql, job), f"eviction of {job}")
        assert (row["numnotstarted"], row["numlost"], row["numholds"]) == (0, 0, 0)
        return dict(row)


@pytest.fixture(scope="module")
def backfill_pool(make_pool: Callable[..., PersonalPool]) -> PersonalPool:
    """A pool with collector, negotiator, schedd and startd, configured as in the example."""
    files = ("99-backfill.conf", "99-backfill-negotiator.conf")
    return make_pool(
        slots=3, host=HOST, config=CONFIG + "".join((EXAMPLE / one).read_text() for one in files)
    )


@pytest.fixture
def jobs(backfill_pool: PersonalPool) -> Iterator[BackfillJobs]:
    with jobs_in(backfill_pool, BackfillJobs) as jobs:
        for queue in ("static", "divided"):
            call(jobs.database, "set_queue", name=queue)
        yield jobs


def test_schedds_job_takes_a_static_slot_from_a_job_that_ignores_sigterm(jobs: BackfillJobs) -> None:
    fetched = jobs.submit("static", IGNORES_SIGTERM_ONCE)
    assert jobs.running(fetched)["remotehost"].startswith("slot1@")
    schedds = jobs.submit_to_schedd("static", 1)
    jobs.evicted(fetched)
    schedds.wait_until_it_runs()
    schedds.end()
    jobs.wait(lambda: len(jobs.runs(fetched)) > 1 and jobs.running(fetched), "its next run")
    assert jobs.status(fetched) == 2


def test_schedds_job_takes_a_dynamic_slot_of_its_size(jobs: BackfillJobs) -> None:
    fetched = [jobs.submit("divided"), jobs.submit("divided")]
    assert {jobs.running(job)["remotehost"].partition("@")[0] for job in fetched} == {"slot2_1", "slot2_2"}
    schedds = jobs.submit_to_schedd("dynamic", 2)
    schedds.wait_until_it_runs()
    evicted = [job for job in fetched if jobs.status(job) == 1]
    assert len(evicted) == 1
    jobs.evicted(evicted[0])
    schedds.end()
    jobs.running(evicted[0])


def test_large_job_of_a_schedd_takes_several_dynamic_slots(jobs: BackfillJobs) -> None:
    fetched = [jobs.submit("divided"), jobs.submit("divided")]
    for job in fetched:
        jobs.running(job)
    schedds = jobs.submit_to_schedd("large", 2, cpus=2)
    schedds.wait_until_it_runs()
    for job in fetched:
        jobs.evicted(job)
    schedds.end()
    for job in fetched:
        jobs.running(job)


def test_job_in_a_dynamic_slot_gets_sigterm_if_no_job_may_take_several(jobs: BackfillJobs) -> None:
    added = jobs.pool.condor.directory / "config.local"
    ended = jobs.pool.directory / "tmp/ended"
    try:
        added.write_text("ALLOW_PSLOT_PREEMPTION = False\n")
        jobs.pool.run_command(["condor_reconfig"])
        fetched = [jobs.submit("divided", ENDS_ON_SIGTERM), jobs.submit("divided", ENDS_ON_SIGTERM)]
        for job in fetched:
            jobs.running(job)
        schedds = jobs.submit_to_schedd("gentle", 2)
        schedds.wait_until_it_runs()
        assert ended.exists()
        assert sorted(jobs.status(job) for job in fetched) == [1, 2]
        schedds.end()
    finally:
        added.write_text("")
        jobs.pool.run_command(["condor_reconfig"])


def test_job_offered_to_a_slot_that_a_schedd_has_claimed_waits_on(jobs: BackfillJobs) -> None:
    # the slot's fetch waits in the agent while the schedd claims the slot
    asked = ["condor_status", "-direct", jobs.pool.host_name, "-constraint", FETCHES, "-af", "Name"]
    jobs.wait(lambda: jobs.pool.run_command(asked).stdout, "a fetch of the slot")
    schedds = jobs.submit_to_schedd("claimed", 1)
    schedds.wait_until_it_runs()
    fetched = jobs.submit("static", "-c 'exit 0'")
    jobs.wait(lambda: [run["outcome"] for run in jobs.runs(fetched)] == ["rejected"], "the startd's refusal")
    schedds.end()
    jobs.completed(fetched)


def test_negotiator_charges_fetched_jobs_to_names_of_their_own(jobs: BackfillJobs) -> None:
    jobs.running(jobs.submit("static"))
    asked = ["condor_userprio", "-allusers", "-af", "Name", "ResourcesUsed"]
    name = f"fetchwork.alice@{jobs.pool.host_name} 1"
    told = jobs.wait(
        lambda: found if name in (found := jobs.pool.run_command(asked).stdout) else None, "a charge"
    )
    assert f"\nalice@{jobs.pool.host_name} 1" not in f"\n{told}"
