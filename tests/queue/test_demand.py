"""The resources that idle jobs ask for, and the number of slots that they would fill."""

import json
from collections import Counter
from pathlib import Path

import pytest

from fetchwork.classad.ads import parse_old
from fetchwork.classad.bindings import JobAction
from fetchwork.explain.demand import fill, packed
from tests.queue.conftest import Queue, Run
from tests.support.sessions import session_of

ADS = Path(__file__).parent.parent / "data" / "ads"
STATIC = ADS / "25.14.1-fetch_work-static-unclaimed.ad"
WHOLE = ADS / "25.14.1-fetch_work-pslot-unclaimed.ad"


def submit(queue: Queue, count: int, *, name: str = "default", **commands: object) -> int:
    asks = {"executable": "/bin/true", "request_cpus": 1, "request_memory": 10}
    lines = {**asks, "+FetchworkQueue": f'"{name}"', **commands}
    text = "".join(f"{key} = {value}\n" for key, value in lines.items())
    return queue.submit(text, count=count, owner="alice").cluster()


def test_jobs_that_ask_for_the_same_are_one_line(queue: Queue, fetchwork: Run) -> None:
    submit(queue, 3)
    submit(queue, 2, batch_name="other")
    large = submit(queue, 4, request_cpus=8, request_gpus=1)
    (first, second) = json.loads(fetchwork("demand", "--json").out)
    assert (first["idle"], first["request_cpus"], first["queue"]) == (5, 1, "default")
    assert (second["idle"], second["request_cpus"], second["request_gpus"]) == (4, 8, 1)
    assert "TARGET.Cpus" in first["requirements"] or "Arch" in first["requirements"]
    (ad,) = queue.query(f"ClusterId == {large} && ProcId == 0", projection=["QDate"])
    assert second["oldest_qdate"] == ad["QDate"]


def test_jobs_that_run_or_are_held_are_no_demand(queue: Queue) -> None:
    cluster = submit(queue, 3)
    queue.act(JobAction.Hold, f"{cluster}.0")
    queue.direct.started()
    (line,) = queue.direct.rows("SELECT IdleJobs, Autoclusters FROM fetchwork.demand_now")
    assert line == (1, 1)


def test_a_deferred_job_has_not_waited(queue: Queue) -> None:
    submit(queue, 1)
    queue.direct.connection.execute(
        "WITH gone AS (DELETE FROM fetchwork.waiting)"
        " UPDATE fetchwork.job SET not_before = now() + interval '1 hour', position = NULL"
    )
    assert queue.direct.rows("SELECT IdleJobs, OldestQDate FROM fetchwork.demand_now") == [(1, None)]


def test_demand_of_named_queues_only(queue: Queue, fetchwork: Run) -> None:
    fetchwork("queues", "urgent", "--open")
    submit(queue, 1)
    submit(queue, 2, name="urgent")
    (line,) = json.loads(fetchwork("demand", "urgent", "--json").out)
    assert (line["queue"], line["idle"]) == ("urgent", 2)
    assert fetchwork("demand", "absent").out.splitlines()[0].startswith("QUEUE")


def test_each_job_fills_an_undivided_slot(queue: Queue) -> None:
    submit(queue, 3)
    submit(queue, 2, request_cpus=4096)
    filled = fill(session_of(queue), parse_old(STATIC.read_bytes()))
    assert (filled.slots, filled.jobs) == (3, 3)
    assert sum(filled.passed_over.values()) == 2


def test_jobs_share_a_partitionable_slot(queue: Queue) -> None:
    slot = parse_old(WHOLE.read_bytes())
    slot["Cpus"], slot["Memory"], slot["Disk"] = 4, 4000, 10_000_000
    submit(queue, 10)
    filled = fill(session_of(queue), slot)
    assert (filled.jobs, filled.slots) == (10, 3)


def test_how_many_slots_like_an_ad_is_said_in_words(queue: Queue, fetchwork: Run) -> None:
    submit(queue, 2, requirements='TARGET.Name == "another"')
    submit(queue, 1)
    said = fetchwork("demand", "--slot-ad", str(STATIC))
    assert said.out.splitlines() == [
        "1 idle job would fill 1 slot like this one",
        "     2 idle jobs reject the slot by their Requirements",
    ], said


def test_an_ad_that_can_t_be_read_is_named(fetchwork: Run, tmp_path: Path) -> None:
    bad = tmp_path / "pilot.ad"
    bad.write_text("Cpus = = 1\n")
    said = fetchwork("demand", "--slot-ad", str(bad))
    assert said.status == 1
    assert said.err.startswith("fetchwork: error: "), said.err


@pytest.mark.parametrize(
    ("jobs", "slot", "slots"),
    [
        pytest.param({}, (8, 8, 8, 0), 0, id="nothing"),
        pytest.param({(1, 1, 1, 0): 9}, (8, 8, 8, 0), 2, id="one-size"),
        pytest.param({(1, 4, 1, 0): 9}, (8, 8, 8, 0), 5, id="memory-bounds"),
        pytest.param({(5, 1, 1, 0): 2, (3, 1, 1, 0): 2}, (8, 8, 8, 0), 2, id="small-beside-large"),
        pytest.param({(1, 1, 1, 1): 3, (1, 1, 1, 0): 5}, (4, 9, 9, 1), 3, id="gpus"),
        pytest.param({(9, 1, 1, 0): 2}, (8, 8, 8, 0), 2, id="larger-than-the-slot"),
        pytest.param({(0.1, 1, 1, 0): 30}, (1, 100, 100, 0), 3, id="fractions"),
        pytest.param({(1, 1, 1, 0): 1_000_000}, (64, 1e9, 1e9, 0), 15_625, id="many"),
        pytest.param({(0, 0, 0, 0): 7}, (1, 1, 1, 0), 1, id="asks-for-nothing"),
    ],
)
def test_slots_that_jobs_fill(
    jobs: dict[tuple[float, float, float, float], int], slot: tuple[float, float, float, float], slots: int
) -> None:
    assert packed(Counter(jobs), slot) == slots
