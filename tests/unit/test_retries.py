"""retry_request_memory and _disk: the transform that they become, and the request after each eviction."""

from typing import Any

import pytest

from fetchwork.classad.jsonform import from_json
from fetchwork.errors import SubmitError
from fetchwork.matchmaker import retrying
from fetchwork.queue.submitting.descriptions import from_description
from fetchwork.queue.submitting.unused import unused

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
    """A job's request at each of five evictions, until it would be held."""
    found: list[dict[str, int]] = []
    for _ in range(5):
        changes = retrying.changes(from_json(ad), code, subcode)
        if not changes:
            return found
        ad = {**ad, **changes}
        found.append(changes)
    return found


# the results that HTCondor's own tests of these commands expect (condor_tests/cmd_submit_regress_dry)
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
        # an increase beside a list is ignored
        (
            "retry_request_memory = 2G\nretry_request_memory_increase = 1G",
            "SET RequestMemory 2048",
            {},
            [2048],
        ),
        ("retry_request_memory = 1024.5", "SET RequestMemory 1025", {}, [1025]),
        ("retry_request_memory = 1.0019 tb", "SET RequestMemory 1049625", {}, [1049625]),
        # a retry with no more memory than before would not help: the job is held
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
    ("commands", "body", "values"),
    [
        ("request_disk = 10MB\nretry_request_disk = 20MB", "SET RequestDisk 20480", [20480]),
        ("request_disk = 10MB\nretry_request_disk = 20480.5", "SET RequestDisk 20481", [20481]),
        ("request_disk = 10MB, 80 MB", "SET RequestDisk 81920", [81920]),
        ("request_disk = 10MB, 20MB, 80 MB", LISTED.format("Disk"), [20480, 81920]),
        (
            "request_disk = 10MB\nRetry_Request_Disk = 20MB, RequestDisk * 2",
            LISTED.format("Disk"),
            [20480, 40960, 81920, 163840, 327680],
        ),
    ],
)
def test_more_disk_is_asked_for_in_kib_and_for_hold_104_alone(
    commands: str, body: str, values: list[int]
) -> None:
    (ad,) = ads(commands)
    assert ad["RequestDisk"] == 10240
    assert ad["TransformOnEvict"] == "RequestDisk"
    assert ad["TransformBody_RequestDisk"] == f"{REQUIREMENTS.format(104)}\x1e{body}"
    assert [one["RequestDisk"] for one in asked(ad, 104)] == values
    assert asked(ad) == []


def test_memory_and_disk_are_asked_for_each_by_its_own_hold() -> None:
    found = ads(
        "request_memory = 1GB, 2GB\nrequest_disk = $(first)\nretry_request_disk = 30MB",
        "queue first from (\n 10MB\n 20MB\n)",
    )
    for ad in found:
        assert ad["TransformOnEvict"] == "RequestMemory RequestDisk"
        assert asked(ad, 102) == [{"RequestMemory": 2048}]
        assert asked(ad, 104) == [{"RequestDisk": 30720}]
    assert [ad["RequestDisk"] for ad in found] == [10240, 20480]


@pytest.mark.parametrize("commands", ["request_disk = 10MB", "request_disk = max({5, 10})"])
def test_one_value_of_disk_is_a_request_as_before(commands: str) -> None:
    assert "RequestDisk" in ads(commands)[0]


@pytest.mark.parametrize("digits", [19, 400, 5000])
@pytest.mark.parametrize("command", ["retry_request_memory", "retry_request_memory_increase"])
def test_a_number_that_nothing_can_hold_is_refused(command: str, digits: int) -> None:
    for value in (f"{'9' * digits} GB", f"1 GB, {'9' * digits} GB"):
        with pytest.raises(SubmitError, match=f"command '{command}[' ]"):
            ads(f"request_memory = 1GB\n{command} = {value}")


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
    # no trace is left of the way in which the commands passed the bindings
    assert not [name for ad in found for name in ad if name.startswith("FetchWorkCommand")]


def test_a_job_without_the_commands_is_as_before() -> None:
    (ad,) = ads("request_memory = 1GB")
    assert not [name for name in ad if name.startswith(("Transform", "Retry", "FetchWorkCommand"))]
    assert unused("executable = /bin/true\nretry_request_memory = 2GB\nqueue\n") == []


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
