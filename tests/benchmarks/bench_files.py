"""Files that travel with jobs through the queue, beside COPY of the same chunks.

    make bench-files                              # 1 GiB, 200 jobs
    python tests/benchmarks/bench_files.py --mib 256 --jobs 50 --rounds 3

Large files: a file of this size is stored as a submitter does it (``queue.contents``: read for its hash, sent
in chunks that the server compares with its own, eight to a commit), and brought back as ``transfer-data``
does it (read in chunks, compared, written beside its destination, synced, renamed). Beside it the same chunks
go by COPY in binary form into a plain table, in one transaction, and out of it into a file that is synced.
Both sides have one connection to one durable server (the system's if there is one), and alternate. The figure
is COPY's time there and back over ours: 0.5 means that we take twice as long.

Small files: on a real startd with 8 slots, the host's extra CPU for a job with an input and an output of 10
KiB, over the same job without (all processes of the host, but not the database's). Goal: 15 ms.

Beside a schedd: in the same pool, 200 jobs with 1 MiB in and out, each with its own, submitted by
condor_submit to an access point and to a schedd; jobs/s from submission to the return of the last output.
Goal: at least the schedd's rate.

Memory: the additional peak of the host's agent while a job of that pool has the large file as input and as
output. Goal: less than 64 MiB. Sharing: 1000 jobs name one input of a tenth of that size, which is stored
once; the number of times that the agent reads it for the 24 jobs that run. Goal: 1.

``--mib 0`` leaves out the large files, ``--jobs 0`` the parts that need the pool.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from fetchwork.db.calls import files
from fetchwork.db.calls.files import CHUNK_BYTES
from fetchwork.db.database import Database
from fetchwork.pool.postgres import system_programs
from fetchwork.queue.outputs import retrieving
from fetchwork.queue.submitting import contents
from tests.benchmarks import files_on_slots, frame

SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}
OWNER = "alice"
PLAIN = """
CREATE TABLE plain (content_id bigint, n integer, data bytea, PRIMARY KEY (content_id, n));
ALTER TABLE plain ALTER COLUMN data SET STORAGE EXTERNAL
"""


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def made(path: Path, mib: int) -> None:
    """Make a file of random bytes, which cannot be compressed."""
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(CHUNK_BYTES))


def store(database: Database, path: Path) -> contents.Content:
    """Store a file as submit does."""
    measured = contents.measured([str(path)])
    contents.send(database, OWNER, measured, path.stat().st_size)
    return measured[str(path)]


def bring(database: Database, content: contents.Content, content_id: int, home: Path) -> None:
    """Bring back a stored content as transfer-data does."""
    file = {"name": "out", "source": "content", "size": content.size, "mode": 0o644}
    file |= {"sha256": content.sha256, "content_id": content_id}
    outputs = files.JobOutputs(1, 0, 1, OWNER, {"Iwd": str(home)}, [file])
    retrieving.bring_outputs(database, outputs)


def copy_in(connection: psycopg.Connection, path: Path) -> None:
    with (
        connection.transaction(),
        connection.cursor() as cursor,
        cursor.copy("COPY plain (content_id, n, data) FROM STDIN (FORMAT binary)") as copy,
        path.open("rb") as file,
    ):
        copy.set_types(["int8", "int4", "bytea"])
        n = 0
        while data := file.read(CHUNK_BYTES):
            copy.write_row((1, n, data))
            n += 1


def copy_out(connection: psycopg.Connection, path: Path) -> None:
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY (SELECT data FROM plain ORDER BY n) TO STDOUT (FORMAT binary)") as copy,
        path.open("wb") as file,
    ):
        copy.set_types(["bytea"])
        for (data,) in copy.rows():
            file.write(data)
        file.flush()
        os.fsync(file.fileno())


def large(mib: int, rounds: int) -> float:
    """The ratio of COPY's time to ours, there and back."""
    with frame.server(SETTINGS, programs=system_programs()) as (server, home):
        source = home / "source"
        made(source, mib)
        conninfo = frame.new_database(server)
        times: dict[str, list[float]] = {"in": [], "out": [], "COPY in": [], "COPY out": []}
        with psycopg.connect(conninfo, autocommit=True) as connection, Database(conninfo) as database:
            connection.execute("SELECT fetchwork.grant_owner('postgres', %s)", [OWNER])
            connection.execute(PLAIN)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for number in range(rounds):
                connection.execute("TRUNCATE plain")
                connection.execute("TRUNCATE fetchwork.content CASCADE")
                kept: list[contents.Content] = []

                def ours_in(kept: list[contents.Content] = kept) -> None:
                    kept.append(store(database, source))

                def theirs_in() -> None:
                    copy_in(connection, source)

                def ours_out(kept: list[contents.Content] = kept) -> None:
                    # an output belongs to a run
                    (row,) = connection.execute(
                        "UPDATE fetchwork.content SET run_id = 1 RETURNING content_id"
                    ).fetchall()
                    bring(database, kept[0], row[0], home)

                def theirs_out() -> None:
                    copy_out(connection, home / "copied")

                sides = [("in", ours_in), ("COPY in", theirs_in)]
                back = [("out", ours_out), ("COPY out", theirs_out)]
                for pair in (sides, back):
                    for name, work in pair if number % 2 else reversed(pair):
                        times[name].append(seconds(work))
                assert (home / "out").stat().st_size == (home / "copied").stat().st_size == mib << 20
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    median = {name: statistics.median(taken) for name, taken in times.items()}
    for name, taken in median.items():
        print(f"{name:>9}: {mib / taken:7.1f} MiB/s  ({taken:.2f} s)")
    print(f"   memory: {grown / 1024:.0f} MiB more at most, COPY included")
    into, out_of = median["COPY in"] / median["in"], median["COPY out"] / median["out"]
    print(f"over COPY: in {into:.2f}, out {out_of:.2f}")
    return (median["COPY in"] + median["COPY out"]) / (median["in"] + median["out"])


def main() -> int:
    parser = frame.parser(__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the large file")
    parser.add_argument("--jobs", type=int, default=200, help="jobs of a side in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--suite", help="the Debian suite whose HTCondor is measured")
    asked = parser.parse_args()
    if asked.jobs:
        on_slots = files_on_slots.measure(asked.jobs, asked.rounds, asked.suite, asked.mib)
    over_copy = large(asked.mib, asked.rounds) if asked.mib else None
    if asked.jobs and asked.mib:
        print(f"agent memory MiB: {on_slots.memory_mib:.0f}")
        print(f"shared input reads: {on_slots.shared_reads:.2f}")
    if asked.jobs:
        print(f"small files ms: {on_slots.small_ms:.1f}")
    if over_copy is not None:
        print(f"large files over copy: {over_copy:.2f}")
    if asked.jobs:
        print(f"jobs over schedd: {on_slots.beside:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
