"""Verdicts about jobs on slots: their dependencies, and their lifetime."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import ClassAd
from fetchwork.matching import verdicts as module
from fetchwork.matching.dependence import names_in, only_computes
from fetchwork.matching.fit import JobRequest, SlotView
from fetchwork.matching.verdicts import KnownSlot, Verdicts, outranked


def request_of(**ad: Any) -> JobRequest:
    return JobRequest.of(from_json(ad))


def slot_ad(**attributes: Any) -> ClassAd:
    return from_json(
        {
            "Name": "slot1@ep",
            "Cpus": 4,
            "Memory": 4096,
            "Disk": 10**6,
            "Start": "/Expr(TARGET.Project =?= Group)/",
            "Group": "physics",
            "Requirements": "/Expr(Start && TARGET.RequestDisk <= MY.Disk)/",
            "LoadAvg": 0.1,
            **attributes,
        }
    )


def known(**attributes: Any) -> KnownSlot:
    return KnownSlot(SlotView(slot_ad(**attributes)))


JOB = request_of(
    RequestCpus=1,
    RequestDisk=1,
    Project="physics",
    Requirements='/Expr(TARGET.HasTool && Project == "physics")/',
)


def digest(request: JobRequest, **attributes: Any) -> bytes | None:
    assert request.names is not None
    return SlotView(slot_ad(**attributes)).digest(request.names)


@pytest.mark.parametrize(
    "changed",
    [
        # named by the job, by the slot's Requirements, by attributes in these, and by the job's requests
        {"HasTool": True},
        {"Start": True},
        {"Group": "biology"},
        {"Cpus": 8},
        {"Disk": 5},
        {"Rank": 1.5},
        {"SlotWeight": 7},
        {"Project": "slot has one as well"},
    ],
)
def test_what_either_may_look_at_makes_another_slot_of_it(changed: dict[str, Any]) -> None:
    assert digest(JOB) is not None
    assert digest(JOB, **changed) != digest(JOB)


def test_what_nobody_looks_at_makes_no_other_slot_of_it() -> None:
    assert digest(JOB, LoadAvg=3.5, MyCurrentTime=12, Name="slot2@ep") == digest(JOB)


def test_names_of_a_job_reach_what_the_slot_computes_from_others() -> None:
    request = request_of(Requirements="/Expr(TARGET.Good)/")
    first = digest(request, Good="/Expr(MY.LoadAvg < 1)/")
    assert digest(request, Good="/Expr(MY.LoadAvg < 1)/", LoadAvg=2.0) != first


@pytest.mark.parametrize(
    "expression",
    [
        "time() > 5",
        "TARGET.X > random(10)",
        "CurrentTime > 5",
        'eval("Load" + "Avg") > 1',
        'eval(strcat("Load", "Avg")) > 1',
        'TARGET[strcat("Load", "Avg")] > 1',
        "size(TARGET) > 1",
        "unparse(LoadAvg) == 1",
        "'Load Avg' > 1",
        "formatTime() == 1",
        "absTime ( ) == 1",
        "noSuchFunction(1)",
        'userMap("a", Owner) == 1',
    ],
)
def test_expression_that_may_look_at_more_than_it_names_is_not_remembered_beyond_its_slot(
    expression: str,
) -> None:
    assert not only_computes(expression)
    assert request_of(Requirements=f"/Expr({expression})/").names is None or expression == "noSuchFunction(1)"
    assert SlotView(slot_ad(Start=f"/Expr({expression})/")).digest(frozenset()) is None


@pytest.mark.parametrize(
    "expression",
    [
        '(OpSys == "LINUX") && TARGET.Disk >= RequestDisk',
        'regexp("a[b]c", Machine) && versionCMP(CondorVersion, "23") >= 0',
        "ifThenElse(RequestGPUs =?= undefined, 0, MY.GPUs) is 0",
        'member(Arch, {"X86_64", "time("})',
        "sum(evalInEachContext(member(CatalogID,RequestedCatalogIDs) ? CatalogSize : 0,catalogs)) <= MY.Disk",
    ],
)
def test_what_submit_and_startd_write_is_remembered(expression: str) -> None:
    assert only_computes(expression)


def test_names_in_strings_are_none() -> None:
    assert names_in('Machine == "ep0.example.org"') == {"machine"}


def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[JobRequest]:
    asked: list[JobRequest] = []
    accepts = SlotView.job_accepts

    def counted(self: SlotView, request: JobRequest) -> bool:
        asked.append(request)
        return accepts(self, request)

    monkeypatch.setattr(SlotView, "job_accepts", counted)
    return asked


def look(verdicts: Verdicts, slot: KnownSlot, request: JobRequest) -> float | None:
    verdicts.begin([slot])
    table = verdicts.table(slot, request.names)
    return (table.get(1) or verdicts.put(slot, table, 1, request)).rank


def test_slots_that_are_alike_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = evaluations(monkeypatch)
    verdicts = Verdicts()
    for load in range(5):
        assert look(verdicts, known(HasTool=True, LoadAvg=load), JOB) == 0.0
        assert look(verdicts, known(HasTool=False, LoadAvg=load), JOB) is None
    assert len(asked) == 2


def test_what_asks_the_time_is_remembered_for_one_slot_and_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = evaluations(monkeypatch)
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    verdicts, slot, timely = (
        Verdicts(),
        known(),
        request_of(Requirements="/Expr(time() > 5)/", Project="physics"),
    )
    look(verdicts, slot, timely)
    look(verdicts, slot, timely)
    assert len(asked) == 1
    look(verdicts, known(), timely)
    assert len(asked) == 2
    now += module.UNSURE_LIFE_S
    look(verdicts, slot, timely)
    assert len(asked) == 3


def test_slot_judges_jobs_alike_in_which_it_looks_at_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    accepts = SlotView.slot_accepts

    def counted(self: SlotView, request: JobRequest) -> bool:
        asked.append(request)
        return accepts(self, request)

    monkeypatch.setattr(SlotView, "slot_accepts", counted)
    view = SlotView(slot_ad(Rank="/Expr(TARGET.Prize)/"))
    jobs = [
        request_of(RequestDisk=1, Project="physics", Prize=1, Cmd="/bin/true"),
        request_of(RequestDisk=1, Project="physics", Prize=1, Cmd="/bin/false"),
        request_of(RequestDisk=1, Project="biology", Prize=1),
        request_of(RequestDisk=1, Project="physics", Prize=2),
        request_of(RequestDisk=1, Project="physics", Prize=2.0),
        # a computed expression may use any attribute
        request_of(RequestDisk=1, Project="physics", Prize="/Expr(Other)/", Other=3),
        request_of(RequestDisk=1, Project="physics", Prize="/Expr(Other)/", Other=4),
    ]
    assert [view.opinion(job) for job in jobs * 2] == [1.0, 1.0, None, 2.0, 2.0, 3.0, 4.0] * 2
    assert len(asked) == 4 + 2 * 2


def test_what_is_known_is_bounded() -> None:
    verdicts = Verdicts(limit=100)
    for cpus in range(1000):
        slot = known(Cpus=cpus + 1)
        look(verdicts, slot, JOB)
        verdicts.trim([slot])
    assert len(verdicts) <= 100
    assert look(verdicts, slot, JOB) is None


# -- the job's Rank


def prefers(request: JobRequest, slot: KnownSlot, *others: KnownSlot) -> bool:
    verdicts = Verdicts()
    own = verdicts.put(slot, verdicts.table(slot, request.names), 1, request)
    return outranked(1, request, slot, own, others, verdicts)


def test_job_would_rather_run_on_a_slot_that_it_ranks_higher() -> None:
    request = request_of(
        Rank="/Expr(TARGET.KFlops)/",
        Requirements="/Expr(TARGET.KFlops < 40)/",
        RequestDisk=1,
        Project="physics",
    )
    slow, fast, too_fast = (known(KFlops=kflops) for kflops in (10, 30, 50))
    assert prefers(request, slow, fast, too_fast)
    assert not prefers(request, fast, slow, too_fast)
    assert not prefers(request, slow)


def test_rank_that_is_the_same_for_all_slots_prefers_none() -> None:
    slots = [known(KFlops=kflops) for kflops in (10, 30)]
    for rank in (5, "/Expr(undefined)/", "/Expr(TARGET.Nowhere)/", '/Expr(TARGET.Arch == "X")/'):
        assert not prefers(request_of(Rank=rank, RequestDisk=1, Project="physics"), *slots)
