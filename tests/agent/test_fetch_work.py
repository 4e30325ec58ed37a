"""FETCH_WORK: the slots that are offered a job, the job, and its ad."""

import asyncio
from typing import NoReturn

import pytest

from fetchwork.classad.jsonform import to_json
from fetchwork.db.calls import runs
from fetchwork.errors import DatabaseUnavailable
from fetchwork.handlers.context import Caller
from fetchwork.hook.wire import HOOKS
from fetchwork.matching.autoclusters import Autoclusters
from tests.agent.conftest import ADS, Hooks, Jobs, attributes_of, slot_ad, with_attributes
from tests.support.waiting import PATIENCE_S

VERSIONS = ("23.9.6", "25.14.1")


async def test_no_work_prints_nothing(hooks: Hooks) -> None:
    answer = await hooks.ask("fetch_work", slot_ad())
    assert (answer.reply.body, answer.reply.exit, answer.outcome) == (b"", 0, "nothing")


async def test_offered_ad_has_what_the_starter_needs_and_the_runs_keys(hooks: Hooks) -> None:
    job = hooks.submit(arguments="1 'two three'", iwd="/tmp", ad={"Department": "physics"})
    body = await hooks.fetch()
    ad = attributes_of(body)
    assert body.count(b"\n") == len(ad)
    assert f"{ad['ClusterId']}.{ad['ProcId']}" == job
    assert (ad["Cmd"], ad["Arguments"], ad["Iwd"]) == ("/bin/true", "1 'two three'", "/tmp")
    assert (ad["Owner"], ad["User"], ad["OsUser"]) == ("nobody", "nobody@vm", "nobody")
    assert (ad["JobUniverse"], ad["JobLeaseDuration"], ad["HookKeyword"]) == (5, 2147483647, "FW")
    assert (ad["Department"], ad["FetchWorkHost"]) == ("physics", "vm")
    assert (ad["RequestCpus"], ad["RequestMemory"], ad["RequestDisk"]) == (1, 1, 1)
    assert isinstance(ad["FetchWorkRunId"], int)
    assert len(ad["FetchWorkToken"]) == 36


async def test_what_matching_and_policy_look_at_is_not_printed(hooks: Hooks) -> None:
    hooks.submit(
        requirements="TARGET.Memory > 1", rank="TARGET.Memory", ad={"PeriodicHold": "/Expr(false || false)/"}
    )
    ad = attributes_of(await hooks.fetch())
    assert not {"Requirements", "Rank", "PeriodicHold", "JobPrio"} & set(ad)
    assert ad["FetchWorkHasPolicy"] is True


async def test_request_that_is_an_expression_is_printed_as_the_number_it_is_on_the_slot(hooks: Hooks) -> None:
    hooks.submit(ad={"RequestMemory": "/Expr(TARGET.Memory / 2.1)/"})
    assert attributes_of(await hooks.fetch())["RequestMemory"] == 488


async def test_offer_has_the_slots_values_and_the_job_remembers_them(hooks: Hooks) -> None:
    job = hooks.submit(
        arguments="$$(OpSys) $$([TARGET.Cpus + 1]) $$(Nope:none)", ad={"Note": "$$(OpSys) of $$(Arch)"}
    )
    ad = attributes_of(await hooks.fetch())
    assert (ad["Arguments"], ad["Note"]) == ("LINUX 2 none", "LINUX of X86_64")
    kept = {name: value for name, value in hooks.job_of(job)["ad"].items() if name.startswith("MATCH_")}
    assert kept == {
        "MATCH_OpSys": "LINUX",
        "MATCH_Arch": "X86_64",
        "MATCH_Nope": "none",
        "MATCH_EXP_Arguments": "LINUX 2 none",
        "MATCH_EXP_Note": "LINUX of X86_64",
    }


async def test_job_with_a_macro_without_a_value_is_held_and_the_next_one_offered(hooks: Hooks) -> None:
    bad = hooks.submit(arguments="a $$(Nope)")
    good = hooks.submit(priority=-5, ad={"RequestMemory": 2})
    ad = attributes_of(await hooks.fetch())
    assert f"{ad['ClusterId']}.{ad['ProcId']}" == good
    held = hooks.job_of(bad)
    assert (held["jobstatus"], held["holdreasoncode"], held["holdreasonsubcode"]) == (5, 0, 0)
    assert held["holdreason"] == "Cannot expand $$ expression (Nope)."


async def test_job_that_may_not_remember_its_slot_is_held_and_the_next_one_offered(hooks: Hooks) -> None:
    bad = hooks.submit(arguments="$$(OpSys)" * 1000)
    good = hooks.submit(priority=-5, ad={"RequestMemory": 2})
    hooks.call("set_setting", name="max_job_bytes", value=4096)
    ad = attributes_of(await hooks.fetch())
    assert f"{ad['ClusterId']}.{ad['ProcId']}" == good
    held = hooks.job_of(bad)
    assert (held["jobstatus"], held["holdreasoncode"]) == (5, 6)
    assert "allowed: MATCH_..., and 4096 bytes (setting max_job_bytes)" in held["holdreason"]


async def test_job_whose_slot_could_not_be_written_down_waits_again_at_once(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = hooks.submit(arguments="$$(OpSys)")

    def away(**_: object) -> NoReturn:
        raise DatabaseUnavailable("the database went away")

    with monkeypatch.context() as patched:
        patched.setattr(runs, "note_match", away)
        answer = await hooks.ask("fetch_work", slot_ad())
    assert (answer.outcome, answer.reply.body) == ("unavailable", b"")
    assert hooks.job_of(job)["runid"] is None
    assert attributes_of(await hooks.fetch())["Arguments"] == "LINUX"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("case", "offered"),
    [
        ("static-unclaimed", True),
        ("static-claimed-idle", True),
        ("dslot-idle", True),
        ("pslot-unclaimed", True),
        ("static-claimed-busy", False),
        ("static-claimed-suspended", False),
        ("static-preempting-vacating", False),
        ("static-drained", False),
        ("static-claimed-by-schedd", False),
    ],
)
async def test_only_a_slot_that_can_start_now_is_offered_work(
    hooks: Hooks, version: str, case: str, offered: bool
) -> None:
    hooks.submit()
    assert bool(await hooks.fetch(slot_ad(f"{version}-fetch_work-{case}"))) is offered


async def test_job_that_does_not_fit_what_is_left_is_not_offered(hooks: Hooks) -> None:
    hooks.submit(request_cpus=4)
    pslot = slot_ad("23.9.6-fetch_work-pslot-with-dslots")
    assert attributes_of(pslot)["Cpus"] == 3
    assert not await hooks.fetch(pslot)
    hooks.submit(request_cpus=3)
    assert await hooks.fetch(pslot)


async def test_job_whose_ad_cannot_be_read_is_held_and_the_next_one_offered(hooks: Hooks) -> None:
    bad = hooks.submit(requirements="TARGET.Memory > 0 0")
    good = hooks.submit(priority=-5)
    ad = attributes_of(await hooks.fetch())
    assert f"{ad['ClusterId']}.{ad['ProcId']}" == good
    assert hooks.job_of(bad)["jobstatus"] == 5
    assert "Requirements" in hooks.job_of(bad)["holdreason"]


async def test_ad_that_this_host_would_not_read_to_its_end_is_held_with_the_size(
    conninfo: str, jobs: Jobs
) -> None:
    job = jobs.submit(arguments="a" * 6000)
    hooks = Hooks(conninfo, ad_bytes=5000)
    assert not await hooks.fetch()
    assert jobs.job_of(job)["jobstatus"] == 5
    assert "5000" in jobs.job_of(job)["holdreason"]
    await hooks.close()


async def test_owner_without_an_account_here_is_not_offered_here(conninfo: str, jobs: Jobs) -> None:
    stranger = jobs.submit(owner="no_such_account")
    hooks = Hooks(conninfo, check_accounts=True)
    assert not await hooks.fetch()
    jobs.submit(owner="nobody")
    ad = attributes_of(await hooks.fetch(slot_ad(Name="slot2@vm")))
    assert ad["Owner"] == "nobody"
    assert jobs.job_of(stranger)["jobstatus"] == 1
    await hooks.close()


async def test_account_is_not_looked_for_where_all_jobs_run_as_one(hooks: Hooks) -> None:
    hooks.submit(owner="no_such_account")
    assert attributes_of(await hooks.fetch())["Owner"] == "no_such_account"


async def test_two_owners_share_the_slots(hooks: Hooks) -> None:
    for owner in ("alice", "bob"):
        hooks.call("submit_many", ads=[{"Cmd": "/bin/true", "Owner": owner}] * 10)
    owners = [attributes_of(await hooks.fetch(slot_ad(Name=f"slot{n}@vm")))["Owner"] for n in range(1, 9)]
    assert sorted(owners) == ["alice"] * 4 + ["bob"] * 4


async def test_slot_that_asks_again_ends_what_it_had(hooks: Hooks) -> None:
    job = hooks.submit()
    await hooks.started_job()
    assert hooks.job_of(job)["jobstatus"] == 2
    ad = attributes_of(await hooks.fetch())
    assert f"{ad['ClusterId']}.{ad['ProcId']}" == job
    assert hooks.job_of(job)["numlost"] == 1


async def test_partitionable_slot_asks_again_without_ending_its_offers(hooks: Hooks) -> None:
    first, second = hooks.submit(), hooks.submit()
    pslot = slot_ad("25.14.1-fetch_work-pslot-unclaimed")
    job = await hooks.fetch(pslot)
    await hooks.reply("accept", job, pslot)
    assert await hooks.fetch(pslot)
    assert (await hooks.ask("prepare_job", job, slot="slot1_1")).slot == "slot1_1@vm"
    assert sorted(hooks.job_of(each)["jobstatus"] for each in (first, second)) == [1, 2]


async def test_undo_puts_the_job_back(hooks: Hooks) -> None:
    job = hooks.submit()
    answer = await hooks.ask("fetch_work", slot_ad())
    await answer.undo()  # type: ignore[misc]
    assert hooks.job_of(job)["jobstatus"] == 1
    again = attributes_of(await hooks.fetch())
    assert f"{again['ClusterId']}.{again['ProcId']}" == job


async def test_waiting_fetch_gets_the_job_that_appears(waits: Hooks) -> None:
    fetch = asyncio.ensure_future(waits.fetch())
    await waits.waiting.until(1)
    await asyncio.to_thread(waits.submit)
    waits.waiting.wake(waits.context.session)
    assert await fetch


async def test_waiting_fetch_that_has_to_end_gets_nothing(waits: Hooks) -> None:
    fetch = asyncio.ensure_future(waits.fetch())
    await waits.waiting.until(1)
    await asyncio.to_thread(waits.submit)
    waits.waiting.close()
    assert await fetch == b""


async def test_claimed_slot_is_not_kept_waiting(waits: Hooks) -> None:
    assert await waits.fetch(slot_ad("25.14.1-fetch_work-static-claimed-idle")) == b""
    assert waits.waiting.waits == 0


@pytest.mark.parametrize("body", [b"", b"no ad\n", b"Cpus = 1\n", b"Name = 5\n", b"Name = \xff\x00\n"])
async def test_body_that_is_no_slot_ad_is_a_bad_request(no_database: Hooks, body: bytes) -> None:
    assert (await no_database.ask("fetch_work", body)).reply.code == "bad_request"


async def test_only_the_startds_account_may_fetch(hooks: Hooks) -> None:
    hooks.submit()
    answer = await hooks.ask("fetch_work", slot_ad(), caller=Caller(1000, trusted=False))
    assert (answer.reply.code, answer.reply.body) == ("denied", b"")


async def test_database_that_is_away_is_unavailable_within_the_deadline(no_database: Hooks) -> None:
    answer = await asyncio.wait_for(no_database.ask("fetch_work", slot_ad(), seconds=1.5), PATIENCE_S)
    assert answer.reply.code == "unavailable"


async def test_every_captured_ad_is_answered_without_failing(hooks: Hooks) -> None:
    asked = 0
    for path in sorted(ADS.iterdir()):
        name = path.name.split("-")[1] if "-" in path.name else ""
        if name not in HOOKS:
            continue
        hooks.submit()
        arg = {"job_exit": "evict" if "evict" in path.name else "exit", "reply_fetch": "accept"}.get(name, "")
        body = path.read_bytes()
        if name != "fetch_work":
            # as a slot that returns from a run of ours
            fetched = attributes_of(await hooks.fetch(slot_ad(Name=f"slot{asked}@vm")))
            keys = {key: value for key, value in fetched.items() if key.startswith("FetchWork")}
            job, separator, slot = body.partition(b"-----\n")
            body = with_attributes(job, **keys) + separator + slot
        answer = await hooks.ask(name, body, arg, slot="slot1")
        assert answer.reply.code == "", (path.name, answer)
        asked += 1
    assert asked >= 40


async def test_cache_of_autoclusters_is_read_once(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks.submit()
    await hooks.fetch()
    monkeypatch.setattr(Autoclusters, "add", lambda self, rows: pytest.fail("read again"))
    hooks.submit()
    assert await hooks.fetch(slot_ad(Name="slot2@vm"))


async def test_values_come_through_as_they_were_submitted(hooks: Hooks) -> None:
    values = {
        "Text": 'a "b" \\ c\td',
        "Lines": "one\ntwo\r\n\x01",
        "Unicode": "\u00e4\u2028\U0001f600",
        "Big": 2**62,
        "Real": 0.1,
        "List": [1, "a\nb", None],
        "Nested": {"X": 'y\nOwner = "root"'},
    }
    hooks.submit(ad=values)
    body = await hooks.fetch()
    ad = attributes_of(body)
    assert body.count(b"\n") == len(ad)
    assert to_json(ad) | values == to_json(ad)
    assert ad["Owner"] == "nobody"
