"""Jobs as tables: the same attributes as in ads, and only the requested ones."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from fetchwork.queue.reading.paging import Position
from fetchwork.queue.session import Session
from fetchwork.queue.submitting.submission import put

ODD = """
executable = /bin/sleep
arguments = $(Process)
+Text = "a\\"b"
+Real = 1.0
+Own = $(Process) % 3
+Both = {}
queue 7
"""


def as_ads(items: list[Any]) -> Iterator[dict[str, Any]]:
    for item in items:
        yield from item.get("ads", [])
        for number in range(item.get("jobs", 0)):
            own = {name: column[number] for name, column in item["columns"].items()}
            yield {**item["same"], **{name: value for name, value in own.items() if value is not None}}


@pytest.mark.parametrize("limit", [-1, 0, 1, 5, 8, 100])
@pytest.mark.parametrize(
    ("projection", "in_tables"),
    [
        (["ClusterId", "ProcId", "JobStatus", "Cmd", "RemoteHost", "Args", "MyType"], True),
        (["ProcId", "Text", "real", "DAG_NodesTotal"], True),
        # expressions, and the attributes that they refer to
        (["ProcId", "Own"], False),
        (["ProcId", "Requirements"], False),
        # lists are in no table, nor are other jobs of a page that has some
        (["ProcId", "Both"], None),
    ],
)
def test_tables_have_what_ads_have(
    session: Session,
    projection: list[str],
    in_tables: bool | None,
    limit: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Position, "PAGE", 3)
    for both in ('"x"', "{1, 2}", "JobPrio"):
        put(session.database, ODD.format(both), owner="alice")
    for constraint in ("true", 'Owner == "alice" && ProcId != 4', 'regexp("^[0-5]", Args)'):
        asked: dict[str, object] = {"constraint": constraint, "projection": projection, "limit": limit}
        items = list(session.items("job_tables", **asked))
        expected = [dict(ad) for ad in session.items("jobs", **asked)]
        assert list(as_ads(items)) == expected, constraint
        if limit and in_tables is not None and "regexp" not in constraint:
            assert any("jobs" in item for item in items) == in_tables


def test_a_table_says_once_what_all_jobs_share(session: Session) -> None:
    put(session.database, ODD.format(1), owner="alice")
    (item,) = session.items("job_tables", projection=["ProcId", "Owner", "Args", "Cmd", "Nothing"])
    assert item == {
        "jobs": 7,
        "same": {"Owner": "alice", "Cmd": "/bin/sleep"},
        "columns": {"ProcId": list(range(7)), "Args": [str(n) for n in range(7)]},
    }


@pytest.mark.parametrize(
    ("constraint", "whole"), [("true", True), ("ProcId > 2", True), ('regexp("^[0-5]", Args)', False)]
)
def test_a_cluster_is_its_first_job_with_the_states_of_all(
    session: Session, constraint: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Position, "PAGE", 2)
    for both in ('"x"', "{1, 2}", "JobPrio", "5"):
        put(session.database, ODD.format(both), owner="alice")
    session.perform("change_jobs", action="Hold", spec=["2.3", "2.4"])
    session.perform("change_jobs", action="Remove", spec=["3.0", "4.6"])
    projection = ["ClusterId", "ProcId", "Both"]
    asked: dict[str, object] = {"constraint": constraint, "projection": projection}
    items = list(session.items("clusters", **asked))
    jobs = [dict(ad) for ad in session.items("jobs", constraint=constraint, projection=projection)]
    if not whole:
        assert list(as_ads(items)) == jobs
        return
    clusters = {ad["ClusterId"]: ad for ad in reversed(jobs)}
    assert list(as_ads(items)) == [ad for _, ad in sorted(clusters.items())]
    found = [cluster for item in items for cluster in item["clusters"]]
    statuses = session.items("jobs", constraint=constraint, projection=["ClusterId", "ProcId", "JobStatus"])
    states: dict[int, list[tuple[int, int]]] = {}
    for ad in statuses:
        states.setdefault(ad["ClusterId"], []).append((ad["JobStatus"], ad["ProcId"]))
    for (counts, last), of in zip(found, (states[cluster] for cluster in sorted(states)), strict=True):
        assert dict(counts) == Counter(status for status, _ in of)
        assert last == max(proc for _, proc in of)
