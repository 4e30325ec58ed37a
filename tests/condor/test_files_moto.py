"""Buckets of moto, a stand-in by other authors for a server of S3: the requests that a real one would get.

moto requires that a URL is signed, but checks no signature: tests/sql/test_urls.py checks it by AWS' examples
and by botocore, and tests/support/buckets.py refuses a wrong one.
"""

import dataclasses
import hashlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import botocore.session
import pytest
from botocore.config import Config

from fetchwork import cli
from fetchwork.db.calls import files
from fetchwork.pool import PersonalPool
from fetchwork.pool.cache import cached
from fetchwork.pool.ports import free_port
from fetchwork.queue.outputs import retrieving
from fetchwork.queue.submitting import contents
from tests.condor.certificates import make_certificate

# the same pool
from tests.condor.file_jobs import FileJobs
from tests.support.by_name import scalar
from tests.support.waiting import until

pytestmark = pytest.mark.all

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
KEY = ("AKID", "of/alice+")
PART = 8 << 20


class Moto:
    """A running server: the beginning of its URLs, and its bucket."""

    def __init__(self, url: str, home: Path, bucket: str) -> None:
        self.url = url
        self.bucket = bucket
        self.client = botocore.session.get_session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=url,
            aws_access_key_id=KEY[0],
            aws_secret_access_key=KEY[1],
            verify=str(home / "cert.pem"),
            config=Config(s3={"addressing_style": "path"}),
        )
        self.client.create_bucket(Bucket=bucket)

    def listed(self, prefix: str = "") -> dict[str, int]:
        """The objects and their sizes, as S3 lists them."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return {one["Key"]: one["Size"] for page in pages for one in page.get("Contents", [])}

    def put(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def get(self, key: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return data


@pytest.fixture(scope="module")
def packages() -> Path:
    """The optional dependencies "moto", installed apart from ours: they need versions of their own."""
    wanted = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]["moto"]

    def made(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, "--target", directory, *wanted], check=True, timeout=600)

    digest = hashlib.sha256("\n".join([*wanted, sys.version]).encode()).hexdigest()[:8]
    try:
        return cached(f"moto-{digest}", made)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no moto from PyPI: {error}")


@pytest.fixture(scope="module")
def start(
    packages: Path,
    file_pool: PersonalPool,
    public_directory: Callable[[], Path],
) -> Iterator[Callable[[str, str], Moto]]:
    """Starts servers of "http" or "https", with a bucket."""
    running: list[subprocess.Popen[bytes]] = []

    def started(scheme: str, bucket: str) -> Moto:
        home, port = public_directory(), free_port()
        words = ["-H", "127.0.0.1", "-p", str(port)]
        if scheme == "https":
            make_certificate(file_pool, home)
            words += ["-c", str(home / "cert.pem"), "-k", str(home / "key.pem")]
        # no test changes the cache
        environment = {"PATH": os.defpath, "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
        with (home / "log").open("wb") as log:
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "moto.server", *words], env=environment, stdout=log, stderr=log
                )
            )
        url = f"{scheme}://127.0.0.1:{port}"

        def answers() -> bool:
            assert running[-1].poll() is None, (home / "log").read_text()
            try:
                urlopen(f"{url}/moto-api/").close()
            except URLError as error:
                return "refused" not in str(error)
            return True

        until(answers, "moto")
        return Moto(url, home, bucket)

    yield started
    for server in running:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="module")
def plain(start: Callable[[str, str], Moto]) -> Moto:
    return start("http", "files")


@pytest.fixture(scope="module")
def tls(start: Callable[[str, str], Moto]) -> Moto:
    return start("https", "of-alice")


def test_large_files_travel_by_the_bucket_that_an_administrator_names(
    jobs: FileJobs,
    plain: Moto,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FETCHWORK_DSN", jobs.pool.conninfo)
    for name, word in zip(("id", "secret"), KEY, strict=True):
        (tmp_path / name).write_text(word)
    keys = [
        "--access-key-id-file",
        str(tmp_path / "id"),
        "--secret-access-key-file",
        str(tmp_path / "secret"),
    ]
    assert cli.run(["db", "bucket", f"{plain.url}/files/of fetchwork", "--above", "1", *keys]) == 0
    data = os.urandom(2 * PART + 5)
    (tmp_path / "large").write_bytes(data)
    try:
        contents.send(jobs.database, "alice", contents.measured([str(tmp_path / "large")]), len(data))
        sizes = [PART, PART, 5]
        assert sorted(plain.listed("of fetchwork/").values()) == sorted(sizes)
        job = jobs.submit("cat large > left; echo more >> left; sha256sum < large", {"large": data})
        jobs.completed(job)
        assert sorted(plain.listed().values()) == sorted([*sizes, PART, PART, 10])
        (left,) = jobs.database.run(files.job_outputs(jobs=[job]))
        left = dataclasses.replace(left, ad={**left.ad, "Iwd": str(tmp_path)})
        retrieving.bring_outputs(jobs.database, left)
        assert (tmp_path / "left").read_bytes() == data + b"more\n"
        assert (tmp_path / "out").read_bytes().split()[0] == hashlib.sha256(data).hexdigest().encode()
        # no object is served without a signature
        with pytest.raises(HTTPError, match="403"):
            urlopen(f"{plain.url}/files/{next(iter(plain.listed())).replace(' ', '%20')}").close()
        jobs.database.run(files.drop_outputs(cluster=left.cluster_id, proc=left.proc_id, run_id=left.run_id))
        long_ago = "UPDATE fetchwork.object_over SET over_at = over_at - interval '21 minutes'"
        now = "DELETE FROM fetchwork.leader_task WHERE name = 'objects'"

        def gone() -> bool:
            jobs.database.query(long_ago)
            jobs.database.query(now)
            return not plain.listed()

        until(gone, "the end of the objects, which an agent deletes", 0.5)
    finally:
        scalar(jobs.database, "set_bucket", url=None)


def test_objects_of_a_user_s_bucket_come_and_go(jobs: FileJobs, tls: Moto) -> None:
    beginning = f"s3://{tls.url.removeprefix('https://')}/{tls.bucket}"
    data = os.urandom(3 << 20)
    tls.put("an object", data)
    tls.put("d/é+&=.txt", b"odd")
    job = jobs.submit(
        "cat 'an object' > new; mkdir d; cat é*.txt > d/odd; echo out",
        {"an object": f"{beginning}/an object", "é+&=.txt": f"{beginning}/d/é+&=.txt"},
        key=KEY,
        EC2AccessKeyId="/home/alice/id",
        TransferOutput="new, d",
        OutputDestination=f"{beginning}/results/1",
    )
    jobs.completed(job)
    assert tls.listed("results/") == {"results/1/new": len(data), "results/1/d/odd": 3}
    assert (tls.get("results/1/new"), tls.get("results/1/d/odd")) == (data, b"odd")
    job = jobs.submit(
        "echo kept > kept; echo sent > sent",
        key=KEY,
        EC2AccessKeyId="/home/alice/id",
        TransferOutputRemaps=f"sent={beginning}/remapped",
    )
    jobs.completed(job)
    assert tls.get("remapped") == b"sent\n"
    assert "kept" in jobs.outputs(job)


def test_what_moto_does_not_have_holds_the_job(jobs: FileJobs, tls: Moto) -> None:
    server = f"s3://{tls.url.removeprefix('https://')}"
    for url in (f"{server}/{tls.bucket}/none", f"{server}/no-such-bucket/none"):
        held = jobs.held(
            jobs.submit(f"true # {url}", {"none": url}, key=KEY, EC2AccessKeyId="/home/alice/id")
        )
        assert held["holdreasoncode"] == 13
        assert f"404 ( URL file = {url} )" in held["holdreason"]
        assert "X-Amz" not in held["holdreason"]


def test_a_checkpoint_is_listed_in_the_bucket_and_comes_from_there(jobs: FileJobs, tls: Moto) -> None:
    outputs = jobs.run(
        "if [ -f state ]; then cat state; exit 0; fi; echo saved > state; exit 85",
        key=KEY,
        EC2AccessKeyId="/home/alice/id",
        WantFTOnCheckpoint=True,
        SuccessCheckpointExitCode=85,
        TransferCheckpoint="state",
        CheckpointDestination=f"s3://{tls.url.removeprefix('https://')}/{tls.bucket}/checkpoints",
    )
    assert outputs["_condor_stdout"] == b"saved\n"
    saved = {key.split("/", 2)[2]: size for key, size in tls.listed("checkpoints/").items()}
    assert saved == {"0000/state": 6, "0000/_condor_stdout": 0, "0000/_condor_stderr": 0}
