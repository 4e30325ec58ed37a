"""Accounting groups with quotas: what they are, that no claim exceeds them, and who may set them."""

import threading
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.support.direct_queue import DirectQueue


def group(queue: DirectQueue, name: str, **changes: Any) -> None:
    queue.call("set_group", name=name, changes=changes)


def pool(queue: DirectQueue, slots: int) -> None:
    """A host whose slots make a pool of this size."""
    queue.host("pool")
    queue.call(
        "report_slots",
        host_id=queue.host("pool"),
        slots=psycopg.types.json.Jsonb(
            [{"name": f"slot{n}@pool", "fetched_at": 0, "weight": 1} for n in range(slots)]
        ),
    )


def quotas(queue: DirectQueue) -> dict[str, tuple[float, float]]:
    """The quota of each group, and the part of it for its own submitters."""
    rows = queue.rows("SELECT name, subtreequota, effectivequota FROM fetchwork.groups")
    return {name: (subtree, own) for name, subtree, own in rows}


def names(count: int, first: int = 1) -> list[str]:
    return [f"slot{n}@h1" for n in range(first, first + count)]


def claim(queue: DirectQueue, *slots: str) -> list[str]:
    rows = queue.claim_many(queue.host(), *slots)
    assert [row["problem"] for row in rows] == [None] * len(rows)
    return [f"{row['cluster_id']}.{row['proc_id']}" for row in rows]


def of(submitter: str, jobs: int = 1) -> list[dict[str, Any]]:
    return [{"AccountingGroup": submitter, "Owner": submitter.rpartition(".")[2]}] * jobs


def test_there_is_no_figure_without_a_group(queue: DirectQueue) -> None:
    pool(queue, 10)
    assert quotas(queue) == {}
    assert queue.call("read_groups", host_id=queue.host()) == []


def test_quotas_divide_the_pool_as_a_negotiator_does(queue: DirectQueue) -> None:
    pool(queue, 100)
    group(queue, "physics", quota=60)
    group(queue, "physics.atlas", dynamic_quota=0.5)
    group(queue, "physics.cms", dynamic_quota=0.7)
    group(queue, "physics.fixed", quota=12)
    group(queue, "bio", dynamic_quota=0.5)
    group(queue, "off", quota=0)
    group(queue, "off.below", quota=5)
    # 48 of physics are left for 0.5 and 0.7, which are scaled to 1; 40 of the pool for 0.5
    assert quotas(queue) == {
        "<none>": (100, 20),
        "physics": (60, 60),
        "physics.atlas": (pytest.approx(20), pytest.approx(20)),
        "physics.cms": (pytest.approx(28), pytest.approx(28)),
        "physics.fixed": (12, 12),
        "bio": (20, 20),
        "off": (0, 0),
        "off.below": (0, 0),
    }


@pytest.mark.parametrize(
    ("submitter", "belongs"),
    [
        ("physics.alice", "physics"),
        ("Physics.ATLAS.alice", "physics.atlas"),
        ("physics.atlas.higgs.alice", "physics.atlas"),
        ("physics.lhcb.alice@site", "physics"),
        ("physics", None),
        ("physicsx.alice", None),
        ("alice", None),
    ],
)
def test_a_submitter_belongs_to_the_deepest_group_of_its_name(
    queue: DirectQueue, submitter: str, belongs: str | None
) -> None:
    group(queue, "physics", quota=1)
    group(queue, "physics.atlas", quota=1)
    assert queue.scalar("group_of", submitter=submitter) == belongs


def test_use_and_demand_are_counted_by_group(queue: DirectQueue) -> None:
    group(queue, "physics", quota=10, accept_surplus=True)
    group(queue, "physics.atlas", quota=4, accept_surplus=True)
    queue.submit_many([*of("physics.atlas.alice", 3), *of("physics.bob", 2), *of("carol", 4)])
    queue.submit_many([{**ad, "RequestCpus": 3} for ad in of("physics.bob", 2)])
    assert claim(queue, *names(4)) == ["1.0", "1.1", "1.2", "1.3"]
    queue.act("hold", "1.5")
    rows = queue.rows("SELECT name, weightedinuse, subtreeinuse, requested FROM fetchwork.groups")
    assert sorted(rows) == [("<none>", 0, 4, 3), ("physics", 1, 4, 8), ("physics.atlas", 3, 3, 3)]


def test_claims_stop_at_a_quota_and_go_on_when_a_run_has_ended(queue: DirectQueue) -> None:
    group(queue, "physics", quota=2)
    queue.submit_many([*of("physics.alice", 4), *of("bob", 1)])
    run = queue.started("slot0@h1")
    assert run.job == "1.0"
    assert claim(queue, *names(5)) == ["1.1", "1.4"]
    blocked = queue.call("prospects", cluster=1, proc=2)[0]["blocked"]
    assert blocked == 'group "physics" has its quota of 2 in use: 2, a job takes 1'
    assert claim(queue, *names(1, 10)) == []
    queue.finish(run)
    assert claim(queue, *names(2, 20)) == ["1.2"]


def test_a_quota_bounds_the_next_jobs_of_chains(queue: DirectQueue) -> None:
    group(queue, "physics", quota=1)
    queue.submit_many([*of("bob", 1), *of("physics.alice", 3)])
    bob = queue.started("slot1@h1")
    alice = queue.started("slot2@h1")
    assert (bob.job, alice.job) == ("1.0", "1.1")
    (answer,) = queue.next_runs(queue.host(), {"slot1@h1": bob})
    assert (answer["ended"], answer["run_id"]) == (True, None)
    # in place of the one that ends
    (answer,) = queue.next_runs(queue.host(), {"slot2@h1": alice})
    assert (answer["cluster_id"], answer["proc_id"]) == (1, 2)


def test_a_quota_above_bounds_the_groups_below(queue: DirectQueue) -> None:
    group(queue, "physics", quota=3)
    for name in ("atlas", "cms"):
        group(queue, f"physics.{name}", quota=2, accept_surplus=True)
    queue.submit_many([*of("physics.atlas.alice", 3), *of("physics.cms.bob", 3)])
    assert claim(queue, *names(6)) == ["1.0", "1.1", "1.2"]


@pytest.mark.parametrize("which", ["accept_surplus", "autoregroup"])
def test_no_quota_bounds_what_competes_for_the_rest(queue: DirectQueue, which: str) -> None:
    group(queue, "physics", quota=1, **{which: True})
    queue.submit_many(of("physics.alice", 3))
    assert len(claim(queue, *names(3))) == 3


def test_a_manager_s_open_transaction_holds_up_no_claim(queue: DirectQueue) -> None:
    group(queue, "physics", quota=1)
    queue.submit_many(of("physics.alice", 3))
    other = queue.another(autocommit=False)
    group(other, "physics", quota=3)
    group(other, "bio", quota=3)
    with queue.within(5):
        assert claim(queue, *names(3)) == ["1.0"]
        assert {row["name"] for row in queue.call("read_groups", host_id=queue.host(), anew=True)} == {
            *("<none>", "physics")
        }
    other.connection.commit()
    queue.pass_time(1)
    assert claim(queue, *names(3, 10)) == ["1.1", "1.2"]


def test_a_freed_slot_counts_as_its_groups_while_its_host_is_about_to_claim_again(queue: DirectQueue) -> None:
    def counted() -> dict[str, Any]:
        rows = queue.call("read_groups", host_id=queue.host("pool"), anew=True)
        figures = {row["name"]: row["in_use"] for row in rows}
        assert rows[0]["subtree_in_use"] == sum(figures.values())
        return figures | {name: rows[0][name] for name in ("free", "own_free", "own_slots")}

    pool(queue, 4)
    group(queue, "physics", quota=3, accept_surplus=True)
    queue.submit_many([*of("physics.alice", 2), *of("bob", 2)])
    runs = [queue.started(f"slot{n}@pool") for n in range(3)]
    own = {"own_slots": 4}
    assert counted() == own | {"<none>": 1, "physics": 2, "free": 1, "own_free": 1}
    queue.finish(runs[0])
    assert counted() == own | {"<none>": 1, "physics": 2, "free": 1, "own_free": 2}
    # two free slots have one freed of each
    queue.finish(runs[2])
    assert counted() == own | {"<none>": 1, "physics": 2, "free": 1, "own_free": 3}
    for slot in ("slot0@pool", "slot3@pool"):
        queue.claim_many(queue.host("pool"), slot)
    queue.submit_many(of("bob", 2))
    queue.claim_many(queue.host("pool"), "slot2@pool")
    in_use = queue.rows("SELECT name, weightedinuse FROM fetchwork.groups")
    now = counted()
    assert now["own_free"] == 1 and now["free"] == 0 and sum(now[name] for name, _ in in_use) == 4
    queue.rows("UPDATE fetchwork.run_history SET ended_at = ended_at - interval '6 s' RETURNING 1")
    assert counted() == own | dict(in_use) | {"free": 1, "own_free": 1}


def test_a_new_group_is_bounded_before_it_is_counted(queue: DirectQueue) -> None:
    group(queue, "bio", quota=1)
    queue.submit_many([*of("physics.alice", 3), *of("shared.bob", 2)])
    assert claim(queue, *names(1)) == ["1.0"]
    group(queue, "physics", quota=2)
    group(queue, "shared", dynamic_quota=0.9)
    other = queue.another(autocommit=False)
    # a transaction that counts and is not over
    other.rows("SELECT FROM fetchwork.turn WHERE name = 'groups' FOR NO KEY UPDATE")
    assert claim(queue, *names(5, 10)) == ["1.1"]
    other.connection.rollback()


def test_a_quota_of_less_than_a_job_lets_one_run(queue: DirectQueue) -> None:
    group(queue, "physics", quota=0.5)
    group(queue, "none", quota=0)
    queue.submit_many([*of("none.bob", 2), *of("physics.alice", 2)])
    assert claim(queue, *names(3)) == ["1.2"]


def test_claims_at_the_same_moment_share_a_quota(queue: DirectQueue) -> None:
    """Each session has counted nothing of the others'."""
    group(queue, "physics", quota=20)
    queue.submit_many(of("physics.alice", 200))
    hosts = [queue.host(f"h{n}") for n in range(16)]
    sessions = [queue.another() for _ in hosts]
    got: list[str] = []

    def run(number: int) -> None:
        for turn in range(3):
            slots = [f"slot{n}@h{number}" for n in range(turn * 3, turn * 3 + 3)]
            for row in sessions[number].claim_many(hosts[number], *slots):
                assert row["problem"] is None
                got.append(f"{row['cluster_id']}.{row['proc_id']}")

    threads = [threading.Thread(target=run, args=[number]) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == len(set(got)) == 20


def test_the_priority_factor_of_a_group_is_its_submitters_default(queue: DirectQueue) -> None:
    group(queue, "physics", quota=1, prio_factor=50)
    queue.call("set_submitter", name="physics.bob", changes={"prio_factor": 7})
    queue.submit_many([*of("physics.alice"), *of("physics.bob"), *of("carol")])
    factors = {
        row["submitter"]: (row["prio_factor"], row["accounting_group"]) for row in queue.call("shares")
    }
    assert factors == {"physics.alice": (50, "physics"), "physics.bob": (7, "physics"), "carol": (1000, None)}


def test_a_removed_group_takes_those_below_it_along(queue: DirectQueue) -> None:
    for name in ("a", "a.b", "a.b.c", "ab"):
        group(queue, name, quota=1)
    assert queue.scalar("remove_group", name="A.b") == 2
    assert set(quotas(queue)) == {"<none>", "a", "ab"}
    assert queue.scalar("remove_group", name="a") == 1
    assert queue.scalar("remove_group", name="ab") == 1
    assert queue.call("read_groups", host_id=queue.host()) == []
    with pytest.raises(psycopg.Error, match="group 'ab' does not exist"):
        queue.scalar("remove_group", name="ab")


def test_changes_leave_the_rest_as_it_is(queue: DirectQueue) -> None:
    group(queue, "Physics", quota=5, accept_surplus=True, prio_factor=9)
    group(queue, "PHYSICS", dynamic_quota=0.5)
    group(queue, "physics", autoregroup=True)
    assert queue.rows("SELECT * FROM fetchwork.accounting_group") == [
        ("Physics", None, None, 0.5, True, True, 9, [], None, None)
    ]


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        ("a.b", {"quota": 1}, "group 'a' does not exist; make it before 'a.b'"),
        ("a", {}, "group 'a' is new, so it needs a quota or a dynamic_quota"),
        ("a", {"accept_surplus": True}, "so it needs a quota"),
        ("a", {"quota": 1, "dynamic_quota": 0.5}, "allowed: a quota from 0 or a dynamic_quota from 0 to 1"),
        ("a", {"quota": -1}, "allowed: a quota from 0"),
        ("a", {"dynamic_quota": 1.5}, "allowed: a quota from 0"),
        ("a", {"quota": 1, "prio_factor": 0.5}, "a prio_factor from 1"),
        ("a", {"quota": 1, "share": 2}, "group 'a' has no setting 'share'; allowed: quota"),
        ("a b", {"quota": 1}, "'a b' is not the name of a group"),
        (".a", {"quota": 1}, "is not the name of a group"),
        ("<none>", {"quota": 1}, "is not the name of a group"),
        ("a", {"quota": 1, "managers": ["nobody-here"]}, "nobody-here"),
    ],
)
def test_what_can_not_be_set_is_refused(
    queue: DirectQueue, name: str, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(psycopg.Error, match=told.replace(".", r"\.").replace("(", r"\(")):
        group(queue, name, **changes)


def test_a_manager_sets_the_groups_below_its_own(queue: DirectQueue) -> None:
    connection = queue.connection
    connection.execute("CREATE ROLE fw_lead IN ROLE fetchwork_submitter")
    try:
        group(queue, "physics", quota=10, managers=["fw_lead"])
        group(queue, "bio", quota=10)
        connection.execute("SET ROLE fw_lead")
        group(queue, "physics.atlas", quota=4, accept_surplus=True, max_idle=100, max_autoclusters=5)
        group(queue, "physics.atlas.higgs", dynamic_quota=0.5)
        assert queue.scalar("remove_group", name="physics.atlas.higgs") == 1
        refused: list[tuple[str, dict[str, Any], str]] = [
            ("physics", {"max_idle": 0}, "may not set group 'physics'"),
            ("physics", {"quota": 50}, "may not set group 'physics'; allowed: administrators and managers"),
            ("bio.x", {"quota": 5}, "may not set group 'bio.x'"),
            ("new", {"quota": 5}, "may not set group 'new'"),
            ("physics.atlas", {"autoregroup": True}, "only an administrator sets autoregroup"),
            ("physics.atlas", {"prio_factor": 1}, "only an administrator sets prio_factor"),
            ("physics.atlas", {"managers": ["fw_lead"]}, "only an administrator sets managers"),
        ]
        for name, changes, told in refused:
            with pytest.raises(psycopg.Error, match=told) as caught:
                group(queue, name, **changes)
            assert caught.value.sqlstate == "FWDEN"
        with pytest.raises(psycopg.Error, match="may not set group 'physics'"):
            queue.scalar("remove_group", name="physics")
    finally:
        connection.execute("RESET ROLE")
        connection.execute(sql.SQL("DROP OWNED BY fw_lead; DROP ROLE fw_lead"))
