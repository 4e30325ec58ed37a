"""Files through an access point: the submitter's child reads inputs, and its owner's child writes outputs."""

import asyncio
import hashlib
import os
import pwd
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest
from psycopg.types.json import Jsonb

from fetchwork.accesspoint.children import Account, Children
from fetchwork.accesspoint.outputs import MOST, Outputs
from fetchwork.client.link import Link
from fetchwork.db.calls import files
from fetchwork.db.calls.call import Call
from fetchwork.db.calls.files import CHUNK_BYTES
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import BucketUnavailable, DatabaseUnavailable
from fetchwork.sandbox import objects
from tests.accesspoint.point import AccessPoint, RefusedError, as_account, request
from tests.support.buckets import KEY, serve_bucket
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S, until, until_async

LARGE = os.urandom(2 * CHUNK_BYTES + 3)
WHOLE = "SELECT string_agg(data, '' ORDER BY n) FROM fetchwork.content_chunk WHERE content_id = %s"


async def account(name: str) -> Account:
    """No account of the machine fits."""
    return Account(name, 65534, 65534, ())


async def acts() -> bool:
    """No statement acts for an owner."""
    return False


@pytest.fixture
def home(directory: Path) -> Path:
    """An Iwd of the account `nobody`, whose files no other account may read."""
    path = directory / "home"
    path.mkdir()
    (path / "a").write_bytes(b"a")
    (path / "large").write_bytes(LARGE)
    account = pwd.getpwnam("nobody")
    for one in (path, path / "a", path / "large"):
        if os.geteuid() == 0:
            os.chown(one, account.pw_uid, account.pw_gid)
        one.chmod(0o755 if one == path else 0o600)
    return path


def description(home: Path, *lines: str) -> str:
    return "\n".join(
        [
            f"initialdir = {home}",
            "executable = /bin/true",
            "should_transfer_files = YES",
            *lines,
            "queue 2",
            "",
        ]
    )


def leave(slots: DirectQueue, outputs: dict[str, bytes]) -> str:
    """A job of the queue runs and leaves output files; return its id."""
    run = slots.started()
    manifest = []
    for name, data in outputs.items():
        digest = hashlib.sha256(data).hexdigest()
        manifest.append({"name": name, "size": len(data), "sha256": digest})
        (begun,) = slots.call(
            "begin_content", owner=None, run_id=run.run_id, token=run.token, sha256=digest, size=len(data)
        )
        for n in range(-(-len(data) // CHUNK_BYTES)):
            part = data[n * CHUNK_BYTES : (n + 1) * CHUNK_BYTES]
            slots.of(run, "put_chunk", content_id=begun["content_id"], n=n, data=part)
    assert slots.of(run, "keep_outputs", manifest=Jsonb(manifest)) == "kept"
    assert slots.finish(run) == "completed"
    return run.job


def test_inputs_are_read_as_the_account_that_submits(point: AccessPoint, home: Path) -> None:
    text = description(home, "transfer_input_files = a, large")
    cluster = point.submit("nobody", text)["cluster"]
    rows = point.slots.rows("SELECT name, content_id FROM fetchwork.job_file WHERE cluster_id = %s", cluster)
    assert {name: point.slots.value(WHOLE, content) for name, content in rows} == {
        **{"a": b"a", "large": LARGE},
        "condor_exec.exe": Path("/bin/true").read_bytes(),
    }
    assert point.slots.value("SELECT DISTINCT owner FROM fetchwork.content") == "nobody"
    assert (
        point.slots.value("SELECT count(*) FROM fetchwork.jobs WHERE ad ->> 'FetchWorkFiles' = 'sandbox'")
        == 2
    )
    with pytest.raises(RefusedError, match=r"cannot open input '.*/home/a': Permission denied"):
        point.submit("daemon", text)
    # the content is sent once for its owner, and reveals nothing to another owner
    again = point.submit("nobody", text)["cluster"]
    assert again != cluster
    assert point.slots.value("SELECT count(*) FROM fetchwork.content") == 3


def test_a_limit_is_said_and_a_trial_sends_nothing(point: AccessPoint, home: Path) -> None:
    text = description(home, "transfer_input_files = large", "transfer_executable = false")
    trial = {**request(text, key="trial"), "dry_run": True}
    assert as_account("nobody", lambda: point.ask("submit", **trial))["count"] == 2
    point.slots.set("max_file_bytes", 1000)
    with pytest.raises(RefusedError, match="allowed: 1000"):
        point.submit("nobody", text)
    with pytest.raises(RefusedError, match="allowed: 1000"):
        as_account("nobody", lambda: point.ask("submit", **trial))
    assert point.slots.value("SELECT count(*) FROM fetchwork.content") == 0
    assert point.slots.value("SELECT count(*) FROM fetchwork.job") == 0


def test_the_key_of_a_job_s_urls_is_read_as_its_owner(point: AccessPoint, home: Path) -> None:
    lines = (
        "transfer_input_files = s3://b/k", "transfer_executable = false", "aws_access_key_id_file = a",
        "aws_secret_access_key_file = {home}/a",
    )  # fmt: skip
    text = description(home, *lines).format(home=home)
    cluster = point.submit("nobody", text)["cluster"]
    kept = point.slots.rows("SELECT cluster_id, access_key_id, secret FROM fetchwork.job_key")
    assert kept == [(cluster, "a", "a")]
    if os.geteuid() == 0:
        with pytest.raises(RefusedError, match=r"cannot open key file .*/a': Permission denied"):
            point.submit("daemon", text)


def test_what_a_job_left_comes_back_by_itself_as_its_owner(point: AccessPoint, home: Path) -> None:
    point.submit("nobody", description(home, "output = out", 'transfer_output_remaps = "r=s"'))
    leave(point.slots, {"_condor_stdout": b"hello", "r": LARGE})
    until(
        lambda: point.slots.value("SELECT count(*) FROM fetchwork.content WHERE run_id IS NOT NULL") == 0,
        "the outputs",
    )
    assert ((home / "out").read_bytes(), (home / "s").read_bytes()) == (b"hello", LARGE)
    assert {(home / name).owner() for name in ("out", "s")} == {"nobody"}
    assert {path.name for path in home.iterdir()} == {"a", "large", "out", "s"}
    # it counts when the database has answered
    until(lambda: point.status()["outputs_brought"] == 1, "the count")


def test_large_files_go_to_a_bucket_and_come_back_from_there(point: AccessPoint, home: Path) -> None:
    with serve_bucket() as bucket:
        point.slots.call("set_bucket", url=bucket.url, above=CHUNK_BYTES, **KEY)
        point.submit("nobody", description(home, "transfer_input_files = large", "output = out"))
        assert list(bucket.objects.values()) == [LARGE]
        run = point.slots.started()
        digest = hashlib.sha256(LARGE).hexdigest()
        (begun,) = point.slots.call(
            "begin_content", owner=None, run_id=run.run_id, token=run.token, sha256=digest, size=len(LARGE)
        )
        content = begun["content_id"]
        objects.put(point.slots.of(run, "content_url", method="PUT", content_id=content, n=0), LARGE)
        point.slots.of(run, "put_chunk", content_id=content, n=0, data=b"")
        manifest = [{"name": "back", "mode": 0o644, "size": len(LARGE), "sha256": digest}]
        assert point.slots.of(run, "keep_outputs", manifest=Jsonb(manifest)) == "kept"
        # the job's end waits for the bucket
        bucket.broken = 503
        point.slots.finish(run)
        until(lambda: bucket.count("GET", 503) > 1, "another try")
        assert not (home / "back").exists()
        bucket.broken = 0
        until((home / "back").exists, "the output")
        assert (home / "back").read_bytes() == LARGE
        assert (home / "back").owner() == "nobody"


def test_a_job_has_not_ended_before_its_files_are_back(point: AccessPoint, home: Path) -> None:
    point.submit("nobody", description(home, "output = out", f"log = {home}/log"))
    point.kill()
    job = leave(point.slots, {"_condor_stdout": b"hello"})
    assert (point.slots.status(job), point.slots.events(job)[-1]) == (6, 1)
    point.start()
    until(lambda: point.slots.status(job) == 4, "the end of the job")
    assert (home / "out").read_bytes() == b"hello"
    until(lambda: "005 (" in (home / "log").read_text(), "the event in the log")


def test_one_whose_files_cannot_be_written_is_held_and_in_nobody_s_way(
    point: AccessPoint, home: Path, directory: Path
) -> None:
    point.submit("nobody", description(home, "output = /root/out"))
    job = leave(point.slots, {"_condor_stdout": b"hello"})
    fine = leave(point.slots, {"fine": b"1", "large2": LARGE})
    until(lambda: point.slots.status(fine) == 4, "the other job's outputs")
    assert (home / "large2").read_bytes() == LARGE
    until(lambda: point.slots.status(job) == 5, "the hold")
    held = "SELECT hold_code, hold_subcode, hold_reason FROM fetchwork.job"
    ((code, subcode, reason),) = point.slots.rows(held)
    assert (code, subcode) == (12, 13)
    assert reason.startswith("Transfer output files failure at access point")
    assert reason.endswith("Details: writing to file /root/out: (errno 13) Permission denied")
    brought = as_account("nobody", lambda: point.ask("retrieve", jobs=[job]))
    assert brought[0]["problem"] == "writing to file /root/out: (errno 13) Permission denied"
    assert brought[0]["errno"] == 13
    # another account's job is not found, and root has no jobs
    assert as_account("daemon", lambda: point.ask("retrieve", jobs=[job])) == []
    assert point.ask("retrieve", jobs=None) == []
    point.slots.connection.execute(
        "UPDATE fetchwork.cluster SET ad = ad || %s", [Jsonb({"Out": str(directory / "home/now")})]
    )
    point.slots.connection.execute("UPDATE fetchwork.job SET ad = ad - 'Out'")
    brought = as_account("nobody", lambda: point.ask("retrieve", jobs=[job]))
    assert [(one["files"], one["problem"]) for one in brought] == [(1, None)]
    assert (home / "now").read_bytes() == b"hello"


def test_who_asks_hears_how_many_bytes_have_moved(point: AccessPoint, home: Path) -> None:
    def submitted() -> list[tuple[int, int]]:
        told: list[tuple[int, int]] = []
        text = description(home, "transfer_input_files = large", "transfer_executable = false")
        with Link(str(point.socket)) as link:
            link.ask("submit", moved=lambda *of: told.append(of), **request(text, key="moved"))
        return told

    # a progress message now and then; the last message says that all files are stored
    told = as_account("nobody", submitted)
    assert told[-1] == [len(LARGE), len(LARGE)]
    point.slots.value("SELECT fetchwork.set_setting('bring_wait', 0)")
    point.kill()
    job = leave(point.slots, {"out": LARGE, "small": b"1"})
    point.slots.scalar("give_up_bringing")
    assert point.slots.status(job) == 5
    point.start()

    def retrieved() -> tuple[list[tuple[int, int]], int]:
        told: list[tuple[int, int]] = []
        with Link(str(point.socket)) as link:
            (report,) = link.ask("retrieve", moved=lambda *of: told.append(of), jobs=[job])
        return told, report["bytes"]

    told, brought = as_account("nobody", retrieved)
    assert brought == len(LARGE) + 1
    assert told[-1] == [brought, brought]
    assert all(moved <= total for moved, total in told)


def many_ends(slots: DirectQueue, owner: str, count: int) -> None:
    """Insert this many ended jobs of an owner, each with an output for the access point, as bare rows."""
    made = "SELECT fetchwork.submit_cluster(%s, ARRAY['{}'::jsonb])"
    slots.value(made, Jsonb({"Cmd": "/bin/true", "Owner": owner, "FetchWorkAccessPoint": "point"}))
    run = slots.started()
    cluster, _ = map(int, run.job.split("."))
    assert slots.of(run, "keep_outputs", manifest=Jsonb([{"name": "a", "size": 1, "url": "x:a"}])) == "kept"
    assert slots.finish(run) == "completed"
    rows = f"generate_series(1, {count - 1}) AS n WHERE cluster_id = {cluster} AND proc_id = 0"
    for table in ("job", "job_file", "bringing"):
        names = [
            name
            for (name,) in slots.rows(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
                " AND NOT attisdropped AND attgenerated = '' AND attidentity = ''",
                f"fetchwork.{table}",
            )
        ]
        listed = ", ".join(names)
        values = ", ".join("n" if name == "proc_id" else f"o.{name}" for name in names)
        slots.connection.execute(
            f"INSERT INTO fetchwork.{table} ({listed}) SELECT {values} FROM fetchwork.{table} AS o, {rows}"
        )
    slots.connection.execute("ANALYZE fetchwork.job, fetchwork.job_file, fetchwork.bringing")


def test_one_owner_s_hundred_thousand_ends_delay_no_other_s(point: AccessPoint, home: Path) -> None:
    point.kill()
    # the owner has no account here: each delivery fails and is tried again later
    many_ends(point.slots, "nosuchaccount", 100_000)
    submitted = "SELECT fetchwork.submit_cluster(%s, ARRAY['{}'::jsonb])"
    ad = {"Cmd": "/bin/true", "Owner": "nobody", "FetchWorkAccessPoint": "point", "Iwd": str(home)}
    point.slots.value(submitted, Jsonb(ad))
    waiting = "SELECT count(*) FROM fetchwork.bringing WHERE owner = 'nosuchaccount'"
    point.start()
    until(lambda: "nosuchaccount" in point.log(), "the look at the many")
    job = leave(point.slots, {"fine": b"1"})
    until(lambda: point.slots.status(job) == 4, "the other's outputs")
    assert (home / "fine").read_bytes() == b"1"
    # and none of the owner's outputs is lost
    assert point.slots.value(waiting) == 100_000


@pytest.mark.parametrize(
    "strange",
    [OSError(24, "Too many open files"), KeyError("problem"), BucketUnavailable("the bucket is away")],
)
def test_what_fails_in_a_strange_way_is_in_no_other_job_s_way(
    slots: DirectQueue, conninfo: str, home: Path, strange: Exception
) -> None:
    for _ in range(2):
        ad = {"Cmd": "/bin/true", "Owner": "nobody", "FetchWorkAccessPoint": "point", "Iwd": str(home)}
        slots.value("SELECT fetchwork.submit_cluster(%s, ARRAY['{}'::jsonb])", Jsonb(ad))
    first, second = leave(slots, {"first": b"1"}), leave(slots, {"second": b"2"})
    tried: list[int] = []

    class OfTheTest(Children):
        def answers(self, account: Account, request: Any, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
            return self._answers(request["ad"]["ClusterId"])

        async def _answers(self, cluster: int) -> AsyncGenerator[Any, None]:
            tried.append(cluster)
            if f"{cluster}.0" == first:
                raise strange
            yield {"bytes": 1}

    async def brought() -> None:
        database = AsyncDatabase(conninfo)
        outputs = Outputs(database, OfTheTest(1), "point", account, acts)
        keeping = asyncio.ensure_future(outputs.keep())
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not outputs.brought:
                    await asyncio.sleep(0.02)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await database.close()

    asyncio.run(brought())
    assert tried[:2] == [int(job.split(".")[0]) for job in (first, second)]
    assert (slots.status(first), slots.status(second)) == (6, 4)


async def test_a_child_gets_what_its_job_left_and_nothing_else() -> None:
    class Has:
        async def run(self, call: Call[Any], **_: Any) -> Any:
            if "jobs" in call.arguments:
                file = {"content_id": 1, "name": "out", "size": 4, "source": "content"}
                return [files.JobOutputs(1, 0, 1, "nobody", {}, [file])]
            return b"data" if "content_id" in call.arguments else True

    class Asks(Children):
        async def answers(self, *_: Any, wanted: Any = None, **__: Any) -> AsyncGenerator[Any, None]:
            for content_id in asked:
                await wanted({"content_id": content_id, "n": 0})
            yield {"bytes": 4}

    outputs = Outputs(cast(Any, Has()), Asks(1), "point", account, acts)
    asked = [1]
    (report,) = await outputs.retrieve("nobody", None)
    assert (report["bytes"], report["problem"]) == (4, None)
    asked = [1, 2]
    (report,) = await outputs.retrieve("nobody", None)
    assert report["problem"] == "a child of 'nobody' asks for a content that is not an output of its job"


async def test_outputs_in_a_bucket_that_does_not_answer_are_in_nobody_s_way() -> None:
    asked: list[str] = []
    never = asyncio.Event()

    class Has:
        async def run(self, call: Call[Any], **_: Any) -> Any:
            if "jobs" in call.arguments:
                owner = str(call.arguments["of_owner"])
                file = {"content_id": 1, "name": "out", "size": 4, "source": "content"}
                return [files.JobOutputs(1, 0, 1, owner, {}, [file | {"in_bucket": owner != "other"}])]
            return True

    class Asks(Children):
        async def answers(self, account: Account, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
            asked.append(account.name)
            if account.name != "other":
                await never.wait()
            yield {"bytes": 4}

    outputs = Outputs(cast(Any, Has()), Asks(1), "point", account, acts)
    hanging = [asyncio.ensure_future(outputs.retrieve(f"owner{n}", None)) for n in range(2 * MOST)]
    try:
        await until_async(lambda: len(asked) == MOST)
        async with asyncio.timeout(PATIENCE_S):
            (report,) = await outputs.retrieve("other", None)
        assert (report["bytes"], report["problem"]) == (4, None)
        assert len(asked) == MOST + 1
    finally:
        for one in hanging:
            one.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)


async def test_what_failed_waits_for_its_next_try_though_the_database_was_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # longer than the test runs
    monkeypatch.setattr("fetchwork.accesspoint.outputs.FIRST_RETRY_S", 1e6)
    monkeypatch.setattr("fetchwork.accesspoint.outputs.LONGEST_RETRY_S", 1e6)
    looks: list[bool] = []
    tried: list[int] = []

    class Away:
        async def run(self, call: Call[Any], **_: Any) -> Any:
            if "of_owner" in call.arguments:
                return [files.JobOutputs(1, 0, 1, "nobody", {"ClusterId": 1}, [])]
            looks.append(bool(tried))
            # once, after the first try
            if looks.count(True) == 2:
                raise DatabaseUnavailable
            return ["nobody"]

    class Fails(Children):
        def answers(self, account: Account, request: Any, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
            tried.append(request["ad"]["ClusterId"])
            raise OSError(24, "Too many open files")

    outputs = Outputs(cast(Any, Away()), Fails(1), "point", account, acts)
    keeping = asyncio.ensure_future(outputs.keep())
    await until_async(lambda: looks.count(True) > 4, "some looks after that")
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert tried == [1]


def test_an_access_point_that_is_killed_over_it_brings_the_same(point: AccessPoint, home: Path) -> None:
    point.submit("nobody", description(home))
    point.kill()
    leave(point.slots, {"out": LARGE})
    # as left by a child that was killed while it wrote
    (home / ".out.fetchwork-1").write_bytes(b"half")
    os.chown(
        home / ".out.fetchwork-1", *[getattr(pwd.getpwnam("nobody"), name) for name in ("pw_uid", "pw_gid")]
    )
    point.start()
    until((home / "out").exists, "the outputs")
    assert (home / "out").read_bytes() == LARGE
    until(lambda: point.status()["outputs_brought"] == 1, "the acknowledgement")
    assert not (home / ".out.fetchwork-1").exists()
