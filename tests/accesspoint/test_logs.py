"""Event logs that an access point writes: complete, in order, each entry once, as the owner's account."""

import asyncio
import json
import os
import pwd
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import htcondor2
import psycopg
import pytest

from fetchwork.accesspoint.children import Account
from fetchwork.accesspoint.joblogs import JobLogs
from fetchwork.accesspoint.logfiles import OwnRights
from fetchwork.accesspoint.logs import LogKeeper
from fetchwork.db.pool import AsyncDatabase
from fetchwork.queue.events.jobevents import JobEvent
from tests.accesspoint.event_logs import JOBS, entries
from tests.accesspoint.point import AccessPoint, RefusedError, as_account
from tests.support.waiting import until, until_async


@pytest.fixture
def mine(directory: Path) -> Path:
    """A directory of the account `nobody`."""
    path = directory / "mine"
    path.mkdir(mode=0o700)
    os.chown(path, 65534, 65534)
    return path


def test_the_submit_event_is_in_the_log_before_the_answer(
    point: AccessPoint, mine: Path, connect: Callable[..., psycopg.Connection]
) -> None:
    with connect(autocommit=False) as old:
        # holds back the stream of events while this transaction is open
        old.execute("SELECT fetchwork.take_turn('events')")
        log = mine / "a.log"
        cluster = point.submit("nobody", JOBS.format(log, 2))["cluster"]
        assert [line[:17] for line in entries(log)] == [f"000 ({cluster:03}.{n:03}.000)" for n in range(2)]
        assert log.stat().st_uid == 65534
        again = point.submit("nobody", JOBS.format(log, 1), key="b")["cluster"]
        assert len(entries(log)) == 3
    # and not once more when the stream reaches the event
    as_account("nobody", lambda: point.ask("change", action="Remove", spec=[f"{again}.0"]))
    until(lambda: len(entries(log)) >= 4)
    assert [line[:3] for line in entries(log)] == ["000", "000", "000", "009"]


@pytest.mark.parametrize(
    "line",
    [
        "log = {}", "LOG = {}", '+UserLog = "{}"', '+userlog = "{}"', 'MY.USERLOG = "{}"',
        '+DAGManNodesLog = "{}"', '+dagmannodeslog = "{}"', "name = {}\nlog = $(name)",
        # the second job alone has a log
        "log = $CHOICE(Process,/dev/null,{})",
    ],
)  # fmt: skip
def test_the_submit_event_is_in_a_log_that_is_named_in_whatever_way(
    point: AccessPoint, mine: Path, connect: Callable[..., psycopg.Connection], line: str
) -> None:
    log = mine / "a.log"
    with connect(autocommit=False) as old:
        # holds back the stream of events while this transaction is open
        old.execute("SELECT fetchwork.take_turn('events')")
        point.submit("nobody", f"executable = /bin/true\n{line.format(log)}\nqueue 2\n")
        assert {line[:3] for line in entries(log)} == {"000"}


def test_a_job_s_life_is_in_its_log_and_htcondor_reads_it(point: AccessPoint, mine: Path) -> None:
    log = mine / "a.log"
    point.submit("nobody", JOBS.format(log, 3))
    for _ in range(3):
        point.slots.finish(point.slots.started())
    until(lambda: len(entries(log)) >= 9)
    events = list(htcondor2.JobEventLog(str(log)).events(0))
    assert len(events) == 9
    for proc in range(3):
        assert [event.type for event in events if event.proc == proc] == [0, 1, 5]


def test_what_a_moved_database_shows_again_is_not_written_again(point: AccessPoint, mine: Path) -> None:
    log = mine / "a.log"
    point.slots.scalar("reap")
    job = point.submit("nobody", JOBS.format(log, 1))["cluster"]
    point.slots.act("hold", f"{job}.0")
    until(lambda: len(entries(log)) >= 2)
    # the last inspection for lost runs, and then the move
    point.slots.connection.execute("UPDATE fetchwork.heartbeat SET server = 'another/1', running_as = NULL")
    point.slots.act("release", f"{job}.0")
    until(lambda: len(entries(log)) >= 3)
    point.slots.scalar("reap")
    point.slots.act("remove", f"{job}.0")
    until(lambda: len(entries(log)) >= 4)
    assert [line[:3] for line in entries(log)] == ["000", "012", "013", "009"]


def test_a_job_that_asks_for_xml_has_its_log_so(point: AccessPoint, mine: Path) -> None:
    log = mine / "a.xml"
    point.submit("nobody", "log_xml = true\n" + JOBS.format(log, 2))
    assert log.read_text().count("</c>\n") == 2
    point.kill()
    point.slots.finish(point.slots.started())
    # entries that the first access point wrote are not written again
    point.start()
    point.slots.finish(point.slots.started())
    until(lambda: log.read_text().count("</c>\n") >= 6)
    events = list(htcondor2.JobEventLog(str(log)).events(0))
    assert Counter(int(event.type) for event in events) == {0: 2, 1: 2, 5: 2}


def test_a_log_that_its_owner_may_not_write_is_refused_at_submit(point: AccessPoint, directory: Path) -> None:
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    for path, why in ((closed / "x.log", "Permission denied"), (directory / "no/x.log", "No such file")):
        with pytest.raises(RefusedError, match=f"cannot open the event log '{path}': {why}"):
            point.submit("nobody", JOBS.format(path, 1))
    assert not list(closed.iterdir())
    os.mkfifo(directory / "fifo", 0o666)
    (directory / "fifo").chmod(0o666)
    with pytest.raises(RefusedError, match="cannot open the event log"):
        point.submit("nobody", JOBS.format(directory / "fifo", 1))


def test_a_log_s_problem_is_its_owner_s_alone(point: AccessPoint, mine: Path, directory: Path) -> None:
    lost = mine / "lost"
    lost.mkdir()
    os.chown(lost, 65534, 65534)
    cluster = point.submit("nobody", JOBS.format(lost / "a.log", 1))["cluster"]
    (lost / "a.log").unlink()
    lost.rmdir()
    other = directory / "other.log"
    theirs = point.submit("daemon", JOBS.format(other, 1))["cluster"]
    assert len(entries(other)) == 1
    as_account("nobody", lambda: point.ask("change", action="Remove", spec=[f"{cluster}.0"]))
    as_account("daemon", lambda: point.ask("change", action="Remove", spec=[f"{theirs}.0"]))
    until(lambda: len(entries(other)) == 2)
    until(lambda: "log_not_written" in point.log())
    assert "No such file or directory" in point.log()


async def test_the_logs_of_what_is_submitted_are_those_that_the_database_tells(
    point: AccessPoint, point_conninfo: str, mine: Path
) -> None:
    # as DAGMan asks for it
    nodes = f"dagman_log = {mine}/nodes.log\n"
    mask = 'My.DAGManNodesMask = "0,1,5"\n'
    texts = [
        "",
        f"log = {mine}/a.log\n",
        f"log = {mine}/a.log\nlog_xml = true\n",
        "log = /dev/null\n" + nodes,
        f"log = {mine}/a.log\n" + nodes + mask,
        nodes + "My.dagmannodesmask = 5\n",
        nodes + "My.DAGManNodesMask = strcat(1)\n",
        f"log = {mine}/nodes.log\n" + nodes,
    ]
    noted = 0
    async with AsyncDatabase(point_conninfo, size=1) as database:
        for number, text in enumerate(texts):
            whole = f"executable = /bin/true\n{text}queue 2\n"
            answer = point.submit("nobody", whole, key=str(number))
            cluster = answer["cluster"]
            events = [
                JobEvent(f"1\t1\t{event}\t{cluster}\t{proc}\t-1\t0\t{{}}")
                for proc in (0, 1)
                for event in (0, 5, 6)
            ]
            found, said = JobLogs(database, "point"), JobLogs(database, "point")
            await found.find(events)
            said.note(cluster, 2, "nobody", answer["common"])
            noted += bool(said.of(events[0]))
            # a job's log that is not known is looked up
            await said.find(events)
            assert [said.of(event) for event in events] == [found.of(event) for event in events], text
    assert noted == 5


class SlowAnswer(AsyncDatabase):
    """Answers the first question for a cluster's submit events when the stream has shown them."""

    def __init__(self, conninfo: str) -> None:
        super().__init__(conninfo, size=2)
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def query(self, statement: Any, *values: Any, **named: Any) -> Any:  # type: ignore[override]
        rows = await super().query(statement, *values, **named)
        if "eventtypenumber IN (0, 35)" in str(statement):
            self.asked.set()
            await self.may_answer.wait()
        return rows


async def test_what_the_stream_shows_during_a_submission_is_written_once(
    point_conninfo: str, connect: Callable[..., psycopg.Connection], mine: Path
) -> None:
    log = mine / "a.log"
    account = Account.of(pwd.getpwnam("nobody"))
    common = {"Cmd": "/bin/true", "Owner": "nobody", "UserLog": str(log), "FetchWorkAccessPoint": "here"}

    def submit() -> int:
        statement = "SELECT fetchwork.submit_ads(%s, '[{}]')"
        ((cluster,),) = connect().execute(statement, [json.dumps(common)]).fetchall()
        return int(cluster)

    database = SlowAnswer(point_conninfo)
    async with database:
        keeper = LogKeeper(database, JobLogs(database, "here"), OwnRights(), mine / "state", lambda *_: True)
        keeping = asyncio.ensure_future(keeper.keep())
        await keeper.ready()
        with connect(autocommit=False) as old:
            old.execute("SELECT fetchwork.take_turn('events')")
            cluster = submit()
            writing = asyncio.ensure_future(keeper.submitted(cluster, account, again=False))
            await database.asked.wait()
        await until_async(lambda: entries(log))
        database.may_answer.set()
        assert await writing == []
        await keeper.submitted(submit(), account, again=False)
        await keeper.drained()
        assert [head[:9] for head in entries(log)] == [f"000 ({n:03}." for n in (cluster, cluster + 1)]
        keeping.cancel()


def test_a_late_cluster_has_entries_of_its_own(point: AccessPoint, mine: Path) -> None:
    log = mine / "a.log"
    text = f"arguments = $(Item)\nmax_idle = 2\n{JOBS.format(log, '2 in (a, b, c)')}"
    answer = point.submit("nobody", text)
    cluster = answer["cluster"]
    assert (answer["count"], answer["common"]["TotalSubmitProcs"]) == (6, 6)
    assert "FetchWorkFactory" not in answer["common"]
    heads = [f"035 ({cluster:03}.-01.", f"000 ({cluster:03}.000.", f"000 ({cluster:03}.001."]
    assert [line[:13] for line in entries(log)] == heads
    # known by its key, also without a job
    again = point.submit("nobody", text.replace("max_idle = 2", "max_idle = 0"), key="k")
    assert point.submit("nobody", text, key="k")["cluster"] == again["cluster"] != cluster
    as_account("nobody", lambda: point.ask("change", action="Remove", spec=f"ClusterId == {cluster}"))
    until(lambda: f"036 ({cluster:03}.-01." in [line[:13] for line in entries(log)], "its end")


def test_jobs_of_another_access_point_are_left_to_it(point: AccessPoint, mine: Path) -> None:
    log = mine / "a.log"
    for name in ("elsewhere", None):
        ad = {"Cmd": "/bin/true", "Owner": "nobody", "UserLog": str(log)}
        point.slots.submit_many([{}], {**ad, **({"FetchWorkAccessPoint": name} if name else {})})
    point.submit("nobody", JOBS.format(log, 1))
    assert len(entries(log)) == 1


def full_disk(mine: Path, size: int = 65536) -> None:
    """A small file system in the directory of `nobody`; skips if none can be mounted."""
    status = os.system(f"mount -t tmpfs -o size={size},uid=65534,mode=700 none {mine} 2>/dev/null")
    if status:
        pytest.skip("no file system can be mounted here")


def test_a_full_disk_loses_no_line_and_nobody_else_waits(
    point: AccessPoint, mine: Path, directory: Path
) -> None:
    full_disk(mine)
    try:
        log = mine / "a.log"
        cluster = point.submit("nobody", JOBS.format(log, 20))["cluster"]
        (mine / "rest").write_bytes(b"x" * 4096)
        with (mine / "rest").open("ab", buffering=0) as rest:
            try:
                while True:
                    rest.write(b"x" * 4096)
            except OSError:
                pass
        for _ in range(3):
            as_account("nobody", lambda: point.ask("change", action="Hold", spec=[f"{cluster}"]))
            as_account("nobody", lambda: point.ask("change", action="Release", spec=[f"{cluster}"]))
        until(lambda: point.status()["logs_behind"] == ["nobody"])
        other = directory / "other.log"
        theirs = point.submit("daemon", JOBS.format(other, 1))["cluster"]
        as_account("daemon", lambda: point.ask("change", action="Remove", spec=[f"{theirs}.0"]))
        until(lambda: len(entries(other)) == 2)
        (mine / "rest").unlink()
        until(lambda: not point.status()["logs_behind"])
        whole = log.read_text().split("...\n")
        assert len(whole) == 1 + 20 * 7
        heads = Counter(part.strip()[:3] for part in whole[:-1])
        assert heads == {"000": 20, "012": 60, "013": 60}
    finally:
        os.system(f"umount {mine}")


def test_a_log_that_does_not_answer_holds_up_nobody_else(
    point: AccessPoint, mine: Path, directory: Path
) -> None:
    """A child that hangs on a log, as on a lost file system: here the child is stopped."""
    log = mine / "a.log"
    cluster = point.submit("nobody", JOBS.format(log, 1))["cluster"]
    stopped = [pid for pid in _children(point) if _uid(pid) == 65534]
    assert stopped
    for pid in stopped:
        os.kill(pid, 19)
    as_account("nobody", lambda: point.ask("change", action="Remove", spec=[f"{cluster}.0"]))
    other = directory / "other.log"
    theirs = point.submit("daemon", JOBS.format(other, 1))["cluster"]
    assert len(entries(other)) == 1
    as_account("daemon", lambda: point.ask("change", action="Remove", spec=[f"{theirs}.0"]))
    until(lambda: len(entries(other)) == 2)
    # the first log is written when its child answers again
    until(lambda: len(entries(log)) == 2)


def _children(point: AccessPoint) -> list[int]:
    """The children of an access point's zygote."""
    assert point.process is not None
    (zygote,) = _children_of(point.process.pid)
    return _children_of(zygote)


def _children_of(pid: int) -> list[int]:
    return [
        int(word)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for word in (task / "children").read_text().split()
    ]


def _uid(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def test_what_is_told_about_a_log_is_told_at_submit(point: AccessPoint, mine: Path) -> None:
    answer: Any = point.submit("nobody", JOBS.format(mine / "a.log", 1))
    assert answer["problems"] == []
