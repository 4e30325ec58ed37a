"""The Python API has the names and the meaning of HTCondor's bindings."""

import itertools
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import htcondor2
import psycopg
import pytest

import fetchwork
from fetchwork.classad.ads import parse_expr, parse_old, quote
from fetchwork.classad.values import ClassAd
from fetchwork.codes import JobStatus
from fetchwork.db.calls.call import Call
from fetchwork.errors import DatabaseRefused, FetchworkError, NotFound, SubmitError
from fetchwork.queue.ask import Steps
from fetchwork.queue.constraints.constraint import Constraint
from fetchwork.queue.constraints.source import Source
from fetchwork.queue.reading.paging import Position
from fetchwork.queue.reading.projecting import Projected
from fetchwork.queue.reading.views import JOBS
from fetchwork.queue.submitting import submission
from tests.queue.conftest import Queue
from tests.support.by_name import call
from tests.support.sessions import session_of
from tests.support.waiting import PATIENCE_S

SLEEP = "executable = /bin/sleep\narguments = $(Process)\n"


def ids(ads: Any) -> list[str]:
    return [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in ads]


def test_a_submit_object_goes_in_and_comes_back(queue: Queue) -> None:
    result = queue.submit(fetchwork.Submit(SLEEP + "request_cpus = 2\n"), count=3, owner="alice")
    assert (result.num_procs(), result.first_proc()) == (3, 0)
    assert result.clusterad()["Cmd"] == "/bin/sleep"
    found = queue.query(f"ClusterId == {result.cluster()}")
    assert [ad["Args"] for ad in found] == ["0", "1", "2"]
    assert {(ad["Owner"], ad["RequestCpus"], ad["JobStatus"]) for ad in found} == {("alice", 2, 1)}
    assert all(isinstance(ad, ClassAd) for ad in found)


def test_clients_that_submit_at_once_with_one_key_make_one_cluster(queue: Queue, conninfo: str) -> None:
    def submit(_: int) -> int:
        with Queue(conninfo) as client:
            return client.submit(SLEEP, count=3, owner="alice", key="night").cluster()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(submit, range(40)))) == 1
    assert len(queue.query()) == 3


def test_the_cluster_s_id_is_in_what_refers_to_it(queue: Queue) -> None:
    result = queue.submit("executable = /bin/true\noutput = out.$(ClusterId)\nqueue 2\n", owner="alice")
    assert {ad["Out"] for ad in queue.query(projection=["Out"])} == {f"out.{result.cluster()}"}


def test_a_large_cluster_comes_in_several_calls_and_is_one(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "MAX_JOBS", 4)
    result = queue.submit(SLEEP + "hold = true\nqueue 10\n", owner="alice")
    found = queue.query(projection=["ClusterId", "ProcId", "Args", "JobStatus"])
    assert ids(found) == [f"{result.cluster()}.{n}" for n in range(10)]
    assert [ad["Args"] for ad in found] == [str(n) for n in range(10)]
    assert {ad["JobStatus"] for ad in found} == {5}
    assert len(list(queue.events(stop_after=0))) == 20


def test_nothing_of_a_cluster_stays_if_a_part_is_refused(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "MAX_JOBS", 1)
    with pytest.raises(SubmitError, match="Iwd"):
        queue.submit(
            [{"Cmd": "/bin/true", "Owner": "alice"}, {"Cmd": "/bin/true", "Owner": "alice", "Iwd": "here"}]
        )
    assert queue.query() == []
    assert list(queue.events(stop_after=0)) == []


def test_nobody_appends_to_a_cluster_that_others_see(queue: Queue) -> None:
    cluster = int(queue.direct.submit().partition(".")[0])
    with pytest.raises(SubmitError, match="was not made in this transaction"):
        call(session_of(queue).database, "submit_cluster", common=None, procs=[{}], cluster=cluster)
    with pytest.raises(SubmitError, match="was not reserved"):
        call(
            session_of(queue).database,
            "submit_cluster",
            common={"Cmd": "/bin/true", "Owner": "a"},
            procs=[{}],
            cluster=cluster,
        )
    with pytest.raises(SubmitError, match="was not reserved"):
        call(
            session_of(queue).database,
            "submit_cluster",
            common={"Cmd": "/bin/true", "Owner": "a"},
            procs=[{}],
            cluster=999,
        )


def test_ads_go_in_as_objects_or_in_json_form(queue: Queue) -> None:
    ad = parse_old('Cmd = "/bin/true"\nOwner = "bob"\nRequirements = TARGET.Memory > 5\n')
    queue.submit(ad)
    queue.submit(
        [{"Cmd": "/bin/false", "Owner": "alice"}, {"Cmd": "/bin/true", "Owner": "alice", "JobPrio": 3}]
    )
    found = queue.query(projection=["Cmd", "Owner", "JobPrio", "Requirements"])
    assert [(one["Cmd"], one["Owner"], one["JobPrio"]) for one in found] == [
        ("/bin/true", "bob", 0),
        ("/bin/false", "alice", 0),
        ("/bin/true", "alice", 3),
    ]
    assert str(found[0].lookup("Requirements")) == "TARGET.Memory > 5"


def test_projection_of_many_attributes_takes_each_ad_apart_once(queue: Queue) -> None:
    queue.submit([{"Cmd": "/bin/true", "Owner": "alice", "Args": "x", "MyOwn": [1]}])
    names = [name for (name,) in queue.direct.rows("SELECT name FROM fetchwork.attribute")]
    source = Source(JOBS.columns(), JOBS.inner, {name.lower(): name for name in names}, layers=JOBS.layers)
    few, many = (
        Projected(JOBS, frozenset(name.lower() for name in some), source)
        for some in ([*names[:5], "MyOwn"], [*names, "MyOwn"])
    )
    assert few.columns.count(" AS value_") in range(1, 6)
    assert (many.columns.count(" AS value_"), len(many.params)) == (0, 1)
    (whole,), (projected,) = queue.query(), queue.query(projection=[*names, "MyOwn"])
    wanted = {*names, "MyOwn"} - {"ServerTime"}
    assert {name: str(projected[name]) for name in projected if name != "ServerTime"} == {
        name: str(whole[name]) for name in whole if name in wanted
    }


def test_spooling_is_refused(queue: Queue) -> None:
    with pytest.raises(ValueError, match="input files are stored in any case"):
        queue.submit(SLEEP + "queue\n", spool=True)


# -- query ---------------------------------------------------------------------------------------------------


def test_query_takes_constraint_projection_callback_and_limit(queue: Queue) -> None:
    queue.direct.submit_many([{"JobPrio": n} for n in range(5)])
    assert [dict(ad) for ad in queue.query("JobPrio > 2", ["ProcId", "jobprio"])] == [
        {"ProcId": 3, "JobPrio": 3},
        {"ProcId": 4, "JobPrio": 4},
    ]
    assert len(queue.query(limit=2)) == 2
    assert queue.query(limit=0) == []
    assert queue.query(callback=lambda ad: ad["ProcId"] if ad["ProcId"] % 2 else None) == [1, 3]
    assert ids(queue.query(parse_expr("JobPrio == 1"))) == ["1.1"]


def test_a_limit_holds_where_htcondor_sorts_out_the_rest(queue: Queue) -> None:
    queue.direct.submit_many([{"JobPrio": n} for n in range(5)])
    assert ids(queue.query("JobPrio % 2 == 0", limit=2)) == ["1.0", "1.2"]


@pytest.mark.parametrize("short", [-1, 4, 10**6])
@pytest.mark.parametrize("smallest", [1, 3, 50])
def test_pages_follow_each_other_without_gap_or_repetition(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, short: int, smallest: int
) -> None:
    """Read as a whole, in pieces, or first as a whole and then in pieces."""
    monkeypatch.setattr("fetchwork.queue.reading.paging.Position.PAGE", 3)
    monkeypatch.setattr("fetchwork.queue.reading.paging.Position.SHORT", short)
    monkeypatch.setattr("fetchwork.queue.reading.paging.Position.SMALLEST", smallest)
    monkeypatch.setattr("fetchwork.queue.reading.paging.Position.LARGEST", 2 * smallest)
    for _ in range(4):
        queue.direct.submit_many([{"JobPrio": n} for n in range(4)])
    every = [f"{c}.{p}" for c in range(1, 5) for p in range(4)]
    some = [f"{c}.{p}" for c in range(1, 5) for p in (0, 3)]
    assert ids(queue.xquery()) == every
    assert ids(queue.xquery("ProcId == 0 || ProcId == 3")) == some
    assert ids(queue.xquery("ProcId % 3 == 0")) == some
    assert ids(queue.xquery("ProcId > 7")) == []
    assert ids(queue.xquery(limit=7)) == every[:7]
    queue.direct.finish(queue.direct.started(), ExitCode=1, JobPid=7)
    queue.direct.finish(queue.direct.started("slot2@h1"))
    # as many as possible leave the queue at one moment
    queue.direct.act("remove", "1", "2", "3", "4")
    queue.direct.connection.execute(
        "UPDATE fetchwork.job_history SET completed_at = now() WHERE cluster_id > 2"
    )
    last = ids(queue.history())
    assert sorted(last) == every
    assert last[:8] == [f"{c}.{p}" for c in (4, 3) for p in (3, 2, 1, 0)]
    assert ids(queue.history("ProcId % 3 == 0")) == [job for job in last if job in some]
    assert ids(queue.history(match=5)) == last[:5]
    assert [ad["Outcome"] for ad in queue.runs()] == ["completed", "completed"]
    assert [ad["RemoteHost"] for ad in queue.runs("ExitCode == 0")] == ["slot2@h1"]


def test_no_job_is_missed_when_others_leave_while_a_page_is_read(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's end is looked up first; the page then has fewer rows than that."""
    monkeypatch.setattr("fetchwork.queue.reading.paging.Position.PAGE", 3)
    queue.direct.submit_many([{"JobPrio": n} for n in range(20)])
    queue.direct.connection.execute("ANALYZE")
    bound = Position.bound
    leaving = iter(["1.1", "1.4"])

    def bound_and_leave(self: Position, selection: Constraint, size: int) -> Steps[None]:
        yield from bound(self, selection, size)
        for job in itertools.islice(leaving, 1):
            queue.direct.act("remove", job)

    monkeypatch.setattr(Position, "bound", bound_and_leave)
    assert ids(queue.xquery()) == [f"1.{n}" for n in range(20) if n not in (1, 4)]


def test_autoclusters_and_groups_are_counted(queue: Queue) -> None:
    queue.direct.submit_many([{"RequestCpus": n % 2 + 1, "Colour": n} for n in range(5)])
    for constraint in ("true", "ProcId >= 0", "ProcId + 1 > 0"):
        clusters = queue.query(constraint, opts=fetchwork.QueryOpts.AutoCluster)
        assert sorted((ad["RequestCpus"], ad["JobCount"]) for ad in clusters) == [(1, 3), (2, 2)]
        assert sorted(ad["JobIds"] for ad in clusters) == ["1.0 ... 1.4", "1.1 1.3"]
    groups = queue.query(projection=["requestcpus"], opts=fetchwork.QueryOpts.GroupBy)
    assert sorted((ad["RequestCpus"], ad["JobCount"]) for ad in groups) == [(1, 3), (2, 2)]
    assert [(ad["Id"], ad["JobIds"]) for ad in groups] == [(1, "1.0 ... 1.4"), (2, "1.1 1.3")]
    assert sorted(groups[0]) == ["Id", "JobCount", "JobIds", "MyType", "RequestCpus"]


def test_cluster_ads_come_with_the_jobs_if_asked_for(queue: Queue) -> None:
    queue.direct.submit_many([{"Args": str(n)} for n in range(2)], {"Cmd": "/bin/sh", "Owner": "alice"})
    queue.direct.submit()
    opts = fetchwork.QueryOpts.IncludeClusterAd | fetchwork.QueryOpts.IncludeJobsetAds
    first, second, *jobs = queue.query(opts=opts)
    assert ["ProcId" in ad for ad in (first, second)] == [False, False]
    assert (first["ClusterId"], first["Cmd"], first["TotalSubmitProcs"]) == (1, "/bin/sh", 2)
    assert "Args" not in first
    assert ids(jobs) == ["1.0", "1.1", "2.0"]
    # a constraint holds for the ads of clusters too
    assert len(queue.query('Cmd == "/bin/sh"', ["ClusterId"], opts=opts)) == 3
    assert len(queue.query("ProcId == 1", opts=opts)) == 1


def test_the_summary_counts_by_status(queue: Queue) -> None:
    queue.direct.submit_many([{}] * 4)
    queue.direct.started()
    queue.direct.act("hold", "1.1")
    for constraint in ("true", "ClusterId == 1", "ClusterId + 0 == 1"):
        (ad,) = queue.query(constraint, opts=fetchwork.QueryOpts.SummaryOnly)
        assert (ad["Jobs"], ad["Idle"], ad["Running"], ad["Held"]) == (4, 2, 1, 1)
        assert (ad["AllusersJobs"], ad["AllusersIdle"], ad["SchedulerJobs"]) == (4, 2, 0)
    (ad,) = queue.query("ProcId == 1", opts=fetchwork.QueryOpts.SummaryOnly)
    assert (ad["Jobs"], ad["Held"], ad["AllusersJobs"], ad["AllusersHeld"]) == (1, 1, 4, 1)


def test_my_jobs_only_are_those_of_the_calling_account(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "bob")
    queue.direct.submit_many([{"Owner": "bob"}, {"Owner": "alice"}])
    assert ids(queue.query(opts=fetchwork.QueryOpts.DefaultMyJobsOnly)) == ["1.0"]


def test_options_without_a_counterpart_are_refused(queue: Queue) -> None:
    with pytest.raises(ValueError, match="allowed are AutoCluster"):
        queue.query(opts=1 << 20)


def test_memory_of_xquery_does_not_grow_with_the_queue(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fetchwork.queue.reading.paging.Position.PAGE", 100)
    monkeypatch.setattr("fetchwork.queue.reading.paging.Position.SMALLEST", 100)

    def peak(jobs: int) -> int:
        queue.submit([{"Cmd": "/bin/true", "Owner": "alice", "Colour": f"{n:01000}"} for n in range(jobs)])
        tracemalloc.start()
        assert sum(1 for _ in queue.xquery(f"ClusterId == {len(sizes) + 1}")) == jobs
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    sizes: list[int] = []
    for jobs in (300, 1500):
        sizes.append(peak(jobs))
    assert sizes[1] < sizes[0] * 1.5


def test_a_submitter_sees_its_own_jobs_only(queue: Queue, connect: Any, conninfo: str) -> None:
    queue.direct.submit_many([{"Owner": "alice"}, {"Owner": "bob"}])
    queue.direct.connection.execute("CREATE ROLE portal_user LOGIN PASSWORD 'x' IN ROLE fetchwork_submitter")
    try:
        queue.direct.connection.execute("SELECT fetchwork.grant_owner('portal_user', 'bob')")
        theirs = psycopg.conninfo.make_conninfo(conninfo, user="portal_user", password="x")
        with Queue(theirs) as own:
            assert ids(own.query()) == ["1.1"]
            assert ids(own.query('Owner == "alice"')) == []
            queue.direct.call("sequence_events")
            assert {event.job_id for event in own.events(stop_after=0)} == {"1.1"}
            assert own.act(fetchwork.JobAction.Hold, ["1.0"])["TotalNotFound"] == 1
            assert own.act(fetchwork.JobAction.Hold, "true")["TotalSuccess"] == 1
            with pytest.raises(DatabaseRefused, match="may not submit as Owner 'alice'"):
                own.submit(SLEEP + "queue\n", owner="alice")
    finally:
        queue.direct.connection.execute("DROP OWNED BY portal_user")
        queue.direct.connection.execute("DROP ROLE portal_user")


# -- act, edit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        ("1.0", ["1.0"]),
        (["1.0", "2.1"], ["1.0", "2.1"]),
        ("2", ["2.0", "2.1"]),
        (2, ["2.0", "2.1"]),
        (["2", "2.1", "2.1"], ["2.0", "2.1"]),
        ("JobPrio > 0", ["1.1", "2.1"]),
        (parse_expr("JobPrio > 0 && ClusterId + 1 == 3"), ["2.1"]),
    ],
)
def test_act_takes_every_kind_of_job_spec(queue: Queue, spec: Any, held: list[str]) -> None:
    for _ in range(2):
        queue.direct.submit_many([{"JobPrio": n} for n in range(2)])
    result = queue.act(fetchwork.JobAction.Hold, spec, "to look at them")
    assert ids(queue.query("JobStatus == 5")) == held
    assert (result["TotalSuccess"], result["TotalJobAds"], result["TotalNotFound"]) == (len(held), 4, 0)
    assert result["TotalChangedAds"] == 1
    assert {ad["HoldReason"] for ad in queue.query("JobStatus == 5")} == {"to look at them"}


def test_act_counts_what_is_not_there_and_what_can_t_be(queue: Queue) -> None:
    # the names and numbers of a schedd 23.9.6
    queue.direct.submit_many([{}] * 3)
    queue.direct.act("hold", "1.0")
    hold, release, remove = (getattr(fetchwork.JobAction, name) for name in ("Hold", "Release", "Remove"))

    def counted(action: Any, spec: Any) -> tuple[int, ...]:
        answer = queue.act(action, spec)
        return tuple(
            answer[f"Total{name}"]
            for name in ("Success", "AlreadyDone", "BadStatus", "NotFound", "ChangedAds")
        )

    assert counted(hold, ["1.0", "1.1", "7.0"]) == (1, 1, 0, 1, 1)
    assert counted(release, ["1.2"]) == (0, 0, 1, 0, 0)
    assert counted(release, "1") == (2, 0, 0, 0, 1)
    assert counted(release, "true") == (0, 0, 0, 0, 0)
    assert counted(fetchwork.JobAction.Vacate, ["1.0"]) == (0, 0, 1, 0, 0)
    assert counted(fetchwork.JobAction.RemoveX, ["1.0", "1.1"]) == (0, 0, 2, 0, 0)
    run = queue.direct.started()
    assert counted(remove, [run.job]) == (1, 0, 0, 0, 1)
    assert counted(remove, [run.job]) == (0, 1, 0, 0, 0)
    with pytest.raises(TypeError, match="reason"):
        queue.act(hold, "1.1", 5)  # type: ignore[arg-type]


def test_all_actions_that_fetched_work_knows(queue: Queue) -> None:
    queue.direct.submit_many([{}] * 2)
    run = queue.direct.started()
    assert queue.act(fetchwork.JobAction.Vacate, "true")["TotalSuccess"] == 1
    assert queue.direct.heartbeat(run)["requested"] == "vacate"
    queue.act(fetchwork.JobAction.Hold, "1.1")
    assert queue.act(fetchwork.JobAction.Release, 1)["TotalSuccess"] == 1
    assert queue.act(fetchwork.JobAction.Remove, 1)["TotalSuccess"] == 2
    assert queue.act(fetchwork.JobAction.Suspend, 1)["TotalSuccess"] == 0
    with pytest.raises(TypeError):
        queue.act("Hold", 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("action", ["Hold", "Release", "Remove", "RemoveX", "Vacate", "edit"])
def test_a_job_that_ends_between_a_constraints_search_and_the_change_is_skipped(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    queue.direct.submit_many([{}] * 3)
    queue.direct.started()
    if action == "Release":
        queue.act(fetchwork.JobAction.Hold, 1)
    if action == "RemoveX":
        queue.act(fetchwork.JobAction.Remove, "1.0")
    session = session_of(queue)
    answered = session._answer

    def answer(step: Any) -> object:
        if isinstance(step, Call):
            queue.direct.act("remove", "1.2")
        return answered(step)

    monkeypatch.setattr(session, "_answer", answer)
    if action == "edit":
        assert queue.edit("ClusterId == 1", "JobPrio", 5) == 2
    else:
        counts = queue.act(getattr(fetchwork.JobAction, action), "ClusterId == 1")
        assert counts["TotalSuccess"] == (1 if action in ("RemoveX", "Vacate") else 2)
    # it was in the queue when the constraint was evaluated
    assert queue.direct.status("1.2") == JobStatus.REMOVED


@pytest.mark.parametrize("spec", [True, 1.5, ["x"], None, "", " "])
def test_what_is_no_job_spec_is_refused(queue: Queue, spec: Any) -> None:
    with pytest.raises((TypeError, ValueError, FetchworkError)):
        queue.act(fetchwork.JobAction.Hold, spec)


def test_edit_takes_an_expression_or_its_text(queue: Queue) -> None:
    queue.direct.submit_many([{}] * 2)
    assert queue.edit("1.0", "JobPrio", "5") == 1
    assert queue.edit(1, "Department", quote("physics")) == 2
    assert queue.edit("JobPrio == 5", "Requirements", parse_expr("TARGET.Memory > 5")) == 1
    first, second = queue.query()
    assert (first["JobPrio"], first["Department"], str(first.lookup("Requirements"))) == (
        5,
        "physics",
        "TARGET.Memory > 5",
    )
    assert (second["JobPrio"], second["Department"], "Requirements" in second) == (0, "physics", False)
    with pytest.raises(NotFound):
        queue.edit("7.0", "JobPrio", "5")


# -- what was ------------------------------------------------------------------------------------------------


def test_history_has_how_jobs_ended_the_last_first(queue: Queue) -> None:
    queue.direct.submit_many([{}] * 3)
    queue.direct.finish(queue.direct.started(), ExitCode=3, JobPid=7, ExitBySignal=False)
    queue.direct.finish(queue.direct.started(), ExitSignal=9, JobPid=7, ExitBySignal=True)
    queue.direct.act("remove", "1.2", reason="not needed")
    removed, killed, failed = queue.history()
    assert (failed["JobStatus"], failed["ExitCode"], failed["ExitBySignal"]) == (4, 3, False)
    assert (killed["JobStatus"], killed["ExitSignal"], killed["ExitBySignal"]) == (4, 9, True)
    assert (removed["JobStatus"], removed["LastReason"]) == (3, "not needed")
    assert failed["LastRemoteHost"] == "slot1@h1"
    assert ids(queue.history("ExitCode =!= 3", match=1)) == ["1.2"]
    assert ids(queue.history(since="1.1")) == ["1.2"]
    assert ids(queue.history(since="ExitCode == 3")) == ["1.2", "1.1"]
    assert queue.query() == []


def test_a_job_that_vanished_from_the_queue_is_explained(queue: Queue) -> None:
    """Polling HTCondor's queue leaves open whether the job finished or was removed."""
    job = queue.direct.submit()
    queue.direct.act("remove", job, reason="budget is used up")
    assert queue.query("ClusterId == 1") == []
    (ad,) = queue.history("ClusterId == 1")
    assert (ad["JobStatus"], ad["LastReason"]) == (3, "budget is used up")


def test_epochs_are_the_runs_of_a_job(queue: Queue) -> None:
    queue.direct.submit()
    queue.direct.finish(queue.direct.started(), "evict", JobPid=7, VacateReason="drained")
    queue.direct.finish(queue.direct.started("slot2@h1"))
    last, first = queue.jobEpochHistory("ClusterId == 1")
    assert (first["Outcome"], first["Reason"], first["RemoteHost"]) == ("evicted", "drained", "slot1@h1")
    assert (last["Outcome"], last["ExitCode"], last["RemoteHost"]) == ("completed", 0, "slot2@h1")
    assert ids(queue.runs('Outcome == "evicted"')) == ["1.0"]


def test_an_epoch_tells_what_its_job_is(queue: Queue) -> None:
    queue.direct.submit(
        {"Cmd": "/bin/sh", "Args": "x", "Mine": 7, "UserLog": "/tmp/log", "Requirements": "/Expr(Mine > 6)/"},
        JobUniverse=5,
        RequestMemory=5,
        JobPrio=3,
    )
    queue.direct.finish(queue.direct.started(), "evict", JobPid=7, VacateReason="drained")
    queue.direct.started()
    live, first = queue.jobEpochHistory("Mine == 7 && QDate > 0 && JobUniverse == 5", ad_type="EPOCH")
    assert [ad["NumShadowStarts"] for ad in (live, first)] == [2, 1]
    assert [ad["JobStatus"] for ad in (live, first)] == [2, 2]
    assert (first["Cmd"], first["Args"], first["UserLog"], first["RequestMemory"], first["JobPrio"]) == (
        "/bin/sh",
        "x",
        "/tmp/log",
        5,
        3,
    )
    assert first.eval("Requirements") is True
    assert queue.jobEpochHistory(ad_type=["TRANSFER", "INPUT"]) == []
    assert len(queue.jobEpochHistory(ad_type=["TRANSFER", "epoch"])) == 2
    assert first["EpochWriteDate"] >= first["QDate"]
    queue.direct.act("remove", "1.0")
    # also for a job in history
    queue.direct.reap()
    assert len(queue.jobEpochHistory('Cmd == "/bin/sh"', projection=["Cmd", "RunId"])) == 2
    assert sorted(queue.jobEpochHistory("NumShadowStarts == 1", ["Cmd"])[0]) == ["Cmd"]


def test_names_of_the_bindings_are_there() -> None:
    assert fetchwork.Submit is htcondor2.Submit
    assert fetchwork.JobEventType is htcondor2.JobEventType
    for method in ("query", "act", "edit", "history", "jobEpochHistory", "submit", "reschedule"):
        assert hasattr(htcondor2.Schedd, method)
        assert hasattr(fetchwork.Queue, method)
        assert hasattr(fetchwork.AsyncQueue, method)


def test_a_connection_that_was_lost_is_made_again(queue: Queue) -> None:
    queue.direct.submit()
    assert len(queue.query()) == 1
    ours = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'fetchwork'"
    # the second argument: wait until it is gone; the previous test's session may be ending as well
    assert (True,) in queue.direct.rows(f"SELECT pg_terminate_backend(pid, 10000) {ours}")
    assert len(queue.query()) == 1


def test_reschedule_wakes_who_waits_for_work(queue: Queue) -> None:
    queue.direct.connection.execute("LISTEN fetchwork_work")
    queue.reschedule()
    assert [note.channel for note in queue.direct.connection.notifies(timeout=PATIENCE_S, stop_after=1)] == [
        "fetchwork_work"
    ]


# -- the attributes of ads ----------------------------------------------------------------------------------


def test_an_ad_has_what_every_ad_of_a_schedd_has(queue: Queue) -> None:
    queue.submit(SLEEP + "queue 2\n", owner="alice")
    (ad, _) = queue.query()
    for name in [
        "User",
        "GlobalJobId",
        "ServerTime",
        "CurrentHosts",
        "MinHosts",
        "MaxHosts",
        "ExitStatus",
        "ExitBySignal",
        "CommittedTime",
        "CommittedSlotTime",
        "CommittedSuspensionTime",
        "CumulativeSlotTime",
        "CumulativeSuspensionTime",
        "CumulativeRemoteUserCpu",
        "CumulativeRemoteSysCpu",
        "ImageSize",
        "JobLeaseDuration",
        "JobNotification",
        "JobSubmitMethod",
        "LeaveJobInQueue",
        "Rank",
        "NumCkpts",
        "NumRestarts",
        "NumSystemHolds",
        "LastSuspensionTime",
        "TotalSuspensions",
        "ShouldTransferFiles",
        "WhenToTransferOutput",
        "TargetType",
        "TotalSubmitProcs",
        "MyType",
    ]:
        assert name in ad, name
        assert len(queue.query(f"{name} =!= undefined")) == 2, name
        assert name in queue.query(projection=[name])[0], name
    assert [ad["TotalSubmitProcs"], ad["MyType"], ad["TargetType"]] == [2, "Job", "Machine"]
    assert len(queue.query('MyType == "Job" && User == strcat(Owner, "@", split(User, "@")[1])')) == 2


def test_an_ad_tells_the_job_s_life(queue: Queue) -> None:
    job = queue.direct.submit()
    run = queue.direct.started()
    queue.direct.heartbeat(run, ImageSize=5000, ResidentSetSize=3000)
    (ad,) = queue.query()
    assert [
        ad[name] for name in ("ImageSize", "MemoryUsage", "JobRunCount", "NumShadowStarts", "CurrentHosts")
    ] == [
        5000,
        3,
        1,
        1,
        1,
    ]
    queue.direct.finish(run, "evict", JobPid=1, JobState="Exited", JobDuration=5.0, VacateReason="drained")
    queue.direct.act("hold", job, reason="look", code=3, subcode=42)
    queue.direct.act("release", job, reason="looked")
    (ad,) = queue.query("LastHoldReasonCode == 3 && LastVacateTime > 0")
    assert ad["LastRemoteHost"] == "slot1@h1"
    assert (ad["LastHoldReason"], ad["LastHoldReasonSubCode"], ad["ReleaseReason"]) == ("look", 42, "looked")
    assert (ad["NumHoldsByReason"]["JobPolicy"], ad["LastJobStatus"], ad["MemoryUsage"]) == (1, 5, 3)
    queue.direct.act("remove", job, reason="enough")
    (ad,) = queue.history('RemoveReason =?= "enough" && !ExitBySignal && CompletionDate =?= undefined')
    assert "CompletionDate" not in ad
    assert ad["LastHoldReason"] == "look"
    held = queue.direct.submit()
    queue.direct.act("hold", held, reason="stay", code=3, subcode=1)
    queue.direct.act("remove", held)
    (ad,) = queue.history("ClusterId == 2")
    assert (ad["LastHoldReason"], ad["LastHoldReasonCode"], ad["LastHoldReasonSubCode"]) == ("stay", 3, 1)
    assert ad["JobFinishedHookDone"] == ad["EnteredCurrentStatus"]


def test_a_projection_is_the_same_part_of_an_ad_that_the_whole_ad_has(queue: Queue) -> None:
    queue.direct.submit_many(
        [{"Args": "1", "oddName": [1, {"a": 2}]}, {"Args": "", "Env": None}, {"ODDNAME": 1.0, "Env": "a=é"}],
        {"Owner": "alice", "Cmd": "/bin/sleep", "RequestMemory": 10, "CoreSize": True, "OddName": "common"},
    )
    names = [
        "Args", "ENV", "cmd", "requestmemory", "CoreSize", "oddname", "ImageSize", "NoSuchName",
        "ClusterId", "JobStatus", "JobPrio", "MyType", "HoldReason",
    ]  # fmt: skip
    wanted = {name.lower() for name in names}
    whole = [{key: ad[key] for key in ad if key.lower() in wanted} for ad in queue.query()]
    projected = queue.query(projection=names)
    assert [dict(ad) for ad in projected] == [dict(ad) for ad in whole]
    assert len(whole) == 3 and "Env" in whole[1]


def test_a_projection_brings_what_its_expressions_refer_to(queue: Queue) -> None:
    queue.direct.submit({"E": "/Expr(Num + f)/", "F": "/Expr(JobStatus * 10)/", "Num": 3, "Other": 1})
    (ad,) = queue.query(projection=["E"])
    assert sorted(ad) == ["E", "F", "JobStatus", "Num"]
    assert ad.eval("E") == 13
    assert sorted(queue.query(projection=["Num"])[0]) == ["Num"]
    assert sorted(queue.query("Num + 0 == 3", projection=["e"])[0]) == ["E", "F", "JobStatus", "Num"]


def test_a_cluster_s_ad_says_when_it_came(queue: Queue) -> None:
    result = queue.submit(SLEEP, queue="2", owner="alice")
    ad = result.clusterad()
    assert result.num_procs() == 2
    assert (ad["ClusterId"], ad["JobStatus"]) == (result.cluster(), 1)
    assert ad["QDate"] == ad["EnteredCurrentStatus"] == queue.query()[0]["QDate"]


def test_an_edit_that_matches_nothing_is_an_error(queue: Queue) -> None:
    queue.direct.submit()
    assert queue.edit("1.0", "Foo", "1", flags=0) == 1
    assert queue.edit([], "Foo", "1") == 0
    with pytest.raises(NotFound):
        queue.edit("Foo == 2", "Foo", "1")
