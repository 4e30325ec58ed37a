"""A starter's log of a job's end, and the jobs for which it is enough."""

import pytest

from fetchwork.handlers.starterend import End, needs_no_hook, read_end
from tests.support.starter_logs import BEGUN, EVICTED, EXITED, KILLED, WRITTEN

CPU = {"RemoteUserCpu": 93784, "RemoteSysCpu": 5}
SLOT = b'Name = "slot1@vm"\nFetchWorkPlain = true\nState = "Unclaimed"\n'


@pytest.mark.parametrize(
    ("written", "end"),
    [
        (
            BEGUN + EXITED,
            End("exit", {"JobState": "Exited", "JobPid": 77, **CPU, "ExitBySignal": "false", "ExitCode": 3}),
        ),
        (
            BEGUN + KILLED,
            End(
                "exit",
                {
                    **{"JobState": "Exited", "JobPid": 77, **CPU, "ExitBySignal": "true", "ExitSignal": 11},
                    "ExitReason": "died on signal 11 (Segmentation fault)",
                },
            ),
        ),
        (BEGUN + EVICTED, End("evict", {"JobState": "Exited", "JobPid": 77})),
        # a program that cannot be executed has a 001 as well
        (BEGUN + WRITTEN, End("evict", {})),
        # the starter was killed
        (BEGUN, None),
        # nothing could be written, on a full disk
        ("", None),
        # the last one is the starter's: a job may write before it
        (BEGUN + EVICTED + EXITED, read_end(BEGUN + EXITED, 77)),
        (BEGUN + "005 (007.003.000) 2026-11-22 13:56:30 Job terminated.\n", None),
        (BEGUN + "005 (1) x\n\t(1) Normal termination (return value nan)\n...\n", None),
    ],
    ids=["exited", "killed", "evicted", "no exec", "begun", "nothing", "twice", "half", "no status"],
)
def test_end_is_what_the_starter_wrote(written: str, end: End | None) -> None:
    assert read_end(written, 77) == end


def test_job_that_was_ended_while_prepare_job_ran_or_before_has_not_begun() -> None:
    assert read_end("", 0) == read_end("...\n", 0) == End("evict", {})


def test_evicted_job_is_known_to_have_run_where_its_process_is_not_known() -> None:
    end = read_end(BEGUN + EVICTED, 0)
    assert end is not None and end.report["JobPid"] == 0
    end = read_end(BEGUN + EXITED, 0)
    assert end is not None and "JobPid" not in end.report


def test_job_that_leaves_only_a_status_needs_no_hook_on_a_slot_that_offers_that() -> None:
    ad = {"Cmd": "/bin/true", "JobUniverse": 5, "DeferralTime": None}
    assert needs_no_hook(ad, SLOT)
    assert needs_no_hook({"Cmd": "/bin/true"}, SLOT)
    assert not needs_no_hook(ad, b'Name = "slot1@vm"\n')
    assert not needs_no_hook(ad, b'Name = "x FetchWorkPlain = true"\n')


@pytest.mark.parametrize(
    "more",
    [
        {"FetchWorkSandbox": True},
        {"FETCHWORKTAILBYTES": 4096},
        {"FetchWorkCredentials": True},
        {"DeferralTime": 0},
        {"wantContainer": True},
        {"JobUniverse": 12},
    ],
    ids=lambda more: next(iter(more)),
)
def test_job_that_leaves_more_needs_the_hook(more: dict[str, object]) -> None:
    assert not needs_no_hook({"Cmd": "/bin/true", "JobUniverse": 5, **more} | more, SLOT)
