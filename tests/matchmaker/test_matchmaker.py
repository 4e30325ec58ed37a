"""An ad's effect on the matchmaker concerns only that ad."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fetchwork.errors import ClassAdError
from fetchwork.matching.autoclusters import Autocluster
from fetchwork.matchmaker.bounds import ENDS_A_REQUEST
from fetchwork.matchmaker.client import Matchmaker
from fetchwork.matchmaker.messages import Job, Look, Seen
from fetchwork.matchmaker.printing import Run
from tests.matchmaker.hostile import HOSTILE, PLAIN

SLOT = (Path(__file__).parent.parent / "data" / "ads" / "25.14.1-fetch_work-static-unclaimed.ad").read_bytes()


def ads(*texts: str, submitter: str = "alice") -> dict[int, Autocluster]:
    return {
        number: Autocluster(number, submitter, "alice", "default", text)
        for number, text in enumerate(texts, 1)
    }


def fitting(look: Look, seen: Seen) -> list[int]:
    return [look.autoclusters[match.index] for match in seen.matches]


async def test_autoclusters_that_fit_come_in_their_order(matchmaker: Matchmaker) -> None:
    waiting = ads(PLAIN, json.dumps({"RequestCpus": 4096}), PLAIN)
    look = Look(SLOT, [3, 2, 1])
    answer = await matchmaker.look([look], waiting)
    assert fitting(look, answer.seen[0]) == [3, 1]
    assert (answer.faults, answer.problems) == ({}, {})


async def test_no_more_is_evaluated_than_was_asked_for(matchmaker: Matchmaker) -> None:
    waiting = ads(PLAIN, PLAIN, HOSTILE["regexp that backtracks"])
    look = Look(SLOT, [1, 2, 3], limit=1)
    answer = await matchmaker.look([look], waiting)
    assert fitting(look, answer.seen[0]) == [1]
    assert answer.faults == {}


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_fails_concerns_its_own_ad_alone(matchmaker: Matchmaker, name: str) -> None:
    waiting = {
        1: Autocluster(1, "mallory", "mallory", "default", HOSTILE[name]),
        2: Autocluster(2, "bob", "bob", "default", PLAIN),
        3: Autocluster(3, "mallory", "mallory", "default", HOSTILE[name]),
    }
    look = Look(SLOT, [1, 2, 3])
    answer = await matchmaker.look([look], waiting)
    found = set(fitting(look, answer.seen[0]))
    assert 2 in found
    assert found - {2} <= set(answer.problems) or name == "request of next to nothing"
    assert 2 not in answer.faults and 2 not in answer.problems


async def test_cpu_time_is_blamed_on_the_ad_that_took_it(matchmaker: Matchmaker) -> None:
    waiting = {
        1: Autocluster(1, "mallory", "mallory", "default", HOSTILE["regexp that backtracks"]),
        2: Autocluster(2, "bob", "bob", "default", PLAIN),
    }
    look = Look(SLOT, [1, 2])
    answer = await matchmaker.look([look], waiting)
    assert answer.faults == {1: "evaluating it takes more than 0.2 s of CPU"}
    assert matchmaker.processes.ended == 1


async def test_memory_is_blamed_only_if_the_ad_takes_it_alone(matchmaker: Matchmaker) -> None:
    waiting = ads(HOSTILE["strcat that doubles"], PLAIN)
    look = Look(SLOT, [1, 2])
    answer = await matchmaker.look([look], waiting)
    assert fitting(look, answer.seen[0]) == [2]
    assert set(answer.faults) <= {1}


async def test_many_hostile_ads_of_one_submitter_wait_behind_the_others(matchmaker: Matchmaker) -> None:
    hostile = HOSTILE["regexp that backtracks"]
    waiting = {
        number: Autocluster(number, "mallory", "mallory", "default", hostile) for number in range(1, 1001)
    }
    waiting[2000] = Autocluster(2000, "bob", "bob", "default", PLAIN)
    look = Look(SLOT, [*range(1, 1001), 2000], limit=1)
    answer = await matchmaker.look([look], waiting)
    assert fitting(look, answer.seen[0]) == [2000]
    assert len(answer.faults) == 1


async def test_after_one_costly_ad_those_like_it_wait_where_another_job_fits(
    matchmaker: Matchmaker,
) -> None:
    hostile = HOSTILE["regexp that backtracks"]
    waiting = {
        number: Autocluster(number, "mallory", "mallory", "default", hostile) for number in range(1, 101)
    }
    waiting[2000] = Autocluster(2000, "bob", "bob", "default", PLAIN)
    look = Look(SLOT, [*range(1, 101), 2000])
    answer = await matchmaker.look([look], waiting)
    assert fitting(look, answer.seen[0]) == [2000]
    assert len(answer.faults) == 1
    assert answer.postponed


async def test_new_ads_of_who_had_a_costly_one_are_tried_where_nothing_else_fits(
    matchmaker: Matchmaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.matchmaker.budget.PAUSE_S", 0.0)
    monkeypatch.setattr("fetchwork.matchmaker.budget.SUSPICION_S", 1e6)
    waiting = ads(HOSTILE["regexp that backtracks"], submitter="mallory")
    await matchmaker.look([Look(SLOT, [1])], waiting)
    assert matchmaker.processes.ended == 1
    waiting[2] = Autocluster(2, "mallory", "mallory", "default", PLAIN)
    waiting[3] = Autocluster(3, "bob", "bob", "default", PLAIN)
    beside = await matchmaker.look([Look(SLOT, [2, 3])], waiting)
    assert [match.index for match in beside.seen[0].matches] == [1]
    assert beside.postponed
    alone = await matchmaker.look([Look(SLOT, [2])], waiting)
    assert [match.index for match in alone.seen[0].matches] == [0]
    # it is proven then
    beside = await matchmaker.look([Look(SLOT, [2, 3])], waiting)
    assert [match.index for match in beside.seen[0].matches] == [0, 1]


async def test_looks_of_nothing_but_costly_ads_end_few_workers(
    matchmaker: Matchmaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = HOSTILE["regexp that backtracks"]
    monkeypatch.setattr("fetchwork.matchmaker.budget.PAUSE_S", 1e6)
    waiting = ads(*[hostile] * 100)
    for _ in range(20):
        await matchmaker.look([Look(SLOT, list(waiting))], waiting)
    # one worker, another because no other ad fits, and then no new ad of hers for a while
    assert matchmaker.processes.ended == 2


async def test_slow_ads_use_up_their_submitters_time_only(
    matchmaker: Matchmaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.matchmaker.budget.SUBMITTER_CPU_S", 1e-9)
    waiting = {
        1: Autocluster(1, "alice", "alice", "default", PLAIN),
        2: Autocluster(2, "alice", "alice", "default", PLAIN),
        3: Autocluster(3, "bob", "bob", "default", PLAIN),
    }
    look = Look(SLOT, [1, 2, 3])
    answer = await matchmaker.look([look], waiting)
    assert fitting(look, answer.seen[0]) == [1, 3]
    assert answer.postponed and answer.again_s is not None


async def test_worker_that_was_killed_is_replaced(matchmaker: Matchmaker) -> None:
    waiting = ads(PLAIN)
    await matchmaker.look([Look(SLOT, [1])], waiting)
    (worker,) = children(zygote_of(matchmaker))
    os.kill(worker, signal.SIGKILL)
    look = Look(SLOT, [1])
    answer = await matchmaker.look([look], waiting)
    assert fitting(look, answer.seen[0]) == [1]


async def test_zygote_that_was_killed_is_replaced(matchmaker: Matchmaker) -> None:
    waiting = ads(PLAIN)
    await matchmaker.look([Look(SLOT, [1])], waiting)
    os.kill(zygote_of(matchmaker), signal.SIGKILL)
    look = Look(SLOT, [1])
    answer = await matchmaker.look([look], waiting)
    assert fitting(look, answer.seen[0]) == [1]


async def test_slot_whose_ad_cannot_be_read_blames_no_job(matchmaker: Matchmaker) -> None:
    answer = await matchmaker.look([Look(b"Name = ", [1]), Look(SLOT, [1])], ads(PLAIN))
    assert answer.seen[0].problem is not None
    assert [match.index for match in answer.seen[1].matches] == [0]
    assert (answer.faults, answer.problems) == ({}, {})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to drop")
async def test_worker_has_no_rights(matchmaker: Matchmaker) -> None:
    await matchmaker.look([Look(SLOT, [1])], ads(PLAIN))
    (worker,) = children(zygote_of(matchmaker))
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{worker}/status").read_text().splitlines()
        if ":\t" in line
    )
    assert set(status["Uid"].split()) == {"65534"}
    assert int(status["CapEff"], 16) == 0
    assert status["NoNewPrivs"] == "1"


async def printed(matchmaker: Matchmaker, ad: dict[str, Any]) -> bytes:
    run = Run(1, "b2d9a0f2-7d8c-4e0b-9c3c-1f4f5c0f9c11", 42, 0, "alice", False, ad)
    return (await matchmaker.print_ad(run, SLOT, kept=(), host="ep", keyword="FW", uid_domain=None)).text


async def test_ad_of_a_run_is_printed(matchmaker: Matchmaker) -> None:
    text = await printed(matchmaker, {"Cmd": "/bin/true", "RequestCpus": "/Expr(1 + 1)/"})
    assert b'Cmd = "/bin/true"\n' in text
    assert b"RequestCpus = 2\n" in text


@pytest.mark.parametrize(
    "name", ["number of 5000 digits", "string that is not UTF-8", "regexp that backtracks"]
)
async def test_ad_that_cannot_be_printed_is_a_fault_of_the_ad(matchmaker: Matchmaker, name: str) -> None:
    ad = json.loads(HOSTILE[name])
    with pytest.raises(ClassAdError):
        await printed(matchmaker, {**ad, "RequestCpus": ad["Requirements"]})
    assert await printed(matchmaker, {"Cmd": "/bin/true"})


async def test_each_job_gets_its_own_verdict(matchmaker: Matchmaker) -> None:
    def job(**policy: object) -> Job:
        return Job({"Owner": "alice", "JobStatus": 1, **policy})

    judgements = await matchmaker.judge(
        [
            job(PeriodicHold="/Expr(true)/"),
            job(PeriodicHold=f"/Expr({'9' * 5000} > 1)/"),
            job(PeriodicHold="/Expr(true)/", PeriodicHoldReason='/Expr(strcat("\\377"))/'),
            job(PeriodicHold=json.loads(HOSTILE["regexp that backtracks"])["Requirements"]),
            job(PeriodicRemove="/Expr(true)/"),
            job(),
        ]
    )
    actions = [one.verdict.action if one.verdict else None for one in judgements]
    assert (actions[0], actions[2], actions[4], actions[5]) == ("hold", "hold", "remove", None)
    assert judgements[3].problem == "evaluating it takes more than 0.2 s of CPU"
    held = judgements[3].hold()
    assert held is not None
    assert held.action == "hold"


async def test_explanations_come_for_all_but_the_one_that_cost_too_much(matchmaker: Matchmaker) -> None:
    waiting = ads(
        PLAIN, HOSTILE["regexp that backtracks"], json.dumps({"RequestCpus": 4096}), HOSTILE["no JSON"]
    )
    explained = await matchmaker.explain(SLOT, waiting)
    assert {number: one.reason for number, one in explained.items()} == {
        1: None,
        2: "costly",
        3: "resources",
        4: None,
    }


async def test_who_has_used_up_his_time_is_not_judged_now_but_the_end_of_a_job_is(
    matchmaker: Matchmaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.matchmaker.budget.SUBMITTER_CPU_S", 0.3)
    costly = json.loads(HOSTILE["regexp that backtracks"])["Requirements"]
    jobs = [Job({"Owner": "mallory", "JobStatus": 1, "PeriodicHold": costly}) for _ in range(50)]
    jobs.append(Job({"Owner": "mallory", "OnExitHold": "/Expr(true)/"}, {"ExitCode": 1}, at_exit=True))
    jobs.append(Job({"Owner": "bob", "JobStatus": 1, "PeriodicHold": "/Expr(true)/"}))
    judgements = await matchmaker.judge(jobs)
    assert 1 <= matchmaker.processes.ended <= 3
    assert [one.verdict.action for one in judgements if one.verdict] == ["hold", "hold"]


async def test_what_was_not_evaluated_is_not_taken_for_proven(matchmaker: Matchmaker) -> None:
    hostile = HOSTILE["regexp that backtracks"]
    waiting = {1: Autocluster(1, "bob", "bob", "default", PLAIN)} | {
        number: Autocluster(number, "mallory", "mallory", "default", hostile) for number in range(2, 102)
    }
    await matchmaker.look([Look(SLOT, sorted(waiting), limit=1)], waiting)
    # bob's job is taken; the others are evaluated, and end no more workers than one request may
    await matchmaker.look([Look(SLOT, range(2, 102))], waiting)
    assert matchmaker.processes.ended <= ENDS_A_REQUEST


def zygote_of(matchmaker: Matchmaker) -> int:
    assert matchmaker.processes.pid is not None
    return matchmaker.processes.pid


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_slot_that_is_expected_is_read_before_it_is_looked_at(matchmaker: Matchmaker) -> None:
    waiting = ads(PLAIN)
    await matchmaker.look([Look(SLOT, [1])], waiting)
    other = SLOT.replace(b"Cpus = ", b"Cpus = 1")
    await matchmaker.expect(other)
    look = Look(other, [1])
    answer = await matchmaker.look([look], waiting)
    assert fitting(look, answer.seen[0]) == [1]
    # and an unreadable ad is only its slot's fault
    await matchmaker.expect(b"Name = ")
    answer = await matchmaker.look([Look(b"Name = ", [1]), look], waiting)
    assert answer.seen[0].problem is not None
    assert fitting(look, answer.seen[1]) == [1]


async def test_worker_that_ended_while_a_slot_was_expected_is_replaced(matchmaker: Matchmaker) -> None:
    waiting = ads(PLAIN)
    await matchmaker.look([Look(SLOT, [1])], waiting)
    (worker,) = children(zygote_of(matchmaker))
    os.kill(worker, signal.SIGKILL)
    other = SLOT.replace(b"Cpus = ", b"Cpus = 1")
    await matchmaker.expect(other)
    look = Look(other, [1])
    assert fitting(look, (await matchmaker.look([look], waiting)).seen[0]) == [1]


async def test_many_large_ads_of_one_submitter_go_to_the_worker_by_and_by(
    matchmaker: Matchmaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.matchmaker.knowledge.SENT_BYTES", 100_000)
    sent: list[int] = []
    ask = matchmaker.processes.ask

    async def counted(request: Any) -> Any:
        sent.append(len(request["data"]))
        return await ask(request)

    monkeypatch.setattr(matchmaker.processes, "ask", counted)
    large = json.dumps({"RequestCpus": 4096, "Text": "x" * 50_000})
    waiting = ads(*[large] * 20, submitter="mallory")
    waiting[21] = Autocluster(21, "mallory", "mallory", "default", PLAIN)
    waiting[22] = Autocluster(22, "bob", "bob", "default", PLAIN)
    look = Look(SLOT, list(waiting))
    answer = await matchmaker.look([look], waiting)
    # bob's is found at once, mallory's last one only with the rest
    assert fitting(look, answer.seen[0]) == [22]
    assert answer.postponed and answer.again_s == 0.0
    assert max(sent) < 200_000
    rounds = 0
    while fitting(look, answer.seen[0]) != [21, 22]:
        rounds += 1
        assert rounds < 20
        answer = await matchmaker.look([look], waiting)
    assert not answer.postponed


async def test_all_autoclusters_are_put_against_a_slot_that_ranks_them(
    matchmaker: Matchmaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a slice ends with the first item, so that it takes many requests
    monkeypatch.setattr("fetchwork.matchmaker.client.SLICE_S", 1e-9)
    slot = SLOT.replace(b"Rank = 0.0", b"Rank = TARGET.Prize")
    waiting = ads(*(json.dumps({"Prize": number}) for number in range(1, 31)))
    look = Look(slot, list(waiting), limit=3)
    answer = await matchmaker.look([look], waiting)
    assert fitting(look, answer.seen[0]) == [30, 29, 28]
    assert not answer.postponed


async def test_what_a_job_prefers_is_remembered_of_each_slot(matchmaker: Matchmaker) -> None:
    slots = [SLOT.replace(b"Cpus = ", b"Prize = %d\nCpus = " % number) for number in (1, 2, 3)]
    waiting = ads(json.dumps({"Rank": "/Expr(TARGET.Prize)/", "Requirements": "/Expr(TARGET.Prize < 3)/"}))
    for _ in range(2):
        looks = [Look(slot, [1], [other for other in slots if other != slot]) for slot in slots]
        answer = await matchmaker.look(looks, waiting)
        assert [len(seen.matches) for seen in answer.seen] == [0, 1, 0]
        assert [seen.yielded for seen in answer.seen] == [True, False, False]


async def test_matchmaker_is_asked_to_print_once_for_what_stays_in_the_database(
    matchmaker: Matchmaker,
) -> None:
    ad = {"Cmd": "/bin/true", "PeriodicHold": "/Expr(NumJobStarts > 5)/"}
    run = Run(1, "b2d9a0f2-7d8c-4e0b-9c3c-1f4f5c0f9c11", 42, 0, "alice", True, ad)
    texts = []
    for _ in range(2):
        texts.append(
            await matchmaker.print_ad(
                run, SLOT, kept={"periodichold"}, host="ep", keyword="FW", uid_domain=None
            )
        )
        # the second time there is no process to ask
        await matchmaker.close()
    assert texts[0] == texts[1]
    assert matchmaker.processes.worker == 1


async def test_message_that_was_cut_costs_the_worker_and_no_answer(matchmaker: Matchmaker) -> None:
    waiting = ads(PLAIN)
    await matchmaker.look([Look(SLOT, [1])], waiting)
    (worker,) = children(zygote_of(matchmaker))
    os.kill(worker, signal.SIGSTOP)
    # more than the socket takes at once, and no more than is read in an item's time on a slow machine
    large = SLOT + b"Text = " + b'"' + b"x" * 400_000 + b'"\n'
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await matchmaker.expect(large)
    os.kill(worker, signal.SIGCONT)
    look = Look(large, [1])
    assert fitting(look, (await matchmaker.look([look], waiting)).seen[0]) == [1]
