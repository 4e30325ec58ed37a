"""``Queue`` and ``AsyncQueue`` are one interface, and equal the bindings' where HTCondor has the same."""

import copy
import inspect
import pickle
from pathlib import Path

import pytest

import fetchwork
from fetchwork.errors import ClassAdError, NotFound
from fetchwork.queue import AsyncQueue
from tests.queue.conftest import Queue
from tests.support.direct_queue import DirectQueue


def methods(kind: type) -> dict[str, list[tuple[str, inspect._ParameterKind, object, object]]]:
    """The public methods, and of each parameter its name, kind, default and annotation."""
    return {
        name: [
            (each.name, each.kind, each.default, each.annotation)
            for each in inspect.signature(function).parameters.values()
        ]
        for name, function in vars(kind).items()
        if not name.startswith("_") and inspect.isfunction(function)
    }


@pytest.mark.parametrize("name", sorted(methods(fetchwork.Queue) | methods(AsyncQueue)))
def test_method_has_the_same_parameters_in_both(name: str) -> None:
    assert methods(AsyncQueue)[name] == methods(fetchwork.Queue)[name]


def test_a_queue_shows_nothing_but_its_methods(conninfo: str) -> None:
    with fetchwork.Queue(conninfo) as queue:
        public = {name for name in dir(queue) if not name.startswith("_")}
    assert public == set(methods(fetchwork.Queue))


def test_pool_is_shown_as_ads(queue: Queue) -> None:
    queue.direct.submit(ConcurrencyLimits="license")
    queue.direct.scalar("set_limit", name="license", maximum=3.0)
    queue.direct.started()
    queue.direct.connection.execute(
        'SELECT fetchwork.report_slots(1, \'[{"name": "slot1@h1", "state": "Claimed", "activity": "Busy",'
        ' "cpus": 1, "memory_mib": 512, "fetched_at": 1795225768, "last_answer": "offered",'
        ' "queues": ["default", "urgent"], "ad": {"OpSys": "LINUX"}}]\')'
    )
    (slot,) = queue.slots('OpSys == "LINUX" && Memory == 512')
    assert (slot["Name"], slot["JobId"], slot["RemoteOwner"]) == ("slot1@h1", "1.0", "alice")
    assert slot["LastFetchWorkSpawned"] == 1795225768
    assert slot["FetchWorkQueues"] == "default, urgent"
    assert queue.slots('State == "Unclaimed"') == []
    (host,) = queue.hosts(projection=["Machine", "Runs"])
    assert (sorted(host), host["Machine"], host["Runs"]) == (["Machine", "Runs"], "h1", 1)
    (one,) = queue.queues("RunningJobs > 0")
    assert (one["Name"], one["IdleJobs"], one["Paused"]) == ("default", 0, False)
    (submitter,) = queue.submitters()
    assert (submitter["Name"], submitter["RunningJobs"]) == ("alice", 1)
    (limit,) = queue.limits('Name == "license"')
    assert (limit["Maximum"], limit["Used"]) == (3.0, 1.0)
    (run,) = queue.runs()
    assert run["JobCurrentStartDate"] <= run["JobCurrentStartExecutingDate"]
    assert "EpochWriteDate" not in run


async def test_asynchronous_queue_shows_the_same_pool(conninfo: str, slots: DirectQueue) -> None:
    slots.submit()
    slots.started()
    async with AsyncQueue(conninfo) as queue:
        assert [ad["Name"] for ad in await queue.queues()] == ["default"]
        assert [ad["Machine"] for ad in await queue.hosts()] == ["h1"]
        assert [ad["Name"] for ad in await queue.submitters()] == ["alice"]
        assert [len(await method()) for method in (queue.slots, queue.limits, queue.runs)] == [0, 0, 1]


@pytest.mark.parametrize("constraint", ["", "  ", "\t"])
def test_empty_constraint_changes_nothing(queue: Queue, constraint: str) -> None:
    """In a query it selects all; a program with a bug must not remove the whole queue."""
    queue.direct.submit_many([{}] * 2)
    with pytest.raises(ValueError, match="constraint is empty"):
        queue.act(fetchwork.JobAction.Remove, constraint)
    with pytest.raises(ValueError, match="constraint is empty"):
        queue.edit(constraint, "JobPrio", "1")
    assert [ad["JobPrio"] for ad in queue.query(constraint)] == [0, 0]


def test_empty_list_of_jobs_means_no_job(queue: Queue) -> None:
    queue.direct.submit()
    counts = queue.act(fetchwork.JobAction.Remove, [])
    assert {name: counts[name] for name in counts} == dict.fromkeys(counts, 0)
    assert queue.edit([], "JobPrio", "1") == 0


def test_reason_that_is_no_text_is_a_type_error(queue: Queue) -> None:
    job = queue.direct.submit()
    with pytest.raises(TypeError, match="reason must be a string"):
        queue.act(fetchwork.JobAction.Hold, job, reason=5)  # type: ignore[arg-type]
    assert queue.direct.status(job) == 1


def test_wrong_constraint_is_a_value_error_as_in_the_bindings(queue: Queue) -> None:
    with pytest.raises(ValueError, match="not a ClassAd expression"):
        queue.query("(((")
    assert issubclass(ClassAdError, ValueError)


def test_history_is_a_list_and_xhistory_an_iterator(queue: Queue) -> None:
    queue.direct.submit_many([{}] * 3)
    for _ in range(3):
        queue.direct.finish(queue.direct.started())
    history = queue.history()
    assert len(history) == len(queue.jobEpochHistory()) == 3
    assert [ad["ProcId"] for ad in history] == [ad["ProcId"] for ad in queue.xhistory()] == [2, 1, 0]
    assert len(queue.history(match=2)) == 2
    # as in HTCondor's bindings
    assert len(queue.history(match=0)) == 3
    assert [ad["ProcId"] for ad in queue.history(since="1.0")] == [2, 1]


def test_queue_is_pickled_with_its_connection_string(queue: Queue) -> None:
    queue.direct.submit()
    with pickle.loads(pickle.dumps(queue)) as again:
        assert len(again.query()) == 1


def log_of(slots: DirectQueue, path: Path) -> str:
    slots.submit(UserLog=str(path))
    return str(path)


def test_exhausted_event_log_yields_what_came_since(queue: Queue, tmp_path: Path) -> None:
    events = fetchwork.JobEventLog(log_of(queue.direct, tmp_path / "log"), queue).events(stop_after=0)
    assert [event.type_number for event in events] == [0]
    assert list(events) == []
    queue.direct.act("hold", "1.0")
    assert [event.type_number for event in events] == [12]
    with pytest.raises(StopIteration):
        next(events)


def test_event_log_is_an_iterator_without_events(queue: Queue, tmp_path: Path) -> None:
    log = fetchwork.JobEventLog(log_of(queue.direct, tmp_path / "log"), queue)
    queue.direct.act("hold", "1.0")
    assert next(log).type_number == 0
    for event in log:
        assert event.type_number == 12
        break
    log.close()
    assert list(log) == []


def test_event_log_goes_on_where_it_was_pickled(queue: Queue, tmp_path: Path) -> None:
    log = fetchwork.JobEventLog(log_of(queue.direct, tmp_path / "log"), queue)
    queue.direct.act("hold", "1.0")
    queue.direct.act("release", "1.0")
    assert next(log.events(stop_after=0)).type_number == 0
    for again in (pickle.loads(pickle.dumps(log)), copy.deepcopy(log)):
        assert [event.type_number for event in again] == [12, 13]


def test_event_log_from_now_on_misses_nothing_between_two_looks(queue: Queue, tmp_path: Path) -> None:
    log = fetchwork.JobEventLog(log_of(queue.direct, tmp_path / "log"), queue, after="now")
    assert list(log.events(stop_after=0)) == []
    queue.direct.act("hold", "1.0")
    assert [event.type_number for event in log.events(stop_after=0)] == [12]


def test_log_of_no_job_is_an_error_unless_there_is_the_file(queue: Queue, tmp_path: Path) -> None:
    """HTCondor's reader opens the file; an endless wait for a mistyped name is no help."""
    with pytest.raises(NotFound, match="no job has the event log"):
        fetchwork.JobEventLog(str(tmp_path / "log"), queue)
    (tmp_path / "log").touch()
    log = fetchwork.JobEventLog(str(tmp_path / "log"), queue).events(stop_after=0)
    assert list(log) == []
    queue.submit(f"executable = /bin/true\nlog = {tmp_path}/log\nqueue\n", owner="alice")
    assert [event.type_number for event in log] == [0]


def test_link_to_a_log_is_that_log(queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(log_of(queue.direct, tmp_path / "log"))
    log = fetchwork.JobEventLog(str(tmp_path / "link"), queue)
    assert [event.type_number for event in log.events(stop_after=0)] == [0]


def test_file_of_jobs_that_are_not_the_database_s_is_read(queue: Queue, tmp_path: Path) -> None:
    """As in HTCondor's test of its reader: all of it, next, close, context, text, a copy that goes on."""
    entries = [
        "000 (014.055.000) 2026-11-22 00:00:00 Job submitted from host: <128.105.165.12:32779>\n",
        "012 (014.055.000) 2026-11-22 00:00:01 Job was held.\n\tCauseWeCan\n\tCode 404 Subcode 255\n",
        "013 (014.055.000) 2026-11-22 00:00:02 Job was released.\n\tMessinWithYou\n",
    ]
    (tmp_path / "log").write_text("".join(f"{entry}...\n" for entry in entries))
    log = fetchwork.JobEventLog(str(tmp_path / "log"), queue)
    assert [str(event) for event in log.events(stop_after=0.1)] == entries
    with fetchwork.JobEventLog(str(tmp_path / "log"), queue) as log:
        assert (next(log).cluster, next(log)["HoldReasonCode"]) == (14, 404)
        assert [event.type for event in pickle.loads(pickle.dumps(log)).events(0)] == [
            fetchwork.JobEventType.JOB_RELEASED
        ]
    with pytest.raises(StopIteration):
        next(log)


ITEMS = "from (\n a, 1\n b, 2\n c, 3\n)"
OUTER = "executable = /bin/true\narguments = $(step) $(item) $(extra)\n"


@pytest.mark.parametrize(
    ("statement", "count", "expected"),
    [
        ("queue", 0, ["0"]),
        ("queue", 2, ["0", "1"]),
        ("queue 3", 2, ["0", "1"]),
        ("", 2, ["0", "1"]),
        (f"queue 2 item,extra {ITEMS}", 0, ["0 a 1", "1 a 1", "0 b 2", "1 b 2", "0 c 3", "1 c 3"]),
        (f"queue item,extra {ITEMS}", 2, ["0 a 1", "1 a 1", "0 b 2", "1 b 2", "0 c 3", "1 c 3"]),
        (f"queue 3 item,extra {ITEMS}", 1, ["0 a 1", "0 b 2", "0 c 3"]),
        (f"queue item,extra {ITEMS}".replace("from (", "from [1:] ("), 0, ["0 b 2", "0 c 3"]),
        (
            f"queue 2 item,extra {ITEMS}".replace("from (", "from [::2] ("),
            0,
            ["0 a 1", "1 a 1", "0 c 3", "1 c 3"],
        ),
        (f"queue 4 item,extra {ITEMS}".replace("from (", "from [::2] ("), 1, ["0 a 1", "0 c 3"]),
        ("queue 2 from (\n a\n b\n)", 0, ["0 a", "1 a", "0 b", "1 b"]),
        ("queue 2 extra from (\n a\n b\n)", 0, ["0 a", "1 a", "0 b", "1 b"]),
        ("queue item in (a b c)", 2, ["0 a", "1 a", "0 b", "1 b", "0 c", "1 c"]),
        ("queue 5 item in (a b c)", 1, ["0 a", "0 b", "0 c"]),
        ("queue 2 item in [1:] (a b c)", 0, ["0 b", "1 b", "0 c", "1 c"]),
        ("queue item in (\n a\n b\n)", 2, ["0 a", "1 a", "0 b", "1 b"]),
        ("queue item from FILE", 2, ["0 x", "1 x", "0 y", "1 y"]),
        ("queue 2 item from [1:] FILE", 0, ["0 y", "1 y"]),
        ("queue item matching files DIRECTORY/*.in", 2, ["0 1.in", "1 1.in"]),
    ],
)
def test_submit_object_with_items_makes_the_jobs_that_htcondor_makes(
    queue: Queue, tmp_path: Path, statement: str, count: int, expected: list[str]
) -> None:
    (tmp_path / "items").write_text("x\ny\n")
    (tmp_path / "1.in").touch()
    statement = statement.replace("FILE", str(tmp_path / "items")).replace("DIRECTORY", str(tmp_path))
    description = fetchwork.Submit(f"{OUTER}{statement}\n")
    result = queue.submit(description, count=count, owner="alice")
    arguments = [ad["Args"].replace(f"{tmp_path}/", "").strip() for ad in queue.query(result.cluster())]  # type: ignore[call-overload]
    assert arguments == expected
