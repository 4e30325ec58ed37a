"""Presigned URLs: signed as AWS requires, only for the key's own jobs, and deleted with the key."""

import datetime
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from psycopg.types.json import Jsonb

from tests.sql.contents import FILES, refused
from tests.support.direct_queue import EXITED, Claimed, DirectQueue

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
KEY = {"access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret": SECRET}
AT = datetime.datetime(2013, 5, 24, tzinfo=datetime.UTC)


def signed(queue: DirectQueue, method: str, origin: str, path: str, **more: Any) -> str:
    given = {"region": "us-east-1", **KEY, "at": AT, **more}
    return str(queue.scalar("presigned_url", method=method, origin=origin, path=path, **given))


# The signature


@pytest.mark.parametrize(
    ("key", "message", "expected"),
    [  # RFC 4231, cases 1, 2 and 6
        (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            b"\xaa" * 131,
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
    ],
)
def test_hmac_is_that_of_the_rfc(queue: DirectQueue, key: bytes, message: bytes, expected: str) -> None:
    assert queue.scalar("hmac_sha256", key=key, said=message).hex() == expected


def test_the_signature_of_aws_example_comes_out(queue: DirectQueue) -> None:
    # docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
    url = signed(queue, "GET", "https://examplebucket.s3.amazonaws.com", "/test.txt", lifetime_s=86400)
    assert url == (
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )


@pytest.mark.parametrize(
    "key", ["a", "d/e/f.dat", "blank and +plus&=?#%", "ümläut/€/日本", "~-._/A9", "a//b/"]
)
@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("GET", {}),
        ("PUT", {"region": "eu-west-1"}),
        ("PUT", {"length": 5}),
        ("GET", {"session_token": "a+/b="}),
    ],
)
def test_it_signs_as_amazons_own_library(
    queue: DirectQueue, monkeypatch: pytest.MonkeyPatch, key: str, method: str, more: dict[str, Any]
) -> None:
    path = "/" + str(queue.scalar("uri_encoded", value=key, slashes=True))
    ours = signed(queue, method, "https://h.example:8443", path, **more)
    monkeypatch.setattr(
        "botocore.auth.get_current_datetime", lambda remove_tzinfo=True: AT.replace(tzinfo=None)
    )
    headers = {"Content-Length": str(more["length"])} if "length" in more else {}
    request = AWSRequest(method, f"https://h.example:8443{path}", headers=headers)
    credentials = Credentials(KEY["access_key_id"], SECRET, more.get("session_token"))
    S3SigV4QueryAuth(credentials, "s3", more.get("region", "us-east-1"), expires=3600).add_auth(request)
    # the library does not fix the order of the query's parameters
    assert sorted(ours.partition("?")[2].split("&")) == sorted(request.url.partition("?")[2].split("&"))
    assert ours.partition("?")[0] == request.url.partition("?")[0]


@pytest.mark.parametrize(
    ("url", "region", "expected"),
    [
        ("s3://b/k/l", None, ("https://b.s3.amazonaws.com", "/k/l", "us-east-1")),
        ("s3://b/k", "eu-west-1", ("https://b.s3.eu-west-1.amazonaws.com", "/k", "eu-west-1")),
        ("S3://b/k", "", ("https://b.s3.amazonaws.com", "/k", "us-east-1")),
        ("s3://Old_One/k", None, ("https://s3.amazonaws.com", "/Old_One/k", "us-east-1")),
        (
            "s3://b.c.s3.us-west-2.amazonaws.com/k",
            "x",
            ("https://b.c.s3.us-west-2.amazonaws.com", "/k", "us-west-2"),
        ),
        ("s3://127.0.0.1:9000/b/k k", "r", ("https://127.0.0.1:9000", "/b/k%20k", "r")),
        ("gs://b/k", None, ("https://storage.googleapis.com", "/b/k", "us-east-1")),
    ],
)
def test_a_url_is_read_by_htcondors_rules(
    queue: DirectQueue, url: str, region: str | None, expected: tuple[str, str, str]
) -> None:
    (found,) = queue.call("object_of_url", url=url, in_region=region)
    assert tuple(found.values()) == expected


@pytest.mark.parametrize(
    "url",
    [
        "s3://b",
        "s3://b/",
        "s3:///k",
        "s3://u@h.example/b/k",
        "s3://h.example:x/b/k",
        "s3://ec2.amazonaws.com/k",
    ],
)
def test_a_url_of_no_object_is_refused(queue: DirectQueue, url: str) -> None:
    state, _ = refused(queue, "object_of_url", url=url, in_region=None)
    assert state == "FWINV"


# The rights to a URL


def submit(queue: DirectQueue, *files: dict[str, Any], key: Mapping[str, str] | None = KEY, **ad: Any) -> str:
    """A job with a key, and files."""
    with queue.connection.transaction():
        (job,) = queue.submit_many([{}], {"Cmd": "/bin/true", "Owner": "alice", "Iwd": "/tmp", **FILES, **ad})
        cluster = int(job.split(".")[0])
        queue.call("add_job_files", cluster=cluster, files=Jsonb(list(files)))
        if key is not None:
            queue.call("add_job_key", cluster=cluster, **key)
    return job


def plan(queue: DirectQueue, run: Claimed) -> dict[str, dict[str, Any]]:
    (row,) = queue.call("run_files", run_id=run.run_id, token=run.token)
    return {file["name"]: file for file in row["files"]}


def test_inputs_come_presigned_and_say_what_they_are(queue: DirectQueue) -> None:
    plain = {"name": "p", "url": "https://h/p"}
    submit(
        queue,
        {"name": "k", "url": "s3://b/d/k"},
        {"name": "g", "url": "gs://b/g"},
        plain,
        AWSRegion="eu-west-1",
    )
    files = plan(queue, queue.started())
    assert files["k"]["shown"] == "s3://b/d/k"
    assert files["k"]["url"].startswith("https://b.s3.eu-west-1.amazonaws.com/d/k?X-Amz-Algorithm=")
    assert "X-Amz-Expires=3600&" in files["k"]["url"]
    assert files["g"]["url"].startswith("https://storage.googleapis.com/b/g?")
    assert (files["p"]["url"], "shown" in files["p"]) == ("https://h/p", False)
    assert SECRET not in str(files)


def test_without_a_key_a_url_is_for_a_plugin(queue: DirectQueue) -> None:
    submit(queue, {"name": "k", "url": "s3://b/k"}, key=None)
    files = plan(queue, queue.started())
    assert (files["k"]["url"], "shown" in files["k"]) == ("s3://b/k", False)


def test_a_checkpoint_s_urls_are_signed_below_the_job_s_own_destination_only(queue: DirectQueue) -> None:
    submit(queue, CheckpointDestination="s3://b/saved")
    run = queue.started()
    urls = {"own": "s3://b/saved/id/0000/own", "other": "s3://b/other", "up": "s3://b/saved/../other"}
    manifest = [{"name": name, "mode": 420, "size": 1, "url": url} for name, url in urls.items()]
    assert queue.of(run, "keep_outputs", manifest=Jsonb(manifest), spool=True, checkpoint=0) == "kept"
    assert queue.finish(run, "evict", **EXITED, ExitCode=0) == "evicted"
    files = plan(queue, queue.started())
    assert "X-Amz-Signature=" in files["own"]["url"]
    assert (files["other"]["url"], files["up"]["url"]) == (urls["other"], urls["up"])


AD: dict[str, Any] = {
    "OutputDestination": "s3://b/out/",
    "TransferOutputRemaps": r"x = s3://b/dir/x ;a\=b=s3://c/semi\;colon; d=local/d ; e=gs://g/e",
    "Out": "s3://b/stdout",
}


@pytest.mark.parametrize(
    "url",
    [
        "s3://b/out/r",
        "s3://b/out/d/r",
        "s3://b/dir/x",
        "s3://b/dir/x/inner",
        "s3://c/semi;colon",
        "gs://g/e",
        "s3://b/stdout",
    ],
)
def test_a_key_signs_the_outputs_that_the_ad_names(queue: DirectQueue, url: str) -> None:
    submit(queue, **AD)
    run = queue.started()
    signed_url = queue.of(run, "output_url", url=url)
    assert "X-Amz-Signature=" in signed_url
    assert SECRET not in signed_url


@pytest.mark.parametrize(
    "url",
    [
        "s3://b/other", "s3://b/out", "s3://b/outer/r", "s3://b/dir", "s3://b/dir/", "s3://b/stdout2",
        "s3://other/out/r", "s3://b/out/../r", "s3://b/out/./r", "s3://b/out/..", "https://b/out/r",
        "s3://c/semi", "local/d", "d", "", "s3://b.s3.eu-west-1.amazonaws.com/out/r", "S3://b/dir/x",
    ],
)  # fmt: skip
def test_and_nothing_else_for_its_job(queue: DirectQueue, url: str) -> None:
    submit(queue, **AD)
    run = queue.started()
    if url == "s3://b/out":
        # a URL of the ad; a directory's own name is an object's
        assert queue.of(run, "output_url", url=url)
        return
    state, message = refused(queue, "output_url", run_id=run.run_id, token=run.token, url=url)
    assert (state, "is of no output of run" in message) == ("FWDEN", True)


def test_another_runs_token_gets_no_url(queue: DirectQueue) -> None:
    submit(queue, **AD)
    run = queue.started()
    token = "00000000-0000-4000-8000-000000000000"
    state, _ = refused(queue, "output_url", run_id=run.run_id, token=token, url="s3://b/dir/x")
    assert state == "FWTOK"


def test_a_job_without_a_key_gets_no_url(queue: DirectQueue) -> None:
    submit(queue, key=None, **AD)
    run = queue.started()
    state, message = refused(queue, "output_url", run_id=run.run_id, token=run.token, url="s3://b/dir/x")
    assert (state, "has no key" in message) == ("FWNOT", True)


# The key


@pytest.mark.parametrize("word", ["", "two words", "line\n", "ü", "x" * 257])
@pytest.mark.parametrize("name", ["access_key_id", "secret"])
def test_what_is_no_key_is_refused(queue: DirectQueue, name: str, word: str) -> None:
    with queue.connection.transaction():
        (job,) = queue.submit_many([{}], {"Cmd": "/bin/true", "Owner": "alice"})
        with pytest.raises(Exception, match="no key of a bucket"), queue.connection.transaction():
            queue.call("add_job_key", cluster=int(job.split(".")[0]), **(KEY | {name: word}))


def test_a_key_is_added_where_the_cluster_is_made_only(queue: DirectQueue) -> None:
    job = submit(queue)
    state, _ = refused(queue, "add_job_key", cluster=int(job.split(".")[0]), **KEY)
    assert state == "FWINV"


def test_a_cluster_has_one_key(queue: DirectQueue) -> None:
    with queue.connection.transaction():
        (job,) = queue.submit_many([{}], {"Cmd": "/bin/true", "Owner": "alice"})
        cluster = int(job.split(".")[0])
        queue.call("add_job_key", cluster=cluster, **KEY)
        state, message = refused(queue, "add_job_key", cluster=cluster, **KEY)
        assert (state, message) == ("FWINV", f"cluster {cluster} has a key; allowed: one for all of its jobs")


def test_a_key_goes_with_the_last_job_of_its_cluster(queue: DirectQueue) -> None:
    with queue.connection.transaction():
        first, _ = queue.submit_many(
            [{}] * 2, {"Cmd": "/bin/true", "Owner": "alice", **FILES, "OutputDestination": "s3://b/out"}
        )
        queue.call("add_job_key", cluster=int(first.split(".")[0]), **KEY)

    def keys() -> int:
        queue.scalar("drop_files")
        return int(queue.value("SELECT count(*) FROM fetchwork.job_key"))

    assert queue.act("hold", first) == 1
    assert keys() == 1
    assert queue.act("remove", first) == 1
    assert keys() == 1
    run = queue.started()
    queue.finish(run)
    assert keys() == 0
