"""Needs of jobs' files: HTCondor's transfer plugins, space on the agent's disk, reachable buckets."""

import shutil
from collections.abc import Iterator

from fetchwork.config import HostConfig
from fetchwork.db.calls import maintenance
from fetchwork.db.database import Database
from fetchwork.doctor.line import Line, failed, ok, warned
from fetchwork.errors import BucketUnavailable, FetchworkError
from fetchwork.sandbox import objects
from fetchwork.sandbox.plugins import find

_MIB = 1 << 20
#: the least space of a host for files of jobs
_LEAST_FREE_MIB = 1024


def check(config: HostConfig) -> Iterator[Line]:
    """Yield what jobs with files would miss here."""
    yield from _disk(config)
    for name, settings in config.databases.items():
        with Database(settings.conninfo, application_name="fetchwork doctor", timeout_s=10.0) as database:
            try:
                probes = database.run(maintenance.bucket_probes())
            except FetchworkError:
                # the database has lines of its own
                continue
        for probe in probes:
            yield _bucket(name, probe)


def _disk(config: HostConfig) -> Iterator[Line]:
    schemes = sorted(find())
    if not schemes:
        yield warned(
            "files",
            "no file transfer plugin answers: a job with URLs as inputs or outputs is held here",
            "condor_config_val FILETRANSFER_PLUGINS, and run each of them with -classad",
        )
    spool = config.agent.spool
    try:
        free = shutil.disk_usage(spool).free // _MIB
    except OSError:
        # the spool has a line of its own
        return
    if free < _LEAST_FREE_MIB:
        yield warned(
            "files",
            f"the disk of '{spool}' has {free} MiB left: the files of jobs pass through it",
            "free some space, or set a smaller [files] cache_mib",
        )
    elif schemes:
        yield ok("files", f"plugins for {', '.join(schemes)}; {free} MiB left")


def _bucket(name: str, probe: maintenance.BucketProbe) -> Line:
    """Does a bucket answer this host, and know its key?"""
    try:
        told = objects.refusal(probe.url)
    except BucketUnavailable as error:
        return failed(
            "bucket",
            f"{name}: {probe.bucket}: {error}; large files neither come to this host nor leave it",
            "open the way from this host to the bucket's server",
        )
    if told in ("NoSuchKey", "AccessDenied"):
        # a key that may read and write, and not list, is refused what is not there
        return ok("bucket", f"{name}: {probe.bucket} answers and knows its key")
    return failed(
        "bucket",
        f"{name}: {probe.bucket} refuses its key: {told}",
        "name the bucket's key anew: fetchwork db bucket URL, by the database's administrator",
    )
