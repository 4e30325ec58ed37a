"""Files that travel with jobs, from the submitter's side: the stored inputs, and the return of outputs."""

import getpass
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from fetchwork import QueryOpts
from fetchwork.db.calls.files import CHUNK_BYTES, PART_BYTES
from fetchwork.errors import DatabaseRefused, SubmitError
from fetchwork.queue.submitting import contents as stored
from fetchwork.queue.submitting import inputs
from fetchwork.queue.submitting.jobads import Jobs
from tests.queue.conftest import Queue
from tests.support.buckets import ACCESS_KEY_ID, SECRET, serve_bucket
from tests.support.direct_queue import DirectQueue

ME = getpass.getuser() if os.geteuid() else "alice"
MISSING = "input 'missing' can't be transferred: reading from file {home}/missing: (errno 2)"
KEEP = {"PreserveRelativePaths": True}
YES = {"ShouldTransferFiles": "YES", "Cmd": "/bin/true", "TransferExecutable": False}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with files in it, to be Iwd."""
    (tmp_path / "d/sub").mkdir(parents=True)
    (tmp_path / "d/sub").chmod(0o750)
    for name in ("a", "b", "d/one", "d/sub/two"):
        (tmp_path / name).write_text(name)
    (tmp_path / "exe").write_text("#!/bin/sh\n")
    (tmp_path / "exe").chmod(0o700)
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "linked").symlink_to("d")
    os.mkfifo(tmp_path / "d/pipe")
    return tmp_path


def names(home: Path, **ad: Any) -> dict[str, str | None]:
    """A job's inputs by name: from a path of home, or from a URL."""
    found = inputs.needed(Jobs({"Iwd": str(home), **YES, **ad}, [{}]), ["/"])
    return {one.name: one.url or os.path.relpath(str(one.path), home) for one in found.common}


@pytest.mark.parametrize(
    ("listed", "more", "expected"),
    [
        ("a, b", {}, {"a": "a", "b": "b"}),
        ("d", {}, {"d/": "d", "d/one": "d/one", "d/sub/": "d/sub", "d/sub/two": "d/sub/two"}),
        ("d/", {}, {"one": "d/one", "sub/": "d/sub", "sub/two": "d/sub/two"}),
        ("d/sub", {}, {"sub/": "d/sub", "sub/two": "d/sub/two"}),
        ("link", {}, {"link": "link"}),
        ("linked/", {}, {"one": "linked/one", "sub/": "linked/sub", "sub/two": "linked/sub/two"}),
        ("d/one, ./d/sub/../one", {}, {"one": "d/sub/../one"}),
        ("https://h/x/y.dat?k=v#f", {}, {"y.dat": "https://h/x/y.dat?k=v#f"}),
        (
            "d/sub/two",
            {"PreserveRelativePaths": True},
            {"d/": "d", "d/sub/": "d/sub", "d/sub/two": "d/sub/two"},
        ),
        ("d/sub", {"PreserveRelativePaths": True}, {"d/": "d", "d/sub/": "d/sub", "d/sub/two": "d/sub/two"}),
        ("d/sub/", {"PreserveRelativePaths": True}, {"d/": "d", "d/sub/": "d/sub", "d/sub/two": "d/sub/two"}),
        ("", {"In": "a"}, {"a": "a"}),
        ("", {"In": "/dev/null"}, {}),
        ("", {"In": "a", "TransferIn": False}, {}),
        (
            "",
            {"PublicInputFiles": "a", "TransferPlugins": "x=b;y = d/one"},
            {"a": "a", "b": "b", "one": "d/one"},
        ),
        ("a", {"Cmd": "exe", "TransferExecutable": True}, {"a": "a", "condor_exec.exe": "exe"}),
    ],
)
def test_inputs_are_those_of_htcondor_s_rules(
    home: Path, listed: str, more: dict[str, Any], expected: dict[str, str]
) -> None:
    found = names(home, TransferInput=listed, **more)
    assert {name: normal(path) for name, path in found.items()} == {
        name: normal(path) for name, path in expected.items()
    }


def normal(path: str | None) -> str | None:
    return path if path is None or "://" in path else os.path.normpath(path)


def test_an_absolute_name_lands_under_its_last_part(home: Path) -> None:
    assert names(home, TransferInput=f"{home}/d/one", PreserveRelativePaths=True) == {"one": "d/one"}


def test_files_keep_their_modes_and_what_is_to_run_gets_one(home: Path) -> None:
    (home / "a").chmod(0o640)
    needs = inputs.needed(
        Jobs(
            {"Iwd": str(home), **YES, "Cmd": "exe", "TransferExecutable": True, "TransferInput": "a, d"}, [{}]
        ),
        ["/"],
    )
    modes = {one.name: one.mode for one in needs.common}
    assert (modes["a"], modes["condor_exec.exe"], modes["d/sub/"]) == (0o640, 0o755, 0o750)


@pytest.mark.parametrize(
    ("ad", "problem"),
    [
        ({"TransferInput": "missing"}, MISSING),
        ({"In": "missing"}, MISSING),
        ({"TransferInput": "linked"}, "input 'linked' can't be transferred: reading from file {home}/linked"),
        ({"TransferInput": "../x", **KEEP}, "input '../x' can't be transferred: file ../x is outside"),
        ({"TransferInput": "https://h/"}, "input 'https://h/' has no file name"),
        ({"TransferInput": "a/"}, "input 'a/' can't be transferred: reading from file {home}/a/: (errno 20)"),
    ],
)
def test_an_input_that_cannot_be_kept_is_said_at_submit(home: Path, ad: dict[str, Any], problem: str) -> None:
    with pytest.raises(SubmitError) as caught:
        names(home, **ad)
    assert str(caught.value).startswith(problem.format(home=home))


@pytest.mark.parametrize(
    ("ad", "shared", "says", "kept"),
    [
        ({}, ["/"], None, 0),
        ({"ShouldTransferFiles": "NO"}, [], None, 0),
        ({"ShouldTransferFiles": "IF_NEEDED", "RemoteIwd": "/data"}, [], None, 0),
        ({"ShouldTransferFiles": "YES"}, ["/"], "sandbox", 1),
        ({"ShouldTransferFiles": "IF_NEEDED"}, ["/"], None, 0),
        ({"ShouldTransferFiles": "IF_NEEDED"}, [], "stored", 1),
        ({}, ["/elsewhere"], "stored", 1),
        ({}, ["{home}", "/data"], "shared:{home},/data", 0),
        ({"Iwd": "/var"}, ["{home}"], "stored", 1),
        ({}, ["{home}x"], "stored", 1),
        # a URL's file is under no directory
        ({"TransferInput": "https://h/f"}, ["/"], "sandbox", 1),
        ({"OutputDestination": "https://h/f"}, ["/"], "sandbox", 1),
        ({"TransferOutputRemaps": "a=b;c=https://h/f"}, ["/"], "sandbox", 1),
        # HTCondor 23 searches Iwd for a file of this name
        ({"ContainerImage": "docker://debian"}, ["/"], "sandbox", 1),
        ({"ContainerImage": "/images/x.sif"}, ["/"], None, 0),
    ],
)
def test_a_job_says_what_matching_has_to_know_of_its_files(
    home: Path, ad: dict[str, Any], shared: list[str], says: str | None, kept: int
) -> None:
    whole = {
        "Iwd": str(home),
        "Cmd": "/bin/true",
        "TransferExecutable": False,
        "TransferInput": f"{home}/a",
        **ad,
    }
    needs = inputs.needed(Jobs(whole, [{}]), [one.format(home=home) for one in shared])
    assert needs.jobs.common.get("FetchWorkFiles") == (None if says is None else says.format(home=home))
    assert len(needs.common) == kept


# Keys of buckets


def key_files(home: Path) -> dict[str, str]:
    (home / "id").write_text("AKID\n")
    (home / "secret").write_text(" of/alice+ ")
    return {"EC2AccessKeyId": "id", "EC2SecretAccessKey": str(home / "secret")}


@pytest.mark.parametrize(
    "ad",
    [
        {"TransferInput": "s3://b/k"},
        {"In": "gs://b/k"},
        {"OutputDestination": "S3://b/out"},
        {"TransferOutputRemaps": "a=b;c=s3://b/k"},
        {"Out": "s3://b/k"},
    ],
)
def test_the_key_of_a_job_s_urls_is_read_at_submit(home: Path, ad: dict[str, Any]) -> None:
    whole = {"Iwd": str(home), **YES, **key_files(home), **ad}
    needs = inputs.needed(Jobs(whole, [{}, {"Args": "2"}]), ["/"])
    assert needs.key == inputs.Key("AKID", "of/alice+")
    assert "of/alice" not in repr(needs)
    assert needs.jobs.common["FetchWorkFiles"] == "sandbox"


def test_a_key_that_no_url_needs_is_not_read(home: Path) -> None:
    ad = {"Iwd": str(home), **YES, "EC2AccessKeyId": "missing", "EC2SecretAccessKey": "missing"}
    assert inputs.needed(Jobs(ad | {"TransferInput": "https://h/a"}, [{}]), ["/"]).key is None


@pytest.mark.parametrize(
    ("more", "own", "problem"),
    [
        ({"EC2AccessKeyId": "none"}, {}, "cannot open key file '{home}/none': No such file"),
        ({"EC2SecretAccessKey": "words"}, {}, "key file '{home}/words' holds no key; allowed: one word"),
        ({"EC2SecretAccessKey": "empty"}, {}, "key file '{home}/empty' holds no key"),
        ({"EC2SecretAccessKey": "long"}, {}, "key file '{home}/long' holds no key"),
        ({"EC2SecretAccessKey": "d"}, {}, "cannot open key file '{home}/d': Is a directory"),
        ({"EC2SecretAccessKey": "d/pipe"}, {}, "key file '{home}/d/pipe' holds no key"),
        ({"EC2SecretAccessKey": ""}, {}, "is not complete; allowed: both aws_access_key_id_file and"),
        ({}, {"EC2AccessKeyId": "a"}, "jobs name several keys for their URLs"),
    ],
)
def test_a_key_that_can_t_be_used_is_said_at_submit(
    home: Path, more: dict[str, Any], own: dict[str, Any], problem: str
) -> None:
    (home / "words").write_text("two words")
    (home / "empty").write_text("\n")
    (home / "long").write_text("x" * 9000)
    ad = {"Iwd": str(home), **YES, **key_files(home), "TransferInput": "s3://b/k", **more}
    with pytest.raises(SubmitError) as caught:
        inputs.needed(Jobs(ad, [{}, own]), ["/"])
    assert problem.format(home=home) in str(caught.value)


def test_a_submitted_key_is_kept_and_shown_to_nobody(queue: Queue, home: Path) -> None:
    key_files(home)
    lines = (
        "transfer_input_files = s3://b/k",
        "aws_access_key_id_file = id",
        f"aws_secret_access_key_file = {home}/secret",
    )
    job = queue.submit(description(home, *lines, "aws_region = eu-west-1"), owner=ME)
    kept = queue.direct.rows("SELECT cluster_id, access_key_id, secret, session_token FROM fetchwork.job_key")
    assert kept == [(job.cluster(), "AKID", "of/alice+", None)]
    assert "of/alice" not in str(queue.query(f"ClusterId == {job.cluster()}"))
    assert "of/alice" not in str(job.clusterad())


@pytest.mark.parametrize(
    "ad",
    [
        {"TransferInput": "a"},
        {"In": "a"},
        {"TransferExecutable": True},
        {"TransferInput": "s3://b/k", "EC2AccessKeyId": "id", "EC2SecretAccessKey": "secret"},
    ],
)
def test_who_submits_for_others_reads_no_file_of_its_machine_for_them(home: Path, ad: dict[str, Any]) -> None:
    key_files(home)
    whole = {"Iwd": str(home), **YES, **ad}
    assert inputs.needed(Jobs(whole, [{}]), ["/"])
    with pytest.raises(SubmitError, match="can't be read here: it is of another machine"):
        inputs.needed(Jobs(whole, [{}]), ["/"], reads=False)
    assert inputs.needed(Jobs(whole | {"ShouldTransferFiles": "NO"}, [{}]), ["/"], reads=False).common == []


# Into the queue


def description(home: Path, *lines: str, queue: str = "queue") -> str:
    return "\n".join(
        [f"initialdir = {home}", f"executable = {home}/exe", "should_transfer_files = YES", *lines, queue, ""]
    )


WHOLE = "SELECT string_agg(data, '' ORDER BY n) FROM fetchwork.content_chunk WHERE content_id = %s"


def rows(slots: DirectQueue, cluster: int) -> dict[tuple[int, str], bytes | None]:
    """The stored files of a cluster: by proc and name, whole."""
    return {
        (proc, name): slots.value(
            "SELECT string_agg(data, '' ORDER BY n) FROM fetchwork.content_chunk WHERE content_id = %s",
            content,
        )
        for proc, name, content in slots.rows(
            "SELECT proc_id, name, content_id FROM fetchwork.job_file WHERE cluster_id = %s", cluster
        )
    }


def test_a_description_s_files_are_stored_with_it(queue: Queue, home: Path) -> None:
    large = os.urandom(2 * CHUNK_BYTES + 7)
    (home / "large").write_bytes(large)
    told: list[tuple[int, int]] = []
    result = queue.submit(
        description(
            home,
            "transfer_input_files = large, $(item), https://h/u",
            "input = a",
            queue="queue item in (b, d/one)",
        ),
        owner=ME,
        progress=lambda sent, total: told.append((sent, total)),
    )
    assert rows(queue.direct, result.cluster()) == {
        (-1, "large"): large,
        (-1, "condor_exec.exe"): b"#!/bin/sh\n",
        (-1, "a"): b"a",
        (-1, "u"): None,
        (0, "b"): b"b",
        (1, "one"): b"d/one",
    }
    assert queue.query(projection=["FetchWorkFiles"])[0]["FetchWorkFiles"] == "sandbox"
    total = len(large) + len("#!/bin/sh\n" + "a" + "b" + "d/one")
    assert told[-1] == (total, total)
    assert [sent for sent, _ in told] == sorted(sent for sent, _ in told)


def test_ten_thousand_jobs_with_one_input_store_and_read_it_once(
    queue: Queue, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    measure = stored._measure

    def watched(path: str) -> stored.Content:
        read.append(path)
        return measure(path)

    monkeypatch.setattr(stored, "_measure", watched)
    result = queue.submit(
        description(home, "transfer_input_files = a", "arguments = $(Process)", queue="queue 10000"), owner=ME
    )
    assert result.num_procs() == 10000
    assert sorted(read) == [str(home / "a"), str(home / "exe")]
    assert rows(queue.direct, result.cluster()) == {(-1, "a"): b"a", (-1, "condor_exec.exe"): b"#!/bin/sh\n"}
    queue.submit(description(home, "transfer_input_files = a"), owner=ME)
    assert queue.direct.value("SELECT count(*) FROM fetchwork.content") == 2


def test_a_job_that_says_nothing_stores_nothing(
    queue: Queue, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = f"initialdir = {home}\nexecutable = exe\ntransfer_input_files = a\nqueue\n"
    queue.submit(plain, owner=ME)
    assert queue.direct.value("SELECT count(*) FROM fetchwork.content") == 0
    assert queue.direct.value("SELECT count(*) FROM fetchwork.jobs WHERE ad ? 'FetchWorkFiles'") == 0
    monkeypatch.setenv(inputs.VARIABLE, "")
    monkeypatch.chdir(home)
    result = queue.submit(plain, owner=ME)
    assert rows(queue.direct, result.cluster()) == {(-1, "a"): b"a", (-1, "condor_exec.exe"): b"#!/bin/sh\n"}


def test_a_submission_that_is_refused_leaves_no_job_and_no_reservation(queue: Queue, home: Path) -> None:
    queue.direct.set("max_file_bytes", 5)
    with pytest.raises(DatabaseRefused, match="a file has 10 bytes; allowed: 5"):
        queue.submit(description(home, "transfer_input_files = a"), owner=ME)
    # no content was sent
    assert queue.direct.value("SELECT count(*) FROM fetchwork.content") == 0
    with pytest.raises(SubmitError, match="input 'missing' can't be transferred"):
        queue.submit(description(home, "transfer_input_files = missing"), owner=ME)
    assert queue.direct.value("SELECT count(*) FROM fetchwork.job") == 0
    assert queue.direct.value("SELECT count(*) FROM fetchwork.cluster_reservation") == 1


def test_a_repeated_key_sends_no_file_and_needs_none(queue: Queue, home: Path) -> None:
    first = queue.submit(description(home, "transfer_input_files = a"), owner=ME, key="k")
    (home / "a").unlink()
    assert (
        queue.submit(description(home, "transfer_input_files = a"), owner=ME, key="k").cluster()
        == first.cluster()
    )
    # without files it is the database that finds the key
    queue.submit({"Cmd": "/bin/true"}, owner=ME, key="bare")
    ads = [{"Cmd": "/bin/true"}] * 3
    assert queue.submit(ads, owner=ME, key="bare").num_procs() == 3
    assert queue.direct.value("SELECT count(*) FROM fetchwork.job") == 2
    # their ids are given back
    assert queue.direct.value("SELECT count(*) FROM fetchwork.cluster_reservation") == 0
    with pytest.raises(SubmitError, match="input 'a' can't be transferred"):
        queue.submit(description(home, "transfer_input_files = a"), owner=ME, key="another")


def test_a_file_that_changes_while_it_is_sent_is_noticed(
    queue: Queue, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in (10, CHUNK_BYTES + 10):
        (home / "a").write_bytes(os.urandom(size))
        send = stored.send

        def change(*arguments: Any, **more: Any) -> None:
            (home / "a").write_bytes(os.urandom(size))  # noqa: B023
            send(*arguments, **more)  # noqa: B023

        monkeypatch.setattr(stored, "send", change)
        with pytest.raises(SubmitError, match="a' changed while it was sent"):
            queue.submit(description(home, "transfer_input_files = a"), owner=ME)
        monkeypatch.setattr(stored, "send", send)
    assert queue.direct.value("SELECT count(*) FROM fetchwork.job") == 0


def test_a_content_that_goes_before_it_is_named_is_sent_again(
    queue: Queue, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = stored.send
    times = 0

    def lose(*arguments: Any, **more: Any) -> None:
        nonlocal times
        send(*arguments, **more)
        times += 1
        if times == 1:
            queue.direct.connection.execute("DELETE FROM fetchwork.content")

    monkeypatch.setattr(stored, "send", lose)
    result = queue.submit(description(home, "transfer_input_files = a"), owner=ME)
    assert (times, rows(queue.direct, result.cluster())[-1, "a"]) == (2, b"a")


def test_an_upload_that_was_killed_goes_on_where_it_was(
    queue: Queue, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = os.urandom(20 * CHUNK_BYTES)
    (home / "large").write_bytes(large)

    class Killed(Exception):
        pass

    def kill(sent: int, total: int) -> None:
        if sent > 10 * CHUNK_BYTES:
            raise Killed

    with pytest.raises(Killed):
        queue.submit(description(home, "transfer_input_files = large"), owner=ME, progress=kill)
    there = queue.direct.value(
        "SELECT count(*) FROM fetchwork.content_chunk WHERE octet_length(data) = %s", CHUNK_BYTES
    )
    assert 0 < there < 20
    read: list[int] = []
    chunks = stored.read_chunks

    def watched(path: str, numbers: Any) -> Any:
        read.extend(numbers if path.endswith("large") else [])
        return chunks(path, numbers)

    monkeypatch.setattr(stored.send, "__kwdefaults__", {"source": watched, "progress": None})
    result = queue.submit(description(home, "transfer_input_files = large"), owner=ME)
    assert read == list(range(there, 20))
    assert rows(queue.direct, result.cluster())[-1, "large"] == large


def test_the_command_submits_files_and_a_trial_sends_none(
    fetchwork: Callable[..., Any], slots: DirectQueue, home: Path
) -> None:
    file = home / "job.sub"
    file.write_text(description(home, "transfer_input_files = a, d"))
    trial = fetchwork("submit", "--dry-run", "--owner", ME, str(file))
    assert trial.status == 0, trial.err
    assert slots.value("SELECT count(*) FROM fetchwork.content") == 0
    told = fetchwork("submit", "--owner", ME, str(file))
    assert told.status == 0
    assert told.err.startswith("fetchwork: warning: no access point serves this host: 'fetchwork wait' or")
    assert len(rows(slots, 2)) == 6


def test_q_shows_which_way_files_are_moved_and_runs_how_many(
    fetchwork: Callable[..., Any], slots: DirectQueue
) -> None:
    slots.submit()
    run = slots.started()
    seen = []
    for phase in ("input", None, "output"):
        assert slots.of(run, "note_transfer", phase=phase, direction="input", bytes=7, seconds=0.5)
        line = fetchwork("q", "-nobatch").out.splitlines()
        seen.append(next(word for row in line if " 1.0 " in row for word in row.split() if word in "<>R"))
    assert seen == ["<", "R", ">"]
    (ad,) = json.loads(fetchwork("q", "-json").out)
    assert ad["TransferringOutput"] is True
    slots.finish(run)
    (ended,) = json.loads(fetchwork("runs", "1.0", "-json").out)
    assert (ended["TransferInputBytes"], ended["TransferInputSeconds"]) == (7, 0.5)


def test_a_job_whose_files_an_access_point_has_yet_to_bring_counts_as_running(
    fetchwork: Callable[..., Any], queue: Queue, home: Path
) -> None:
    (job,) = queue.direct.submit_many(
        [{}], {"Cmd": "/bin/true", "Owner": ME, "Iwd": str(home), "FetchWorkAccessPoint": "ap"}
    )
    run = queue.direct.started()
    assert queue.direct.of(run, "keep_outputs", manifest=Jsonb([{"name": "made/", "mode": 0o755}])) == "kept"
    assert queue.direct.finish(run) == "completed"
    lines = fetchwork("q", "-nobatch").out.splitlines()
    assert any(f" {job} " in line and " > " in line for line in lines)
    assert "1 running" in lines[-2]
    assert "1 running" in fetchwork("q").out
    assert "its access point has yet to deliver" in fetchwork("q", "--better-analyze", job).out
    for constraint in ("true", f'Owner == "{ME}"', 'regexp("a", "a")'):
        (summary,) = queue.query(constraint, opts=QueryOpts.SummaryOnly)
        assert summary["Running"] == 1
    assert queue.direct.scalar("drop_outputs", cluster=1, proc=0, run_id=run.run_id) is True
    assert queue.direct.status(job) == 4


@pytest.mark.parametrize(
    ("ad", "shared", "says"),
    [
        ({"Cmd": "/sw/$$(Arch)/prog"}, ["/"], None),
        ({"Cmd": "/sw/$$(Arch)/prog"}, ["/sw", "/home"], "shared:/sw,/home"),
        ({"Cmd": "/sw/$$(Arch)/prog"}, ["/home"], SubmitError),
        ({"Cmd": "/sw/$$(Arch)/prog", "ShouldTransferFiles": "YES"}, ["/"], SubmitError),
        ({"Cmd": "/bin/true", "In": "/home/in.$$(OpSys)", "ShouldTransferFiles": "YES"}, ["/"], SubmitError),
        ({"Cmd": "/bin/x", "TransferInput": "/home/a.$$(OpSys)"}, [], SubmitError),
        ({"Cmd": "/bin/x$$(Arch)", "ShouldTransferFiles": "NO"}, [], None),
    ],
)
def test_what_the_slot_decides_is_read_where_directories_are_shared(
    ad: dict[str, Any], shared: list[str], says: Any
) -> None:
    jobs = Jobs({"Iwd": "/home", **ad}, [{}])
    if says is SubmitError:
        with pytest.raises(SubmitError, match=r"files are stored at submit, and \$\$\(\.\.\.\) is known"):
            inputs.needed(jobs, shared)
    else:
        needs = inputs.needed(jobs, shared)
        assert (needs.jobs.common.get("FetchWorkFiles"), needs.files) == (says, False)


def test_an_administrator_names_a_bucket_and_large_inputs_go_there(
    fetchwork: Callable[..., Any], queue: Queue, home: Path
) -> None:
    key_files(home)
    large = os.urandom(PART_BYTES + 1)
    (home / "large").write_bytes(large)
    with serve_bucket() as bucket:
        (home / "id").write_text(ACCESS_KEY_ID)
        (home / "secret").write_text(SECRET)
        keys = ("--access-key-id-file", str(home / "id"), "--secret-access-key-file", str(home / "secret"))
        assert fetchwork("db", "bucket", bucket.url).status == 2
        assert fetchwork("db", "bucket", bucket.url, "--above", "1", *keys).status == 0
        cluster = queue.submit(description(home, "transfer_input_files = large, a"), owner=ME).cluster()
        assert sorted(map(len, bucket.objects.values())) == [1, PART_BYTES]
        assert rows(queue.direct, cluster)[-1, "large"] == b""
        assert rows(queue.direct, cluster)[-1, "a"] == b"a"
    shown = json.loads(fetchwork("db", "bucket", "none", "--json").out)
    expected = {"url": bucket.url, "used": False, "above": 1 << 20, "contents": 1, "bytes": len(large)}
    assert shown == [{**expected, "objects_over": 0}]
    assert SECRET not in fetchwork("db", "bucket").out
