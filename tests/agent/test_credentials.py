"""Credentials on a host: those that PREPARE_JOB gets, holds for missing ones, and later changes."""

import asyncio
import json
import os
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from fetchwork.agent.credentials import CredentialUpkeep
from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.credentials import renewing
from fetchwork.credentials.keys import KeyFile, key_id, seal
from fetchwork.credentials.secret import Renewal, Secret
from fetchwork.db.calls import credentials as credential_calls
from fetchwork.db.calls.call import Call
from fetchwork.db.database import Database
from fetchwork.errors import CredentialError, DatabaseUnavailable
from fetchwork.handlers.context import Answer, Caller
from fetchwork.handlers.host import hostcredentials
from fetchwork.handlers.host.hostcredentials import HostCredentials, Opened
from fetchwork.handlers.requests import credentials
from fetchwork.process import Process
from tests.agent.conftest import Hooks, JobOf, Submit, attributes_of, slot_ad
from tests.support.by_name import call
from tests.support.waiting import PATIENCE_S, until_async

NEEDS = {"OAuthServicesNeeded": "box"}
Put = Callable[..., int]


@pytest.fixture
def key_file(tmp_path: Path, database: Database) -> KeyFile:
    """The host's keys; submitters seal to the last one."""
    keys = KeyFile(tmp_path / "credential.key")
    keys.add()
    database.run(credential_calls.publish_credential_key(public_key=keys.newest()))
    return keys


@pytest.fixture
def host(hooks: Hooks, key_file: KeyFile) -> HostCredentials:
    """The hooks of a host that has the keys."""
    host = HostCredentials(hooks.context.session, key_file)
    object.__setattr__(hooks.context, "credentials", host)
    return host


@pytest.fixture
def put(database: Database, key_file: KeyFile) -> Put:
    """Stores a credential of the jobs' owner, or of another owner."""

    def put(
        content: bytes = b"token",
        name: str = "box",
        *,
        owner: str = "nobody",
        said: str | None = None,
        renewal: Renewal | None = None,
        expires_in: float | None = None,
        public: bytes | None = None,
    ) -> int:
        public = public or key_file.newest()
        return database.run(
            credential_calls.put_credential(
                owner=owner,
                name=name,
                key_id=key_id(public),
                sealed=seal(Secret(said or owner, name, content, renewal).encode(), public),
                renewable=renewal is not None,
                expires_at=None if expires_in is None else datetime.now(UTC) + timedelta(seconds=expires_in),
            )
        )

    return put


async def starting(hooks: Hooks, scratch: Path, slot: str = "slot1@vm") -> Answer:
    """Fetch a job, and run its PREPARE_JOB in a scratch directory."""
    job = await hooks.fetch(slot_ad(Name=slot))
    assert b"FetchWorkCredentials = true\n" in job
    assert b"OAuthServicesNeeded" not in job
    return await hooks.start(job + f'FetchWorkScratch = "{scratch}"\n'.encode())


def sent(answer: Answer) -> dict[str, bytes]:
    """The credentials in an answer."""
    _, section, lines = answer.reply.body.rpartition(b"-----credentials\n")
    assert section, answer
    words = [line.split() for line in lines.decode().splitlines()]
    return {name: bytes.fromhex(content) for name, content in words}


# ---- the start


async def test_a_job_gets_its_credentials_and_hears_where_they_are(
    hooks: Hooks, host: HostCredentials, submit: Submit, put: Put, job_of: JobOf, tmp_path: Path
) -> None:
    put(b"one")
    put(b"\0two", "disk_h")
    put(b"of no job", "other")
    job = submit(ad={"OAuthServicesNeeded": "box,disk*h"}, environment="A=1")
    answer = await starting(hooks, tmp_path)
    assert answer.outcome == "started"
    assert sent(answer) == {"box": b"one", "disk_h": b"\0two"}
    changes = attributes_of(answer.reply.body.split(b"-----")[0])
    assert f"_CONDOR_CREDS={tmp_path}/.condor_creds" in str(changes["Environment"]).split()
    assert "A=1" in str(changes["Environment"]).split()
    assert job_of(job)["jobstatus"] == 2


async def test_a_host_without_a_key_is_not_offered_such_jobs(
    hooks: Hooks, host: HostCredentials, submit: Submit, put: Put, key_file: KeyFile
) -> None:
    put()
    submit(ad=NEEDS)
    object.__setattr__(hooks.context, "credentials", None)
    assert await hooks.fetch() == b""
    object.__setattr__(hooks.context, "credentials", host)
    kept = key_file.path.read_bytes()
    key_file.path.unlink()
    assert await hooks.fetch() == b""
    key_file.path.write_bytes(kept)
    key_file.path.chmod(0o600)
    assert b"FetchWorkCredentials" in await hooks.fetch()


async def held(hooks: Hooks, job_of: JobOf, job: str, scratch: Path) -> str:
    """The hold reason of a job that could not start because a credential is missing."""
    answer = await starting(hooks, scratch)
    assert (answer.outcome, answer.reply.exit) == ("could_not_start", 1)
    row = job_of(job)
    # the code and the words of HTCondor's shadow
    assert (row["jobstatus"], row["holdreasoncode"], row["holdreasonsubcode"]) == (5, 4, 0)
    assert row["holdreason"].startswith("Job credentials are not available: ")
    return str(row["holdreason"])


async def test_a_job_is_held_whose_credential_was_deleted(
    hooks: Hooks,
    host: HostCredentials,
    submit: Submit,
    put: Put,
    job_of: JobOf,
    tmp_path: Path,
    database: Database,
) -> None:
    put()
    job = submit(ad=NEEDS)
    database.run(credential_calls.delete_credential(owner="nobody", name="box"))
    reason = await held(hooks, job_of, job, tmp_path)
    assert "'box' is not stored: fetchwork credential add box" in reason
    put()
    call(database, "release", jobs=[job])
    assert (await starting(hooks, tmp_path)).outcome == "started"


async def test_a_job_is_held_whose_credential_has_expired(
    hooks: Hooks, host: HostCredentials, submit: Submit, put: Put, job_of: JobOf, tmp_path: Path
) -> None:
    put(expires_in=-1)
    assert "'box' expired at 20" in await held(hooks, job_of, submit(ad=NEEDS), tmp_path)


async def test_a_credential_that_was_moved_into_anothers_row_is_given_to_nobody(
    hooks: Hooks, host: HostCredentials, submit: Submit, put: Put, job_of: JobOf, tmp_path: Path
) -> None:
    put(said="bob")
    assert "was sealed for another owner" in await held(hooks, job_of, submit(ad=NEEDS), tmp_path)


async def test_a_host_that_lacks_the_new_key_leaves_the_job_to_others(
    hooks: Hooks,
    host: HostCredentials,
    submit: Submit,
    put: Put,
    job_of: JobOf,
    tmp_path: Path,
    database: Database,
) -> None:
    elsewhere = KeyFile(tmp_path / "elsewhere.key")
    elsewhere.add()
    database.run(credential_calls.publish_credential_key(public_key=elsewhere.newest()))
    put(public=elsewhere.newest())
    job = submit(ad=NEEDS)
    answer = await starting(hooks, tmp_path)
    assert answer.outcome == "could_not_start"
    assert (job_of(job)["jobstatus"], job_of(job)["numjobstarts"]) == (1, 0)
    assert f"lacks key {key_id(elsewhere.newest())}" in answer.reply.stderr


async def test_an_agent_without_a_key_starts_no_job_that_needs_credentials(
    hooks: Hooks, host: HostCredentials, submit: Submit, put: Put, tmp_path: Path
) -> None:
    put()
    submit(ad=NEEDS)
    job = await hooks.fetch()
    object.__setattr__(hooks.context, "credentials", None)
    answer = await hooks.start(job + f'FetchWorkScratch = "{tmp_path}"\n'.encode())
    assert (answer.reply.code, answer.reply.body) == ("unavailable", b"")


@pytest.mark.parametrize("scratch", ["relative", "", "/a\\b"])
async def test_a_hook_that_does_not_say_where_gets_nothing(
    hooks: Hooks, host: HostCredentials, submit: Submit, put: Put, scratch: str
) -> None:
    put()
    submit(ad=NEEDS)
    answer = await hooks.start(await hooks.fetch() + f'FetchWorkScratch = "{scratch}"\n'.encode())
    assert (answer.reply.code, answer.reply.body) == ("bad_request", b"")


async def test_another_account_gets_nothing(
    hooks: Hooks, host: HostCredentials, submit: Submit, put: Put, tmp_path: Path
) -> None:
    put()
    submit(ad=NEEDS)
    job = await hooks.fetch()
    for run in hooks.runs:
        run.owner_uid = 4711
    line = f'FetchWorkScratch = "{tmp_path}"\n'.encode()
    answer = await hooks.start(job + line, caller=Caller(4712, trusted=False, starter=Process(1, 1)))
    assert (answer.reply.code, answer.reply.body) == ("denied", b"")
    other = job.replace(b'FetchWorkToken = "', b'FetchWorkToken = "0')
    answer = await hooks.start(other + line, caller=Caller(4712, trusted=False, starter=Process(1, 1)))
    assert answer.reply.body == b""


async def test_a_job_that_hides_its_environment_does_not_start(
    hooks: Hooks, host: HostCredentials, submit: Submit, put: Put, tmp_path: Path
) -> None:
    put()
    submit(ad={**NEEDS, "Environment": '/Expr(strcat("A=", "1"))/'})
    answer = await starting(hooks, tmp_path)
    assert answer.outcome == "could_not_start"
    assert "_CONDOR_CREDS can't be added" in answer.reply.stderr


# ---- while it runs


@pytest.fixture
def upkeep(host: HostCredentials, monkeypatch: pytest.MonkeyPatch) -> CredentialUpkeep:
    """The agent's credential task of every minute."""
    monkeypatch.setattr("fetchwork.agent.credentials.SETTLED_S", 0.0)
    return CredentialUpkeep(host, SignalRights(), os.geteuid())


async def test_a_running_job_gets_what_is_stored_anew(
    hooks: Hooks, upkeep: CredentialUpkeep, submit: Submit, put: Put, tmp_path: Path
) -> None:
    put(b"old")
    submit(ad=NEEDS)
    directory = tmp_path / ".condor_creds"
    directory.mkdir()
    assert sent(await starting(hooks, tmp_path)) == {"box": b"old"}
    await upkeep.round()
    assert list(directory.iterdir()) == []
    put(b"new")
    await upkeep.round()
    assert (directory / "box.use").read_bytes() == b"new"
    (directory / "box.use").write_bytes(b"the job's own")
    await upkeep.round()
    assert (directory / "box.use").read_bytes() == b"the job's own"


async def test_an_agent_looks_as_soon_as_it_is_greeted_and_then_each_minute(
    hooks: Hooks,
    upkeep: CredentialUpkeep,
    host: HostCredentials,
    submit: Submit,
    put: Put,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(b"old")
    submit(ad=NEEDS)
    directory = tmp_path / ".condor_creds"
    directory.mkdir()
    await starting(hooks, tmp_path)
    put(b"stored while no agent ran")
    monkeypatch.setattr("fetchwork.agent.credentials.ROUND_S", 3600.0)
    with monkeypatch.context() as before:
        before.setattr(type(host.session), "greeting", None)
        await upkeep.look()
        assert list(directory.iterdir()) == []
    await upkeep.look()
    assert (directory / "box.use").read_bytes() == b"stored while no agent ran"
    put(b"later")
    await upkeep.look()
    assert (directory / "box.use").read_bytes() == b"stored while no agent ran"
    monkeypatch.setattr("fetchwork.agent.credentials.ROUND_S", 0.0)
    another = CredentialUpkeep(host, SignalRights(), os.geteuid())
    for content in (b"later", b"last"):
        put(content)
        await another.look()
        assert (directory / "box.use").read_bytes() == content


async def test_what_can_not_be_written_is_tried_again_and_told_once(
    hooks: Hooks,
    upkeep: CredentialUpkeep,
    submit: Submit,
    put: Put,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    put(b"old")
    submit(ad=NEEDS)
    await starting(hooks, tmp_path)
    put(b"new")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    directory = tmp_path / ".condor_creds"
    directory.symlink_to(elsewhere)
    for _ in range(3):
        await upkeep.round()
    assert list(elsewhere.iterdir()) == []
    assert caplog.text.count("credential_not_replaced") == 1
    directory.unlink()
    directory.mkdir()
    await upkeep.round()
    assert (directory / "box.use").read_bytes() == b"new"
    assert "new" not in caplog.text


async def test_an_owner_with_a_fault_that_nobody_thought_of_holds_up_no_other(
    hooks: Hooks,
    upkeep: CredentialUpkeep,
    submit: Submit,
    put: Put,
    tmp_path: Path,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    owners = ("daemon", "nobody")
    for owner in owners:
        put(b"old", owner=owner)
        submit(ad=NEEDS, owner=owner)
        (tmp_path / owner / ".condor_creds").mkdir(parents=True)
    where = {}
    for slot in ("slot1@vm", "slot2@vm"):
        job = await hooks.fetch(slot_ad(Name=slot))
        owner = str(attributes_of(job)["Owner"])
        where[owner] = tmp_path / owner
        line = f'FetchWorkScratch = "{where[owner]}"\n'.encode()
        assert (await hooks.start(job + line)).outcome == "started"
    for owner in owners:
        put(b"new", owner=owner)
    written = SignalRights.put_credential

    async def faulty(rights: SignalRights, directory: Path, name: str, content: bytes, uid: int) -> None:
        if directory.parent.name == "daemon":
            raise RuntimeError("nobody thought of it")
        await written(rights, directory, name, content, uid)

    monkeypatch.setattr(SignalRights, "put_credential", faulty)
    await upkeep.round()
    await upkeep.round()
    assert (where["nobody"] / ".condor_creds/box.use").read_bytes() == b"new"
    assert caplog.text.count("nobody thought of it") == 1
    monkeypatch.setattr(SignalRights, "put_credential", written)
    await upkeep.round()
    assert (where["daemon"] / ".condor_creds/box.use").read_bytes() == b"new"


async def test_an_agent_that_was_killed_is_followed_by_one_that_goes_on(
    hooks: Hooks,
    upkeep: CredentialUpkeep,
    submit: Submit,
    put: Put,
    key_file: KeyFile,
    conninfo: str,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An agent killed at each step: no credential is forgotten, and no file is written again needlessly."""
    put(b"old")
    submit(ad=NEEDS)
    file = tmp_path / ".condor_creds/box.use"
    file.parent.mkdir()
    await starting(hooks, tmp_path)
    put(b"while it was away")

    class Killed(BaseException):
        pass

    # between writing the file and telling the database
    with monkeypatch.context() as patched:

        def killed(**_: object) -> None:
            raise Killed

        patched.setattr(credential_calls, "note_credentials", killed)
        with pytest.raises(Killed):
            await upkeep.round()
    assert file.read_bytes() == b"while it was away"
    await hooks.context.session.close()

    after = Hooks(conninfo)
    try:
        host = HostCredentials(after.context.session, KeyFile(key_file.path))
        again = CredentialUpkeep(host, SignalRights(), os.geteuid())
        # it has not said hello to the database yet
        await again.round()
        await after.context.session.hello(PATIENCE_S)
        file.write_bytes(b"torn")
        await again.round()
        assert file.read_bytes() == b"while it was away"
        file.write_bytes(b"the job's own")
        await again.round()
        assert file.read_bytes() == b"the job's own"
        put(b"later")
        await again.round()
        assert file.read_bytes() == b"later"
    finally:
        await after.context.session.close()


# ---- issuers


class Issuer(HTTPServer):
    """Issues tokens for refresh tokens, and accepts each refresh token once."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.good = "refresh-0"
        self.asked: list[dict[str, str]] = []
        #: the answer to give instead
        self.instead: tuple[int, bytes] | None = None
        self.lasts_s = 3600.0
        self.silent = threading.Event()

    @property
    def renewal(self) -> Renewal:
        return Renewal(f"http://127.0.0.1:{self.server_port}/token", "refresh-0", "client", "s3cret:&")


class _Answers(BaseHTTPRequestHandler):
    server: Issuer

    def do_POST(self) -> None:
        issuer = self.server
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = dict(urllib.parse.parse_qsl(body))
        issuer.asked.append({**form, "authorization": self.headers["Authorization"]})
        while issuer.silent.is_set():
            time.sleep(0.01)
        number = len(issuer.asked)
        if issuer.instead is not None:
            status, data = issuer.instead
        elif form["refresh_token"] != issuer.good:
            status, data = 400, b'{"error": "invalid_grant"}'
        else:
            issuer.good = f"refresh-{number}"
            given = {
                "access_token": f"access-{number}",
                "refresh_token": issuer.good,
                "expires_in": issuer.lasts_s,
            }
            status, data = 200, json.dumps(given).encode()
        self.send_response(status)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        threading.Thread(target=issuer.serve_forever, daemon=True).start()
        yield issuer
        issuer.silent.clear()
        issuer.shutdown()


async def test_a_token_is_fetched_for_the_first_job_and_kept_for_the_next(
    hooks: Hooks, host: HostCredentials, submit: Submit, put: Put, issuer: Issuer, tmp_path: Path
) -> None:
    put(b"", renewal=issuer.renewal)
    submit(ad=NEEDS)
    submit(ad=NEEDS)
    first = json.loads(sent(await starting(hooks, tmp_path))["box"])
    assert first == {"access_token": "access-1", "expires_in": 3600.0}
    assert json.loads(sent(await starting(hooks, tmp_path, "slot2@vm"))["box"]) == first
    (asked,) = issuer.asked
    assert asked["grant_type"] == "refresh_token"
    # client:s3cret%3A%26
    assert asked["authorization"] == "Basic Y2xpZW50OnMzY3JldCUzQSUyNg=="


async def test_a_running_jobs_token_is_renewed_before_it_expires_and_the_refresh_token_turns(
    hooks: Hooks,
    upkeep: CredentialUpkeep,
    submit: Submit,
    put: Put,
    issuer: Issuer,
    tmp_path: Path,
    database: Database,
) -> None:
    issuer.lasts_s = 300.0
    put(b"", renewal=issuer.renewal)
    for _ in range(2):
        submit(ad=NEEDS)
    (tmp_path / "a/.condor_creds").mkdir(parents=True)
    (tmp_path / "b/.condor_creds").mkdir(parents=True)
    await starting(hooks, tmp_path / "a")
    await starting(hooks, tmp_path / "b", "slot2@vm")
    assert len(issuer.asked) == 1
    # the backoff of at least half a minute ends now
    await upkeep.round()
    assert len(issuer.asked) == 1
    database.query("UPDATE fetchwork.credential SET renewed_at = now() - interval '1 minute' RETURNING 1")
    await upkeep.round()
    assert [one["refresh_token"] for one in issuer.asked] == ["refresh-0", "refresh-1"]
    for job in "ab":
        text = (tmp_path / job / ".condor_creds/box.use").read_text()
        assert json.loads(text)["access_token"] == "access-2"
        assert "refresh" not in text


async def test_an_issuer_that_refuses_leaves_a_good_token(
    hooks: Hooks, host: HostCredentials, submit: Submit, put: Put, issuer: Issuer, tmp_path: Path
) -> None:
    issuer.good = "another"
    put(b"still good", renewal=issuer.renewal, expires_in=60)
    submit(ad=NEEDS)
    assert sent(await starting(hooks, tmp_path)) == {"box": b"still good"}


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        ((400, b'{"error": "invalid_grant"}'), "answered 400: invalid_grant"),
        ((302, b""), "answered 302"),
        ((500, b"<html>" * 1000), "answered 500"),
        ((200, b"no json"), "did not answer with a JSON object"),
        ((200, b"[" * 100000), "did not answer with a JSON object"),
        ((200, b'{"access_token": 4}'), "without an access_token"),
        ((200, json.dumps({"access_token": "x" * 20000}).encode()), "allowed: 16384"),
    ],
)
async def test_a_job_is_tried_again_whose_issuer_gives_no_token(
    hooks: Hooks,
    host: HostCredentials,
    submit: Submit,
    put: Put,
    job_of: JobOf,
    issuer: Issuer,
    tmp_path: Path,
    instead: tuple[int, bytes],
    said: str,
) -> None:
    issuer.instead = instead
    put(b"", renewal=issuer.renewal)
    job = submit(ad=NEEDS)
    answer = await starting(hooks, tmp_path)
    assert (answer.outcome, job_of(job)["jobstatus"]) == ("could_not_start", 1)
    assert said in answer.reply.stderr
    assert "refresh-0" not in answer.reply.stderr


async def test_an_issuer_that_is_silent_holds_up_its_owners_jobs_alone(
    hooks: Hooks,
    host: HostCredentials,
    submit: Submit,
    put: Put,
    issuer: Issuer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(renewing, "TIME_S", 0.5)
    monkeypatch.setattr(credentials, "OTHERS_S", 0.2)
    issuer.silent.set()
    put(b"", renewal=issuer.renewal)
    put(b"plain", "disk")
    submit(ad=NEEDS)
    submit(ad={"OAuthServicesNeeded": "disk"})
    line = f'FetchWorkScratch = "{tmp_path}"\n'.encode()
    one, other = [await hooks.fetch(slot_ad(Name=f"slot{n}@vm")) + line for n in (1, 2)]
    waiting = asyncio.ensure_future(hooks.start(one))
    assert (await hooks.start(other)).outcome == "started"
    answer = await waiting
    assert answer.outcome == "could_not_start"
    assert "did not answer in time" in answer.reply.stderr


async def test_one_thread_at_a_time_asks_for_an_owner_however_long_it_takes(
    hooks: Hooks,
    host: HostCredentials,
    submit: Submit,
    put: Put,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A silent name service holds a thread for longer than any request waits for its answer."""
    answered = threading.Event()

    def silent(secret: Secret, now: datetime) -> tuple[Secret, datetime | None]:
        answered.wait()
        return Secret(secret.owner, secret.name, b"late", secret.renewal), None

    monkeypatch.setattr(renewing, "renewed", silent)
    monkeypatch.setattr(renewing, "TIME_S", 0.2)
    for name in ("box", "disk"):
        put(b"", name, renewal=Renewal("https://issuer.example.org/token", "refresh", "client"))
    submit(ad={"OAuthServicesNeeded": "box,disk"})
    job = attributes_of(await hooks.fetch())
    run_id, run_token = int(str(job["FetchWorkRunId"])), str(job["FetchWorkToken"])
    rows = await host.session.database.run(
        credential_calls.run_credentials(run_id=run_id, token=run_token), timeout_s=PATIENCE_S
    )
    box, disk = (host.open(row) for row in sorted(rows, key=lambda row: row.name))
    assert box is not None
    assert disk is not None
    try:
        with pytest.raises(CredentialError, match="in time"):
            await host.renew(run_id, run_token, box)
        assert await host.renew(run_id, run_token, disk) is None
    finally:
        answered.set()
    async with asyncio.timeout(PATIENCE_S):
        while (renewed := await host.renew(run_id, run_token, disk)) is None:
            await asyncio.sleep(0.05)
    assert renewed.secret.content == b"late"


async def test_an_issuer_that_is_silent_for_many_owners_keeps_no_other_from_being_asked(
    hooks: Hooks,
    host: HostCredentials,
    submit: Submit,
    put: Put,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    answered = threading.Event()

    def ask(secret: Secret, now: datetime) -> tuple[Secret, datetime | None]:
        asked.append(secret.owner)
        if secret.renewal is not None and "silent" in secret.renewal.token_url:
            answered.wait()
        return Secret(secret.owner, secret.name, b"fresh", secret.renewal), None

    monkeypatch.setattr(renewing, "renewed", ask)
    monkeypatch.setattr(renewing, "TIME_S", PATIENCE_S)
    many = [f"owner{n}" for n in range(hostcredentials.MOST_OF_ISSUER)]
    for owner in [*many, "late", "other"]:
        issuer = "issuer" if owner == "other" else "silent"
        renewal = Renewal(f"https://{issuer}.example.org/token", "refresh", "client")
        put(b"", owner=owner, renewal=renewal)
        submit(ad=NEEDS, owner=owner)
    found = [await asked_for(hooks, host, f"slot{n}@vm") for n in range(len(many) + 2)]
    of = {one[2].secret.owner: one for one in found}
    waiting = [asyncio.ensure_future(host.renew(*of[owner])) for owner in many]
    try:
        await until_async(lambda: sorted(asked) == sorted(many), "all threads")
        assert await host.renew(*of["late"]) is None
        renewed = await host.renew(*of["other"])
        assert renewed is not None and renewed.secret.content == b"fresh"
    finally:
        answered.set()
    assert None not in await asyncio.gather(*waiting)
    assert await host.renew(*of["late"]) is not None


async def asked_for(hooks: Hooks, host: HostCredentials, slot: str = "slot1@vm") -> tuple[int, str, Opened]:
    """Fetch a job; return its run's number and token, and the credential that it asks for."""
    job = attributes_of(await hooks.fetch(slot_ad(Name=slot)))
    run_id, token = int(str(job["FetchWorkRunId"])), str(job["FetchWorkToken"])
    (row,) = await host.session.database.run(
        credential_calls.run_credentials(run_id=run_id, token=token), timeout_s=PATIENCE_S
    )
    opened = host.open(row)
    assert opened is not None
    return run_id, token, opened


async def test_what_an_issuer_answers_is_stored_whoever_waits_for_it(
    hooks: Hooks,
    host: HostCredentials,
    submit: Submit,
    put: Put,
    issuer: Issuer,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old refresh token is spent: the new one outlives the hook, the job, and a lost database."""
    monkeypatch.setattr(hostcredentials, "PAUSE_S", 0.01)
    put(b"", renewal=issuer.renewal)
    submit(ad=NEEDS)
    run_id, token, opened = await asked_for(hooks, host)
    pool = host.session.database
    answered, tried, away = asyncio.Event(), 0, True
    run = pool.run

    async def failing(call: Call[Any], **more: Any) -> Any:
        nonlocal tried
        if "renew_credential" in call.statement()[0]:
            answered.set()
            tried += 1
            if away:
                raise DatabaseUnavailable
        return await run(call, **more)

    monkeypatch.setattr(pool, "run", failing)
    asking = asyncio.ensure_future(host.renew(run_id, token, opened))
    await answered.wait()
    # the hook's connection has ended, and the job ends too
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    # no other request is made for this owner meanwhile
    assert await host.renew(run_id, token, opened) is None
    call(
        database,
        "finish",
        run_id=run_id,
        token=token,
        hook_reason="exit",
        report=Jsonb({"ExitCode": 0}),
        verdict=None,
    )
    away = False
    async with asyncio.timeout(PATIENCE_S):
        while not (
            stored := database.query("SELECT version FROM fetchwork.credential WHERE renewed_at IS NOT NULL")
        ):
            await asyncio.sleep(0.01)
    assert tried > 1
    assert stored[0]["version"] > opened.version
    submit(ad=NEEDS)
    _, _, fresh = await asked_for(hooks, host)
    assert fresh.secret.renewal is not None
    assert (fresh.secret.renewal.refresh_token, len(issuer.asked)) == (issuer.good, 1)


async def test_an_agent_killed_between_the_answer_and_the_database_loses_a_token_that_is_good_once(
    hooks: Hooks,
    upkeep: CredentialUpkeep,
    submit: Submit,
    put: Put,
    issuer: Issuer,
    tmp_path: Path,
    database: Database,
    caplog: pytest.LogCaptureFixture,
) -> None:
    put(b"still good", renewal=issuer.renewal, expires_in=3600)
    submit(ad=NEEDS)
    file = tmp_path / ".condor_creds/box.use"
    file.parent.mkdir()
    assert sent(await starting(hooks, tmp_path)) == {"box": b"still good"}
    # an agent has asked: the issuer accepts only its last refresh token, which died with that agent
    issuer.good = "died with the agent"
    database.query("UPDATE fetchwork.credential SET expires_at = now() + interval '1 minute' RETURNING 1")
    for _ in range(2):
        await upkeep.round()
        database.query("UPDATE fetchwork.credential SET renewing_until = NULL RETURNING 1")
    # the refusal is logged, and the job keeps all that it has
    assert caplog.text.count("answered 400: invalid_grant") == 1
    assert not file.exists()
    # until the owner stores the credential anew
    issuer.good = "refresh-0"
    put(b"", renewal=issuer.renewal)
    await upkeep.round()
    assert json.loads(file.read_bytes())["access_token"].startswith("access-")


def test_an_issuer_with_many_addresses_is_asked_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    now_s = 0.0

    class Silent(socket.socket):
        def connect(self, address: object) -> None:
            nonlocal now_s
            tried.append(address)
            now_s += 1.0
            raise TimeoutError("timed out")

    addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))] * 1000
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    monkeypatch.setattr(socket, "socket", Silent)
    monkeypatch.setattr(renewing, "time", SimpleNamespace(monotonic=lambda: now_s))
    renewal = Renewal("https://issuer.example.org/token", "refresh", "client")
    with pytest.raises(CredentialError, match="did not answer in time"):
        renewing.renewed(Secret("alice", "box", b"", renewal), datetime.now(UTC))
    assert len(tried) == renewing.TIME_S
