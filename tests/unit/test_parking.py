"""Staging: files are moved out of a sandbox unchanged, and the agent reads only those that it should."""

import asyncio
import errno
import gc
import itertools
import json
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Never, cast
from uuid import UUID

import pytest

from fetchwork.agent.files.hostfiles import AgentFiles
from fetchwork.agent.files.outputs import Outputs
from fetchwork.agent.files.parked import OutputSpool, ParkedFile
from fetchwork.agent.files.sending import _hash
from fetchwork.agent.turns import DELIVERED_AT_ONCE
from fetchwork.errors import DatabaseUnavailable, FetchworkError, ProtocolError
from fetchwork.handlers.host.runs import Runs
from fetchwork.hook.wire import Request, encode_request
from fetchwork.sandbox import names
from fetchwork.sandbox.failure import TransferFailure, of_output
from fetchwork.sandbox.leave import Ended, leave
from fetchwork.sandbox.outputs import Output
from fetchwork.sandbox.parking import Parking
from tests.support.other_accounts import as_account, attack
from tests.support.small_disk import fill
from tests.support.there import there

REPORT = encode_request(Request("job_exit", b"FetchWorkRunId = 7\n", keyword="K", arg="exit"))


@pytest.fixture
def spool(tmp_path: Path) -> OutputSpool:
    made = OutputSpool(tmp_path / "spool.outputs")
    made.make()
    return made


def output(path: Path, name: str = "") -> Output:
    status = path.stat()
    return Output(name or path.name, str(path), status.st_mode & 0o777, status.st_size)


def parked(spool: OutputSpool, *outputs: Output) -> str:
    parking = Parking(str(spool.directory))
    assert parking.take(outputs) is None
    return parking.finish(REPORT, "output", None, seconds=1.5)


def read(spool: OutputSpool, directory: str, number: int) -> bytes:
    fd = spool.open(spool.read(directory), number)
    with os.fdopen(fd, "rb") as stream:
        return stream.read()


def test_what_is_parked_is_what_the_agent_reads(spool: OutputSpool, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "a").chmod(0o600)
    directory = parked(
        spool,
        output(tmp_path / "a"),
        Output("d", str(tmp_path), 0o750, directory=True),
        Output("u", str(tmp_path / "a"), 0o644, 4, url="http://host/u"),
    )
    assert spool.names() == [directory]
    found = spool.read(directory)
    assert (found.uid, found.request.keyword, found.use, found.failure) == (os.geteuid(), "K", "output", None)
    a, d, u = found.files
    assert (a.name, a.mode, a.size, a.number) == ("a", 0o600, 4, 0)
    assert (d.name, d.mode, d.directory) == ("d", 0o750, True)
    assert (u.url, u.number, u.size) == ("http://host/u", None, 4)
    assert read(spool, directory, 0) == b"text"
    # moved, not copied
    assert not (tmp_path / "a").exists()
    spool.delete(directory)
    assert spool.names() == []


def test_links_and_files_with_other_names_are_copied(spool: OutputSpool, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("real")
    (tmp_path / "other").hardlink_to(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    directory = parked(spool, output(tmp_path / "other"), output(tmp_path / "link"))
    assert (read(spool, directory, 0), read(spool, directory, 1)) == (b"real", b"real")
    assert (tmp_path / "real").exists()


def test_another_file_system_is_copied_to(
    spool: OutputSpool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        if target.endswith("/0"):
            raise OSError(18, "Invalid cross-device link")
        real(source, target)

    real = os.rename
    monkeypatch.setattr(os, "rename", refuse)
    (tmp_path / "a").write_text("text")
    assert read(spool, parked(spool, output(tmp_path / "a")), 0) == b"text"


def test_a_file_that_vanished_is_a_failure_and_the_others_are_parked(
    spool: OutputSpool, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("text")
    parking = Parking(str(spool.directory))
    failure = there(parking.take([Output("gone", str(tmp_path / "gone"), 0o644, 1), output(tmp_path / "a")]))
    assert failure.subcode == 2
    found = spool.read(parking.finish(REPORT, "output", of_output(failure.details, failure.subcode)))
    assert [one.name for one in found.files] == ["a"]
    assert found.failure is not None
    assert (found.failure.code, found.failure.subcode) == (12, 2)


def test_a_directory_without_a_manifest_does_not_count_and_goes(spool: OutputSpool) -> None:
    parking = Parking(str(spool.directory))
    assert spool.names() == []
    assert (spool.directory / parking.name).exists()
    os.utime(spool.directory / parking.name, (0, 0))
    assert spool.names() == []
    assert not (spool.directory / parking.name).exists()


def test_where_nothing_can_be_parked_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(FetchworkError, match="cannot park files in"):
        Parking(str(tmp_path / "none"))


# ---- files that an account may put there


def forged(spool: OutputSpool, manifest: object = None, report: bytes = REPORT) -> Path:
    path = spool.directory / "forged"
    path.mkdir()
    (path / "report").write_bytes(report)
    whole = {"use": "output", "files": [{"name": "a", "mode": 420, "file": 0, "size": 1}]}
    (path / "manifest").write_text(json.dumps(manifest if manifest is not None else whole))
    return path


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        {"use": "output"},
        {"use": "output", "files": 7},
        {"use": "elsewhere", "files": []},
        {"use": "output", "files": [{"name": "../a", "mode": 420, "file": 0}]},
        {"use": "output", "files": [{"name": "/a", "mode": 420, "file": 0}]},
        {"use": "output", "files": [{"name": "a", "mode": "x", "file": 0}]},
        {"use": "output", "files": [{"name": "a", "mode": 420, "file": "../../x"}]},
        {"use": "output", "files": [{"name": "a", "mode": 420, "file": -1}]},
        {"use": "output", "files": [{"name": "a", "mode": 420, "size": -1}]},
        {"use": "output", "files": [], "failure": {"code": 3, "subcode": 0, "reason": ""}},
        {"use": "output", "files": [], "failure": {}},
        {"use": "output", "files": [{"name": "a", "mode": float("inf"), "file": 0}]},
        {"use": "output", "files": [], "seconds": 10**400},
    ],
)
def test_a_manifest_that_is_none_is_refused(spool: OutputSpool, manifest: object) -> None:
    forged(spool, manifest)
    with pytest.raises(ProtocolError, match="manifest"):
        spool.read("forged")


@pytest.mark.parametrize(
    "report", [b"", REPORT[:-1], REPORT + b"x", encode_request(Request("prepare_job", b"", keyword="K"))]
)
def test_a_report_that_is_none_is_refused(spool: OutputSpool, report: bytes) -> None:
    forged(spool, report=report)
    with pytest.raises(ProtocolError):
        spool.read("forged")


def test_no_link_is_followed_and_no_other_name_is_read(spool: OutputSpool, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    path = forged(spool)
    found = spool.read("forged")
    (path / "0").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"):
        spool.open(found, 0)
    (path / "0").unlink()
    (path / "0").hardlink_to(secret)
    with pytest.raises(ProtocolError, match="has more than one name"):
        spool.open(found, 0)
    (path / "0").unlink()
    os.mkfifo(path / "0")
    with pytest.raises(ProtocolError, match="is not a regular file"):
        spool.open(found, 0)


@pytest.mark.parametrize("name", ["manifest", "report"])
def test_a_link_in_place_of_the_manifest_or_the_report_is_refused(
    spool: OutputSpool, tmp_path: Path, name: str
) -> None:
    path = forged(spool)
    (path / name).rename(tmp_path / name)
    (path / name).symlink_to(tmp_path / name)
    with pytest.raises(ProtocolError, match="can't be read"):
        spool.read("forged")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_account_is_refused(spool: OutputSpool) -> None:
    path = forged(spool)
    (path / "0").write_text("x")
    os.chown(path / "0", 12345, -1)
    with pytest.raises(ProtocolError, match="belongs to another account"):
        spool.open(spool.read("forged"), 0)


def test_what_is_set_aside_is_not_read_again_and_a_link_for_a_directory_is_none(
    spool: OutputSpool, tmp_path: Path
) -> None:
    forged(spool)
    spool.set_aside("forged")
    assert spool.names() == []
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/manifest").write_text("{}")
    (spool.directory / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProtocolError, match="is not a directory"):
        spool.read("link")
    spool.delete("link")
    assert (tmp_path / "elsewhere/manifest").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become other accounts")
@pytest.mark.parametrize("agent", ["root", "daemon"])
def test_parked_files_are_for_their_account_and_the_agent_alone(
    public_directory: Callable[[], Path], agent: str
) -> None:
    place = public_directory()
    os.chown(place, pwd.getpwnam(agent).pw_uid, -1)
    spool, home = OutputSpool(place / "spool.outputs"), place / "home"
    home.mkdir()
    (home / "out").write_text("secret")
    (home / "out").chmod(0o600)
    for path in (home, home / "out"):
        os.chown(path, pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
    (place / "own").mkdir()
    (place / "own").chmod(0o777)
    as_account(agent, spool.make)
    as_account("nobody", lambda: parked(spool, output(home / "out")))
    (name,) = spool.names()
    paths = [path for path in spool.directory.rglob("*") if path.name != "bad"]
    assert {path.name for path in paths} == {name, "manifest", "report", "0"}
    tried, done = attack(paths, place / "own/its")
    assert (tried, done) == (4 * 15, [])

    def deliver() -> None:
        assert read(spool, name, 0) == b"secret"
        spool.delete(name)
        assert spool.names() == []

    as_account(agent, deliver)
    assert not (spool.directory / name).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become other accounts")
def test_where_the_agent_could_not_read_it_nothing_is_parked(public_directory: Callable[[], Path]) -> None:
    place = public_directory() / "spool.outputs"
    place.mkdir()
    os.chown(place, pwd.getpwnam("daemon").pw_uid, -1)
    place.chmod(0o1733)

    def park() -> None:
        with pytest.raises(TransferFailure, match="does not hand its group down"):
            Parking(str(place))

    as_account("nobody", park)
    assert list(place.iterdir()) == []


#: calls that change the disk
_CHANGES = ("mkdir", "chmod", "rename", "open", "write", "fsync", "fchmod", "close", "unlink", "rmdir")


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Do the work in a child that is killed before its change ``number``; False if the work was completed."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    left = number

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def change(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **more)

        return change

    for name in _CHANGES:
        setattr(os, name, counted(getattr(os, name)))
    work()
    os._exit(0)


def test_killed_at_any_change_it_is_parked_whole_or_not_at_all(spool: OutputSpool, tmp_path: Path) -> None:
    counted = 0
    for number in itertools.count():
        home = tmp_path / f"home{number}"
        home.mkdir()
        for name in ("moved", "copied"):
            (home / name).write_bytes(name.encode() * 1000)
        # a second name: it is copied
        (home / "other").hardlink_to(home / "copied")
        outputs = [output(home / "moved"), output(home / "copied")]
        killed = killed_at(number, partial(parked, spool, *outputs))
        for directory in spool.names():
            counted += 1
            assert [one.name for one in spool.read(directory).files] == ["moved", "copied"]
            assert read(spool, directory, 0) == b"moved" * 1000
            assert read(spool, directory, 1) == b"copied" * 1000
            spool.delete(directory)
        if not killed:
            break
    assert number > 15
    # the last kill, and those that followed the manifest's rename
    assert counted in (2, 3)


def test_a_full_disk_fails_the_file_that_does_not_fit_and_keeps_the_report(small_disk: Path) -> None:
    spool = OutputSpool(small_disk / "spool.outputs")
    spool.make()
    (small_disk.parent / "large").write_bytes(b"x" * (1 << 20))
    (small_disk.parent / "small").write_bytes(b"y")
    parking = Parking(str(spool.directory))
    outputs = [output(small_disk.parent / name) for name in ("large", "small")]
    failure = there(parking.take(outputs))
    assert failure.subcode == errno.ENOSPC
    assert failure.details.startswith(f"writing to file {spool.directory}/")
    assert failure.details.endswith("(errno 28) No space left on device")
    directory = parking.finish(REPORT, "output", of_output(failure.details, failure.subcode))
    found = spool.read(directory)
    assert [one.name for one in found.files] == ["small"]
    assert found.failure is not None
    assert (found.failure.code, found.failure.subcode) == (12, errno.ENOSPC)
    assert read(spool, directory, 0) == b"y"


def test_a_disk_without_room_for_the_report_says_so_with_its_errno(small_disk: Path) -> None:
    spool = OutputSpool(small_disk / "spool.outputs")
    spool.make()
    parking = Parking(str(spool.directory))
    fill(small_disk)
    with pytest.raises(TransferFailure, match="cannot park files: No space left on device") as caught:
        parking.finish(REPORT * 10_000, "output", None)
    assert caught.value.subcode == errno.ENOSPC
    parking.drop()
    assert spool.names() == []


# Too much for one account


def left(tmp_path: Path, spool: OutputSpool, *, evicted: bool, full: str) -> str | None:
    """JOB_EXIT's staged directory of a job that leaves a file and an upload."""
    sandbox = tmp_path / "sandbox"
    sandbox.mkdir()
    ad = {"WhenToTransferOutput": "ON_EXIT_OR_EVICT", "TransferExecutable": False}
    notes = {"ad": ad, "plugins": {}, "plugin_limit_s": 1, "before": {}}
    (sandbox / names.NOTES).write_text(json.dumps(notes))
    (sandbox / "result").write_bytes(b"r")
    ended = Ended(evicted=evicted, unwanted=False, status={} if evicted else {"ExitCode": 0}, full=full)
    return leave(str(sandbox), str(spool.directory), ended, REPORT, time.monotonic() + 60, str)


def test_where_too_much_waits_already_the_report_is_parked_and_no_file(
    spool: OutputSpool, tmp_path: Path
) -> None:
    directory = there(left(tmp_path, spool, evicted=False, full="2 bytes wait; allowed: 1"))
    found = spool.read(directory)
    assert found.files == ()
    assert found.failure is not None
    assert (found.failure.code, found.failure.subcode) == (12, errno.EDQUOT)
    assert "2 bytes wait; allowed: 1" in found.failure.reason


@pytest.mark.parametrize(("full", "parked"), [("too much", False), ("", True)])
def test_what_an_evicted_job_saves_is_given_up_where_too_much_waits(
    spool: OutputSpool, tmp_path: Path, full: str, parked: bool
) -> None:
    assert (left(tmp_path, spool, evicted=True, full=full) is not None) is parked


class Away:
    """A database that is away."""

    async def run(self, *_: object, **__: object) -> Never:
        raise DatabaseUnavailable("away")

    host_runs = run

    @property
    def database(self) -> "Away":
        return self


def without_database(spool: OutputSpool) -> Outputs:
    session = cast(Any, Away())
    context = SimpleNamespace(session=session)
    return Outputs(spool, cast(Any, {"k": context}), Runs(), frozenset(), {session: session})


KEY = f'FetchWorkRunId = 7\nFetchWorkToken = "{UUID(int=7)}"\n'.encode()
OF_A_RUN = encode_request(Request("job_exit", KEY, keyword="K", arg="exit"))


async def test_the_agent_counts_what_waits_of_each_account(spool: OutputSpool, tmp_path: Path) -> None:
    outputs = without_database(spool)
    files = object.__new__(AgentFiles)
    files.outputs, files._parked_mib = outputs, 1
    for number in range(2):
        assert files.full(os.geteuid()) is None
        parking = Parking(str(spool.directory))
        (tmp_path / f"f{number}").write_bytes(b"x" * (1 << 19))
        assert parking.take([output(tmp_path / f"f{number}")]) is None
        await outputs.deliver(parking.finish(OF_A_RUN, "output", None, seconds=0.1))
    problem = files.full(os.geteuid())
    assert problem is not None and "allowed: 1 MiB (setting [files] parked_mib)" in problem
    # another account's jobs may
    assert files.full(os.geteuid() + 1) is None
    await outputs.close()


async def test_what_is_not_known_counts_too_until_it_is_gone(
    spool: OutputSpool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.agent.files.outputs.MOST_KNOWN_EACH", 1)
    outputs = without_database(spool)
    for number in range(3):
        parking = Parking(str(spool.directory))
        (tmp_path / f"f{number}").write_bytes(b"x" * 100_000)
        assert parking.take([output(tmp_path / f"f{number}")]) is None
        parking.finish(OF_A_RUN, "output", None, seconds=0.1)
    for _ in range(2):
        await outputs.look()
        assert outputs.waiting == 1
        assert 300_000 < outputs.bytes_of(os.geteuid()) < 310_000
    spool.delete(spool.names()[-1])
    await outputs.look()
    assert 200_000 < outputs.bytes_of(os.geteuid()) < 210_000
    await outputs.close()


async def test_what_waits_unread_costs_nothing_at_the_next_look(
    spool: OutputSpool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.agent.files.outputs.MOST_KNOWN_EACH", 1)
    outputs = without_database(spool)
    (tmp_path / "f").write_bytes(b"x")
    for _ in range(5):
        parking = Parking(str(spool.directory), copy=True)
        assert parking.take([output(tmp_path / "f")]) is None
        parking.finish(OF_A_RUN, "output", None, seconds=0.1)
    await outputs.look()
    looked_at: list[object] = []
    exists = Path.exists

    def counted(path: Path) -> bool:
        looked_at.append(path)
        return exists(path)

    monkeypatch.setattr(Path, "exists", counted)
    monkeypatch.setattr(spool, "weigh", looked_at.append)
    await outputs.look()
    # the one that is being delivered
    assert len(looked_at) == 1
    await outputs.close()


async def test_what_waits_is_read_when_its_turn_comes(spool: OutputSpool, tmp_path: Path) -> None:
    outputs = without_database(spool)
    (tmp_path / "f").write_bytes(b"x")
    for _ in range(20):
        parking = Parking(str(spool.directory), copy=True)
        assert parking.take([output(tmp_path / "f", f"f{number}") for number in range(50)]) is None
        parking.finish(OF_A_RUN, "output", None, seconds=0.1)
    await outputs.look()
    assert outputs.waiting == 20
    gc.collect()
    known = sum(isinstance(one, ParkedFile) for one in gc.get_objects())
    assert known <= DELIVERED_AT_ONCE * 50
    await outputs.close()


async def test_what_others_come_after_has_a_bound_and_takes_no_room_of_other_accounts(
    spool: OutputSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.agent.files.outputs.MOST_AWAITED_EACH", 3)
    monkeypatch.setattr("fetchwork.agent.files.outputs.MOST_KNOWN", 1)
    outputs = without_database(spool)
    for _ in range(5):
        await outputs.deliver(
            Parking(str(spool.directory)).finish(OF_A_RUN, "nothing", None, seconds=0.1), awaited=True
        )
    assert outputs.waiting == 3
    for _ in range(2):
        await outputs.deliver(Parking(str(spool.directory)).finish(OF_A_RUN, "nothing", None, seconds=0.1))
    assert outputs.waiting == 4
    await outputs.close()


async def test_a_directory_that_was_delivered_before_the_news_of_it_is_no_problem(
    spool: OutputSpool, caplog: pytest.LogCaptureFixture
) -> None:
    outputs = without_database(spool)
    name = Parking(str(spool.directory)).finish(OF_A_RUN, "nothing", None, seconds=0.1)
    spool.delete(name)
    await outputs.deliver(name)
    assert (outputs.waiting, caplog.messages) == (0, [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become other accounts")
@pytest.mark.parametrize("kind", ["closed", "unfinished", "deep"])
def test_a_directory_that_the_agent_cannot_move_is_read_and_told_of_once(
    public_directory: Callable[[], Path], caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    above = public_directory()
    os.chown(above, pwd.getpwnam("daemon").pw_uid, -1)
    spool = OutputSpool(above / "spool.outputs")
    as_account("daemon", spool.make)

    def make() -> None:
        if kind == "deep":
            os.chdir(spool.directory)
            for _ in range(3000):
                os.mkdir("forged")
                os.chmod("forged", 0o777)
                os.chdir("forged")
            return
        path = forged(spool)
        path.chmod(0o755)
        if kind == "unfinished":
            (path / "manifest").unlink()

    as_account("nobody", make)
    os.utime(spool.directory / "forged", (0, 0))

    async def look() -> None:
        outputs = without_database(spool)
        for _ in range(100):
            await outputs.look()
            await outputs.deliver("forged")
        assert len(caplog.messages) == (1 if kind == "closed" else 0), caplog.messages
        assert not spool.is_there("forged", pwd.getpwnam("nobody").pw_uid)
        assert await outputs.saved("forged", pwd.getpwnam("nobody").pw_uid, 0.0) == "refused it was put aside"
        await outputs.close()

    as_account("daemon", lambda: asyncio.run(look()))
    # deeper than Python can follow when it removes the directories of tests
    subprocess.run(["rm", "-rf", spool.directory], check=True)


def test_a_file_of_any_size_is_not_read_to_its_end(tmp_path: Path) -> None:
    spool = OutputSpool(tmp_path / "spool.outputs", most_bytes=1 << 21)
    spool.make()
    (tmp_path / "fits").write_bytes(b"x" * (1 << 21))
    with (tmp_path / "without-blocks").open("wb") as stream:
        stream.truncate(1 << 40)
    found = spool.read(parked(spool, output(tmp_path / "fits"), output(tmp_path / "without-blocks")))
    with pytest.raises(OSError, match="quota") as caught:
        spool.open(found, 1)
    assert caught.value.errno == errno.EDQUOT
    fd = spool.open(found, 0)
    # another process may have it open, and write to it
    os.truncate(spool.directory / found.name / "0", 1 << 40)
    assert _hash(fd, spool.most_bytes)[1] == spool.most_bytes
    os.close(fd)
