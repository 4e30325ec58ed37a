"""Jobs of the scheduler universe: the access point runs each once, as its owner."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork import traceparent
from fetchwork.client.link import Link
from fetchwork.process import Process
from tests.accesspoint.point import AccessPoint, request
from tests.support.direct_queue import DirectQueue
from tests.support.there import there
from tests.support.waiting import until

# waits for the file "go", and writes down its signals and its end
PROGRAM = """\
#!/bin/sh
cd {directory}
trap 'echo usr1 >> said; exit 2' USR1
trap 'echo term >> said; exit 3' TERM
echo $$ > pid
sleep 1000 &
echo $! >> left
echo "start $(id -un) $CONDOR_ID $1 $GREETING $TRACEPARENT" >> said
until [ -e go ]; do sleep 0.05; done
exit "$(cat go)"
"""
DESCRIPTION = """\
universe = scheduler
executable = {directory}/program
arguments = "'one word'"
environment = "GREETING='good day'"
remove_kill_sig = SIGUSR1
log = {directory}/log
{more}
queue
"""


class Program:
    """A job whose program waits, and the program's record."""

    def __init__(self, point: AccessPoint, directory: Path, slots: DirectQueue) -> None:
        self.point = point
        self.slots = slots
        self.directory = directory / "of-nobody"
        self.directory.mkdir()
        program = self.directory / "program"
        program.write_text(PROGRAM.format(directory=self.directory))
        program.chmod(0o755)
        for path in (self.directory, program):
            os.chown(path, 65534, 65534)
        self.cluster = 0

    def ask(self, op: str, **arguments: Any) -> Any:
        with Link(str(self.point.socket), patience_s=100) as link:
            asked: dict[str, Any] = {"as": "nobody", **arguments}
            return link.ask(op, again=op == "submit", **asked)

    def submit(self, more: str = "") -> str:
        text = DESCRIPTION.format(directory=self.directory, more=more)
        answer = self.ask("submit", **request(text, key=os.urandom(8).hex(), cwd=str(self.directory)))
        self.cluster = answer["cluster"]
        return f"{self.cluster}.0"

    def act(self, action: str) -> None:
        changed = self.ask("change", action=action, spec=[f"{self.cluster}.0"])
        assert changed["changed"] == 1, changed

    def said(self) -> list[str]:
        path = self.directory / "said"
        return path.read_text().splitlines() if path.exists() else []

    def left(self) -> list[Process]:
        """The living processes that the starts have left in the background."""
        path = self.directory / "left"
        numbers = path.read_text().split() if path.exists() else []
        return [process for number in numbers if (process := Process.find(int(number)))]

    def go(self, status: int) -> None:
        path = self.directory / "go.new"
        path.write_text(f"{status}\n")
        path.rename(self.directory / "go")

    def wait_for_starts(self, number: int) -> Process:
        def all_started() -> bool:
            return sum(line.startswith("start") for line in self.said()) == number

        until(all_started, f"start {number}")
        job = f"{self.cluster}.0"
        until(lambda: self.slots.status(job) == 2, "Running")
        # each start has already written its number
        return there(Process.find(int((self.directory / "pid").read_text())))

    def wait_for_end(self) -> tuple[int, int | None]:
        """Wait for the end; return JobStatus and ExitCode of the history."""
        found: list[Any] = []

        def ended() -> bool:
            found[:] = self.slots.rows(
                "SELECT job_status, exit_code FROM fetchwork.job_history WHERE cluster_id = %s", self.cluster
            )
            return bool(found)

        until(ended, "the job's end")
        return found[0]


@pytest.fixture
def program(point: AccessPoint, directory: Path, slots: DirectQueue) -> Iterator[Program]:
    program = Program(point, directory, slots)
    yield program
    for process in program.left():
        process.signal(signal.SIGKILL)


def test_it_runs_as_its_owner_takes_no_slot_and_leaves_nothing_behind(program: Program) -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    job = program.submit(f'+TraceParent = "{parent}"')
    host = program.slots.host("h1")
    program.wait_for_starts(1)
    (run,) = program.slots.rows("SELECT run_id FROM fetchwork.run WHERE cluster_id = %s", program.cluster)
    span = traceparent.of_run(parent, job, run[0])
    assert program.said() == [f"start nobody {job} one word good day {span}"]
    assert program.slots.candidates(host) == []
    (left,) = program.left()
    program.go(7)
    assert program.wait_for_end() == (4, 7)
    until(lambda: not left.alive, "the end of what the job left")
    until(lambda: "return value 7" in (program.directory / "log").read_text(), "the event log")
    assert program.slots.events(f"{program.cluster}.0") == [0, 1, 5]


def test_a_slot_gets_no_scheduler_job_even_if_it_asks_for_it_by_its_autocluster(
    directory: Path, slots: DirectQueue
) -> None:
    slots.submit(JobUniverse=7, FetchWorkAccessPoint="elsewhere")
    autocluster = slots.value("SELECT autocluster_id FROM fetchwork.waiting")
    host = slots.host("h1")
    rows = slots.call(
        "claim_many",
        host_id=host,
        autoclusters=[autocluster],
        prios=[0],
        hints=[0],
        slots='[{"slot": "slot1", "exclusive": true, "choices": [1], "weights": 1}]',
    )
    assert rows == []
    assert slots.candidates(host) == []


@pytest.mark.parametrize(
    ("action", "sign", "status"), [("Remove", "usr1", 3), ("Hold", "term", 5), ("Vacate", "term", 1)]
)
def test_each_end_sends_the_signal_of_its_own(program: Program, action: str, sign: str, status: int) -> None:
    job = program.submit()
    process = program.wait_for_starts(1)
    program.act(action)
    until(lambda: sign in program.said(), "the signal")
    until(lambda: not process.alive)
    if action == "Remove":
        assert program.wait_for_end() == (3, None)
        return
    if action == "Hold":
        until(lambda: program.slots.events(job)[-1] == 12, "HELD")
        assert program.slots.status(job) == status
        program.act("Release")
    program.wait_for_starts(2)
    program.go(0)
    assert program.wait_for_end() == (4, 0)


def test_its_policy_says_whether_it_runs_again(program: Program) -> None:
    program.submit("on_exit_remove = ExitCode =!= 9 && !ExitBySignal")
    process = program.wait_for_starts(1)
    process.signal(signal.SIGKILL)
    process = program.wait_for_starts(2)
    program.go(0)
    assert program.wait_for_end() == (4, 0)


def test_a_job_that_ends_at_once_again_and_again_waits_longer_each_time(program: Program) -> None:
    program.go(1)
    job = program.submit("on_exit_remove = false")
    until(lambda: len(program.said()) >= 4, "its fourth start")
    starts = program.slots.rows(
        "SELECT extract(epoch FROM event_at)::float8 FROM fetchwork.events"
        " WHERE clusterid = %s AND eventtypenumber = 1 ORDER BY eventid",
        program.cluster,
    )
    # backoffs of 0, 1 and 2 seconds, and the time that a start takes
    assert starts[3][0] - starts[0][0] >= 3
    assert program.slots.status(job) in (1, 2)
    program.act("Remove")
    until(lambda: program.slots.status(job) == 3, "its end")


def test_a_dag_where_htcondor_is_missing_is_held_with_what_to_install(program: Program) -> None:
    program.slots.set("retry_delay", 0)
    text = "universe = scheduler\nexecutable = /nowhere/condor_dagman\nqueue\n"
    answer = program.ask("submit", **request(text, key="missing", cwd=str(program.directory)))
    job = f"{answer['cluster']}.0"
    until(lambda: program.slots.status(job) == 5, "Held")
    assert "install HTCondor's package here" in program.slots.column("hold_reason", job)


def test_after_a_crash_of_its_supervisor_it_runs_again(program: Program) -> None:
    program.submit()
    process = program.wait_for_starts(1)
    supervisor = there(process.parent)
    supervisor.signal(signal.SIGKILL)
    until(lambda: not process.alive, "the job's end")
    program.wait_for_starts(2)
    program.go(0)
    assert program.wait_for_end() == (4, 0)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_after_an_end_of_the_access_point_it_runs_again_and_never_twice_at_once(
    program: Program, how: str
) -> None:
    job = program.submit()
    process = program.wait_for_starts(1)
    getattr(program.point, how)()
    program.point.start()
    program.wait_for_starts(2)
    assert not process.alive
    assert program.said().count("term") == 1
    program.go(0)
    assert program.wait_for_end() == (4, 0)
    assert program.slots.events(job) == [0, 1, 4, 1, 5]


def test_a_run_that_was_given_up_meanwhile_ends_before_the_job_runs_again(program: Program) -> None:
    """The access point stands still for longer than its lease."""
    job = program.submit()
    process = program.wait_for_starts(1)
    assert program.point.process is not None
    os.kill(program.point.process.pid, signal.SIGSTOP)
    program.slots.value("UPDATE fetchwork.run SET deadline = now() - interval '1 s' RETURNING 1")
    program.slots.call("reap")
    assert program.slots.status(job) == 1
    os.kill(program.point.process.pid, signal.SIGCONT)
    program.wait_for_starts(2)
    assert not process.alive
    program.go(0)
    assert program.wait_for_end() == (4, 0)


def test_an_end_that_nobody_heard_of_is_the_jobs_end(program: Program) -> None:
    """The job ends by itself while its access point is away: it is not run again."""
    job = program.submit()
    process = program.wait_for_starts(1)
    supervisor = there(process.parent)
    supervisor.signal(signal.SIGSTOP)
    program.go(5)
    until(lambda: not process.alive, "the job's end")
    program.point.kill()
    supervisor.signal(signal.SIGCONT)
    until(lambda: not supervisor.alive, "the supervisor's end")
    program.point.start()
    assert program.wait_for_end() == (4, 5)
    assert program.slots.events(job) == [0, 1, 5]


def test_what_cannot_be_started_is_held_with_the_reason(program: Program) -> None:
    (program.directory / "program").chmod(0o644)
    program.slots.set("retry_delay", 0)
    job = program.submit("hold = true")
    program.act("Release")
    until(lambda: program.slots.status(job) == 5, "Held")
    assert "Permission denied" in program.slots.column("hold_reason", job)


def test_a_removed_job_takes_the_jobs_of_its_dag_with_it_also_while_it_is_held(slots: DirectQueue) -> None:
    def submit(**common: Any) -> str:
        return slots.submit_many([{}], {"Cmd": "/bin/true", "Iwd": "/", "Owner": "alice", **common})[0]

    of_all = {"JobUniverse": 7, "FetchWorkAccessPoint": "p"}
    cluster = int(submit().partition(".")[0]) + 1
    manager = submit(**of_all, OtherJobRemoveRequirements=f"DAGManJobId =?= {cluster}")
    assert manager == f"{cluster}.0"
    node = submit(DAGManJobId=cluster)
    other = submit(DAGManJobId=cluster + 1)
    foreign = submit(DAGManJobId=cluster, Owner="bob")
    slots.act("hold", manager)
    slots.act("remove", manager)
    assert slots.status(node) == 3
    assert (slots.status(other), slots.status(foreign)) == (1, 1)


def _abandon(program: Program, starter: str) -> None:
    """Kill the access point, and mark the run as started on another boot or another host."""
    program.submit()
    process = program.wait_for_starts(1)
    program.point.kill()
    until(lambda: not process.alive, "the job's end")
    for result in (program.point.directory / "state" / "results").iterdir():
        until(lambda result=result: result.read_text().endswith("\n"), "its result")  # type: ignore[misc]
        result.unlink()
    program.slots.value("UPDATE fetchwork.run SET starter = %s RETURNING 1", starter)


def test_after_a_crash_of_the_host_it_runs_again(program: Program) -> None:
    _abandon(program, f"{socket.gethostname()} 1 1 the-boot-before")
    program.point.start()
    program.wait_for_starts(2)
    program.go(0)
    assert program.wait_for_end() == (4, 0)


def test_what_an_access_point_of_this_name_runs_on_another_host_is_that_ones_until_its_lease_is_over(
    program: Program,
) -> None:
    _abandon(program, "elsewhere 1 1 a-boot")
    program.point.start()
    # this job runs, so the access point has listed its runs
    job = program.cluster
    program.submit()
    until(lambda: len(program.said()) > 2, "another job")
    assert program.slots.value("SELECT starter FROM fetchwork.run WHERE cluster_id = %s", job).startswith(
        "else"
    )
    program.slots.value(
        "UPDATE fetchwork.run SET deadline = now() - interval '1 s' WHERE cluster_id = %s RETURNING 1", job
    )
    program.slots.value("UPDATE fetchwork.heartbeat SET reaped_at = clock_timestamp() RETURNING 1")
    assert program.slots.reap() == 1
    until(lambda: program.slots.status(f"{job}.0") == 2, "its next run")
