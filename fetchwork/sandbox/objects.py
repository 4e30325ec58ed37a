"""Objects in buckets: parts of large contents, each got, put or deleted by one request to a presigned URL.

No redirect is followed and no proxy asked: a URL is good for the host that it names. Messages name that host
and never the URL, with which anybody could do the same.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import urlsplit

from fetchwork.errors import BucketRefused, BucketUnavailable, NotFound

T = TypeVar("T")

#: seconds without a byte
STALL_S = 30.0
#: requests at a time to a server, of a process whose loop goes on meanwhile
AT_ONCE = 8
_threads: dict[str, ThreadPoolExecutor] = {}


async def aside(function: Callable[..., T], url: str, *arguments: object) -> T:
    """Call what asks a bucket for a URL while the loop goes on, in a thread that is for its server alone.

    A bucket that does not answer keeps each for STALL_S: of the loop's own threads, and of those of another
    bucket, soon none would be left.
    """
    import asyncio

    threads = _threads.get(host_of(url))
    if threads is None:
        threads = _threads[host_of(url)] = ThreadPoolExecutor(AT_ONCE, "bucket")
    return await asyncio.get_running_loop().run_in_executor(threads, function, url, *arguments)


def get(url: str, first: int, size: int) -> bytes:
    """So many bytes of an object, from the one with number ``first`` on.

    Raises NotFound where there is no such object, BucketUnavailable for whatever else may pass.
    """
    status, data = _ask("GET", url, None, {"Range": f"bytes={first}-{first + size - 1}"}, most=first + size)
    if status == 404:
        raise NotFound(f"the bucket at {host_of(url)} does not have what it was given")
    if status == 200:
        # a server that knows no ranges
        data = data[first : first + size]
    elif status != 206:
        raise _unexpected(url, status)
    if len(data) != size:
        raise BucketUnavailable(f"the bucket at {host_of(url)} sent {len(data)} bytes of {size}")
    return data


def put(url: str, data: bytes) -> None:
    """Make an object, or make it anew; raises BucketUnavailable."""
    status, _ = _ask("PUT", url, data, {})
    if status not in (200, 201, 204):
        raise _unexpected(url, status)


def delete(url: str) -> None:
    """Delete an object, if it is there; raises BucketUnavailable."""
    status, _ = _ask("DELETE", url, None, {})
    if status not in (200, 204, 404):
        raise _unexpected(url, status)


def refusal(url: str) -> str:
    """Why a bucket does not give an object that it does not have, in S3's word; raises BucketUnavailable.

    "NoSuchKey" where all is well, "AccessDenied" of a key that may not list (it is known all the same),
    "SignatureDoesNotMatch", "InvalidAccessKeyId", "NoSuchBucket" and the like, or the status.
    """
    status, data = _ask("GET", url, None, {})
    if status >= 500:
        raise _unexpected(url, status)
    code = re.search(rb"<Code>([A-Za-z]{1,60})</Code>", data)
    return code[1].decode() if code else f"status {status}"


def _ask(
    method: str, url: str, data: bytes | None, headers: dict[str, str], most: int = 1 << 16
) -> tuple[int, bytes]:
    """The status of the answer, and what came with it, of at most so many bytes."""
    parts = urlsplit(url)
    made = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = made(parts.netloc, timeout=STALL_S)
    try:
        # what was signed, letter by letter
        target = url.removeprefix(f"{parts.scheme}://{parts.netloc}")
        connection.request(method, target, body=data, headers={"Connection": "close", **headers})
        response = connection.getresponse()
        return response.status, response.read(most)
    except (OSError, http.client.HTTPException) as error:
        problem = str(error) or type(error).__name__
        raise BucketUnavailable(f"the bucket at {parts.netloc} does not answer: {problem}") from None
    finally:
        connection.close()


def _unexpected(url: str, status: int) -> BucketUnavailable:
    # what it can't do now, and what it does not do
    made = BucketUnavailable if status >= 500 else BucketRefused
    return made(
        f"the bucket at {host_of(url)} answers {status} {http.client.responses.get(status, '')}".rstrip()
    )


def host_of(url: str) -> str:
    """The server of a URL, and its port."""
    return urlsplit(url).netloc
