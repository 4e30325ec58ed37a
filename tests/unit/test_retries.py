"""retry_request_memory: the transform that it becomes, and what a job asks for by it, again and again."""

from typing import Any

import pytest

from fetchwork.classad.jsonform import from_json
from fetchwork.errors import SubmitError
from fetchwork.matchmaker import retrying
from fetchwork.queue.descriptions import from_description, warnings_about

REQUIREMENTS = "REQUIREMENTS (VacateReasonCode==21 || VacateReasonCode == 34) && VacateReasonSubCode == {}"
PARTS = ("Retry", "MaxRe", "NextR")
LISTED = (
    "EVALSET Request{0} RetryRequest{0}[RetryRequest{0}Index?:0]\x1e"
    "EVALSET RetryRequest{0}Index MIN({{size(RetryRequest{0})-1, (RetryRequest{0}Index?:0)+1}})"
)


def ads(commands: str, queue: str = "queue") -> list[dict[str, Any]]:
    """The ads of a description's jobs."""
    jobs = from_description(f"executable = /bin/true\n{commands}\n{queue}\n", cluster_id=1, owner="alice")
    return [{**jobs.common, **own} for own in jobs.own]


def asked(ad: dict[str, Any], subcode: int = 102, code: int = 34) -> list[dict[str, int]]:
    """What a job asks for at each of five evictions, until it would be held."""
    found: list[dict[str, int]] = []
    for _ in range(5):
        changes = retrying.changes(from_json(ad), code, subcode)
        if not changes:
            return found
        ad = {**ad, **changes}
        found.append(changes)
    return found


# what HTCondor's own tests expect of these commands (condor_tests/cmd_submit_regress_dry)
@pytest.mark.parametrize(
    ("commands", "body", "more", "values"),
    [
        ("retry_request_memory = 2GB", "SET RequestMemory 2048", {}, [2048]),
        ("retry_request_memory_max = 2GB", "SET RequestMemory 2048", {}, [2048]),
        ("retry_request_memory_increase = 500 MB", "SET RequestMemory 1524", {}, [1524]),
        ("retry_request_memory_increase = RequestMemory*2", "SET RequestMemory 2048", {}, [2048]),
        (
            "retry_request_memory_increase = 512MB\nretry_request_memory_max = 2GB",
            "EVALSET RequestMemory MIN({NextRequestMemory, MaxRequestMemory})",
            {"MaxRequestMemory": 2048, "NextRequestMemory": "/Expr(RequestMemory + 512)/"},
            [1536, 2048],
        ),
        (
            "retry_request_memory = 2GB, 8GB",
            LISTED.format("Memory"),
            {"RetryRequestMemory": [2048, 8192]},
            [2048, 8192],
        ),
        (
            "retry_request_memory = 2GB, RequestMemory * 2",
            LISTED.format("Memory"),
            {"RetryRequestMemory": [2048, "/Expr(RequestMemory * 2)/"]},
            [2048, 4096, 8192, 16384, 32768],
        ),
        # an increase beside a list counts for nothing
        (
            "retry_request_memory = 2G\nretry_request_memory_increase = 1G",
            "SET RequestMemory 2048",
            {},
            [2048],
        ),
        ("retry_request_memory = 1024.5", "SET RequestMemory 1025", {}, [1025]),
        ("retry_request_memory = 1.0019 tb", "SET RequestMemory 1049625", {}, [1049625]),
        # no more than it had: it is held
        ("retry_request_memory = 1GB", "SET RequestMemory 1024", {}, []),
    ],
)
def test_commands_become_the_transform_that_htcondors_submit_makes(
    commands: str, body: str, more: dict[str, Any], values: list[int]
) -> None:
    (ad,) = ads(f"request_memory = 1GB\n{commands}")
    assert ad["RequestMemory"] == 1024
    assert ad["TransformOnEvict"] == "RequestMemory"
    assert ad["TransformBody_RequestMemory"] == f"{REQUIREMENTS.format(102)}\x1e{body}"
    assert {name: ad[name] for name in ad if name.endswith("RequestMemory") and name[:5] in PARTS} == more
    assert [changes["RequestMemory"] for changes in asked(ad)] == values
    assert asked(ad, code=21) == asked(ad)
    assert asked(ad, subcode=104) == asked(ad, code=6) == []


@pytest.mark.parametrize(
    "commands",
    ["request_memory = 1GB, 2G, 8 gb", "REQUEST_MEMORY = 1GB\nRetry_Request_Memory = $(more)\nmore = 2G,8G"],
)
def test_a_list_is_read_wherever_it_stands(commands: str) -> None:
    (ad,) = ads(commands)
    assert (ad["RequestMemory"], ad["RetryRequestMemory"]) == (1024, [2048, 8192])


@pytest.mark.parametrize(
    ("commands", "name"),
    [
        ("retry_request_disk = 20MB", "retry_request_disk"),
        ("Retry_Request_Disk = 20MB, RequestDisk * 2", "retry_request_disk"),
        # of a list, the bindings here would take the first without a word
        ("request_disk = 10MB, 80 MB", "request_disk"),
    ],
)
def test_more_disk_is_refused_for_no_fetched_job_is_held_for_its_disk(commands: str, name: str) -> None:
    with pytest.raises(SubmitError, match=rf"command '{name} = .*no fetched job is held for the disk"):
        ads(commands)


@pytest.mark.parametrize("commands", ["request_disk = 10MB", "request_disk = max({5, 10})"])
def test_one_value_of_disk_is_a_request_as_before(commands: str) -> None:
    assert "RequestDisk" in ads(commands)[0]


def test_each_job_asks_for_its_own() -> None:
    found = ads(
        "request_memory = $(first)\nretry_request_memory = $(next)",
        "queue first, next from (\n 100, 200 \n 300, 2GB\n 100, 200\n)",
    )
    assert [(ad["RequestMemory"], asked(ad)) for ad in found] == [
        (100, [{"RequestMemory": 200}]),
        (300, [{"RequestMemory": 2048}]),
        (100, [{"RequestMemory": 200}]),
    ]
    # nothing is left of how the commands came through the bindings
    assert not [name for ad in found for name in ad if name.startswith("FetchWorkCommand")]


def test_a_job_without_the_commands_is_as_before() -> None:
    (ad,) = ads("request_memory = 1GB")
    assert not [name for name in ad if name.startswith(("Transform", "Retry", "FetchWorkCommand"))]
    assert warnings_about("executable = /bin/true\nretry_request_memory = 2GB\nqueue\n") == []


@pytest.mark.parametrize(
    ("commands", "problem"),
    [
        ("request_memory = 100\nretry_request_memory = 200,100", "100 is not greater than 200"),
        ("request_memory = 100\nretry_request_memory = x y", "is invalid at 'x y'"),
        ("request_memory = 100\nretry_request_memory_increase = 0", "must be a positive number"),
        ("request_memory = 100\nretry_request_memory_increase = Memory", "that references RequestMemory"),
        ("request_memory = 100\nretry_request_memory_increase = RequestMemory + Foo", "is no number"),
        ("request_memory = 2 * 50\nretry_request_memory = 200", "that is no number here"),
    ],
)
def test_what_htcondors_submit_refuses_is_refused(commands: str, problem: str) -> None:
    with pytest.raises(SubmitError, match=problem):
        ads(commands)


@pytest.mark.parametrize(
    "body",
    [
        "SET Owner 5",
        "SET RequestMemory 200\x1eSET JobPrio 5",
        "SET RequestMemory undefined",
        "SET RequestMemory -5",
        "SET RequestMemory 1e300",
        "COPY RequestMemory Foo",
        "REQUIREMENTS false\x1eSET RequestMemory 200",
        "REQUIREMENTS\x1eSET RequestMemory 200",
        "",
    ],
)
def test_a_transform_of_another_kind_changes_nothing(body: str) -> None:
    ad = {"RequestMemory": 100, "TransformOnEvict": "A", "TransformBody_A": body}
    assert retrying.changes(from_json(ad), 34, 102) == {}


def test_the_first_transform_that_asks_for_something_else_is_applied() -> None:
    ad = {
        "RequestMemory": 100,
        "TransformOnEvict": "A, B C",
        "TransformBody_A": "SET RequestMemory 100",
        "TransformBody_C": "evalset requestmemory RequestMemory + 1",
    }
    assert retrying.changes(from_json(ad), 34, 102) == {"RequestMemory": 101}
