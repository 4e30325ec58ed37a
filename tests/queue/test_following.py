"""wait, watch, events, userlog, tail: the ways in which people and old programs track jobs."""

import errno
import json
import os
import pwd
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import htcondor2
import pytest

from fetchwork.following import progress as waiting
from fetchwork.queue.ask import Steps
from fetchwork.queue.events.reader import Reader
from tests.accesspoint.point import as_account
from tests.queue.conftest import Queue, Run
from tests.support.direct_queue import DirectQueue
from tests.support.sessions import session_of
from tests.support.waiting import PATIENCE_S, until


def when_it_waits(monkeypatch: pytest.MonkeyPatch, function: Callable[[], object]) -> None:
    """Call ``function`` once, when the command has polled and sleeps for the first time."""
    sleep = time.sleep

    def act(seconds: float) -> None:
        monkeypatch.setattr(time, "sleep", sleep)
        function()

    monkeypatch.setattr(time, "sleep", act)


# -- wait ------------------------------------------------------------------------------------------------


def test_wait_ends_with_the_jobs_and_tells_how(
    fetchwork: Run, slots: DirectQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots.submit_many([{}] * 2)
    slots.finish(slots.started())
    when_it_waits(monkeypatch, lambda: slots.finish(slots.started()))
    told = fetchwork("wait", "1")
    assert told.status == 0
    assert told.out == "2 jobs, 2 succeeded\n"
    assert "2 of 2 jobs have ended: job 1.1 ended with exit code 0" in told.err


def test_a_job_that_ends_while_it_is_asked_for_is_counted_once(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = queue.direct.submit_many([{}] * 6)
    left = list(jobs)
    session = session_of(queue)
    query = session.database.query

    def ending(*arguments: Any, **options: Any) -> Any:
        rows = query(*arguments, **options)
        if left:
            queue.direct.act("remove", left.pop(0))
        return rows

    # a job ends after each statement
    monkeypatch.setattr(session.database, "query", ending)
    for state in waiting.follow(session, [jobs[0].partition(".")[0]], PATIENCE_S):
        assert state.total <= len(jobs)
    assert (state.total, state.removed, state.counts()["idle"]) == (len(jobs), len(jobs), 0)


def test_where_the_jobs_of_a_large_cluster_are_is_soon_said(queue: Queue) -> None:
    assert queue.submit("executable = /bin/true\n", count=3000, owner="alice").cluster() == 1
    for job in ("1.0", "1.7", "1.8", "1.2999"):
        queue.direct.act("hold", job)
    queue.direct.act("remove", "1.5")
    session = session_of(queue)
    told = session.perform("progress", cluster=1, proc=None)
    assert sorted(told["waiting"]) == [
        [1, 1, 4],
        [1, 6, 6],
        [1, 9, 2998],
        [5, 0, 0],
        [5, 7, 8],
        [5, 2999, 2999],
    ]
    state = waiting.snapshot(session, ["1"])
    assert state.waiting == {
        (1, proc): 5 if proc in (0, 7, 8, 2999) else 1 for proc in range(3000) if proc != 5
    }
    assert (state.total, state.removed) == (3000, 1)


def test_wait_does_not_wait_for_a_job_that_has_ended_and_stays_in_the_queue(
    fetchwork: Run, slots: DirectQueue
) -> None:
    job = slots.submit({"LeaveJobInQueue": "/Expr(JobStatus == 4)/"})
    slots.finish(slots.started())
    told = fetchwork("wait", job, "--timeout", "0")
    assert (told.status, told.out) == (0, "1 jobs, 1 succeeded\n")


def test_wait_s_status_tells_failure_and_removal(
    fetchwork: Run, slots: DirectQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots.submit_many([{}] * 3)
    slots.finish(slots.started(), ExitCode=4, JobPid=7)
    assert fetchwork("wait", "1.0").status == 1
    when_it_waits(monkeypatch, lambda: slots.act("remove", "1.1"))
    told = fetchwork("wait", "1.1")
    assert (told.status, told.out) == (1, "1 jobs, 1 removed\n")
    slots.finish(slots.started(), ExitSignal=9, ExitBySignal=True, JobPid=7)
    told = fetchwork("wait", "1", "--json")
    assert told.status == 1
    assert '"failed": 2' in told.out


def test_wait_gives_up_when_its_time_is_over(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit()
    told = fetchwork("wait", "1", "--timeout", "0.2")
    assert (told.status, told.out) == (124, "1 jobs, 1 idle\n")


def test_wait_for_some_of_them_or_until_one_is_held(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit_many([{}] * 3)
    slots.finish(slots.started())
    assert fetchwork("wait", "1", "-n", "1", "--quiet").status == 0
    slots.act("hold", "1.1", "1.2")
    assert fetchwork("wait", "1", "--held").status == 1


def test_wait_for_a_job_that_never_was_is_an_error(fetchwork: Run) -> None:
    told = fetchwork("wait", "77.0")
    assert (told.status, told.err) == (
        1,
        "fetchwork: error: job 77.0 is neither in the queue nor in its history\n",
    )


def test_nothing_that_happens_around_the_snapshot_is_counted_twice(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.direct.submit_many([{}] * 2)
    snapshot = waiting.snapshot

    def late(*arguments: object) -> waiting.Progress:
        # ends after the cursor was taken, before the snapshot
        queue.direct.finish(queue.direct.started())
        found = snapshot(*arguments)  # type: ignore[arg-type]
        queue.direct.finish(queue.direct.started())
        return found

    monkeypatch.setattr(waiting, "snapshot", late)
    last = list(waiting.follow(session_of(queue), ["1"], 5))[-1]
    assert (last.total, last.succeeded, last.waiting) == (2, 2, {})


def test_a_removed_job_that_runs_is_waited_for_until_it_has_ended(
    fetchwork: Run, slots: DirectQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that removes, waits and cleans up must not race with the job."""
    slots.submit()
    run = slots.started()
    slots.act("remove", "1.0", reason="enough")
    told = fetchwork("wait", "1", "--timeout", "0")
    assert (told.status, told.out) == (124, "1 jobs, 1 running\n")
    when_it_waits(monkeypatch, lambda: slots.finish(run, ExitSignal=15, ExitBySignal=True, JobPid=7))
    told = fetchwork("wait", "1")
    assert (told.status, told.out) == (1, "1 jobs, 1 removed\n")


def test_the_bar_is_drawn_on_a_terminal(conninfo: str, slots: DirectQueue) -> None:
    slots.submit()
    slots.finish(slots.started())
    script = f"{sys.executable} -m fetchwork wait 1"
    told = subprocess.run(
        ["script", "-qec", script, "/dev/null"],
        env={**os.environ, "FETCHWORK_DSN": conninfo, "TERM": "xterm"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1/1" in told.stdout
    assert "━" in told.stdout


# -- watch -----------------------------------------------------------------------------------------------


def test_watch_prints_a_line_for_each_change_where_there_is_no_terminal(
    fetchwork: Run, slots: DirectQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots.submit()
    when_it_waits(monkeypatch, lambda: slots.finish(slots.started()))
    told = fetchwork("watch", "--interval", "0.05", "--until-empty")
    lines = [line[9:] for line in told.out.splitlines()]
    assert lines[0] == "1 jobs: 1 idle, 0 running, 0 held, 0 done"
    assert lines[-1] == "0 jobs: 0 idle, 0 running, 0 held, 1 done"
    assert told.status == 0


def test_watch_draws_a_table_on_a_terminal(conninfo: str, slots: DirectQueue) -> None:
    slots.submit_many([{"JobBatchName": "night"}] * 2)
    slots.act("remove", "1.1")
    command = [sys.executable, "-m", "fetchwork", "watch", "alice", "-i", "0.1", "--until-empty"]
    environment = {**os.environ, "FETCHWORK_DSN": conninfo, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        ["script", "-qec", shlex.join(command), "/dev/null"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as watch:
        assert watch.stdout is not None
        drawn = ""
        while "alice night" not in drawn:
            line = watch.stdout.readline()
            assert line, drawn
            drawn += line
        slots.act("remove", "1")
        assert watch.wait(PATIENCE_S) == 0
    assert "TOTAL" in drawn


# -- events ----------------------------------------------------------------------------------------------


def test_events_are_shown_and_followed_from_a_cursor(
    fetchwork: Run, slots: DirectQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots.submit()
    slots.finish(slots.started(), ExitCode=3, JobPid=7)
    lines = fetchwork("events", "--cursor").out.splitlines()
    assert [line.split()[4] for line in lines] == ["SUBMIT", "EXECUTE", "JOB_TERMINATED"]
    assert lines[2].endswith("Normal termination (return value 3)")
    assert fetchwork("events", "--after", lines[1].split()[0]).out.count("\n") == 1
    now = Reader.now

    def submit_after_now() -> Steps[str]:
        cursor = yield from now()
        slots.submit()
        return cursor

    monkeypatch.setattr(Reader, "now", staticmethod(submit_after_now))
    told = fetchwork("events", "--after", "now", "--timeout", "1", "--json")
    assert '"job' not in told.out
    assert '"Cluster": 2' in told.out
    assert fetchwork("events", "1", "--log-format").out.startswith("000 (001.000.000) ")


# -- userlog ---------------------------------------------------------------------------------------------

ME = pwd.getpwuid(os.geteuid()).pw_name


def types_in(log: Path) -> list[int]:
    with htcondor2.JobEventLog(str(log)) as reader:
        return [int(event.type) for event in reader.events(stop_after=0)]


def test_each_job_s_events_go_to_its_own_log_once(fetchwork: Run, slots: DirectQueue, public: Path) -> None:
    one, other = public / "one.log", public / "other.log"
    slots.submit_many(
        [{"UserLog": str(one)}, {"UserLog": str(other)}, {}], {"Cmd": "/bin/true", "Owner": WRITER}
    )
    state = str(public / "state.json")
    assert fetchwork("userlog", "--state", state).out == "2 entries written\n"
    slots.finish(slots.started())
    assert fetchwork("userlog", "--state", state).out == "2 entries written\n"
    assert fetchwork("userlog", "--state", state).out == "0 entries written\n"
    assert (types_in(one), types_in(other)) == ([0, 1, 5], [0])
    assert one.owner() == WRITER


#: an account without rights whose logs this process may write
WRITER = "nobody" if os.geteuid() == 0 else ME


@pytest.fixture
def public(public_directory: Callable[[], Path]) -> Path:
    """A directory that the writer may write to."""
    directory = public_directory()
    if os.geteuid() == 0:
        os.chown(directory, pwd.getpwnam(WRITER).pw_uid, -1)
    return directory


def test_a_writer_killed_before_it_remembers_does_not_write_twice(
    fetchwork: Run, slots: DirectQueue, public: Path
) -> None:
    log, state = public / "a.log", public / "state.json"
    slots.submit_many([{"UserLog": str(log)}] * 2, {"Cmd": "/bin/true", "Owner": WRITER})
    assert fetchwork("userlog", "--state", str(state)).out == "2 entries written\n"
    before = json.loads(state.read_text()) | {"exact": False}
    slots.act("hold", "1")
    assert fetchwork("userlog", "--state", str(state)).out == "2 entries written\n"
    slots.act("release", "1")
    # killed after it had written these and a part of the next
    state.write_text(json.dumps(before))
    with log.open("a") as file:
        file.write("013 (001.000.000) 2026-11-2")
    assert fetchwork("userlog", "--state", str(state)).out == "2 entries written\n"
    assert types_in(log) == [0, 0, 12, 12, 13, 13]
    assert log.read_text().count("...\n") == 6


def test_an_entry_that_equals_one_before_is_written_by_a_later_run(
    fetchwork: Run, slots: DirectQueue, public: Path
) -> None:
    """A job may be held twice within a second, for one reason."""
    log, state = public / "a.log", str(public / "state.json")
    slots.submit_many([{"UserLog": str(log)}], {"Cmd": "/bin/true", "Owner": WRITER})
    for actions, number in ((("hold",), 2), (("release", "hold"), 2)):
        for action in actions:
            slots.act(action, "1")
        slots.connection.execute("UPDATE fetchwork.event SET at = '2026-01-01'")
        assert fetchwork("userlog", "--state", state).out == f"{number} entries written\n"
    assert types_in(log) == [0, 12, 13, 12]


def test_a_log_that_cannot_be_written_for_now_gets_its_entries_later(
    fetchwork: Run, slots: DirectQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    command = ("userlog", "-o", str(log), "--state", str(tmp_path / "state.json"))
    slots.submit()

    def failing(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as full:
        full.setattr(os, "fdatasync", failing)
        for _ in range(2):
            told = fetchwork(*command)
            problem = f"fetchwork: error: cannot write event log '{log}' as {ME}: Input/output error\n"
            assert (told.status, told.out, told.err) == (1, "0 entries written\n", problem)
            slots.act("hold", "1")
    told = fetchwork(*command)
    assert (told.status, told.out, told.err) == (0, "2 entries written\n", "")
    assert fetchwork(*command).out == "0 entries written\n"
    assert types_in(log) == [0, 12]


def test_somebody_else_s_log_is_not_written(fetchwork: Run, slots: DirectQueue, tmp_path: Path) -> None:
    """The path is the submitter's choice; the rights are the owner's."""
    log = tmp_path / "root-only" / "a.log"
    log.parent.mkdir(mode=0o700)
    slots.submit_many([{"UserLog": str(log)}], {"Cmd": "/bin/true", "Owner": "daemon"})
    told = fetchwork("userlog", "--state", str(tmp_path / "state.json"))
    assert told.out == "0 entries written\n"
    assert not log.exists()
    if os.geteuid() == 0:
        assert told.err == f"fetchwork: error: cannot write event log '{log}' as daemon: Permission denied\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes the logs of several accounts")
def test_who_names_another_s_log_does_not_keep_it_from_being_written(
    fetchwork: Run, slots: DirectQueue, public: Path
) -> None:
    log = public / "own" / "a.log"
    log.parent.mkdir(mode=0o700)
    os.chown(log.parent, pwd.getpwnam(WRITER).pw_uid, -1)
    for owner in ("daemon", WRITER):
        slots.submit_many([{"UserLog": str(log)}], {"Cmd": "/bin/true", "Owner": owner})
    told = fetchwork("userlog", "--state", str(public / "state.json"))
    assert told.err == f"fetchwork: error: cannot write event log '{log}' as daemon: Permission denied\n"
    assert types_in(log) == [0]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another account")
def test_an_account_writes_the_logs_of_its_own_jobs_alone(
    fetchwork: Run, slots: DirectQueue, public: Path
) -> None:
    public.chmod(0o777)
    own, other = public / "own.log", public / "other.log"
    for owner, log in (("daemon", other), (WRITER, own)):
        slots.submit_many([{"UserLog": str(log)}], {"Cmd": "/bin/true", "Owner": owner})
    told = as_account(WRITER, lambda: fetchwork("userlog", "--state", str(public / "state.json")))
    assert told == [0, "1 entries written\n", ""]
    assert types_in(own) == [0]
    assert not other.exists()


def test_a_fifo_and_a_device_are_no_logs(fetchwork: Run, slots: DirectQueue, public: Path) -> None:
    fifo = public / "fifo"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    slots.submit_many(
        [{"UserLog": str(fifo)}, {"UserLog": "/dev/null"}], {"Cmd": "/bin/true", "Owner": WRITER}
    )
    told = fetchwork("userlog", "--state", str(public / "state.json"))
    assert told.out == "0 entries written\n"
    assert told.err.count("\n") == 1
    assert "not a regular file" in told.err


def test_the_logs_of_an_access_point_s_jobs_are_left_to_it(
    fetchwork: Run, slots: DirectQueue, public: Path
) -> None:
    log = public / "a.log"
    for own in ({"FetchWorkAccessPoint": "point"}, {}):
        slots.submit_many([{}], {"Cmd": "/bin/true", "Owner": WRITER, "UserLog": str(log), **own})
    assert fetchwork("userlog", "--state", str(public / "state.json")).out == "1 entries written\n"
    assert log.read_text().startswith("000 (002.000.000) ")


def test_logs_are_followed_until_an_interrupt(
    fetchwork: Run, slots: DirectQueue, public: Path, conninfo: str
) -> None:
    log, state = public / "a.log", public / "state.json"
    slots.submit_many([{"UserLog": str(log)}], {"Cmd": "/bin/true", "Owner": WRITER})
    command = [sys.executable, "-m", "fetchwork", "--dsn", conninfo, "userlog", "1", "--follow"]
    with subprocess.Popen([*command, "--state", str(state)]) as following:
        until(lambda: log.exists() and types_in(log) == [0])
        slots.act("hold", "1")
        until(lambda: types_in(log) == [0, 12])
        following.send_signal(signal.SIGINT)
        assert following.wait(PATIENCE_S) != 0
    slots.act("release", "1")
    assert fetchwork("userlog", "1", "--state", str(state)).out == "1 entries written\n"
    assert types_in(log) == [0, 12, 13]


def test_all_events_can_go_to_one_file(fetchwork: Run, slots: DirectQueue, tmp_path: Path) -> None:
    slots.submit_many([{"Owner": "alice"}, {"Owner": "bob"}])
    slots.submit()
    log = tmp_path / "all.log"
    assert fetchwork("userlog", "1", "-o", str(log), "--state", str(tmp_path / "s")).status == 0
    assert types_in(log) == [0, 0]


def test_a_broken_state_file_is_one_line(fetchwork: Run, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("nonsense")
    told = fetchwork("userlog", "--state", str(tmp_path / "s"))
    assert told.status == 1
    assert told.err.startswith(f"fetchwork: error: cannot read state file '{tmp_path}/s'")


# -- tail ------------------------------------------------------------------------------------------------


def test_tail_shows_what_was_kept_with_the_run(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit()
    output = {"stdout": "last words\n", "stderr": "a warning"}
    slots.finish(slots.started(), ExitCode=0, JobPid=7, FetchWorkOutput=output)
    told = fetchwork("tail", "1.0")
    assert (told.out, told.err) == ("last words\n", "a warning\n")
    assert fetchwork("tail", "1", "--stderr").out == ""
    assert '"stdout": "last words\\n"' in fetchwork("tail", "1.0", "--json").out


def test_tail_of_a_job_that_kept_nothing_says_so(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit()
    told = fetchwork("tail", "1.0")
    assert told.status == 1
    assert told.err.startswith("fetchwork: error: no output is kept for job 1.0")
