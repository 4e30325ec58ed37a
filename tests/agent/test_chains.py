"""A chain's requests to the agent: the first job, the end of one with the next, and everything unexpected."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fetchwork.classad.ads import parse_old
from fetchwork.db.calls import runs as run_calls
from fetchwork.errors import DatabaseUnavailable
from fetchwork.handlers.context import Answer, Caller
from fetchwork.handlers.host.chains import Chain
from fetchwork.process import Process
from tests.agent.conftest import EXITED, Hooks, attributes_of, slot_ad, with_attributes

SLOT = slot_ad(FetchWorkPlain=True)
ENDED = {**EXITED, "ExitCode": 0, "ExitBySignal": False, "JobDuration": 5.0, "RemoteUserCpu": 0.5}


class Chains(Hooks):
    """One host whose keyword lets jobs run in chains."""

    def __init__(self, conninfo: str) -> None:
        super().__init__(conninfo, chain_s=600.0, runner="/bin/true")

    async def first(self, **submitted: Any) -> bytes:
        """The first job of a chain whose carrier has started; what the runner gets."""
        carrier = await self.fetch(SLOT)
        assert attributes_of(carrier)["Cmd"] == "/bin/true"
        assert (await self.start(carrier)).outcome == "started"
        answer = await self.ask("chain_first", carrier, slot="slot1")
        assert answer.outcome == "begun", answer
        return answer.reply.body

    async def next(self, job: bytes, arg: str = "exit", check: str = "", **more: Any) -> Answer:
        """The answer to the end of a job."""
        ad = job.partition(b"-----\n")[0]
        extra = {name: more.pop(name) for name in ("caller", "spool") if name in more}
        ended = {} if check else {**ENDED, **more}
        return await self.ask(
            "chain_next", with_attributes(ad, **ended), arg, slot="slot1", check=check, **extra
        )


@pytest.fixture
async def chains(conninfo: str) -> AsyncIterator[Chains]:
    chains = Chains(conninfo)
    yield chains
    await chains.close()


def run_of(job: bytes) -> int:
    return int(attributes_of(job.partition(b"-----\n")[0])["FetchWorkRunId"])


async def test_jobs_follow_each_other_until_none_is_left(chains: Chains) -> None:
    jobs = [chains.submit(cmd="/bin/sh", arguments=f"-c 'exit {n}'") for n in range(3)]
    job = await chains.first()
    for n in range(3):
        ad, _, job_ad = job.partition(b"-----\n")
        assert parse_old(ad)["Arguments"] == f"-c 'exit {n}'"
        assert b"FetchWorkToken" not in job_ad
        answer = await chains.next(job, ExitCode=n)
        assert answer.outcome == "completed"
        job = answer.reply.body
    assert job == b""
    assert answer.details["chain_over"] == "no_job"
    assert [chains.job_of(one)["exitcode"] for one in jobs] == [0, 1, 2]
    assert not list(chains.runs)


async def test_a_job_with_arguments_in_the_old_syntax_is_part_of_a_chain(chains: Chains) -> None:
    """condor_submit writes most arguments so; the runner itself gets none of them."""
    for n in range(2):
        chains.submit(cmd="/bin/sleep", ad={"Args": f"0.{n}"})
    carrier = await chains.fetch(SLOT)
    assert attributes_of(carrier)["Cmd"] == "/bin/true"
    assert b"\nArgs" not in carrier
    assert (await chains.start(carrier)).outcome == "started"
    first = (await chains.ask("chain_first", carrier, slot="slot1")).reply.body
    assert b'\nArgs = "0.0"\n' in first
    assert b'\nArgs = "0.1"\n' in (await chains.next(first)).reply.body


async def test_a_repeated_request_gets_the_same_answer_and_takes_no_other_job(chains: Chains) -> None:
    for _ in range(3):
        chains.submit()
    first = await chains.first()
    answer = await chains.next(first)
    again = await chains.next(first)
    assert (again.outcome, again.reply.body) == ("again", answer.reply.body)
    assert len(list(chains.runs)) == 1
    last = await chains.next(answer.reply.body)
    assert run_of(last.reply.body) > run_of(answer.reply.body)


async def test_a_held_job_ends_and_the_chain_goes_on(chains: Chains) -> None:
    one, other = chains.submit(), chains.submit()
    job = await chains.first()
    chains.call("hold", jobs=[one], reason="test")
    answer = await chains.next(job, ExitBySignal=True, ExitSignal=15)
    assert chains.job_of(one)["jobstatus"] == 5
    assert answer.reply.body
    assert (await chains.next(answer.reply.body)).reply.body == b""
    assert chains.job_of(other)["jobstatus"] == 4


async def test_a_failure_at_once_is_judged_as_any_job_s(chains: Chains) -> None:
    """finish_runs leaves it; the slot goes on all the same."""
    one, other = chains.submit(), chains.submit()
    answer = await chains.next(await chains.first(), ExitCode=1, JobDuration=0.01)
    assert chains.job_of(one)["exitcode"] == 1
    assert answer.reply.body
    assert chains.job_of(other)["jobstatus"] == 2


async def test_a_job_that_cannot_start_is_held(chains: Chains) -> None:
    one, other = chains.submit(), chains.submit()
    check = "Failed to open '/x' as standard output: No such file or directory (errno 2)"
    answer = await chains.next(await chains.first(), check=check)
    assert (chains.job_of(one)["jobstatus"], chains.job_of(one)["holdreasoncode"]) == (5, 7)
    assert answer.reply.body
    assert chains.job_of(other)["jobstatus"] == 2


async def test_an_eviction_ends_the_chain(chains: Chains) -> None:
    one, other = chains.submit(), chains.submit()
    answer = await chains.next(await chains.first(), "evict")
    assert (answer.reply.body, answer.details["chain_over"]) == (b"", "evicted")
    assert (chains.job_of(one)["jobstatus"], chains.job_of(other)["jobstatus"]) == (1, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"owner": "daemon"},
        {"request_memory": 77},
        {"ad": {"JobMaxVacateTime": 5}},
        {"ad": {"FetchWorkTailBytes": 100}},
        {"ad": {"DeferralTime": 1}},
    ],
)
async def test_a_job_that_does_not_fit_waits_for_the_slots_fetch(
    chains: Chains, other: dict[str, Any]
) -> None:
    chains.submit()
    job = await chains.first()
    waits = chains.submit(**other)
    answer = await chains.next(job)
    assert (answer.outcome, answer.reply.body) == ("completed", b"")
    assert chains.job_of(waits)["jobstatus"] == 1


async def test_a_slot_that_is_retiring_ends_its_chain(chains: Chains) -> None:
    chains.submit()
    waits = chains.submit()
    job = await chains.first()
    name = str(attributes_of(SLOT)["Name"])
    chains.runs.slot_asks(chains.context, name, with_attributes(SLOT, State="Claimed", Activity="Retiring"))
    answer = await chains.next(job)
    assert (answer.reply.body, answer.details["chain_over"]) == (b"", "slot")
    assert chains.job_of(waits)["jobstatus"] == 1


async def test_a_slot_whose_start_changes_with_time_gets_no_chain(chains: Chains) -> None:
    chains.submit()
    body = SLOT.replace(b"\nStart = ", b"\nStart = KeyboardIdle > 60 && ")
    carrier = await chains.fetch(body)
    assert not carrier or attributes_of(carrier)["Cmd"] == "/bin/true"
    assert b"FETCHWORK_CHAIN" not in carrier


async def test_an_end_that_is_spooled_is_a_report_of_job_exit(
    chains: Chains, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other reports would be moved aside when the spool is delivered."""
    job = chains.submit()
    text = await chains.first()

    async def away(**of_the_end: object) -> str:
        raise DatabaseUnavailable("away")

    monkeypatch.setattr(chains.context.session.reports, "finish", away)
    answer = await chains.next(text, "evict", spool=True)
    assert (answer.outcome, answer.reply.body) == ("spooled", b"")
    assert answer.details["chain_over"] == "evicted"
    monkeypatch.undo()
    (report,) = chains.spooled
    assert (report.name, report.arg) == ("job_exit", "evict")
    assert (await chains.ask(report.name, report.body, report.arg)).outcome == "evicted"
    assert chains.job_of(job)["jobstatus"] == 1


@pytest.mark.parametrize("request_name", ["chain_first", "chain_next"])
async def test_another_starter_is_refused(chains: Chains, request_name: str) -> None:
    chains.submit()
    job = (await chains.first()).partition(b"-----\n")[0]
    other = Caller(65534, trusted=False, starter=Process(1, 1))
    answer = await chains.ask(request_name, with_attributes(job, **ENDED), "exit", slot="slot1", caller=other)
    assert answer.outcome == "denied"
    assert len(list(chains.runs)) == 1


async def test_a_forged_token_is_refused(chains: Chains) -> None:
    job = chains.submit()
    text = await chains.first()
    forged = with_attributes(
        text.partition(b"-----\n")[0], FetchWorkToken="00000000-0000-4000-8000-000000000000", **ENDED
    )
    assert (await chains.ask("chain_next", forged, "exit", slot="slot1")).outcome == "denied"
    assert chains.job_of(job)["jobstatus"] == 2


async def test_a_database_that_does_not_answer_leaves_the_end_to_the_runner(
    chains: Chains, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner becomes JOB_EXIT; the agent looks for a run that it has not heard of."""
    chains.submit()
    chains.submit()
    job = await chains.first()

    async def away(*args: object, **more: object) -> run_calls.Next:
        raise DatabaseUnavailable("away")

    monkeypatch.setattr(chains.context.session.chains, "next", away)
    answer = await chains.next(job)
    assert answer.outcome == "unavailable"
    assert chains.context.session.has_unheard_claim
    monkeypatch.undo()
    assert (await chains.exit(job.partition(b"-----\n")[0], **ENDED)).outcome == "completed"


async def test_a_chain_of_an_earlier_agent_hands_over_no_job_and_ends_with_the_one_that_runs(
    chains: Chains,
) -> None:
    one, other = chains.submit(), chains.submit()
    job = await chains.first()
    (run,) = chains.runs
    run.chain = Chain.begun_before(run.run_id, run.slot)
    refused = await chains.ask("chain_first", job.partition(b"-----\n")[0], slot="slot1")
    assert refused.reply.code == "denied"
    answer = await chains.next(job)
    assert (answer.outcome, answer.reply.body) == ("completed", b"")
    assert (chains.job_of(one)["jobstatus"], chains.job_of(other)["jobstatus"]) == (4, 1)


async def test_a_first_job_that_never_began_waits_again(chains: Chains) -> None:
    """Its runner tells an eviction, with the pid that the starter has as the job's."""
    job_id = chains.submit()
    job = await chains.first()
    ad = job.partition(b"-----\n")[0]
    answer = await chains.ask("job_exit", with_attributes(ad, JobPid=7), "evict", slot="slot1")
    assert answer.outcome == "evicted"
    row = chains.job_of(job_id)
    assert (row["jobstatus"], row["numjobstarts"]) == (1, 1)
