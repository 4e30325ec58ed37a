"""submit, submit_many, submit_cluster: accepted jobs, their storage, and the messages of refusals."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from fetchwork.config import sections
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import until

JOB = {"Cmd": "/bin/true", "Owner": "alice"}


def refusal(queue: DirectQueue, ad: Any, common: Any = None) -> tuple[str, str]:
    """SQLSTATE and message."""
    with pytest.raises(psycopg.Error) as caught:
        queue.submit_many([ad], common if common is not None else {})
    message = caught.value.diag.message_primary
    assert message
    assert "\n" not in message
    return str(caught.value.sqlstate), message


# ad, SQLSTATE, beginning of the message
REFUSED: list[tuple[Any, str, str]] = [
    ({}, "FWINV", 'attribute "Cmd" is missing or empty; allowed: the path of the executable'),
    ({"Cmd": ""}, "FWINV", 'attribute "Cmd" is missing or empty'),
    ({"Cmd": 7, "Owner": "alice"}, "FWINV", 'attribute "Cmd" is 7; allowed: a string'),
    ({"Cmd": '/Expr(strcat("/bin", "/sh"))/', "Owner": "alice"}, "FWINV", 'attribute "Cmd" is strcat('),
    (
        {"Cmd": "true", "Owner": "alice"},
        "FWINV",
        'attribute "Cmd" is "true" and there is no Iwd; allowed: an absolute path',
    ),
    (
        {"Cmd": "/bin/a\nb", "Owner": "alice"},
        "FWINV",
        'attribute "Cmd" has a control character; allowed: none',
    ),
    ({"Cmd": "/bin/true"}, "FWINV", 'attribute "Owner" is missing; allowed: an account of the execute hosts'),
    ({"Cmd": "/bin/true", "Owner": None}, "FWINV", 'attribute "Owner" is missing'),
    ({"Cmd": "/bin/true", "Owner": "a b"}, "FWINV", 'attribute "Owner" is "a b"; allowed: an account name'),
    ({"Cmd": "/bin/true", "Owner": "0"}, "FWINV", 'attribute "Owner" is "0"; allowed: an account name'),
    ({"Cmd": "/bin/true", "Owner": "bob\nUser"}, "FWINV", 'attribute "Owner" has a control character'),
    ({"Cmd": "/bin/true", "Owner": "root"}, "FWDEN", "Owner 'root' is refused: no job runs as root; name"),
    ({"Cmd": "/bin/true", "Owner": "ROOT"}, "FWDEN", "Owner 'ROOT' is refused"),
    ([], "FWINV", "a job ad is not a JSON object; allowed:"),
    ("x", "FWINV", "a job ad is not a JSON object"),
    (None, "FWINV", "a job ad is not a JSON object"),
]
# the addition to JOB, the beginning of the message
REFUSED_IN_A_JOB: list[tuple[dict[str, Any], str]] = [
    ({"RemoteIwd": "x"}, 'attribute "RemoteIwd" is "x"; allowed: an absolute path'),
    ({"RemoteIwd": "/x", "FetchWorkFiles": "sandbox"}, 'attribute "RemoteIwd" is "/x"; allowed'),
    ({"Iwd": "home"}, 'attribute "Iwd" is "home"; allowed: an absolute path'),
    ({"Iwd": "/tmp\t"}, 'attribute "Iwd" has a control character'),
    ({"Out": 1}, 'attribute "Out" is 1; allowed: a string'),
    ({"JobUniverse": 9}, 'attribute "JobUniverse" is 9; allowed: 5 (vanilla), 7 (scheduler)'),
    ({"JobUniverse": 12}, 'attribute "JobUniverse" is 12; allowed: 5 (vanilla), 7 (scheduler)'),
    ({"JobUniverse": 7}, 'attribute "FetchWorkAccessPoint" is missing in a job of the sched'),
    ({"OtherJobRemoveRequirements": "true"}, 'attribute "OtherJobRemoveRequirements" is "tr'),
    ({"JobUniverse": "5"}, 'attribute "JobUniverse" is "5"'),
    ({"FetchWorkQueue": "gpu"}, "queue 'gpu' does not exist; allowed: default"),
    ({"a b": 1}, '"a b" is not an attribute name; allowed: letters, digits and _, not a digit first'),
    ({'x = 1\nOwner = "root"\ny': 1}, '"x = 1\\nOwner = \\"root\\"\\ny" is not an attribute name'),
    ({"1x": 1}, '"1x" is not an attribute name'),
    ({"": 1}, '"" is not an attribute name'),
    (
        {"undefined": 1},
        'attribute name "undefined" is a word of the ClassAd language; allowed: any other name',
    ),
    ({"Error": 1}, 'attribute name "Error" is a word of the ClassAd language'),
    ({"HookKeyword": "X"}, 'attribute "HookKeyword" is set by fetchwork only; allowed: leave it out'),
    ({"hookkeyword": "X"}, 'attribute "hookkeyword" is set by fetchwork only'),
    ({"FetchWorkToken": "X"}, 'attribute "FetchWorkToken" is set by fetchwork only'),
    ({"FETCHWORKRUNID": 1}, 'attribute "FETCHWORKRUNID" is set by fetchwork only'),
    ({"FetchWorkAnything": 1}, 'attribute "FetchWorkAnything" is set by fetchwork only'),
    # HTCondor would run these bare on the host
    ({"CheckpointDestination": "/x"}, 'attribute "CheckpointDestination" is "/x"; allowed: a URL'),
    ({"ContainerImage": "x.sif"}, 'attributes "WantSIF", "WantDockerImage",'),
    ({"ContainerImage": "x.sif", "WantContainer": True}, 'attributes "WantSIF",'),
    ({"WantContainer": True}, 'attributes "WantSIF", "WantDockerImage",'),
    ({"WantSIF": True}, 'attributes "WantSIF", "WantDockerImage",'),
    (
        {"WantDockerImage": True, "ContainerImage": "docker://debian"},
        'attribute "ContainerImage" is a URL, which HTCondor takes for a file of the job\'s Iwd',
    ),
    (
        {"WantSIF": True, "ContainerImage": "x.sif", "FetchWorkFiles": "sandbox", "WantFTOnCheckpoint": True},
        "a job in a container saves no checkpoints",
    ),
    ({"wantdocker": True}, 'attribute "WantDocker" = true can\'t be honoured'),
    (
        {"TransferInputRemaps": "a=b"},
        'attribute "TransferInputRemaps" = "a=b" can\'t be honoured: fetchwork transfers files as',
    ),
    ({"FetchWorkFiles": "everywhere"}, 'attribute "FetchWorkFiles" is "everywhere"; allowed: "sandbox"'),
    ({"MinHosts": 2}, 'attribute "MinHosts" = 2 can\'t be honoured: a fetched job runs in one slot'),
    ({"JobPrio": "high"}, 'attribute "JobPrio" is "high"; allowed: an integer'),
    ({"JobPrio": 1.5}, 'attribute "JobPrio" is 1.5; allowed: an integer'),
    ({"JobPrio": 10**12}, 'attribute "JobPrio" is 1000000000000; allowed: an integer'),
    (
        {"RequestMemory": -1},
        'attribute "RequestMemory" is -1; allowed: a number not below 0, or an expression',
    ),
    ({"RequestCpus": "2"}, 'attribute "RequestCpus" is "2"; allowed: a number'),
    (
        {"ConcurrencyLimits": "lic:many"},
        'attribute "ConcurrencyLimits" is "lic:many"; allowed: NAME or NAME:AMOUNT',
    ),
    ({"ConcurrencyLimits": "lic:-3"}, 'attribute "ConcurrencyLimits" is "lic:-3"'),
    (
        {"ConcurrencyLimits": "/Expr(TARGET.x)/"},
        'attribute "ConcurrencyLimits" is TARGET.x; allowed: a string',
    ),
    ({"AccountingGroup": 5}, 'attribute "AccountingGroup" is 5; allowed: a string'),
    ({"JobBatchName": ["x"]}, 'attribute "JobBatchName" is ["x"]; allowed: a string'),
    ({"Foo": "/Expr(1 \x01)/"}, 'attribute "Foo" has a control character in its expression'),
    ({"Foo": 1, "foo": 2}, 'attribute "Foo" is given twice, as "Foo" and "foo"; allowed: once'),
    ({"cmd": "/bin/sh"}, 'attribute "Cmd" is given twice'),
    ({"Environment": "x" * 65000}, "the job ad is too large: up to 658"),
]
REFUSED += [({**JOB, **added}, "FWINV", begin) for added, begin in REFUSED_IN_A_JOB]


def test_an_ad_that_no_slot_could_run_is_refused_with_what_is_wrong_and_what_is_allowed(
    queue: DirectQueue,
) -> None:
    for ad, state, begin in REFUSED:
        told = refusal(queue, ad)
        assert told[0] == state, (ad, told)
        assert told[1].startswith(begin), (ad, told)


def test_what_is_refused_in_a_jobs_own_part_is_refused_in_the_common_part_too(queue: DirectQueue) -> None:
    for ad, state, begin in REFUSED:
        if isinstance(ad, dict):
            told = refusal(queue, {}, ad)
            assert told[0] == state, (ad, told)
            assert told[1].startswith(begin), (ad, told)


def test_all_jobs_of_a_call_go_in_or_none(queue: DirectQueue) -> None:
    with pytest.raises(psycopg.Error):
        queue.submit_many([{}, {"Iwd": "x"}])
    assert queue.value("SELECT count(*) FROM fetchwork.jobs") == 0


def test_nothing_to_submit_is_refused(queue: DirectQueue) -> None:
    with pytest.raises(psycopg.Error, match="there are no jobs to submit; allowed: one ad or more"):
        queue.submit_many([])


def test_attributes_are_spelled_as_htcondor_spells_them(queue: DirectQueue) -> None:
    queue.submit({"requestcpus": 2, "ENVIRONMENT": "A=1", "MyOwn": 1})
    assert queue.value("SELECT ad FROM fetchwork.jobs") == {
        "Cmd": "/bin/true",
        "Owner": "alice",
        "RequestCpus": 2,
        "Environment": "A=1",
        "MyOwn": 1,
    }


def test_a_jobs_own_attribute_wins_over_the_common_one_however_it_is_spelled(queue: DirectQueue) -> None:
    queue.submit_many([{"myattr": 2, "ARGUMENTS": "b"}], {**JOB, "MyAttr": 1, "Arguments": "a"})
    assert queue.value("SELECT ad FROM fetchwork.jobs") == {**JOB, "MyAttr": 2, "Arguments": "b"}


def test_what_condor_submit_writes_and_the_queue_knows_itself_is_dropped(queue: DirectQueue) -> None:
    queue.submit(
        {
            "JobStatus": 1,
            "ClusterId": 9,
            "QDate": 5,
            "User": "root@x",
            "LeaveJobInQueue": False,
            "TransferInput": "",
        }
    )
    assert queue.value("SELECT ad FROM fetchwork.jobs") == JOB


def test_policy_that_says_nothing_is_dropped_so_that_nobody_evaluates_it(queue: DirectQueue) -> None:
    silent = {
        "OnExitHold": False,
        "OnExitRemove": True,
        "PeriodicHold": False,
        "PeriodicRelease": False,
        "PeriodicRemove": False,
        "Rank": 0.0,
    }
    assert not queue.column("has_policy", queue.submit(silent))
    assert queue.column("has_policy", queue.submit({"PeriodicHold": "/Expr(NumJobStarts > 3)/"}))


@pytest.mark.parametrize("name", ["JobStatus", "jobstatus"])
def test_jobstatus_5_submits_on_hold(queue: DirectQueue, name: str) -> None:
    held, idle = queue.submit_many([{name: 5}, {}])
    assert queue.status(held) == 5
    assert queue.column("hold_code", held) == 15
    assert queue.events(held) == [0, 12]
    assert queue.status(idle) == 1
    (all_held,) = queue.submit_many([{"Args": "x"}], {**JOB, name: 5})
    assert queue.status(all_held) == 5


def test_submit_takes_named_parameters_and_returns_the_id(queue: DirectQueue) -> None:
    job = queue.scalar(
        "submit",
        cmd="/bin/sleep",
        owner="alice",
        arguments="60",
        environment="A='x y'",
        iwd="/tmp",
        input="in",
        output="out",
        error="err",
        request_cpus=2,
        request_memory=100,
        request_disk=5,
        request_gpus=1,
        requirements="TARGET.HasGPU",
        rank="TARGET.Mips",
        priority=3,
        batch_name="b",
        accounting_group="physics.alice",
        ad={"Department": "physics", "Cmd": "/bin/false"},
    )
    assert job == "1.0"
    assert queue.value("SELECT ad FROM fetchwork.jobs WHERE JobId = '1.0'") == {
        "Cmd": "/bin/sleep", "Owner": "alice", "Arguments": "60", "Environment": "A='x y'", "Iwd": "/tmp", "In": "in", "Out": "out",
        "Err": "err", "RequestCpus": 2, "RequestMemory": 100, "RequestDisk": 5, "RequestGPUs": 1,
        "Requirements": "/Expr(TARGET.HasGPU)/", "Rank": "/Expr(TARGET.Mips)/", "JobPrio": 3, "JobBatchName": "b",
        "AccountingGroup": "physics.alice", "Department": "physics",
    }  # fmt: skip
    assert queue.rows("SELECT Submitter, JobPrio, JobBatchName FROM fetchwork.jobs") == [
        ("physics.alice", 3, "b")
    ]


def test_submit_many_answers_in_the_order_of_the_ads(queue: DirectQueue) -> None:
    assert queue.submit_many([{"Args": str(n)} for n in range(3)]) == ["1.0", "1.1", "1.2"]
    assert queue.rows("SELECT ProcId, ad ->> 'Args' FROM fetchwork.jobs ORDER BY ProcId") == [
        (0, "0"),
        (1, "1"),
        (2, "2"),
    ]


def test_what_a_clusters_jobs_have_in_common_is_stored_once(queue: DirectQueue) -> None:
    queue.submit_many([{"Args": "1"}, {"Args": "2"}], {**JOB, "Environment": "A=1"})
    assert queue.value("SELECT ad FROM fetchwork.cluster") == {**JOB, "Environment": "A=1"}
    assert queue.rows("SELECT ad FROM fetchwork.job ORDER BY proc_id") == [({"Args": "1"},), ({"Args": "2"},)]


def test_a_reserved_cluster_takes_its_id_and_grows_in_the_transaction_that_made_it(
    queue: DirectQueue,
) -> None:
    cluster = queue.scalar("reserve_cluster")
    submit = "SELECT fetchwork.submit_cluster(%s, %s::jsonb[], %s)"
    with queue.connection.transaction():
        assert (
            queue.value(
                submit, Jsonb({**JOB, "Out": f"/tmp/{cluster}"}), [json.dumps({"Args": "0"})], cluster
            )
            == cluster
        )
        assert queue.value(submit, None, [json.dumps({"Args": "1"}), "{}"], cluster) == cluster
    assert queue.rows("SELECT JobId FROM fetchwork.jobs ORDER BY ProcId") == [("1.0",), ("1.1",), ("1.2",)]
    with pytest.raises(psycopg.Error, match="cluster 1 was not made in this transaction"):
        queue.value(submit, None, ["{}"], cluster)
    with pytest.raises(psycopg.Error, match="cluster id 1 was not reserved"):
        queue.value(submit, Jsonb(JOB), ["{}"], cluster)
    with pytest.raises(psycopg.Error, match="cluster id 99 was not reserved"):
        queue.value(submit, Jsonb(JOB), ["{}"], 99)


def test_a_draining_queue_takes_no_new_jobs_and_keeps_those_it_has(queue: DirectQueue) -> None:
    queue.submit()
    queue.call("set_queue", name="default", changes={"draining": True})
    assert refusal(queue, JOB) == ("FWDEN", "queue 'default' is draining and takes no new jobs")
    assert queue.claim() is not None


def test_a_job_may_be_as_large_as_the_startd_reads_and_no_larger(queue: DirectQueue) -> None:
    # the value that a generated host has by default
    largest = sections.Host.model_fields["pipe_buffer_max"].default
    assert refusal(queue, {**JOB, "Arguments": "x" * (largest - 640)})[1].endswith(
        f"allowed: {largest} (setting max_ad_bytes, PIPE_BUFFER_MAX of the hosts)"
    )
    queue.submit({"Arguments": "x" * (largest - 1240)})
    # attributes that are not printed for the starter take no room
    queue.submit({"Requirements": f"/Expr({' || '.join(['TARGET.Foo'] * 8000)})/"})
    queue.set("max_ad_bytes", 1000000)
    queue.submit({"Arguments": "x" * 100000})


def test_cluster_ids_can_not_be_used_up_by_reserving(queue: DirectQueue) -> None:
    queue.set("max_reserved_clusters", 5)
    with pytest.raises(psycopg.Error, match="has 5 cluster ids reserved and not used"):
        queue.rows("SELECT count(fetchwork.reserve_cluster()) FROM generate_series(1, 1000000)")
    reserved = [queue.scalar("reserve_cluster") for _ in range(5)]
    with pytest.raises(psycopg.Error, match="has 5 cluster ids reserved and not used"):
        queue.scalar("reserve_cluster")
    # a used key makes room, and so do expired ones
    assert (
        queue.scalar("submit_cluster", common=GOOD_AD, procs=[Jsonb({})], cluster=reserved[0]) == reserved[0]
    )
    queue.scalar("reserve_cluster")
    queue.connection.execute(
        "UPDATE fetchwork.cluster_reservation SET reserved_at = now() - interval '2 hours'"
    )
    with pytest.raises(psycopg.Error, match="was not reserved"):
        queue.scalar("submit_cluster", common=GOOD_AD, procs=[Jsonb({})], cluster=reserved[1])
    queue.scalar("reserve_cluster")
    assert queue.value("SELECT count(*) FROM fetchwork.cluster_reservation") == 1


def test_only_who_reserved_a_cluster_id_may_use_it(queue: DirectQueue) -> None:
    reserved = queue.scalar("reserve_cluster")
    queue.connection.execute("UPDATE fetchwork.cluster_reservation SET role = 'another'")
    with pytest.raises(psycopg.Error, match="was not reserved"):
        queue.scalar("submit_cluster", common=GOOD_AD, procs=[Jsonb({})], cluster=reserved)


GOOD_AD = {"Cmd": "/bin/true", "Owner": "alice"}


LIKE: list[dict[str, Any]] = [
    {},
    {"Args": "--seed 1"},
    {"Arguments": 'a "quoted" word, a \\ and a / and 100 %', "Environment": "A=1 B='x y'"},
    {"In": "/in", "Out": "out.1", "Err": "err {1}, [2]"},
    {"Env": "ü, 語"},
]


@pytest.mark.parametrize(
    "common",
    [
        JOB,
        {**JOB, "JobStatus": 5, "SubmitEventNotes": "DAG Node: A", "JobBatchName": "b"},
        {**JOB, "JobPrio": 7, "OnExitHold": "/Expr(ExitCode != 0)/", "RequestCpus": 2},
    ],
)
def test_jobs_that_are_alike_go_in_as_they_would_one_by_one(
    queue: DirectQueue, common: dict[str, Any]
) -> None:
    """The same rows, by the set and, because the last job is different, by the loop."""
    submit = "SELECT fetchwork.submit_cluster(%s, %s::jsonb[])"
    assert queue.value("SELECT fetchwork.are_like(%s::jsonb[], 1000)", [*map(json.dumps, LIKE)]) is True
    queue.value(submit, Jsonb(common), [*map(json.dumps, LIKE)])
    queue.value(submit, Jsonb(common), [*map(json.dumps, [*LIKE, {"Foo": 1}])])
    for table, order in (("job", "proc_id"), ("waiting", "position"), ("event", "event_type, proc_id")):
        alike, alone = (
            queue.rows(
                f"SELECT to_jsonb(t) - '{{cluster_id,position,event_id,xid,at,q_date,status_at}}'::text[]"
                f" FROM fetchwork.{table} AS t WHERE cluster_id = %s AND proc_id < %s ORDER BY {order}",
                cluster,
                len(LIKE),
            )
            for cluster in (1, 2)
        )
        assert alike == alone
        assert bool(alike) == (table != "waiting" or "JobStatus" not in common)
    counts = "SELECT sum(jobs), sum(held) FROM fetchwork.tally_change"
    assert queue.rows(counts) == [(11, 11 if "JobStatus" in common else 0)]


@pytest.mark.parametrize(
    "own",
    [
        {"Args": "/Expr(strcat(1))/"},
        {"Args": "a\nb"},
        {"Args": "a\x7fb"},
        {"Out": "a\tb"},
        {"Args": 7},
        {"Args": None},
        {"Args": ["a"]},
        {"args": "spelled otherwise"},
        {"Args": "x" * 1000},
        {"Requirements": "true"},
        {"Args": "a", "JobPrio": "b"},
        {"Args": 'a", "JobPrio": "b', "JobPrio": 1},
    ],
)
def test_a_job_of_which_there_is_more_to_look_at_is_not_like_others(
    queue: DirectQueue, own: dict[str, Any]
) -> None:
    procs = [*map(json.dumps, [*LIKE, own])]
    assert queue.value("SELECT fetchwork.are_like(%s::jsonb[], 500)", procs) is False


def test_jobs_that_matching_tells_apart_are_not_put_in_as_a_set(queue: DirectQueue) -> None:
    queue.submit_many([{"Args": "1"}, {"Args": "2"}], {**JOB, "Requirements": "/Expr(Args =!= undefined)/"})
    assert queue.value("SELECT count(DISTINCT autocluster_id) FROM fetchwork.job") == 2


def test_a_job_too_large_to_print_is_refused_among_many_that_are_alike(queue: DirectQueue) -> None:
    procs = [json.dumps({"Args": "x" * size}) for size in (10, 66000)]
    with pytest.raises(psycopg.Error, match="the job ad is too large"):
        queue.value("SELECT fetchwork.submit_cluster(%s, %s::jsonb[])", Jsonb(JOB), procs)
    assert queue.value("SELECT count(*) FROM fetchwork.job") == 0


def test_ads_may_come_as_one_array(queue: DirectQueue) -> None:
    cluster = queue.value("SELECT fetchwork.submit_ads(%s, %s)", Jsonb(JOB), Jsonb([{}, {"Args": "1"}]))
    assert queue.rows("SELECT proc_id, ad FROM fetchwork.job WHERE cluster_id = %s ORDER BY 1", cluster) == [
        (0, {}),
        (1, {"Args": "1"}),
    ]


def test_cluster_ids_begin_anew_after_the_last_and_step_over_what_is_known(queue: DirectQueue) -> None:
    (held,) = queue.submit_many([{}])
    done = queue.started(host_id=queue.host()) if queue.submit_many([{}]) else None
    assert done is not None
    queue.finish(done)
    reserved = queue.scalar("reserve_cluster")
    assert (held, reserved) == ("1.0", 3)
    queue.connection.execute("SELECT setval('fetchwork.cluster_id', 2147483646)")
    assert queue.submit_many([{}]) == ["2147483647.0"]
    # 1 waits or has ended, as has 2, and 3 is reserved for a submitter: 4 is the next free number
    assert queue.submit_many([{}]) == ["4.0"]
    assert queue.scalar("reserve_cluster") == 5


def test_container_of_every_job_of_a_cluster_is_looked_at(queue: DirectQueue) -> None:
    with pytest.raises(psycopg.Error, match="do not agree"):
        queue.submit_many([{}, {"WantContainer": True}], JOB)
    bare, _ = queue.submit_many([{}, {"ContainerImage": "x.sif", "WantSIF": True}], JOB)
    # the bare attribute would have been the one that is checked
    with pytest.raises(psycopg.Error, match="do not agree"):
        queue.call("edit", jobs=[bare.removesuffix(".0")], changes={"WantSIF": None})


# -- keys


def submitted(queue: DirectQueue, key: str | None, **ad: Any) -> int:
    return int(queue.scalar("submit_cluster", common={**GOOD_AD, **ad}, procs=[Jsonb({})], key=key))


def test_a_repeated_key_of_the_same_owner_submits_nothing(queue: DirectQueue) -> None:
    first = submitted(queue, "night", Args="1")
    assert submitted(queue, "night", Args="2") == first
    assert submitted(queue, "day") == first + 1
    # another owner's, and none
    assert submitted(queue, "night", Owner="bob") == first + 2
    assert submitted(queue, None) != submitted(queue, None)
    assert queue.value("SELECT count(*) FROM fetchwork.job") == 5
    assert queue.value("SELECT count(*) FROM fetchwork.cluster_reservation") == 0


def test_every_way_to_submit_takes_a_key(queue: DirectQueue) -> None:
    first = queue.scalar("submit", cmd="/bin/true", owner="alice", key="k")
    assert queue.scalar("submit", cmd="/bin/true", owner="alice", key="k") == first
    ads = [Jsonb(GOOD_AD)] * 3
    (row, *_) = queue.call("submit_many", ads=ads, key="many")
    (again, *_) = queue.call("submit_many", ads=ads, key="many")
    assert row == again
    assert queue.value("SELECT count(*) FROM fetchwork.job") == 4


@pytest.mark.parametrize("key", ["", "x" * 251])
def test_a_key_has_a_size(queue: DirectQueue, key: str) -> None:
    with pytest.raises(psycopg.Error, match="the key of a submission is empty or too long"):
        submitted(queue, key)


def test_a_refused_submission_leaves_its_key_free(queue: DirectQueue) -> None:
    with pytest.raises(psycopg.Error, match='"Cmd"'):
        submitted(queue, "k", Cmd="")
    assert submitted(queue, "k") > 0


def test_a_repeated_key_is_answered_though_a_limit_was_reached_since(queue: DirectQueue) -> None:
    first = submitted(queue, "k")
    queue.call("set_queue", name="default", changes=Jsonb({"draining": True}))
    assert submitted(queue, "k") == first
    with pytest.raises(psycopg.Error, match="draining"):
        submitted(queue, "other")


def test_a_key_belongs_to_the_owner_of_the_first_job_in_any_spelling(queue: DirectQueue) -> None:
    first = submitted(queue, "k")
    common, procs = {**GOOD_AD, "owner": "bob"}, [Jsonb({"OWNER": "alice"}), Jsonb({})]
    common.pop("Owner")
    assert queue.scalar("submit_cluster", common=common, procs=procs, key="k") == first
    bobs = queue.scalar("submit_cluster", common=common, procs=[Jsonb({})], key="k")
    assert bobs != first
    assert queue.rows("SELECT owner, cluster_id FROM fetchwork.submission ORDER BY 2") == [
        ("alice", first),
        ("bob", bobs),
    ]


def test_a_key_is_kept_for_submission_days(queue: DirectQueue) -> None:
    first = submitted(queue, "k")
    for age, is_kept in (("6 days 23 hours", True), ("7 days 1 hour", False)):
        queue.connection.execute("UPDATE fetchwork.submission SET submitted_at = now() - %s::interval", [age])
        queue.scalar("maintain_tables")
        assert (submitted(queue, "k") == first) is is_kept


@pytest.mark.parametrize("first_is_made", [True, False])
def test_a_key_that_is_under_way_is_waited_for(queue: DirectQueue, first_is_made: bool) -> None:
    other = queue.another(autocommit=False)
    first = submitted(other, "k")
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(submitted, queue.another(), "k")
        until(
            lambda: (
                queue.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid'") == 1
            )
        )
        (other.connection.commit if first_is_made else other.connection.rollback)()
        assert (second.result() == first) is first_is_made
    assert queue.value("SELECT count(*) FROM fetchwork.job") == 1


def test_a_thousand_calls_of_32_clients_with_one_key_make_one_cluster(queue: DirectQueue) -> None:
    clients = [queue.another() for _ in range(32)]

    def calls(client: DirectQueue) -> set[int]:
        return {submitted(client, "k") for _ in range(32)}

    with ThreadPoolExecutor(len(clients)) as pool:
        assert len(set().union(*pool.map(calls, clients))) == 1
    assert queue.value("SELECT count(*) FROM fetchwork.job") == 1
