"""A stand-in for a server of buckets: it has objects in memory, and refuses requests without AWS' signature.

botocore, Amazon's own library, computes the expected signature of a request.
"""

import datetime
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ACCESS_KEY_ID, SECRET = "AKID", "of/buckets+"
KEY = {"access_key_id": ACCESS_KEY_ID, "secret": SECRET}


class Bucket:
    """The objects by their paths, and the requests: method, path, status."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/bucket/of fetchwork"
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, int]] = []
        #: the status of every answer, if it is not 0
        self.broken = 0
        #: paths of objects that cannot be deleted
        self.locked: set[str] = set()

    def count(self, method: str, status: int | None = None) -> int:
        return sum(one[0] == method and status in (None, one[2]) for one in self.asked)


class _Handler(http.server.BaseHTTPRequestHandler):
    bucket: ClassVar[Bucket]

    def _signed(self) -> bool:
        split = urlsplit(self.path)
        given = {name: values[0] for name, values in parse_qs(split.query).items()}
        at = datetime.datetime.strptime(given["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
        life = datetime.timedelta(seconds=int(given["X-Amz-Expires"]))
        region = given["X-Amz-Credential"].split("/")[2]
        headers = {}
        if "content-length" in given["X-Amz-SignedHeaders"]:
            headers["Content-Length"] = self.headers.get("Content-Length") or "0"
        elif self.command == "PUT":
            return False
        request = AWSRequest(self.command, f"http://{self.headers['Host']}{split.path}", headers=headers)
        auth = S3SigV4QueryAuth(
            Credentials(ACCESS_KEY_ID, SECRET), "s3", region, expires=int(given["X-Amz-Expires"])
        )
        now = at.replace(tzinfo=None)
        with mock.patch("botocore.auth.get_current_datetime", return_value=now):
            auth.add_auth(request)
        expected = parse_qs(urlsplit(request.url).query)["X-Amz-Signature"][0]
        return expected == given["X-Amz-Signature"] and at <= datetime.datetime.now(datetime.UTC) <= at + life

    def _answer(self, status: int, data: bytes = b"") -> None:
        self.bucket.asked.append((self.command, urlsplit(self.path).path, status))
        self.send_response(status)
        if status // 100 == 3:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _do(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, objects = urlsplit(self.path).path, self.bucket.objects
        if self.bucket.broken:
            self._answer(self.bucket.broken)
        elif not self._signed():
            self._answer(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        elif self.command == "PUT":
            objects[path] = sent
            self._answer(200)
        elif self.command == "DELETE" and path in self.bucket.locked:
            self._answer(403)
        elif self.command == "DELETE":
            objects.pop(path, None)
            self._answer(204)
        elif path not in objects:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif "Range" not in self.headers:
            self._answer(200, objects[path])
        else:
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            self._answer(206, objects[path][first : last + 1])

    do_GET = do_PUT = do_DELETE = _do  # noqa: N815 - what the server calls

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve_bucket() -> Iterator[Bucket]:
    """A bucket that answers within the block."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {}))
    server.daemon_threads = True
    bucket = server.RequestHandlerClass.bucket = Bucket(server.server_address[1])  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
