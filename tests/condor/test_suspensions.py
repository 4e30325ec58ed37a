"""Suspended jobs, by a person and by their startd: on a real schedd and here, in one pool."""

import io
import itertools
import os
import re
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from fetchwork.condor import commands
from fetchwork.condor.invocation import Invocation
from fetchwork.pool import PersonalPool
from fetchwork.process import Process, family
from fetchwork.queue import Queue
from fetchwork.queue.session import Session
from tests.condor.file_jobs import agent_of
from tests.condor.pool_jobs import PoolJobs, jobs_in
from tests.condor.sides import CONFIG_OF_HALVES, HOST
from tests.support.by_name import scalar
from tests.support.waiting import PATIENCE_S, until

#: a startd suspends the jobs that ask for it, and lets them go on
CONFIG = (
    CONFIG_OF_HALVES.partition("# the bindings")[0]
    + """
MASTER_BACKOFF_CONSTANT = 1
MASTER_BACKOFF_FACTOR = 1
STARTER_UPDATE_INTERVAL = 2
POLLING_INTERVAL = 1
WANT_SUSPEND = True
SUSPEND = time() - EnteredCurrentActivity >= ifThenElse(isUndefined(TARGET.Busy_s), 1000, TARGET.Busy_s)
CONTINUE = time() - EnteredCurrentActivity >= TARGET.Busy_s
PREEMPT = False
KILL = False
"""
)
JOB = """
executable = /bin/sh
arguments = "-c '{script}'"
transfer_executable = false
should_transfer_files = IF_NEEDED
initialdir = /tmp
request_memory = 1MB
request_disk = 1MB
log = /tmp/suspended.log
{more}
"""
#: the attributes of a schedd's ad about suspensions
NAMES = (
    "JobStatus", "LastJobStatus", "TotalSuspensions", "LastSuspensionTime", "CumulativeSuspensionTime",
    "CommittedSuspensionTime", "RemoteWallClockTime",
)  # fmt: skip
_numbers = itertools.count(1)


class Jobs(PoolJobs):
    """Jobs of alice here, and the same jobs of bob on the schedd."""

    def submit(self, script: str, more: str = "") -> str:
        """Submit a job here."""
        text = JOB.format(script=script, more=more)
        return f"{Queue(self.pool.conninfo).submit(text, owner='alice').cluster()}.0"

    def submit_there(self, script: str, more: str = "") -> str:
        """Submit a job to the schedd."""
        file = self.pool.directory / "tmp/suspended.sub"
        file.write_text(JOB.format(script=script, more=f"{more}\nqueue"))
        file.chmod(0o644)
        said = self.there("condor_submit", "suspended.sub")[1]
        return said.rstrip(".\n").rpartition(" ")[2] + ".0"

    def there(self, *words: str) -> tuple[int, str]:
        """The exit status and the output of a command of the schedd."""
        ran = self.pool.run_command(["env", "-C", "/tmp", *words], user="bob")
        return ran.returncode, ran.stdout + ran.stderr

    def here(self, *words: str) -> tuple[int, str]:
        """The same of ours, for alice."""
        out, err = io.BytesIO(), io.BytesIO()
        with Session(self.pool.conninfo) as session:
            run = Invocation(words, io.BytesIO(), out, err, lambda: session, environment={}, user="alice")
            status = commands.run(run)
        return status, (out.getvalue() + err.getvalue()).decode()

    def process(self, job: str) -> Process:
        """The process of a running job."""
        process = Process.find(self.running(job)["jobpid"])
        assert process is not None
        return process

    def until_status(self, job: str, status: int) -> None:
        self.wait(lambda: self.status(job) == status, f"job {job} in state {status}")

    def until_update(self) -> None:
        contact = "SELECT contact_at FROM fetchwork.run"
        before = self.one(contact)
        self.wait(lambda: self.one(contact) != before, "an update")

    def until_activity(self, slot: str, activity: str) -> None:
        asked = ("condor_status", slot, "-af", "Activity")
        self.wait(lambda: self.there(*asked)[1].split() == [activity], f"{slot} {activity}")

    def suspend(self, job: str) -> None:
        """Suspend a job, and wait until it is."""
        assert scalar(self.database, "suspend", jobs=[job]) == 1
        self.until_status(job, 7)

    def events(self, job: str) -> list[int]:
        """The numbers of a job's events, without those about its size."""
        rows = self.database.query(
            "SELECT eventtypenumber AS type FROM fetchwork.events WHERE clusterid = %s ORDER BY eventid",
            [int(job.partition(".")[0])],
        )
        return [row["type"] for row in rows if row["type"] != 6]


@pytest.fixture(scope="module")
def suspending_pool(make_pool: Callable[..., PersonalPool]) -> Iterator[PersonalPool]:
    pool = make_pool(slots=4, config=CONFIG, host=HOST)
    yield pool
    pool.stop()


@pytest.fixture
def jobs(suspending_pool: PersonalPool) -> Iterator[Jobs]:
    with jobs_in(suspending_pool, Jobs) as jobs:
        yield jobs
        jobs.there("condor_rm", "-all")


class BothSides:
    """The same job there and here."""

    def __init__(self, jobs: Jobs, script: str, more: str = "") -> None:
        self.jobs = jobs
        self.theirs, self.ours = jobs.submit_there(script, more), jobs.submit(script, more)
        self.until_both(lambda ad: ad["JobStatus"] == "2")

    def ads(self, command: str = "condor_q") -> list[dict[str, str]]:
        """The attributes of both jobs; empty once they have left the queue."""
        answers = self.answers(command, "-af:V", *NAMES, last="{job}")
        return [dict(zip(NAMES, text.split(), strict=False)) for _, text in answers]

    def answers(self, command: str, *words: str, last: str = "{job}") -> list[tuple[int, str]]:
        """Exit status and output of a command there and here, without what differs between any two jobs."""
        answers = []
        for job, run in ((self.theirs, self.jobs.there), (self.ours, self.jobs.here)):
            status, text = run(command, last.format(job=job, cluster=job.partition(".")[0]), *words)
            number = job.partition(".")[0]
            text = re.sub(rf"(?<![.\w:]){number}(?![\w:])", "N", text).replace("alice", "bob")
            answers.append((status, text))
        return answers

    def until_both(self, holds: Callable[[dict[str, str]], bool]) -> None:
        def both() -> bool:
            ads = self.ads()
            return all(len(ad) == len(NAMES) and holds(ad) for ad in ads)

        until(both, f"jobs {self.theirs} there and {self.ours} here")

    def alike(self, command: str, *words: str, last: str = "{job}") -> str:
        """The output of a command that says the same on both sides."""
        theirs, ours = self.answers(command, *words, last=last)
        assert ours == theirs
        return ours[1]


def _shown(text: str) -> list[str]:
    """The words of condor_q, without the head, times and sizes."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("--")]
    return [
        re.sub(r"\d+/\d+ +\d+:\d+|\d\+\d\d:\d\d:\d\d|slot\d@\S+|\b\d+\.\d\b|\s+", " ", line) for line in lines
    ]


@pytest.mark.newest
def test_suspended_job_looks_as_on_a_schedd(jobs: Jobs) -> None:
    go = jobs.pool.directory / "tmp" / f"go-{next(_numbers)}"
    both = BothSides(jobs, f"until [ -e /tmp/{go.name} ]; do sleep 0.1; done; exit 3")
    assert both.alike("condor_continue").strip() == "Job N.0 not running to be continued"
    assert both.alike("condor_suspend") == "Job N.0 suspended\n"
    both.until_both(lambda ad: ad["JobStatus"] == "7")
    assert both.alike("condor_suspend").strip() == "Job N.0 not running to be suspended"
    assert "Couldn't find/suspend all jobs in cluster N" in both.alike("condor_suspend", last="{cluster}")
    for options in ([], ["-nobatch"], ["-run"], ["-totals"]):
        there, here = (text for _, text in both.answers("condor_q", *options, last="{cluster}"))
        assert _shown(here) == _shown(there)
    theirs, ours = both.ads()
    assert int(ours.pop("LastSuspensionTime")) > 0
    assert int(theirs.pop("LastSuspensionTime")) > 0
    assert ours == theirs
    # at least a second of each
    time.sleep(2)
    assert both.alike("condor_continue", last="{cluster}") == "All jobs in cluster N have been continued\n"
    both.until_both(lambda ad: ad["JobStatus"] == "2")
    theirs, ours = both.ads()
    for ad in (theirs, ours):
        assert 1 <= int(ad.pop("CumulativeSuspensionTime")) < PATIENCE_S
    assert ours == theirs
    go.touch()
    until(lambda: both.ads() == [{}, {}], "the ends of both jobs")
    theirs, ours = both.ads("condor_history")
    for ad in (theirs, ours):
        # the slot was its own all the time
        assert float(ad.pop("RemoteWallClockTime")) >= int(ad["CumulativeSuspensionTime"]) >= 1
        assert ad.pop("CommittedSuspensionTime") == ad.pop("CumulativeSuspensionTime")
    assert ours == theirs
    text = (jobs.pool.directory / "tmp/suspended.log").read_text()
    events = re.findall(rf"^(\d\d\d) \({int(both.theirs.partition('.')[0]):03}\.", text, re.MULTILINE)
    assert [int(event) for event in events if event != "006"] == jobs.events(both.ours)


@pytest.mark.newest
def test_startd_and_person_suspend_a_job_without_ending_each_other_s_suspension(jobs: Jobs) -> None:
    job = jobs.submit("exec sleep 600", "MY.Busy_s = 5")
    process = jobs.process(job)
    # the startd does, by its SUSPEND
    jobs.until_status(job, 7)
    assert process.stopped
    assert scalar(jobs.database, "continue", jobs=[job]) == 1
    # the job goes on when its CONTINUE says so
    jobs.until_status(job, 2)
    assert not process.stopped
    assert jobs.events(job) == [0, 1, 10, 11]
    jobs.suspend(job)
    # meanwhile the startd suspends it again, and lets it go on
    row = jobs.one("SELECT slot FROM fetchwork.run")
    assert row is not None
    for activity in ("Suspended", "Busy"):
        asked = ("condor_status", row["slot"], "-af", "Activity")
        jobs.wait(
            lambda asked=asked, activity=activity: jobs.there(*asked)[1].split() == [activity], activity
        )
    until(lambda: process.stopped, "the job stopped again")
    assert jobs.events(job) == [0, 1, 10, 11, 10]
    assert jobs.status(job) == 7


def test_job_stands_still_though_what_it_left_behind_tells_it_to_go_on(jobs: Jobs) -> None:
    name = f"/tmp/daemon-{next(_numbers)}"
    left = jobs.pool.directory / name.lstrip("/")
    script = jobs.pool.directory / f"{name.lstrip('/')}.sh"
    script.write_text(
        f"""(setsid sh -c 'echo $$ >{name}; while sleep 0.02; do kill -CONT '$$' || exit; done' &)
        while :; do echo >>{name}.lines; sleep 0.05; done"""
    )
    job = jobs.submit(f"sh {name}.sh")
    process = jobs.process(job)
    jobs.wait(lambda: left.exists() and left.read_text().strip(), "what it left behind")
    jobs.suspend(job)
    daemon = Process.find(int(left.read_text()))
    assert daemon is not None
    assert daemon not in family(process)
    assert daemon.stopped
    lines = left.with_name(f"{left.name}.lines")
    before = lines.read_text()
    time.sleep(2)
    assert (lines.read_text(), jobs.status(job), jobs.events(job)) == (before, 7, [0, 1, 10])
    assert scalar(jobs.database, "continue", jobs=[job]) == 1
    jobs.wait(lambda: lines.read_text() != before, "the job goes on")
    until(lambda: not daemon.stopped, "what it left behind goes on")


def test_job_that_stops_itself_runs_on_in_the_queue(jobs: Jobs) -> None:
    job = jobs.submit("kill -STOP $$; exit 3")
    process = jobs.process(job)
    until(lambda: process.stopped, "the job has stopped itself")
    for _ in range(2):
        jobs.until_update()
    assert (jobs.status(job), jobs.events(job)) == (2, [0, 1])
    process.signal(signal.SIGCONT)
    assert jobs.completed(job)["exitcode"] == 3


@pytest.mark.parametrize("act", ["continue", "hold", "remove"])
def test_job_stays_suspended_while_its_agent_is_killed(jobs: Jobs, act: str) -> None:
    job = jobs.submit("exec sleep 600")
    process = jobs.process(job)
    jobs.suspend(job)
    killed = agent_of(jobs.pool)
    os.kill(killed, signal.SIGKILL)
    until(lambda: agent_of(jobs.pool) != killed, "another agent")
    # the next agent follows a wish of that time, too
    assert scalar(jobs.database, act, jobs=[job]) == 1
    if act == "continue":
        jobs.until_status(job, 2)
        until(lambda: not process.stopped, "the job goes on")
    else:
        until(lambda: not process.alive, "the end of the job")
        jobs.wait(lambda: jobs.runs(job)[0]["outcome"], "the end of the run")
    assert jobs.events(job) == [0, 1, 10, *{"continue": [11], "hold": [4, 12], "remove": [4, 9]}[act]]
