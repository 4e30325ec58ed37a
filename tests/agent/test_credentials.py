"""Credentials on a host: those that PREPARE_JOB gets, holds for missing ones, and later changes."""

import asyncio
import json
import os
import socket
import threading
import time
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from fetchwork.agent.credentialupkeep import CredentialUpkeep
from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.credentials import renewing
from fetchwork.credentials.keys import KeyFile, key_id, seal
from fetchwork.credentials.secret import Renewal, Secret
from fetchwork.db.calls import credentials as credential_calls
from fetchwork.db.calls.call import Call
from fetchwork.errors import CredentialError, DatabaseUnavailable
from fetchwork.handlers.context import Answer, Caller
from fetchwork.handlers.host import hostcredentials
from fetchwork.handlers.host.hostcredentials import HostCredentials, Opened
from fetchwork.handlers.requests import runcredentials
from fetchwork.process import Process
from tests.agent.conftest import Hooks, attributes_of, slot_ad
from tests.support.by_name import call
from tests.support.waiting import PATIENCE_S, until_async

NEEDS = {"OAuthServicesNeeded": "box"}


class Host(Hooks):
    """The hooks of a host that has the keys; submitters seal to the last one."""

    def __init__(self, conninfo: str, directory: Path) -> None:
        super().__init__(conninfo)
        self.directory = directory
        self.keys = KeyFile(directory / "credential.key")
        self.credentials = HostCredentials(self.context.session, self.keys)
        #: the agent's credential task of every minute
        self.upkeep = CredentialUpkeep(self.credentials, SignalRights(), os.geteuid())
        self.has_key(True)

    def has_key(self, whether: bool) -> None:
        object.__setattr__(self.context, "credentials", self.credentials if whether else None)

    def add_key(self, keys: KeyFile) -> bytes:
        """Add a key to a file, to which submitters seal from now on; it is returned."""
        keys.add()
        self.database.run(credential_calls.publish_credential_key(public_key=keys.newest()))
        return keys.newest()

    def put(
        self,
        content: bytes = b"token",
        name: str = "box",
        *,
        owner: str = "nobody",
        said: str | None = None,
        renewal: Renewal | None = None,
        expires_in: float | None = None,
        public: bytes | None = None,
    ) -> int:
        """Store a credential of the jobs' owner, or of another owner."""
        public = public or self.keys.newest()
        return self.database.run(
            credential_calls.put_credential(
                owner=owner,
                name=name,
                key_id=key_id(public),
                sealed=seal(Secret(said or owner, name, content, renewal).encode(), public),
                renewable=renewal is not None,
                expires_at=None if expires_in is None else datetime.now(UTC) + timedelta(seconds=expires_in),
            )
        )

    async def starting(self, scratch: str = "", slot: str = "slot1@vm") -> Answer:
        """Fetch a job, and run its PREPARE_JOB in a scratch directory below the host's."""
        job = await self.fetch(slot_ad(Name=slot))
        assert b"FetchWorkCredentials = true\n" in job
        assert b"OAuthServicesNeeded" not in job
        return await self.start(job + in_scratch(self.directory / scratch))


def in_scratch(directory: object) -> bytes:
    """The attribute by which a hook tells its scratch directory."""
    return f'FetchWorkScratch = "{directory}"\n'.encode()


@pytest.fixture
async def host(conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    monkeypatch.setattr("fetchwork.agent.credentialupkeep.SETTLED_S", 0.0)
    host = Host(conninfo, tmp_path)
    host.add_key(host.keys)
    yield host
    await host.close()


def sent(answer: Answer) -> dict[str, bytes]:
    """The credentials in an answer."""
    _, section, lines = answer.reply.body.rpartition(b"-----credentials\n")
    assert section, answer
    words = [line.split() for line in lines.decode().splitlines()]
    return {name: bytes.fromhex(content) for name, content in words}


# ---- the start


async def test_a_job_gets_its_credentials_and_hears_where_they_are(host: Host) -> None:
    host.put(b"one")
    host.put(b"\0two", "disk_h")
    host.put(b"of no job", "other")
    job = host.submit(ad={"OAuthServicesNeeded": "box,disk*h"}, environment="A=1")
    answer = await host.starting()
    assert answer.outcome == "started"
    assert sent(answer) == {"box": b"one", "disk_h": b"\0two"}
    changes = attributes_of(answer.reply.body.split(b"-----")[0])
    assert f"_CONDOR_CREDS={host.directory}/.condor_creds" in str(changes["Environment"]).split()
    assert "A=1" in str(changes["Environment"]).split()
    assert host.job_of(job)["jobstatus"] == 2


async def test_a_host_without_a_key_is_not_offered_such_jobs(host: Host) -> None:
    host.put()
    host.submit(ad=NEEDS)
    host.has_key(False)
    assert await host.fetch() == b""
    host.has_key(True)
    kept = host.keys.path.read_bytes()
    host.keys.path.unlink()
    assert await host.fetch() == b""
    host.keys.path.write_bytes(kept)
    host.keys.path.chmod(0o600)
    assert b"FetchWorkCredentials" in await host.fetch()


async def held(host: Host, job: str) -> str:
    """The hold reason of a job that could not start because a credential is missing."""
    answer = await host.starting()
    assert (answer.outcome, answer.reply.exit) == ("could_not_start", 1)
    row = host.job_of(job)
    # the code and the words of HTCondor's shadow
    assert (row["jobstatus"], row["holdreasoncode"], row["holdreasonsubcode"]) == (5, 4, 0)
    assert row["holdreason"].startswith("Job credentials are not available: ")
    return str(row["holdreason"])


async def test_a_job_is_held_whose_credential_was_deleted(host: Host) -> None:
    host.put()
    job = host.submit(ad=NEEDS)
    host.database.run(credential_calls.delete_credential(owner="nobody", name="box"))
    reason = await held(host, job)
    assert "'box' is not stored: fetchwork credential add box" in reason
    host.put()
    host.call("release", jobs=[job])
    assert (await host.starting()).outcome == "started"


@pytest.mark.parametrize(
    ("stored", "said"),
    [({"expires_in": -1}, "'box' expired at 20"), ({"said": "bob"}, "was sealed for another owner")],
    ids=["has expired", "was moved into another's row"],
)
async def test_a_job_is_held_whose_credential(host: Host, stored: dict[str, Any], said: str) -> None:
    host.put(**stored)
    assert said in await held(host, host.submit(ad=NEEDS))


async def test_a_host_that_lacks_the_new_key_leaves_the_job_to_others(host: Host) -> None:
    elsewhere = KeyFile(host.directory / "elsewhere.key")
    host.put(public=host.add_key(elsewhere))
    job = host.submit(ad=NEEDS)
    answer = await host.starting()
    assert answer.outcome == "could_not_start"
    assert (host.job_of(job)["jobstatus"], host.job_of(job)["numjobstarts"]) == (1, 0)
    assert f"lacks key {key_id(elsewhere.newest())}" in answer.reply.stderr


async def test_an_agent_without_a_key_starts_no_job_that_needs_credentials(host: Host) -> None:
    host.put()
    host.submit(ad=NEEDS)
    job = await host.fetch()
    host.has_key(False)
    answer = await host.start(job + in_scratch(host.directory))
    assert (answer.reply.code, answer.reply.body) == ("unavailable", b"")


@pytest.mark.parametrize("scratch", ["relative", "", "/a\\b"])
async def test_a_hook_that_does_not_say_where_gets_nothing(host: Host, scratch: str) -> None:
    host.put()
    host.submit(ad=NEEDS)
    answer = await host.start(await host.fetch() + in_scratch(scratch))
    assert (answer.reply.code, answer.reply.body) == ("bad_request", b"")


async def test_another_account_gets_nothing(host: Host) -> None:
    host.put()
    host.submit(ad=NEEDS)
    job = await host.fetch()
    for run in host.runs:
        run.owner_uid = 4711
    line = in_scratch(host.directory)
    answer = await host.start(job + line, caller=Caller(4712, trusted=False, starter=Process(1, 1)))
    assert (answer.reply.code, answer.reply.body) == ("denied", b"")
    other = job.replace(b'FetchWorkToken = "', b'FetchWorkToken = "0')
    answer = await host.start(other + line, caller=Caller(4712, trusted=False, starter=Process(1, 1)))
    assert answer.reply.body == b""


async def test_a_job_that_hides_its_environment_does_not_start(host: Host) -> None:
    host.put()
    host.submit(ad={**NEEDS, "Environment": '/Expr(strcat("A=", "1"))/'})
    answer = await host.starting()
    assert answer.outcome == "could_not_start"
    assert "_CONDOR_CREDS can't be added" in answer.reply.stderr


# ---- while it runs


async def test_a_running_job_gets_what_is_stored_anew(host: Host) -> None:
    host.put(b"old")
    host.submit(ad=NEEDS)
    directory = host.directory / ".condor_creds"
    directory.mkdir()
    assert sent(await host.starting()) == {"box": b"old"}
    await host.upkeep.round()
    assert list(directory.iterdir()) == []
    host.put(b"new")
    await host.upkeep.round()
    assert (directory / "box.use").read_bytes() == b"new"
    (directory / "box.use").write_bytes(b"the job's own")
    await host.upkeep.round()
    assert (directory / "box.use").read_bytes() == b"the job's own"


async def test_an_agent_looks_as_soon_as_it_is_greeted_and_then_each_minute(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.put(b"old")
    host.submit(ad=NEEDS)
    directory = host.directory / ".condor_creds"
    directory.mkdir()
    await host.starting()
    host.put(b"stored while no agent ran")
    monkeypatch.setattr("fetchwork.agent.credentialupkeep.ROUND_S", 3600.0)
    with monkeypatch.context() as before:
        before.setattr(type(host.context.session), "greeting", None)
        await host.upkeep.look()
        assert list(directory.iterdir()) == []
    await host.upkeep.look()
    assert (directory / "box.use").read_bytes() == b"stored while no agent ran"
    host.put(b"later")
    await host.upkeep.look()
    assert (directory / "box.use").read_bytes() == b"stored while no agent ran"
    monkeypatch.setattr("fetchwork.agent.credentialupkeep.ROUND_S", 0.0)
    another = CredentialUpkeep(host.credentials, SignalRights(), os.geteuid())
    for content in (b"later", b"last"):
        host.put(content)
        await another.look()
        assert (directory / "box.use").read_bytes() == content


async def test_what_can_not_be_written_is_tried_again_and_told_once(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    host.put(b"old")
    host.submit(ad=NEEDS)
    await host.starting()
    host.put(b"new")
    elsewhere = host.directory / "elsewhere"
    elsewhere.mkdir()
    directory = host.directory / ".condor_creds"
    directory.symlink_to(elsewhere)
    for _ in range(3):
        await host.upkeep.round()
    assert list(elsewhere.iterdir()) == []
    assert caplog.text.count("credential_not_replaced") == 1
    directory.unlink()
    directory.mkdir()
    await host.upkeep.round()
    assert (directory / "box.use").read_bytes() == b"new"
    assert "new" not in caplog.text


async def test_an_owner_with_a_fault_that_nobody_thought_of_holds_up_no_other(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    owners = ("daemon", "nobody")
    for owner in owners:
        host.put(b"old", owner=owner)
        host.submit(ad=NEEDS, owner=owner)
        (host.directory / owner / ".condor_creds").mkdir(parents=True)
    where = {}
    for slot in ("slot1@vm", "slot2@vm"):
        job = await host.fetch(slot_ad(Name=slot))
        owner = str(attributes_of(job)["Owner"])
        where[owner] = host.directory / owner
        line = in_scratch(where[owner])
        assert (await host.start(job + line)).outcome == "started"
    for owner in owners:
        host.put(b"new", owner=owner)
    written = SignalRights.put_credential

    async def faulty(rights: SignalRights, directory: Path, name: str, content: bytes, uid: int) -> None:
        if directory.parent.name == "daemon":
            raise RuntimeError("nobody thought of it")
        await written(rights, directory, name, content, uid)

    monkeypatch.setattr(SignalRights, "put_credential", faulty)
    await host.upkeep.round()
    await host.upkeep.round()
    assert (where["nobody"] / ".condor_creds/box.use").read_bytes() == b"new"
    assert caplog.text.count("nobody thought of it") == 1
    monkeypatch.setattr(SignalRights, "put_credential", written)
    await host.upkeep.round()
    assert (where["daemon"] / ".condor_creds/box.use").read_bytes() == b"new"


async def test_an_agent_that_was_killed_is_followed_by_one_that_goes_on(
    host: Host, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent killed at each step: no credential is forgotten, and no file is written again needlessly."""
    host.put(b"old")
    host.submit(ad=NEEDS)
    file = host.directory / ".condor_creds/box.use"
    file.parent.mkdir()
    await host.starting()
    host.put(b"while it was away")

    class Killed(BaseException):
        pass

    # between writing the file and telling the database
    with monkeypatch.context() as patched:

        def killed(**_: object) -> None:
            raise Killed

        patched.setattr(credential_calls, "note_credentials", killed)
        with pytest.raises(Killed):
            await host.upkeep.round()
    assert file.read_bytes() == b"while it was away"
    await host.close()

    after = Host(conninfo, host.directory)
    try:
        again = after.upkeep
        # it has not said hello to the database yet
        await again.round()
        await after.context.session.hello(PATIENCE_S)
        file.write_bytes(b"torn")
        await again.round()
        assert file.read_bytes() == b"while it was away"
        file.write_bytes(b"the job's own")
        await again.round()
        assert file.read_bytes() == b"the job's own"
        host.put(b"later")
        await again.round()
        assert file.read_bytes() == b"later"
    finally:
        await after.close()


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


async def test_a_token_is_fetched_for_the_first_job_and_kept_for_the_next(host: Host, issuer: Issuer) -> None:
    host.put(b"", renewal=issuer.renewal)
    host.submit(ad=NEEDS)
    host.submit(ad=NEEDS)
    first = json.loads(sent(await host.starting())["box"])
    assert first == {"access_token": "access-1", "expires_in": 3600.0}
    assert json.loads(sent(await host.starting(slot="slot2@vm"))["box"]) == first
    (asked,) = issuer.asked
    assert asked["grant_type"] == "refresh_token"
    # client:s3cret%3A%26
    assert asked["authorization"] == "Basic Y2xpZW50OnMzY3JldCUzQSUyNg=="


async def test_a_running_jobs_token_is_renewed_before_it_expires_and_the_refresh_token_turns(
    host: Host, issuer: Issuer
) -> None:
    issuer.lasts_s = 300.0
    host.put(b"", renewal=issuer.renewal)
    for _ in range(2):
        host.submit(ad=NEEDS)
    (host.directory / "a/.condor_creds").mkdir(parents=True)
    (host.directory / "b/.condor_creds").mkdir(parents=True)
    await host.starting("a")
    await host.starting("b", "slot2@vm")
    assert len(issuer.asked) == 1
    # the backoff of at least half a minute ends now
    await host.upkeep.round()
    assert len(issuer.asked) == 1
    host.database.query(
        "UPDATE fetchwork.credential SET renewed_at = now() - interval '1 minute' RETURNING 1"
    )
    await host.upkeep.round()
    assert [one["refresh_token"] for one in issuer.asked] == ["refresh-0", "refresh-1"]
    for job in "ab":
        text = (host.directory / job / ".condor_creds/box.use").read_text()
        assert json.loads(text)["access_token"] == "access-2"
        assert "refresh" not in text


async def test_an_issuer_that_refuses_leaves_a_good_token(host: Host, issuer: Issuer) -> None:
    issuer.good = "another"
    host.put(b"still good", renewal=issuer.renewal, expires_in=60)
    host.submit(ad=NEEDS)
    assert sent(await host.starting()) == {"box": b"still good"}


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
    host: Host, issuer: Issuer, instead: tuple[int, bytes], said: str
) -> None:
    issuer.instead = instead
    host.put(b"", renewal=issuer.renewal)
    job = host.submit(ad=NEEDS)
    answer = await host.starting()
    assert (answer.outcome, host.job_of(job)["jobstatus"]) == ("could_not_start", 1)
    assert said in answer.reply.stderr
    assert "refresh-0" not in answer.reply.stderr


async def test_an_issuer_that_is_silent_holds_up_its_owners_jobs_alone(
    host: Host, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewing, "TIME_S", 0.5)
    monkeypatch.setattr(runcredentials, "OTHERS_S", 0.2)
    issuer.silent.set()
    host.put(b"", renewal=issuer.renewal)
    host.put(b"plain", "disk")
    host.submit(ad=NEEDS)
    host.submit(ad={"OAuthServicesNeeded": "disk"})
    line = in_scratch(host.directory)
    one, other = [await host.fetch(slot_ad(Name=f"slot{n}@vm")) + line for n in (1, 2)]
    waiting = asyncio.ensure_future(host.start(one))
    assert (await host.start(other)).outcome == "started"
    answer = await waiting
    assert answer.outcome == "could_not_start"
    assert "did not answer in time" in answer.reply.stderr


async def test_one_thread_at_a_time_asks_for_an_owner_however_long_it_takes(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent name service holds a thread for longer than any request waits for its answer."""
    answered = threading.Event()

    def silent(secret: Secret, now: datetime) -> tuple[Secret, datetime | None]:
        answered.wait()
        return Secret(secret.owner, secret.name, b"late", secret.renewal), None

    monkeypatch.setattr(renewing, "renewed", silent)
    monkeypatch.setattr(renewing, "TIME_S", 0.2)
    for name in ("box", "disk"):
        host.put(b"", name, renewal=Renewal("https://issuer.example.org/token", "refresh", "client"))
    host.submit(ad={"OAuthServicesNeeded": "box,disk"})
    job = attributes_of(await host.fetch())
    run_id, run_token = int(str(job["FetchWorkRunId"])), str(job["FetchWorkToken"])
    rows = await host.context.session.database.run(
        credential_calls.run_credentials(run_id=run_id, token=run_token), timeout_s=PATIENCE_S
    )
    box, disk = (host.credentials.open(row) for row in sorted(rows, key=lambda row: row.name))
    assert box is not None
    assert disk is not None
    try:
        with pytest.raises(CredentialError, match="in time"):
            await host.credentials.renew(run_id, run_token, box)
        assert await host.credentials.renew(run_id, run_token, disk) is None
    finally:
        answered.set()
    async with asyncio.timeout(PATIENCE_S):
        while (renewed := await host.credentials.renew(run_id, run_token, disk)) is None:
            await asyncio.sleep(0.05)
    assert renewed.secret.content == b"late"


async def test_an_issuer_that_is_silent_for_many_owners_keeps_no_other_from_being_asked(
    host: Host, monkeypatch: pytest.MonkeyPatch
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
        host.put(b"", owner=owner, renewal=renewal)
        host.submit(ad=NEEDS, owner=owner)
    found = [await asked_for(host, f"slot{n}@vm") for n in range(len(many) + 2)]
    of = {one[2].secret.owner: one for one in found}
    waiting = [asyncio.ensure_future(host.credentials.renew(*of[owner])) for owner in many]
    try:
        await until_async(lambda: sorted(asked) == sorted(many), "all threads")
        assert await host.credentials.renew(*of["late"]) is None
        renewed = await host.credentials.renew(*of["other"])
        assert renewed is not None and renewed.secret.content == b"fresh"
    finally:
        answered.set()
    assert None not in await asyncio.gather(*waiting)
    assert await host.credentials.renew(*of["late"]) is not None


async def asked_for(host: Host, slot: str = "slot1@vm") -> tuple[int, str, Opened]:
    """Fetch a job; return its run's number and token, and the credential that it asks for."""
    job = attributes_of(await host.fetch(slot_ad(Name=slot)))
    run_id, token = int(str(job["FetchWorkRunId"])), str(job["FetchWorkToken"])
    (row,) = await host.context.session.database.run(
        credential_calls.run_credentials(run_id=run_id, token=token), timeout_s=PATIENCE_S
    )
    opened = host.credentials.open(row)
    assert opened is not None
    return run_id, token, opened


async def test_what_an_issuer_answers_is_stored_whoever_waits_for_it(
    host: Host, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old refresh token is spent: the new one outlives the hook, the job, and a lost database."""
    monkeypatch.setattr(hostcredentials, "PAUSE_S", 0.01)
    host.put(b"", renewal=issuer.renewal)
    host.submit(ad=NEEDS)
    run_id, token, opened = await asked_for(host)
    pool = host.context.session.database
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
    asking = asyncio.ensure_future(host.credentials.renew(run_id, token, opened))
    await answered.wait()
    # the hook's connection has ended, and the job ends too
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    # no other request is made for this owner meanwhile
    assert await host.credentials.renew(run_id, token, opened) is None
    call(
        host.database,
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
            stored := host.database.query(
                "SELECT version FROM fetchwork.credential WHERE renewed_at IS NOT NULL"
            )
        ):
            await asyncio.sleep(0.01)
    assert tried > 1
    assert stored[0]["version"] > opened.version
    host.submit(ad=NEEDS)
    _, _, fresh = await asked_for(host)
    assert fresh.secret.renewal is not None
    assert (fresh.secret.renewal.refresh_token, len(issuer.asked)) == (issuer.good, 1)


async def test_an_agent_killed_between_the_answer_and_the_database_loses_a_token_that_is_good_once(
    host: Host, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    host.put(b"still good", renewal=issuer.renewal, expires_in=3600)
    host.submit(ad=NEEDS)
    file = host.directory / ".condor_creds/box.use"
    file.parent.mkdir()
    assert sent(await host.starting()) == {"box": b"still good"}
    # an agent has asked: the issuer accepts only its last refresh token, which died with that agent
    issuer.good = "died with the agent"
    host.database.query(
        "UPDATE fetchwork.credential SET expires_at = now() + interval '1 minute' RETURNING 1"
    )
    for _ in range(2):
        await host.upkeep.round()
        host.database.query("UPDATE fetchwork.credential SET renewing_until = NULL RETURNING 1")
    # the refusal is logged, and the job keeps all that it has
    assert caplog.text.count("answered 400: invalid_grant") == 1
    assert not file.exists()
    # until the owner stores the credential anew
    issuer.good = "refresh-0"
    host.put(b"", renewal=issuer.renewal)
    await host.upkeep.round()
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
