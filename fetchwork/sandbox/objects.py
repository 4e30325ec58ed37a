"""Objects in buckets, parts of large contents: one request to a presigned URL gets, puts or deletes one.

Redirects are not followed and proxies are not used: a URL is valid for the host that it names. Messages name
that host and never the URL, as its readers could use it.
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
#: requests at a time to a server, from a process with an event loop
AT_ONCE = 8
_threads: dict[str, ThreadPoolExecutor] = {}


async def aside(function: Callable[..., T], url: str, *arguments: object) -> T:
    """Call a function that asks a bucket for a URL, in a thread for this server alone; the loop goes on.

    A bucket that does not answer blocks each thread for STALL_S: it would soon take all the threads of the
    loop, or those of another bucket.
    """
    import asyncio

    threads = _threads.get(host_of(url))
    if threads is None:
        threads = _threads[host_of(url)] = ThreadPoolExecutor(AT_ONCE, "bucket")
    return await asyncio.get_running_loop().run_in_executor(threads, function, url, *arguments)


def get(url: str, first: int, size: int) -> bytes:
    """Return ``size`` bytes of an object from offset ``first`` on.

    Raises NotFound if there is no such object, BucketUnavailable for other failures.
    """
    status, data = _ask("GET", url, None, {"Range": f"bytes={first}-{first + size - 1}"}, most=first + size)
    if status == 404:
        raise NotFound(f"the bucket at {host_of(url)} does not have what it was given")
    if status == 200:
        # a server without ranges
        data = data[first : first + size]
    elif status != 206:
        raise _unexpected(url, status)
    if len(data) != size:
        raise BucketUnavailable(f"the bucket at {host_of(url)} sent {len(data)} bytes of {size}")
    return data


def put(url: str, data: bytes) -> None:
    """Create or replace an object; raises BucketUnavailable."""
    status, _ = _ask("PUT", url, data, {})
    if status not in (200, 201, 204):
        raise _unexpected(url, status)


def delete(url: str) -> None:
    """Delete an object, if it is there; raises BucketUnavailable."""
    status, _ = _ask("DELETE", url, None, {})
    if status not in (200, 204, 404):
        raise _unexpected(url, status)


def refusal(url: str) -> str:
    """S3's error code for a GET of an object that does not exist; raises BucketUnavailable.

    "NoSuchKey" if all is well, "AccessDenied" for a key that may not list (the bucket knows it all the same),
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
    """The status and the body of the answer; of the body ``most`` bytes at most."""
    parts = urlsplit(url)
    made = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = made(parts.netloc, timeout=STALL_S)
    try:
        # the signature covers exactly these characters
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
    # a failure of the server may pass, a refusal stays
    made = BucketUnavailable if status >= 500 else BucketRefused
    return made(
        f"the bucket at {host_of(url)} answers {status} {http.client.responses.get(status, '')}".rstrip()
    )


def host_of(url: str) -> str:
    """The server of a URL, with its port."""
    return urlsplit(url).netloc
