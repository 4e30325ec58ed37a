"""Credentials before they are stored and after they were opened: keys, seals, contents, expiry, files."""

import base64
import contextlib
import errno
import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fetchwork.credentials.keys import KeyFile, key_id, seal
from fetchwork.credentials.secret import MOST_BYTES, Renewal, Secret, decode, expiry, name_of
from fetchwork.errors import CredentialError, FetchworkError
from fetchwork.hook import credentialfiles as hook
from fetchwork.sandbox import credentials as files

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECRET = Secret("alice", "box", b"token\n")
RENEWAL = Renewal("https://issuer.example.org/token", "refresh", "client")


@pytest.fixture
def key_file(tmp_path: Path) -> KeyFile:
    keys = KeyFile(tmp_path / "credential.key")
    keys.add()
    return keys


# ---- keys


def test_what_is_sealed_opens_with_the_file_alone(key_file: KeyFile, tmp_path: Path) -> None:
    other = KeyFile(tmp_path / "other.key")
    other.add()
    public = key_file.newest()
    sealed = seal(b"token", public)
    assert b"token" not in sealed
    assert key_file.open(sealed, key_id(public)) == b"token"
    with pytest.raises(CredentialError, match=f"does not have key {key_id(public)}"):
        other.open(sealed, key_id(public))
    # another name for the same file does not help
    with pytest.raises(CredentialError, match="can't be opened"):
        other.open(sealed, key_id(other.newest()))


def test_what_was_changed_on_the_way_does_not_open(key_file: KeyFile) -> None:
    public = key_file.newest()
    sealed = bytearray(seal(b"token", public))
    for at in (0, len(sealed) // 2, len(sealed) - 1):
        sealed[at] ^= 1
        with pytest.raises(CredentialError, match="can't be opened"):
            key_file.open(bytes(sealed), key_id(public))
        sealed[at] ^= 1
    with pytest.raises(CredentialError, match="can't be opened"):
        key_file.open(b"", key_id(public))


def test_a_new_key_leaves_the_old_one(key_file: KeyFile) -> None:
    old = key_file.newest()
    sealed = seal(b"token", old)
    # another process reads the file that has changed
    reading = KeyFile(key_file.path)
    assert reading.key_ids() == [key_id(old)]
    added = key_file.add()
    assert reading.key_ids() == [key_id(old), added]
    assert key_id(reading.newest()) == added
    assert reading.open(sealed, key_id(old)) == b"token"


def test_two_who_add_a_key_at_a_time_both_have_it(key_file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    read, both = KeyFile._text, threading.Barrier(2)

    def text(keys: KeyFile) -> str:
        found = read(keys)
        # both read before one has written, if they can
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return found

    monkeypatch.setattr(KeyFile, "_text", text)
    with ThreadPoolExecutor(2) as threads:
        added = list(threads.map(lambda _: KeyFile(key_file.path).add(), range(2)))
    monkeypatch.undo()
    assert set(KeyFile(key_file.path).key_ids()) > set(added)
    assert len(KeyFile(key_file.path).key_ids()) == 3


def test_a_new_key_has_a_line_of_its_own(key_file: KeyFile) -> None:
    key_file.path.write_text(key_file.path.read_text().rstrip("\n"))
    (old,) = key_file.key_ids()
    added = key_file.add()
    assert key_file.key_ids() == [old, added]


def test_a_key_file_is_nobody_elses(key_file: KeyFile) -> None:
    assert stat.S_IMODE(key_file.path.stat().st_mode) == 0o600
    key_file.path.chmod(0o640)
    key_file.add()
    assert (stat.S_IMODE(key_file.path.stat().st_mode), key_file.problem()) == (0o640, None)
    key_file.path.chmod(0o644)
    assert "open to every account" in str(key_file.problem())
    assert len(list(key_file.path.parent.iterdir())) == 1


@pytest.mark.parametrize("text", ["", "# nothing\n", "short\n", "x" * 44 + "\n", "\xe4\n", "AAAA\n"])
def test_a_broken_key_file_is_told_without_its_content(key_file: KeyFile, text: str) -> None:
    key_file.path.write_text(text)
    problem = str(key_file.problem())
    assert str(key_file.path) in problem
    assert not text.strip("\n# ") or text.strip() not in problem


def test_a_lost_key_file_is_told(key_file: KeyFile) -> None:
    key_file.path.unlink()
    assert "there is no key file" in str(KeyFile(key_file.path).problem())


# ---- contents


def test_a_credential_is_the_same_after_its_way() -> None:
    secret = Secret("alice", "box_h", bytes(range(256)), RENEWAL)
    assert decode(secret.encode(), "alice", "box_h") == secret


@pytest.mark.parametrize(("owner", "name"), [("bob", "box"), ("alice", "other")])
def test_a_credential_in_anothers_row_opens_for_nobody(owner: str, name: str) -> None:
    with pytest.raises(CredentialError, match="was sealed for another owner"):
        decode(SECRET.encode(), owner, name)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 5000,
        json.dumps({"owner": "alice", "name": "box", "content": "%"}).encode(),
        json.dumps({"owner": "alice", "name": "box", "content": 4}).encode(),
        json.dumps({"owner": "alice", "name": "box", "content": "", "renewal": {"x": "y"}}).encode(),
        json.dumps({"owner": "alice", "name": "box", "content": "", "renewal": []}).encode(),
        json.dumps(
            {"owner": "alice", "name": "box", "content": base64.b64encode(b"x" * (MOST_BYTES + 1)).decode()}
        ).encode(),
    ],
)
def test_what_somebody_sealed_may_be_anything(data: bytes) -> None:
    with pytest.raises(CredentialError, match="add it again"):
        decode(data, "alice", "box")


@pytest.mark.parametrize(
    "renewal",
    [
        {"token_url": "http://issuer.example.org/token"},
        {"token_url": "file:///etc/passwd"},
        {"token_url": "https://"},
        {"token_url": "https://[x"},
        {"token_url": 4},
        {"refresh_token": ""},
        {"client_id": ""},
        {"client_secret": "x" * 9000},
    ],
)
def test_no_issuer_is_asked_that_could_not_be(renewal: dict[str, Any]) -> None:
    told = {"token_url": "https://i", "refresh_token": "r", "client_id": "c", **renewal}
    data = {"owner": "alice", "name": "box", "content": "", "renewal": told}
    with pytest.raises(CredentialError):
        decode(json.dumps(data).encode(), "alice", "box")
    with pytest.raises(CredentialError):
        Secret("alice", "box", b"", Renewal(**told)).encode()


def test_a_credential_does_not_show_itself() -> None:
    assert "token" not in repr(SECRET)
    assert "refresh" not in repr(Secret("alice", "box", b"", RENEWAL)) + repr(RENEWAL)


def test_an_empty_or_long_credential_is_refused() -> None:
    with pytest.raises(CredentialError, match="is empty"):
        Secret("alice", "box", b"").encode()
    with pytest.raises(CredentialError, match="allowed: 16384"):
        Secret("alice", "box", b"x" * (MOST_BYTES + 1)).encode()


@pytest.mark.parametrize("name", ["", ".x", "a/b", "a b", "-x", "x" * 129, "a\n", "ä"])
def test_a_name_is_a_files(name: str) -> None:
    with pytest.raises(CredentialError):
        name_of(name)


def test_a_handle_is_part_of_the_name() -> None:
    assert (name_of("box"), name_of("box", "h.1")) == ("box", "box_h.1")


# ---- expiry


def token(claims: object) -> bytes:
    def part(value: object) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    return b".".join((part({"alg": "none"}), part(claims), b"sig"))


@pytest.mark.parametrize(
    ("content", "seconds"),
    [
        (token({"exp": 100}), 100),
        (token({"exp": 100.5}) + b"\n", 100.5),
        (json.dumps({"expires_at": 7}).encode(), 7),
        (json.dumps({"expires_in": 60}).encode(), NOW.timestamp() + 60),
        (json.dumps({"access_token": token({"exp": 9}).decode()}).encode(), 9),
        # as some issuers write it
        (json.dumps({"expires_in": "60"}).encode(), NOW.timestamp() + 60),
        (json.dumps({"expires_at": "7.5"}).encode(), 7.5),
        (json.dumps({"expires_in": "-60"}).encode(), None),
        (json.dumps({"expires_in": "nan"}).encode(), None),
        (json.dumps({"expires_in": "9" * 5000}).encode(), None),
        (json.dumps({"expires_in": "soon", "access_token": token({"exp": 9}).decode()}).encode(), 9),
        (b"opaque", None),
        (b"a.b.c", None),
        (b"a.\xff.c", None),
        (token({"exp": "soon"}), None),
        (token({"exp": True}), None),
        (token({"exp": 1e300}), None),
        (token({"exp": 10**400}), None),
        (json.dumps({"expires_in": 10**400}).encode(), None),
        (json.dumps({"expires_in": 1e300}).encode(), None),
        (token([1]), None),
        (b"{}", None),
        (json.dumps({"access_token": json.dumps({"access_token": "x"})}).encode(), None),
    ],
)
def test_a_token_says_when_it_expires(content: bytes, seconds: float | None) -> None:
    found = expiry(content, NOW)
    assert (None if found is None else found.timestamp()) == seconds


# ---- files


def test_a_credential_is_a_file_of_the_jobs_account_alone(tmp_path: Path) -> None:
    directory = files.make(str(tmp_path))
    files.put(directory, "box", b"one")
    files.put(directory, "box", b"two")
    path = tmp_path / ".condor_creds/box.use"
    assert path.read_bytes() == b"two"
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert os.listdir(directory) == ["box.use"]


def test_a_link_in_place_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / ".condor_creds").symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"."):
        files.make(str(tmp_path))
    with pytest.raises(OSError, match=r"."):
        files.put(f"{tmp_path}/.condor_creds", "box", b"x")
    assert list(elsewhere.iterdir()) == []


def test_a_link_in_place_of_the_file_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    directory = Path(files.make(str(tmp_path)))
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (directory / "box.use").symlink_to(victim)
    files.put(str(directory), "box", b"token")
    assert victim.read_text() == "mine"
    assert not (directory / "box.use").is_symlink()


def test_what_is_in_the_way_leaves_nothing_behind(tmp_path: Path) -> None:
    directory = Path(files.make(str(tmp_path)))
    (directory / "box.use").mkdir()
    with pytest.raises(OSError, match=r"."):
        files.put(str(directory), "box", b"token")
    assert [path.name for path in directory.iterdir()] == ["box.use"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_directory_of_another_account_is_refused(tmp_path: Path) -> None:
    directory = files.make(str(tmp_path))
    os.chown(directory, 1, 1)
    with pytest.raises(PermissionError):
        files.put(directory, "box", b"token")


def test_a_full_disk_leaves_the_old_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = files.make(str(tmp_path))
    files.put(directory, "box", b"old")
    write = os.write
    written: list[int] = []

    def full(fd: int, data: bytes) -> int:
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(fd)
        return write(fd, data[:1])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        files.put(directory, "box", b"new")
    monkeypatch.undo()
    assert [(path.name, path.read_bytes()) for path in Path(directory).iterdir()] == [("box.use", b"old")]


# ---- the hook


def test_the_hook_writes_what_the_agent_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    body = b"Cmd = 1\nFetchWorkCredentials = true"
    assert hook.are_needed(body)
    assert hook.with_directory(body).splitlines()[-1] == f'FetchWorkScratch = "{tmp_path}"'.encode()
    rest = b'Environment = "a"\n-----\nx = 1\n'
    assert hook.take(rest + b"-----credentials\nbox 00ff0a\nb_h 61\n") == rest
    found = {path.name: path.read_bytes() for path in (tmp_path / ".condor_creds").iterdir()}
    assert found == {"box.use": b"\0\xff\n", "b_h.use": b"a"}


@pytest.mark.parametrize(
    "body", [b'Args = "FetchWorkCredentials = true"\n', b"xFetchWorkCredentials = true\n"]
)
def test_only_the_agents_own_mark_asks_for_credentials(body: bytes) -> None:
    assert not hook.are_needed(body)


def test_no_job_starts_without_the_credentials_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FetchworkError, match="has sent no credentials"):
        hook.take(b"x = 1\n")
    (tmp_path / ".condor_creds").write_text("in the way")
    with pytest.raises(FetchworkError, match="cannot write the job's credentials"):
        hook.take(b"-----credentials\nbox 61\n")


def test_a_scratch_directory_that_no_ad_can_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ('a"b', "a\\b", "a\nb"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with pytest.raises(FetchworkError, match="can't be told"):
            hook.with_directory(b"")
