"""Reports on disk: each is read once, and files of other accounts do no harm."""

import os
import pwd
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fetchwork.errors import FetchworkError
from fetchwork.hook import spool as spool_module
from fetchwork.hook.spool import Spool, write_report
from fetchwork.hook.wire import Request, encode_request
from tests.support.other_accounts import as_account, attack

ROOT = os.geteuid() == 0
REPORT = Request("job_exit", b"ExitCode = 0\n", keyword="FW", arg="exit", slot="slot1")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    made = Spool(str(tmp_path / "deep" / "spool"))
    made.make()
    return made


def put(spool: Spool, name: str, data: bytes) -> str:
    path = os.path.join(spool.directory, name)
    Path(path).write_bytes(data)
    return path


def bad(spool: Spool) -> list[str]:
    return sorted(os.listdir(os.path.join(spool.directory, "bad")))


def test_what_is_written_is_read(spool: Spool) -> None:
    before = int(time.time())
    path = write_report(spool.directory, REPORT)
    [report] = spool.read().reports
    assert report.name == os.path.basename(path)
    assert report.uid == os.geteuid()
    assert report.request.written >= before
    for name in ("name", "body", "keyword", "arg", "slot"):
        assert getattr(report.request, name) == getattr(REPORT, name)


def test_reports_are_read_oldest_first_and_again_until_deleted(spool: Spool) -> None:
    for number in range(5):
        write_report(spool.directory, Request("job_exit", b"N = %d\n" % number))
    assert [report.request.body for report in spool.read().reports] == [
        b"N = %d\n" % number for number in range(5)
    ]
    for report in spool.read(spool.waiting(limit=2)).reports:
        spool.delete(report)
        spool.delete(report)
    assert [report.request.body for report in spool.read().reports] == [
        b"N = %d\n" % number for number in (2, 3, 4)
    ]


def test_the_directory_can_be_written_and_not_listed_by_others(spool: Spool) -> None:
    assert stat.S_IMODE(os.stat(spool.directory).st_mode) == 0o3733
    assert stat.S_IMODE(os.stat(os.path.join(spool.directory, "bad")).st_mode) == 0o700


def test_a_name_can_not_be_guessed(spool: Spool) -> None:
    names = {os.path.basename(write_report(spool.directory, REPORT)).split("-")[1] for _ in range(10)}
    assert len(names) == 10
    assert all(len(name) == len("0" * 32 + ".report") for name in names)


def test_a_report_appears_whole_or_not_at_all(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = os.fsync

    def fsync(fd: int) -> None:
        seen.append([name for name in os.listdir(spool.directory) if name.endswith(".report")])
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    write_report(spool.directory, REPORT)
    # on the disk before it has its name, and its name on the disk before the call returns
    assert [len(names) for names in seen] == [0, 1]


def test_a_full_disk_is_told_and_leaves_nothing(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(fd: int, data: bytes) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(FetchworkError, match=r"cannot write a report to spool '.*': No space left on device"):
        write_report(spool.directory, REPORT)
    assert os.listdir(spool.directory) == ["bad"]


@pytest.mark.skipif(not ROOT, reason="needs root, to be two accounts")
def test_job_users_write_but_neither_list_nor_touch_anothers(public_directory: Callable[[], Path]) -> None:
    directory = public_directory() / "spool"
    spool = Spool(str(directory))
    spool.make()
    package = public_directory() / "fetchwork"
    for room in ("hook", "sandbox"):
        (package / room).mkdir(parents=True)
    for name in (
        "__init__.py",
        "hookerrors.py",
        "hook/__init__.py",
        "hook/wire.py",
        "hook/spool.py",
        "sandbox/__init__.py",
        "sandbox/spooldir.py",
    ):
        source = Path(spool_module.__file__).parents[1] / name
        (package / name).write_text(source.read_text())
    mine = write_report(spool.directory, REPORT)
    code = """
import os, sys
sys.path.insert(0, sys.argv[1])
from fetchwork.hook.spool import write_report
from fetchwork.hook.wire import Request
write_report(sys.argv[2], Request("job_exit", b"A = 1"))
directory, report = sys.argv[2:]
for attempt in (
    lambda: os.listdir(directory),
    lambda: os.listdir(directory + "/bad"),
    lambda: os.unlink(report),
    lambda: os.rename(report, report + "x"),
    lambda: open(report, "a"),
    lambda: open(report),
):
    try:
        attempt()
    except PermissionError:
        print("refused")
"""
    run = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", code, package.parent, directory, mine],
        user="nobody",
        extra_groups=[],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert run.stdout.split() == ["refused"] * 6, run.stderr
    assert [report.uid for report in spool.read().reports] == [0, 65534]


@pytest.mark.skipif(not ROOT, reason="needs root, to be three accounts")
def test_a_report_is_for_its_account_and_the_agent_alone(public_directory: Callable[[], Path]) -> None:
    place = public_directory()
    spool = Spool(str(place / "spool"))
    agent = pwd.getpwnam("daemon")
    spool.make(agent.pw_uid, agent.pw_gid)
    (place / "own").mkdir()
    (place / "own").chmod(0o777)

    as_account("nobody", lambda: write_report(spool.directory, REPORT))
    (report,) = [path for path in (place / "spool").iterdir() if path.name != "bad"]
    assert attack([report], place / "own/its") == (15, [])

    def deliver() -> None:
        (found,) = spool.read().reports
        assert (found.uid, found.request.body) == (pwd.getpwnam("nobody").pw_uid, REPORT.body)
        spool.delete(found)

    as_account("daemon", deliver)
    assert not report.exists()


# -- files of other accounts


def whole(**more: Any) -> bytes:
    return encode_request(Request("job_exit", b"A = 1\n", **more))


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("1.report", b"garbage", "is not one whole request"),
        ("1.report", b"GET / HTTP/1.1\n\n", "first line is not 'fetchwork/1 ...'"),
        ("1.report", whole()[:-1], "is not one whole request"),
        ("1.report", whole() * 2, "is not one whole request"),
        ("1.report", b"", "is not one whole request"),
        (
            "1.report",
            encode_request(Request("update_job_info")),
            "holds a request 'update_job_info', not job_exit",
        ),
        ("notes.txt", whole(), "its name does not end with '.report'"),
    ],
)
def test_poison_is_moved_aside_and_reported_and_blocks_nothing(
    spool: Spool, name: str, data: Any, reason: str
) -> None:
    put(spool, name, data)
    put(spool, "2.report", whole())
    reading = spool.read()
    assert [report.name for report in reading.reports] == ["2.report"]
    [rejected] = reading.rejected
    assert (rejected.name, rejected.uid) == (name, os.geteuid())
    assert rejected.reason.startswith(reason)
    assert bad(spool) == [name]
    assert spool.read().rejected == []


def test_links_pipes_and_directories_are_no_reports(spool: Spool, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(whole())
    os.symlink(secret, os.path.join(spool.directory, "1.report"))
    os.link(secret, os.path.join(spool.directory, "2.report"))
    os.mkfifo(os.path.join(spool.directory, "3.report"))
    os.mkdir(os.path.join(spool.directory, "4.report"))
    reading = spool.read()
    assert reading.reports == []
    assert [(each.name, each.reason) for each in reading.rejected] == [
        ("1.report", "is not a regular file"),
        ("2.report", "has more than one name"),
        ("3.report", "is not a regular file"),
        ("4.report", "is not a regular file"),
    ]
    assert secret.read_bytes() == whole()


def test_a_report_of_too_many_bytes_is_not_read(spool: Spool) -> None:
    path = put(spool, "1.report", b"")
    os.truncate(path, spool_module.MAX_REPORT + 1)
    reading = spool.read()
    assert reading.reports == []
    assert reading.rejected[0].reason == f"is larger than {spool_module.MAX_REPORT} bytes"


def test_a_partial_report_is_left_to_its_writer_for_an_hour(spool: Spool) -> None:
    path = put(spool, "1.partial", b"x")
    reading = spool.read()
    assert (reading.reports, reading.rejected) == ([], [])
    os.utime(path, (0, time.time() - 3700))
    reading = spool.read()
    assert reading.reports == []
    assert [vars(each) for each in reading.rejected] == [
        {"name": "1.partial", "uid": os.geteuid(), "reason": "was never completed"}
    ]


def test_a_report_that_can_never_be_delivered_is_moved_aside(spool: Spool) -> None:
    put(spool, "1.report", whole())
    [report] = spool.read().reports
    rejected = spool.reject(report, "its run is unknown")
    assert rejected and vars(rejected) == {
        "name": "1.report",
        "uid": os.geteuid(),
        "reason": "its run is unknown",
    }
    assert bad(spool) == ["1.report"]


def test_what_can_not_be_moved_is_told_once_and_blocks_nothing(spool: Spool) -> None:
    os.mkdir(os.path.join(spool.directory, "1.report"))
    os.mkdir(os.path.join(spool.directory, "2.report"))
    put(spool, "2.report/kept", b"")
    put(spool, "3.report", b"garbage")
    os.mkdir(os.path.join(spool.directory, "bad", "3.report"))
    put(spool, "4.report", whole())
    reading = spool.read()
    assert [report.name for report in reading.reports] == ["4.report"]
    assert [(each.name, each.reason) for each in reading.rejected] == [
        ("1.report", "is not a regular file"),
        ("2.report", "is not a regular file; it stays where it is: Directory not empty"),
        ("3.report", "is not one whole request; it stays where it is: Is a directory"),
    ]
    reading = spool.read()
    assert [report.name for report in reading.reports] == ["4.report"]
    assert reading.rejected == []


def test_a_report_that_can_not_be_moved_aside_is_not_read_again(spool: Spool) -> None:
    put(spool, "1.report", whole())
    [report] = spool.read().reports
    os.rmdir(os.path.join(spool.directory, "bad"))
    rejected = spool.reject(report, "its run is unknown")
    assert rejected
    assert rejected.reason == "its run is unknown; it stays where it is: No such file or directory"
    assert spool.read().reports == []


def test_the_files_moved_aside_last_are_kept(spool: Spool) -> None:
    for number in (3, 1, 2, 5, 4):
        put(spool, f"{number}.report", b"garbage")
        spool.read()
    # a directory of an earlier time
    os.mkdir(os.path.join(spool.directory, "bad", "0.report"))
    assert spool.trim_bad(keep=6) == 0
    assert spool.trim_bad(keep=3) == 3
    assert bad(spool) == ["0.report", "4.report", "5.report"]
    assert spool.trim_bad(keep=0) == 2
    assert bad(spool) == ["0.report"]


@pytest.mark.skipif(not ROOT, reason="needs root, to be two accounts")
def test_a_flood_by_one_account_leaves_others_their_share(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        os.chown(put(spool, f"0{number:02}.report", b"garbage"), 65534, -1)
        os.chown(put(spool, f"1{number:02}.partial", b""), 65533, -1)
    for number in range(3):
        put(spool, f"2{number:02}.report", whole())
    share = ["000.report", "001.report", "200.report", "201.report"]
    assert spool.waiting(limit=4) == share
    # the files are not looked at again, except those that are being written
    looked_at: list[str] = []
    lstat = os.lstat

    def counted(path: str) -> os.stat_result:
        looked_at.append(path)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", counted)
    assert spool.waiting(limit=4) == share
    assert {os.path.splitext(path)[1] for path in looked_at} == {".partial"}
    # and all of them in the order of time if they are not too many
    assert spool.waiting(limit=43) == sorted(set(os.listdir(spool.directory)) - {"bad"})


# -- making it


def test_it_is_put_right_when_made_again(spool: Spool) -> None:
    os.chmod(spool.directory, 0o777)
    spool.make()
    assert stat.S_IMODE(os.stat(spool.directory).st_mode) == 0o3733


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "spool").symlink_to(tmp_path / "real")
    with pytest.raises(FetchworkError, match="cannot make spool"):
        Spool(str(tmp_path / "spool")).make()


@pytest.mark.skipif(not ROOT, reason="needs root, to give a directory away")
def test_it_is_made_for_the_account_of_the_agent_and_kept_from_others(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"))
    spool.make(owner=65534)
    spool.make(owner=65534)
    assert os.stat(spool.directory).st_uid == os.stat(os.path.join(spool.directory, "bad")).st_uid == 65534
    with pytest.raises(FetchworkError, match="belongs to uid 65534; it must be the agent's own"):
        spool.make(owner=1)


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FetchworkError, match=r"cannot read spool '.*/none': No such file or directory"):
        Spool(str(tmp_path / "none")).read()
    with pytest.raises(FetchworkError, match=r"cannot write a report to spool '.*/none'"):
        write_report(str(tmp_path / "none"), REPORT)


def test_the_writer_needs_no_heavy_module() -> None:
    code = (
        "import fetchwork.hook.spool;"
        " print([name for name in ('re', 'json', 'pathlib', 'enum', 'typing') if name in sys.modules])"
    )
    path = str(Path(spool_module.__file__).parents[2])
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {path!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"
