"""Parking: files are moved out of a sandbox as they are, and the agent reads only what it should."""

import json
import os
from pathlib import Path

import pytest

from fetchwork.agent.parked import OutputSpool
from fetchwork.errors import FetchworkError, ProtocolError
from fetchwork.hook.wire import Request, encode_request
from fetchwork.sandbox.failure import of_output
from fetchwork.sandbox.outputs import Output
from fetchwork.sandbox.parking import Parking

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
    failure = parking.take([Output("gone", str(tmp_path / "gone"), 0o644, 1), output(tmp_path / "a")])
    assert failure is not None
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


# ---- what an account may put there


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
