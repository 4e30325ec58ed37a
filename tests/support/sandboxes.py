"""Jobs with a sandbox for tests: SQL stores their inputs and reads their outputs."""

import hashlib
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from fetchwork.db.calls.files import CHUNK_BYTES

#: SQLSTATE of a content that is not stored (any more)
GONE = "FWNOT"

#: a file transfer plugin of ``store://`` URLs, which are paths of this machine
STORE_PLUGIN = """\
#!/usr/bin/python3
import pathlib, re, shutil, sys
if sys.argv[1] == "-classad":
    print('MultipleFileSupport = true\\nPluginType = "FileTransfer"\\nSupportedMethods = "store"')
    sys.exit()
upload = "-upload" in sys.argv
with open(sys.argv[sys.argv.index("-outfile") + 1], "w") as out:
    for line in open(sys.argv[sys.argv.index("-infile") + 1]):
        name, url = re.findall('"([^"]*)"', line)
        there = pathlib.Path(url.removeprefix("store://"))
        source, target = (name, there) if upload else (there, name)
        pathlib.Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        out.write('[ TransferUrl = "%s"; TransferSuccess = true ]\\n' % url)
"""

#: a plugin of ``ends://`` URLs that ends as they say: with an exit status, by a signal, after some seconds;
#: the file that it fetches has the pid of its process
ENDS_PLUGIN = r"""#!/usr/bin/python3
import os, re, sys, time
if sys.argv[1] == "-classad":
    print('MultipleFileSupport = true\nPluginType = "FileTransfer"\nSupportedMethods = "ends"')
    sys.exit()
with open(sys.argv[sys.argv.index("-outfile") + 1], "w") as out:
    for line in open(sys.argv[sys.argv.index("-infile") + 1]):
        name, url = re.findall('"([^"]*)"', line)
        how, number = url.removeprefix("ends://").split("/")
        if how == "exit":
            sys.exit(int(number))
        if how == "signal":
            os.kill(os.getpid(), int(number))
        if how == "sleep":
            time.sleep(int(number))
        if "-upload" not in sys.argv:
            open(name, "w").write(f"{os.getpid()}\n")
        out.write('[ TransferUrl = "%s"; TransferSuccess = true ]\n' % url)
"""

#: an input: its bytes, a URL, or None for a directory
Source = bytes | str | None


def submit_with_files(
    conninfo: str,
    inputs: Mapping[str, Source],
    *,
    owner: str = "alice",
    cmd: str = "job.sh",
    iwd: str = "/nowhere/home",
    script: str | None = None,
    key: tuple[str, str] | None = None,
    **attributes: Any,
) -> str:
    """Submit one job with should_transfer_files = YES; return its id. ``script``: the executable among its
    inputs.

    ``key``: presigns its URLs of buckets.
    """
    given = dict(inputs)
    if script is not None:
        given["condor_exec.exe"] = script.encode()
    ad = {
        "Out": "out",
        "Err": "err",
        "ShouldTransferFiles": "YES",
        "WhenToTransferOutput": "ON_EXIT",
        "FetchWorkFiles": "sandbox",
        "TransferExecutable": script is not None,
        **attributes,
    }
    with psycopg.connect(conninfo, autocommit=True) as connection:
        while True:
            files = [_stored(connection, owner, name, source) for name, source in given.items()]
            try:
                with connection.transaction():
                    row = connection.execute(
                        "SELECT fetchwork.submit(cmd => %s, owner => %s, iwd => %s, ad => %s)",
                        [cmd, owner, iwd, Jsonb(ad)],
                    ).fetchone()
                    assert row is not None
                    job = str(row[0])
                    connection.execute(
                        "SELECT fetchwork.add_job_files(cluster => %s, files => %s)",
                        [int(job.partition(".")[0]), Jsonb(files)],
                    )
                    if key is not None:
                        connection.execute(
                            "SELECT fetchwork.add_job_key(%s, %s, %s)", [int(job.partition(".")[0]), *key]
                        )
            except psycopg.OperationalError as error:
                # an equal content has just been deleted, with the previous job that had it
                if error.sqlstate != GONE:
                    raise
            else:
                return job


def submit_with_plugin(conninfo: str, way: str, url: str) -> str:
    """Submit a job that brings ENDS_PLUGIN, which moves its "input" or "output"; return its id."""
    inputs: dict[str, Source] = {"plugin": ENDS_PLUGIN.encode()}
    ad: dict[str, Any] = {"TransferPlugins": "ends=plugin"}
    if way == "input":
        inputs["x"] = url
    else:
        ad |= {"TransferOutput": "x", "TransferOutputRemaps": f"x={url}"}
    return submit_with_files(conninfo, inputs, script="#!/bin/sh\ntouch x\n", **ad)


def _stored(connection: psycopg.Connection[Any], owner: str, name: str, source: Source) -> dict[str, object]:
    """Store an input that has bytes; return its entry in the list."""
    if isinstance(source, str):
        return {"name": name, "url": source}
    if source is None:
        return {"name": name, "mode": 0o755}
    sha256 = store(connection, owner, source)
    mode = 0o755 if source.startswith(b"#!") else 0o644
    return {"name": name, "mode": mode, "size": len(source), "sha256": sha256}


def store(connection: psycopg.Connection[Any], owner: str, data: bytes) -> str:
    """Store a content for an owner; return its hash."""
    sha256 = hashlib.sha256(data).hexdigest()
    row = connection.execute(
        "SELECT content_id, complete FROM fetchwork.begin_content(owner => %s, sha256 => %s, size => %s)",
        [owner, sha256, len(data)],
    ).fetchone()
    assert row is not None
    content, complete = row
    if not complete:
        for number, start in enumerate(range(0, len(data), CHUNK_BYTES)):
            part = data[start : start + CHUNK_BYTES]
            connection.execute(
                "SELECT fetchwork.put_chunk(content_id => %s, n => %s, data => %s, sha256 => %s)",
                [content, number, part, hashlib.sha256(part).hexdigest()],
            )
        connection.execute("SELECT fetchwork.end_content(content_id => %s)", [content])
    return sha256


def kept_files(
    conninfo: str, job: str, direction: str = "output"
) -> dict[str, tuple[int, bytes | str | None]]:
    """A job's files in the database: by name the mode, and the bytes, the URL, or None for a directory."""
    cluster, _, proc = job.partition(".")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT f.name, f.permissions, f.url, f.content_id, f.size, ("
            "    SELECT string_agg(c.data, ''::bytea ORDER BY c.n)"
            "    FROM fetchwork.content_chunk AS c WHERE c.content_id = f.content_id"
            ") FROM fetchwork.job_file AS f"
            " WHERE f.cluster_id = %s AND f.proc_id = %s AND f.direction = %s",
            [int(cluster), int(proc), direction],
        ).fetchall()
    kept: dict[str, tuple[int, bytes | str | None]] = {}
    for name, mode, url, content, size, data in rows:
        value = url if url is not None else bytes(data or b"") if content is not None else None
        assert value is None or isinstance(value, str) or len(value) == size
        kept[name] = (mode, value)
    return kept
