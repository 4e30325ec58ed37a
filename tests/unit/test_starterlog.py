"""A starter's log of a failed start is read as HTCondor's shadow would read it, and bounded."""

import asyncio
import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchwork.handlers.host.starterlog import MOST_BYTES, Fault, StarterLogs, fault_of, read_faults
from tests.support.starter_logs import NO_PROGRAM, WRITTEN
from tests.support.there import there

TOKEN = "b2d9a0f2-7d8c-4e0b-9c3c-1f4f5c0f9c11"


@pytest.mark.parametrize(
    ("text", "code", "subcode"),
    [
        ("Failed to execute '/x' with arguments a 'b: (errno=8: 'Exec format error')", 6, 8),
        (
            "Failed to execute '/x': invalid interpreter (/y) specified on the first line (errno=2: 'x')",
            6,
            2,
        ),
        ("Failed to open '/x' as standard output: Is a directory (errno 21)", 7, 21),
        ("Failed to open '/x' as standard error: Permission denied (errno 13)", 7, 13),
        ("Failed to open '/x' as standard input: No such file or directory (errno 2)", 8, 2),
        ("Cannot access initial working directory /no/such: No such file or directory", 14, 2),
        ("Cannot access initial working directory /a: b: Permission denied", 14, 13),
        ("PREPARE_JOB (prepare_job) failed (exited with status 33): <no message>", 19, 33),
        ("PREPARE_JOB (prepare_job) failed (reported status 034): no luck", 19, 34),
        ("failed to execute PREPARE_JOB (/no/such)", 19, 0),
        ("Singularity test failed:FATAL: no image", 45, -1000),
        # HTCondor tries these again
        ("PREPARE_JOB (prepare_job) failed (reported status 350): fetchwork: not now", None, 0),
        ("PREPARE_JOB (prepare_job) failed (killed by signal 9): <no message>", None, 0),
        ("Worker node is out of memory", None, 0),
    ],
)
def test_hold_code_follows_from_the_text(text: str, code: int | None, subcode: int) -> None:
    assert fault_of(text) == Fault(text, code, subcode)


def test_reason_names_the_slot_where_the_shadow_does() -> None:
    assert NO_PROGRAM.reason("slot1@h").startswith("Error from slot1@h: Failed to execute '/no/such'")
    iwd = "Cannot access initial working directory /no: Permission denied"
    assert fault_of(iwd).reason("slot1@h") == iwd


def test_first_error_that_holds_a_job_counts() -> None:
    later = WRITTEN.replace("Failed to execute '/no/such': (errno=2: 'No such file or directory')", "later")
    assert read_faults(WRITTEN + later) == NO_PROGRAM
    assert read_faults(later + WRITTEN) == NO_PROGRAM
    assert read_faults(later) == Fault("later")


def test_message_and_other_events_are_no_faults() -> None:
    assert read_faults("") is None
    assert read_faults(WRITTEN.replace("Error from", "Message from")) is None
    assert read_faults("001 (1.0.0) 2026-11-22 04:00:00 Job executing on host: <x>\n...\n") is None


def test_text_of_several_lines_becomes_one() -> None:
    fault = there(read_faults("021 (1.0.0) x Error from starter on <x>:\n\tone\n\t\n\ttwo\x1b[31m\n...\n"))
    assert fault.text.split()[:2] == ["one", "two"] or "\n" not in fault.text


@given(st.text(max_size=300).map(lambda text: f"021 (1.0.0) x Error from starter on <x>:\n\t{text}"))
def test_whatever_is_written_is_read(text: str) -> None:
    fault = read_faults(text)
    assert fault is None or "\n" not in fault.text


def test_hostile_text_takes_no_time() -> None:
    began = time.process_time()
    for piece in ("Failed to execute '", "\t'(errno=2: '", "Error from ", "021 (", "\n\t", "status 3 "):
        read_faults(("021 (1) Error from x\n\t" + piece * MOST_BYTES)[:MOST_BYTES])
    assert time.process_time() - began < 5


async def test_file_is_there_before_the_starter_and_gone_after_the_run(tmp_path: Path) -> None:
    logs = StarterLogs(tmp_path / "starter", of_users=False)
    path = there(await logs.make(7, TOKEN, None))
    assert (os.path.getsize(path), stat.S_IMODE(os.stat(path).st_mode)) == (0, 0o600)
    assert stat.S_IMODE((tmp_path / "starter").stat().st_mode) == 0o711
    assert await logs.fault(7, TOKEN) is None
    Path(path).write_text(WRITTEN)
    assert await logs.fault(7, TOKEN) == NO_PROGRAM
    assert TOKEN not in path
    logs.forget(7, TOKEN)
    logs.forget(7, TOKEN)
    while Path(path).exists():
        await asyncio.sleep(0.01)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
async def test_file_belongs_to_the_account_of_the_job(tmp_path: Path) -> None:
    path = there(await StarterLogs(tmp_path / "starter", of_users=True).make(7, TOKEN, 4711))
    status = os.stat(path)
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (4711, 0o600)
    # a fetch without an agent, whose account is not root, reads a job's end
    path = there(await StarterLogs(tmp_path / "starter", of_users=True).make(8, TOKEN, 4711, tells_end=True))
    status = os.stat(path)
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (4711, 0o644)


async def test_where_no_file_can_be_made_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    logs = StarterLogs(tmp_path / "file", of_users=False)
    assert await logs.make(7, TOKEN, None) is None
    assert await logs.fault(7, TOKEN) is None
    logs.forget(7, TOKEN)
    await logs.clean([])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
async def test_what_is_not_the_file_that_was_made_is_not_read(tmp_path: Path) -> None:
    logs = StarterLogs(tmp_path / "starter", of_users=False)
    path = Path(str(await logs.make(7, TOKEN, None)))
    (tmp_path / "other").write_text(WRITTEN)
    path.unlink()
    path.symlink_to(tmp_path / "other")
    assert await logs.fault(7, TOKEN) is None
    path.unlink()
    os.mkfifo(path)
    assert await logs.fault(7, TOKEN) is None


async def test_only_the_beginning_and_end_of_a_large_file_are_read(tmp_path: Path) -> None:
    logs = StarterLogs(tmp_path / "starter", of_users=False)
    path = Path(str(await logs.make(7, TOKEN, None)))
    with path.open("w") as stream:
        stream.write(WRITTEN)
        stream.truncate(1 << 40)
    assert await logs.fault(7, TOKEN) == NO_PROGRAM
    written = await logs.written(7, TOKEN, tells_end=False)
    assert written is not None and len(written) <= MOST_BYTES + 1


async def test_end_of_a_job_that_was_often_suspended_is_read(tmp_path: Path) -> None:
    logs = StarterLogs(tmp_path / "starter", of_users=False)
    path = Path(str(await logs.make(7, TOKEN, None, tells_end=True)))
    suspended = "010 (007.003.000) 2026-11-22 13:56:30 Job was suspended.\n\tNumber of processes: 1\n...\n"
    path.write_text("001 (007.003.000) begun\n...\n" + 2000 * suspended + "005 (007.003.000) ended\n")
    written = there(await logs.written(7, TOKEN, tells_end=True))
    assert written.startswith("001 (") and written.endswith("\n005 (007.003.000) ended\n")


async def test_what_forgotten_runs_have_left_is_removed_after_a_day(tmp_path: Path) -> None:
    logs = StarterLogs(tmp_path / "starter", of_users=False)
    living, old, new = [Path(str(await logs.make(number, TOKEN, None))) for number in (1, 2, 3)]
    for path in (living, old):
        os.utime(path, (0, 0))
    await logs.clean([(1, TOKEN)])
    assert [path.exists() for path in (living, old, new)] == [True, False, True]


async def test_files_that_are_made_together_fail_alone(tmp_path: Path) -> None:
    logs = StarterLogs(tmp_path / "logs", of_users=False)
    assert await logs.make(2, "b", None)
    # a file of that name exists, and its owner is not known
    made = await asyncio.gather(*(logs.make(run_id, "b", None) for run_id in (1, 2, 3)))
    assert [path is not None for path in made] == [True, False, True]
    assert len(list((tmp_path / "logs").iterdir())) == 3
