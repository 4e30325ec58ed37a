"""Slots that are no longer reported are deleted, on a host that lives and on a host that is gone."""

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.direct_queue import DirectQueue


def report(queue: DirectQueue, *names: str, host: str = "h1") -> None:
    """Report that these slots have fetched."""
    rows = [
        {"name": name, "slot_type": "Dynamic" if "_" in name else "Static", "fetched_at": 0} for name in names
    ]
    queue.call("report_slots", host_id=queue.host(host), slots=Jsonb(rows))


def left(queue: DirectQueue) -> list[str]:
    return [row[0] for row in queue.rows("SELECT name FROM fetchwork.slots ORDER BY name")]


def age(queue: DirectQueue, interval: str) -> None:
    queue.connection.execute("UPDATE fetchwork.slot SET reported_at = reported_at - %s::interval", [interval])


def test_slot_that_its_living_host_reports_no_more_leaves(queue: DirectQueue) -> None:
    report(queue, "slot1@h1", "slot1_1@h1", "slot1_2@h1", "slot2@h1")
    queue.submit()
    queue.started("slot1_2@h1")
    age(queue, "4 minutes")
    report(queue, "slot1@h1")
    assert left(queue) == ["slot1@h1", "slot1_2@h1", "slot2@h1"], "the idle dynamic one is gone"
    age(queue, "61 minutes")
    report(queue, "slot1@h1")
    assert left(queue) == ["slot1@h1", "slot1_2@h1"], "what runs our job stays"


def test_dynamic_slot_that_its_partitionable_slot_does_not_name_leaves(queue: DirectQueue) -> None:
    report(queue, "slot1_1@h1", "slot1_2@h1", "slot1_3@h1", "slot11_1@h1", "slot2_1@h1")
    queue.submit()
    queue.started("slot1_3@h1")

    def fetched(at: float, *children: str) -> None:
        row = {"name": "slot1@h1", "slot_type": "Partitionable", "fetched_at": at, "children": children}
        queue.call("report_slots", host_id=queue.host(), slots=Jsonb([row]))

    fetched(-1)
    assert "slot1_1@h1" in left(queue), "that fetch was earlier"
    fetched(1, "slot1_2@h1")
    assert left(queue) == ["slot11_1@h1", "slot1@h1", "slot1_2@h1", "slot1_3@h1", "slot2_1@h1"]


def test_slot_with_a_run_is_claimed_and_busy(queue: DirectQueue) -> None:
    row = {"slot_type": "Dynamic", "state": "Claimed", "activity": "Idle", "last_answer": "offered 7.7"}
    rows = [{"name": f"slot1_{n}@h1", "fetched_at": 0, **row} for n in (1, 2)]
    queue.call("report_slots", host_id=queue.host(), slots=Jsonb(rows))
    queue.submit()
    run = queue.started("slot1_2@h1")
    shown = "SELECT state, activity, last_answer FROM fetchwork.slots ORDER BY name"
    assert queue.rows(shown) == [
        ("Claimed", "Idle", "offered 7.7"),
        ("Claimed", "Busy", f"offered {run.job}"),
    ]
    queue.heartbeat(run, JobState="Suspended")
    assert queue.rows(shown)[1][:2] == ("Claimed", "Suspended")


def test_slots_of_a_host_that_is_gone_leave(queue: DirectQueue) -> None:
    report(queue, "slot1@h1", "slot1_1@h1")
    queue.connection.execute("UPDATE fetchwork.slot SET last_fetch_at = now() - interval '2 hours'")
    queue.call("maintain_tables")
    assert left(queue) == ["slot1@h1"]
    queue.connection.execute("UPDATE fetchwork.slot SET last_fetch_at = now() - interval '49 hours'")
    queue.call("maintain_tables")
    assert left(queue) == []


def hosts(queue: DirectQueue) -> list[str]:
    return [row[0] for row in queue.rows("SELECT name FROM fetchwork.host ORDER BY name")]


def test_a_host_that_is_long_gone_leaves(queue: DirectQueue) -> None:
    report(queue, "slot1@h1")
    queue.connection.execute("UPDATE fetchwork.slot SET last_fetch_at = now()")
    for host in ("h2", "h3", "h4"):
        queue.host(host)
    queue.submit()
    queue.started("slot1@h3")
    queue.submit()
    ended = queue.started("slot1@h4")
    queue.finish(ended)
    queue.call("maintain_tables")
    assert hosts(queue) == ["h1", "h2", "h3", "h4"]
    queue.connection.execute(
        "UPDATE fetchwork.host SET seen_at = now() - interval '31 days', lease_until = now() - interval '31 days'"
    )
    queue.call("maintain_tables")
    assert hosts(queue) == ["h1", "h3"], "one has a slot, one a run"
    # its history stays
    assert queue.rows("SELECT RemoteHost, outcome FROM fetchwork.runs WHERE outcome IS NOT NULL") == [
        ("slot1@h4", "completed")
    ]


def test_an_agent_whose_host_was_forgotten_is_told_so(queue: DirectQueue) -> None:
    forgotten = queue.host("h1")
    queue.connection.execute("DELETE FROM fetchwork.host")
    with pytest.raises(psycopg.Error, match="was forgotten: say hello") as caught:
        queue.beat(forgotten, agent_id="0" * 32)
    assert caught.value.sqlstate == "FWNOT"
    assert queue.host("h1") != forgotten
