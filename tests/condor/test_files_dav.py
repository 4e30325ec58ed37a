"""URLs of a real web server with DAV, by HTCondor's curl_plugin: with and without TLS and a password."""

import dataclasses
import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from fetchwork.db.calls import files as file_calls
from fetchwork.pool import PersonalPool
from fetchwork.pool.cache import cached
from fetchwork.pool.ports import free_port
from fetchwork.queue.outputs import retrieving
from fetchwork.queue.submitting import contents
from tests.condor.certificates import make_certificate
from tests.condor.checkpoint_jobs import Waiting, lines

# the same pool
from tests.condor.file_jobs import FileJobs
from tests.support.buckets import KEY
from tests.support.by_name import scalar
from tests.support.waiting import until

PASSWORD = "of-alice"
CONF = """
daemon off;
pid {home}/pid;
error_log {home}/error.log;
user root;
events {{}}
http {{
    access_log {home}/access.log;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    client_max_body_size 0;
    server {{
        listen 127.0.0.1:{plain};
        listen 127.0.0.1:{tls} ssl;
        ssl_certificate {home}/cert.pem;
        ssl_certificate_key {home}/key.pem;
        root {home}/root;
        dav_methods PUT DELETE;
        create_full_put_path on;
        location /closed/ {{
            auth_basic closed;
            auth_basic_user_file {home}/passwords;
        }}
    }}
}}
"""


class Nginx:
    """A server: its files, and the beginnings of its URLs by kind."""

    def __init__(self, home: Path, plain: int, tls: int) -> None:
        self.root = home / "root"
        self.log = home / "access.log"
        user = f"alice:{PASSWORD}@"
        self.urls = {
            "plain": f"http://127.0.0.1:{plain}/open",
            "tls": f"https://127.0.0.1:{tls}/open",
            "password": f"http://{user}127.0.0.1:{plain}/closed",
            "tls and password": f"https://{user}127.0.0.1:{tls}/closed",
            "no password": f"http://127.0.0.1:{plain}/closed",
        }


def _unpacked(directory: Path) -> None:
    # without installing a service on this machine
    subprocess.run(["apt-get", "-q", "download", "nginx"], cwd=directory, check=True, capture_output=True)
    (package,) = directory.glob("*.deb")
    subprocess.run(["dpkg", "-x", package, directory], check=True)


@pytest.fixture(scope="module")
def nginx(
    file_pool: PersonalPool,
    public_directory: Callable[[], Path],
) -> Iterator[Nginx]:
    """Debian's nginx with its DAV module, which the pool's hosts trust."""
    try:
        program = cached("nginx", _unpacked) / "usr/sbin/nginx"
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no nginx from Debian: {error}")
    home = public_directory()
    plain, tls = free_port(), free_port()
    for name in ("open", "closed"):
        (home / "root" / name).mkdir(parents=True)
    make_certificate(file_pool, home)
    (home / "passwords").write_text(f"alice:{{PLAIN}}{PASSWORD}\n")
    (home / "conf").write_text(CONF.format(home=home, plain=plain, tls=tls))
    server = subprocess.Popen([program, "-p", home, "-e", home / "error.log", "-c", home / "conf"])

    def answers() -> bool:
        try:
            urlopen(f"http://127.0.0.1:{plain}/").close()
        except URLError as error:
            return hasattr(error, "code")
        return True

    until(answers, "nginx")
    yield Nginx(home, plain, tls)
    server.terminate()
    server.wait(30)


@pytest.mark.parametrize("way", ["plain", "tls", "password", "tls and password"])
def test_inputs_and_outputs_by_dav(jobs: FileJobs, nginx: Nginx, way: str) -> None:
    url = nginx.urls[way]
    folder = nginx.root / url.rpartition("/")[2]
    (folder / "in").write_bytes(b"from nginx\n")
    job = jobs.submit(
        f"mkdir d; cp in d/copy; echo r > new # {way}",
        {"in": f"{url}/in"},
        TransferOutput="d, new",
        OutputDestination=f"{url}/{way.replace(' ', '-')}",
    )
    jobs.completed(job)
    there = folder / way.replace(" ", "-")
    assert (there / "d/copy").read_bytes() == b"from nginx\n"
    assert (there / "new").read_bytes() == b"r\n"
    # the log line follows the answer
    until(lambda: f"PUT /{folder.name}/{there.name}/new HTTP/1.1" in nginx.log.read_text(), "nginx's line")


def test_objects_of_a_bucket_come_and_go_by_presigned_urls(jobs: FileJobs, nginx: Nginx) -> None:
    # nginx takes every signature; tests/sql/test_urls.py tests the right ones
    bucket = nginx.urls["tls"].replace("https:", "s3:")
    (nginx.root / "open/an object").write_bytes(b"from the bucket\n")
    job = jobs.submit(
        "cat 'an object' > new; env > seen; cat .job.ad .fetchwork.files >> seen",
        {"an object": f"{bucket}/an object"},
        key=("AKID", "of/alice+"),
        EC2AccessKeyId="/home/alice/id",
        TransferOutput="new, seen",
        OutputDestination=f"{bucket}/signed",
    )
    jobs.completed(job)
    there = nginx.root / "open/signed"
    assert (there / "new").read_bytes() == b"from the bucket\n"
    # the job sees nothing of the key
    assert b"of/alice" not in (there / "seen").read_bytes()
    assert b"AKID" not in (there / "seen").read_bytes()
    for asked in ("GET /open/an%20object", "PUT /open/signed/new"):
        line = f'"{asked}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F'
        until(lambda line=line: line in nginx.log.read_text(), f"nginx's line: {line}")  # type: ignore[misc]


def test_checkpoints_go_to_a_bucket_by_presigned_urls_and_come_from_there(
    jobs: FileJobs,
    nginx: Nginx,
) -> None:
    waiting = Waiting(
        jobs,
        "bucket",
        "echo 2 > state; echo later",
        key=("AKID", "of/alice+"),
        EC2AccessKeyId="/home/alice/id",
        TransferCheckpoint="state, d",
        CheckpointDestination=nginx.urls["tls"].replace("https:", "s3:") + "/saved",
    )
    (first,) = (nginx.root / "open/saved").glob("*/0000")
    found = {str(path.relative_to(first)): path.read_bytes() for path in first.rglob("*") if path.is_file()}
    assert found == {"state": b"1\n", "d/in": b"deep\n", "_condor_stdout": b"first\n", "_condor_stderr": b""}
    scalar(jobs.database, "vacate", jobs=[waiting.job])
    waiting.until_running()
    waiting.go.touch()
    jobs.completed(waiting.job)
    assert lines(jobs.outputs(waiting.job)) == ["first", "again with 1", "later"]
    for method in ("PUT", "GET"):
        line = f"{method} /open/saved/{first.parent.name}/0000/state?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        until(lambda line=line: line in nginx.log.read_text(), f"nginx's line: {line}")  # type: ignore[misc]


@pytest.mark.all
def test_an_object_that_is_not_there_holds_the_job_and_shows_no_signature(
    jobs: FileJobs,
    nginx: Nginx,
) -> None:
    bucket = nginx.urls["tls"].replace("https:", "s3:")
    key: dict[str, Any] = {"key": ("AKID", "of/alice+"), "EC2AccessKeyId": "/home/alice/id"}
    held = jobs.held(jobs.submit("true # none", {"missing": f"{bucket}/missing"}, **key))
    assert held["holdreasoncode"] == 13
    told = f"The requested URL returned error: 404 ( URL file = {bucket}/missing )"
    assert f"using protocol s3. Details: {told}" in held["holdreason"]
    assert "X-Amz" not in held["holdreason"]
    closed = bucket.replace("/open", "/closed")
    held = jobs.held(jobs.submit("echo r > new", TransferOutputRemaps=f"new={closed}/new", **key))
    assert held["holdreasoncode"] == 12
    assert "X-Amz" not in held["holdreason"]


def test_large_files_travel_by_a_bucket_and_the_database_has_their_names(
    jobs: FileJobs,
    nginx: Nginx,
    tmp_path: Path,
) -> None:
    scalar(jobs.database, "set_bucket", url=f"{nginx.urls['plain']}/files", above=1 << 20, **KEY)
    data = os.urandom(9 << 20)
    (tmp_path / "large").write_bytes(data)
    measured = contents.measured([str(tmp_path / "large")])
    try:
        contents.send(jobs.database, "alice", measured, len(data))
        job = jobs.submit("cat large large > left; sha256sum < large", {"large": data})
        jobs.completed(job)
        files = nginx.root / "open/files"
        assert sorted(path.stat().st_size for path in files.glob("*/*")) == sorted(
            # in parts of 8 MiB
            [8 << 20, 1 << 20, 8 << 20, 8 << 20, 2 << 20]
        )
        in_rows = jobs.one(
            "SELECT max(octet_length(k.data)) AS bytes FROM fetchwork.content_chunk AS k"
            # other tests of the pool had no bucket
            " JOIN fetchwork.content AS c USING (content_id) WHERE c.size >= 9 * 1048576"
        )
        assert in_rows == {"bytes": 0}
        (left,) = jobs.database.run(file_calls.job_outputs(jobs=[job]))
        left = dataclasses.replace(left, ad={**left.ad, "Iwd": str(tmp_path)})
        retrieving.bring_outputs(jobs.database, left)
        assert (tmp_path / "left").read_bytes() == data + data
        assert (tmp_path / "out").read_bytes().split()[0] == hashlib.sha256(data).hexdigest().encode()
        jobs.database.run(
            file_calls.drop_outputs(cluster=left.cluster_id, proc=left.proc_id, run_id=left.run_id)
        )
        # the input's objects follow when its job is forgotten
        long_ago = "UPDATE fetchwork.object_over SET over_at = over_at - interval '21 minutes'"
        now = "DELETE FROM fetchwork.leader_task WHERE name = 'objects'"

        def gone() -> bool:
            jobs.database.query(long_ago)
            jobs.database.query(now)
            return not list(files.glob("*/*"))

        until(gone, "the end of the objects, which an agent deletes", 0.5)
    finally:
        scalar(jobs.database, "set_bucket", url=None)


def test_a_password_that_is_lacking_holds_the_job(jobs: FileJobs, nginx: Nginx) -> None:
    (nginx.root / "closed/in").write_bytes(b"closed")
    held = jobs.held(jobs.submit("true # refused", {"in": f"{nginx.urls['no password']}/in"}))
    assert held["holdreasoncode"] == 13
    assert "The requested URL returned error: 401" in held["holdreason"]
    job = jobs.submit("echo r > new", TransferOutputRemaps=f"new={nginx.urls['no password']}/new")
    held = jobs.held(job)
    assert held["holdreasoncode"] == 12
    assert "The requested URL returned error: 401" in held["holdreason"]
    assert not (nginx.root / "closed/new").exists()


def test_a_server_whose_certificate_nobody_signed_is_not_trusted(
    jobs: FileJobs,
    nginx: Nginx,
) -> None:
    # the certificate is that of an address, not of a name
    url = nginx.urls["tls"].replace("127.0.0.1", "localhost")
    (nginx.root / "open/in").write_bytes(b"open")
    held = jobs.held(jobs.submit("true # untrusted", {"in": f"{url}/in"}))
    assert held["holdreasoncode"] == 13
    assert "certificate" in held["holdreason"].lower()
