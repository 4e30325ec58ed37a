"""Autoclusters: jobs that matching cannot tell apart share one, all others do not."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.support.direct_queue import DirectQueue

JOB = {"Cmd": "/bin/true", "Owner": "alice"}


def autoclusters(queue: DirectQueue, *ads: dict[str, Any]) -> list[int]:
    """The autoclusters of these ads, each submitted alone; numbered from 0 in the order of their first job."""
    ids = [queue.column("autocluster_id", queue.submit(ad)) for ad in ads]
    return [sorted(set(ids)).index(found) for found in ids]


def test_jobs_that_differ_in_what_matching_does_not_look_at_are_one_autocluster(queue: DirectQueue) -> None:
    ads: list[dict[str, Any]] = [
        {},
        {"Args": "1"},
        {"Environment": "A=1"},
        {"JobPrio": 5},
        {"Foo": 7},
        {"PeriodicHold": True},
    ]
    assert autoclusters(queue, *ads) == [0] * 6


@pytest.mark.parametrize(
    "ad",
    [
        {"Owner": "bob"},
        {"AccountingGroup": "physics.alice"},
        {"AcctGroup": "physics"},
        {"RequestCpus": 2},
        {"RequestFrobs": 1},
        {"Requirements": "/Expr(TARGET.HasGPU)/"},
        {"Rank": "/Expr(TARGET.Mips)/"},
        {"ConcurrencyLimits": "x"},
        {"JobUniverse": 5},
    ],
    ids=lambda ad: next(iter(ad)),
)
def test_jobs_that_differ_in_what_matching_looks_at_are_autoclusters_of_their_own(
    queue: DirectQueue, ad: dict[str, Any]
) -> None:
    assert autoclusters(queue, {}, ad, {}) == [0, 1, 0]


def test_another_queue_makes_another_autocluster(queue: DirectQueue) -> None:
    queue.call("set_queue", name="gpu", changes={})
    assert autoclusters(queue, {}, {"FetchWorkQueue": "gpu"}, {"FetchWorkQueue": "default"}) == [0, 1, 2]
    assert queue.rows("SELECT FetchWorkQueue FROM fetchwork.autoclusters ORDER BY 1") == [
        ("default",),
        ("default",),
        ("gpu",),
    ]


def test_what_an_expression_refers_to_is_looked_at_through_any_number_of_references(
    queue: DirectQueue,
) -> None:
    refers = {"Requirements": "/Expr(TARGET.Memory > need)/", "Need": "/Expr(Base * 2)/"}
    assert autoclusters(
        queue, {**refers, "Base": 1}, {**refers, "base": 1, "Other": 1}, {**refers, "Base": 2}
    ) == [
        0,
        1,
        2,
    ]
    assert queue.value("SELECT ad FROM fetchwork.autoclusters ORDER BY AutoclusterId LIMIT 1") == {
        "Owner": "alice",
        **refers,
        "Base": 1,
    }


def test_a_reference_to_what_the_job_does_not_have_is_none(queue: DirectQueue) -> None:
    requirements = {"Requirements": "/Expr(TARGET.Color == MY.Want)/"}
    assert autoclusters(queue, requirements, {**requirements, "Wanted": 1}, {**requirements, "Want": 1}) == [
        0,
        0,
        1,
    ]


def test_requests_and_limits_are_there_as_numbers_where_sql_can_tell_them(queue: DirectQueue) -> None:
    queue.submit(
        RequestCpus=2, RequestMemory="/Expr(TARGET.Memory / 2)/", RequestDisk="/Expr(DiskUsage)/", DiskUsage=30, RequestGPUs=4,
        ConcurrencyLimits="Lic:2,DB",
    )  # fmt: skip
    assert queue.rows(
        "SELECT RequestCpus, RequestMemory, RequestDisk, RequestGPUs, ConcurrencyLimits FROM fetchwork.autoclusters"
    ) == [(2, None, 30, 4, "lic:2,db")]


def test_a_million_equal_jobs_are_one_autocluster_as_far_as_a_hundred_tell(queue: DirectQueue) -> None:
    queue.submit_many(
        [{"Args": str(n)} for n in range(100)], {**JOB, "Requirements": "/Expr(TARGET.x > y)/", "y": 1}
    )
    assert queue.value("SELECT count(*) FROM fetchwork.autoclusters") == 1


names = st.sampled_from(
    ["Foo", "bar", "Baz", "RequestThing", "requestcpus", "Args", "Requirements", "Rank", "AcctGroup"]
)
contents = st.sampled_from(
    [1, 2, "x", "/Expr(TARGET.a > MY.Foo)/", "/Expr(Bar + baz)/", "/Expr(BAZ)/", "/Expr(true)/"]
)
parts = st.dictionaries(names, contents, max_size=4).map(
    lambda ad: {key: value if key != "requestcpus" or value != "x" else 3 for key, value in ad.items()}
)


def test_the_jobs_of_one_call_get_the_autoclusters_that_each_would_get_alone(queue: DirectQueue) -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(parts, st.lists(parts, min_size=1, max_size=5))
    def holds(common: dict[str, Any], own: list[dict[str, Any]]) -> None:
        cluster = queue.value(
            "SELECT fetchwork.submit_cluster(%s, %s::jsonb[])",
            Jsonb({**JOB, **common}),
            [json.dumps(ad) for ad in own],
        )
        together = [
            row[0]
            for row in queue.rows(
                "SELECT autocluster_id FROM fetchwork.job WHERE cluster_id = %s ORDER BY proc_id", cluster
            )
        ]
        alone = queue.rows(
            "SELECT fetchwork.ensure_autocluster(c.ad || j.ad, j) FROM fetchwork.job AS j JOIN fetchwork.cluster AS c USING (cluster_id) WHERE cluster_id = %s ORDER BY proc_id",
            cluster,
        )
        assert together == [row[0] for row in alone]

    holds()


def test_two_sessions_that_are_the_first_of_an_autocluster_do_not_wait_for_each_other(
    queue: DirectQueue,
) -> None:
    queue.submit()
    slow, quick = queue.another(autocommit=False), queue.another()
    slow.submit(RequestCpus=7)
    quick.submit(RequestCpus=7)
    slow.connection.commit()
    (last, *rest) = queue.rows("SELECT autocluster_id FROM fetchwork.job WHERE cluster_id > 1")
    assert queue.column("autocluster_id", queue.submit(RequestCpus=7)) == min(last, *rest)[0]
