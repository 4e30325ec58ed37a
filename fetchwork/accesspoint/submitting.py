"""Submitting for an account: its child reads the description, one transaction inserts the jobs.

A client's request has a key. A client that got no answer repeats the request with the same key, to this
access point or its successor. The transaction that makes the cluster notes the key, so there is one cluster,
and its submit events are in its logs before each answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TypeVar

from fetchwork.accesspoint import described
from fetchwork.accesspoint.children import Account, Children
from fetchwork.accesspoint.logs import LogKeeper
from fetchwork.codes import JobStatus
from fetchwork.db.calls import administration, jobs
from fetchwork.db.calls import files as file_calls
from fetchwork.db.calls.call import Call
from fetchwork.db.database import Database
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import JobStateConflict, NotFound, SubmitError
from fetchwork.ipc.frames import Json
from fetchwork.queue.submitting import contents
from fetchwork.queue.submitting.jobads import PLAN

T = TypeVar("T")
#: tries of a submission: a content may be deleted just before the submission names it
TRIES = 3
#: seconds for one chunk of a file
READ_S = 90.0
#: seconds for a description, which may run programs
DESCRIBE_S = 150.0
#: submissions written to the database at the same time
MOST = 6
#: seconds to write one to the database
PUT_S = 300.0
#: submissions whose files are uploaded at the same time; ``budgets`` limits the requests of an account
SENDERS = 32
#: bytes of a submission kept in memory
IN_MEMORY = 4 * 1024 * 1024
#: the job attribute with the name of the access point
ATTRIBUTE = "FetchWorkAccessPoint"


class _Unwanted(Exception):
    """Rolls back a dry run."""


class Submitting:
    """Makes clusters from submissions."""

    def __init__(
        self, conninfo: str, database: AsyncDatabase, children: Children, logs: LogKeeper, name: str
    ) -> None:
        self._conninfo = conninfo
        self._database = database
        # separate, so that a waiting submission delays no other request
        self._few = AsyncDatabase(
            conninfo, size=MOST, application_name="fetchwork access-point", timeout_s=PUT_S
        )
        self._children = children
        self._logs = logs
        self._name = name
        self._free: list[Database] = []
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="send")
        self._turn = asyncio.Semaphore(MOST)
        #: submissions in progress, by owner
        self._under_way: dict[str, set[asyncio.Future[None]]] = {}

    async def close(self) -> None:
        """Close the connections."""
        self._senders.shutdown(wait=False, cancel_futures=True)
        await self._few.close()
        while self._free:
            self._free.pop().close()

    async def quiet(self, owner: str) -> None:
        """Return when the owner's submissions in progress have ended."""
        if under_way := set(self._under_way.get(owner, ())):
            await asyncio.wait(under_way)

    async def submit(
        self, account: Account, acting: bool, request: Json, progress: contents.Progress | None = None
    ) -> Json:
        """Return the cluster's id, number of jobs and common ad, and the problems of its logs."""
        ended = self._begins(account.name)
        try:
            return await self._submit(account, acting, request, progress)
        finally:
            ended()

    def _begins(self, owner: str) -> Callable[..., None]:
        """Count work among an owner's submissions until the returned function is called."""
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        under_way = self._under_way.setdefault(owner, set())
        under_way.add(work)

        def ended(_: object = None) -> None:
            work.set_result(None)
            under_way.discard(work)
            if not under_way and self._under_way.get(owner) is under_way:
                del self._under_way[owner]

        return ended

    async def _submit(
        self, account: Account, acting: bool, request: Json, progress: contents.Progress | None
    ) -> Json:
        checked = _checked(request, self._name)
        owner = account.name
        as_owner = owner if acting else None
        key, dry_run = checked.pop("key"), checked.pop("dry_run")
        await self._logs.ready()
        has_logs = True
        begun = await self._database.run(jobs.begin_submission(owner=owner, key=key), acting_for=as_owner)
        cluster = begun.cluster_id
        before: int | None = cluster
        if not begun.is_made:
            answers = self._children.answers(
                account,
                {
                    "do": "describe",
                    "cluster": cluster,
                    "owner": owner,
                    "most_jobs": begun.most_jobs,
                    **checked,
                },
                DESCRIBE_S,
            )
            with contextlib.ExitStack() as stack:
                kept = stack.enter_context(tempfile.SpooledTemporaryFile(IN_MEMORY))
                found = await described.keep(answers, kept)
                has_logs = found.has_logs
                make = self._make(kept, account, cluster, key, acting, dry_run, progress, few=found.is_few)
                # _make closes the file
                stack.pop_all()
            answer, before = await self._carry_on(owner, make)
        if dry_run or (before is None and not has_logs):
            return {**answer, "problems": []}
        if before is not None:
            answer = await self._known(before, as_owner)
        write = self._logs.submitted(answer["cluster"], account, again=before is not None)
        return {**answer, "problems": await self._carry_on(owner, write)}

    async def _carry_on(self, owner: str, work: Awaitable[T]) -> T:
        """Do a part of a submission to its end, even if its client goes away."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._begins(owner))
        # retrieve its exception, as its client may be gone
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(task)

    async def _make(
        self,
        kept: IO[bytes],
        account: Account,
        cluster: int,
        key: str,
        acting: bool,
        dry_run: bool,
        progress: contents.Progress | None,
        *,
        few: bool,
    ) -> tuple[Json, int | None]:
        """Put a described submission into the queue; return the answer, or the cluster made before."""
        owner = account.name
        as_owner = owner if acting else None
        with kept:
            if few and not dry_run:
                try:
                    return await self._put_few(kept, cluster, owner, key, as_owner), None
                except JobStateConflict:
                    return {}, await self._before(owner, key, as_owner)
            files = described.Files(kept)
            for left in reversed(range(TRIES)):
                # before the jobs' turn: a large file must not delay other submissions
                if files.contents:
                    send = functools.partial(
                        self._send, files, as_owner, owner, dry_run, self._source(account), progress
                    )
                    await asyncio.get_running_loop().run_in_executor(self._senders, send)
                async with self._turn:
                    try:
                        put = asyncio.to_thread(self._put, kept, cluster, owner, key, acting, dry_run)
                        answer, alike = await put
                        if alike and not dry_run:
                            self._logs.note(cluster, answer["count"], owner, answer["common"])
                        return answer, None
                    except NotFound:
                        # a content was deleted with the last job that needed it
                        if not left:
                            raise
                    except JobStateConflict:
                        return {}, await self._before(owner, key, as_owner)
        raise AssertionError("the last try returns or raises")

    async def _before(self, owner: str, key: str, as_owner: str | None) -> int:
        """Return the cluster that the same request has made meanwhile."""
        before = await self._database.run(jobs.submitted_as(owner=owner, key=key), acting_for=as_owner)
        if before is None:
            raise JobStateConflict(f"submission '{key}' was being made by another request: submit again")
        return before

    async def _put_few(
        self, kept: IO[bytes], cluster: int, owner: str, key: str, as_owner: str | None
    ) -> Json:
        """Put a submission of a few jobs into the queue; return the answer."""
        kept.seek(0)
        common: Json = json.loads(kept.readline())["common"]
        own: list[Json] = json.loads(kept.readline())["own"]
        put = jobs.submit_noted(owner=owner, key=key, common=common, procs=own, cluster=cluster)
        async with self._turn:
            now = await self._few.run(put, acting_for=as_owner, again=False)
        answer = _answer(cluster, len(own), common, now)
        if not any(own) and not answer["late"]:
            self._logs.note(cluster, len(own), owner, answer["common"])
        return answer

    def _send(
        self,
        files: described.Files,
        as_owner: str | None,
        owner: str,
        dry_run: bool,
        source: contents.Source,
        progress: contents.Progress | None,
    ) -> None:
        """Upload the files of a submission that the owner's contents lack; in a thread."""
        with self._connection() as database:
            acts = _Acting(database, as_owner)
            if dry_run:
                contents.check_room(acts, owner, files.contents, files.job_bytes)
            else:
                contents.send(acts, owner, files.contents, files.job_bytes, source=source, progress=progress)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Database]:
        # several threads use this list; the interpreter's lock makes each operation atomic
        database = self._free.pop() if self._free else Database(self._conninfo, timeout_s=PUT_S)
        try:
            yield database
        except BaseException:
            database.close()
            raise
        self._free.append(database)

    def _put(
        self, kept: IO[bytes], cluster: int, owner: str, key: str, acting: bool, dry_run: bool
    ) -> tuple[Json, bool]:
        """Put a described submission into the queue; in a thread.

        Return the answer, and whether every job has the common ad and nothing else.
        """
        with self._connection() as database:
            common, number, now, alike = self._put_jobs(database, kept, cluster, owner, key, acting, dry_run)
        return _answer(cluster, number, common, now), alike

    @staticmethod
    def _put_jobs(
        database: Database, kept: IO[bytes], cluster: int, owner: str, key: str, acting: bool, dry_run: bool
    ) -> tuple[Json, int, int, bool]:
        """Make the cluster in one transaction; return common ad, count, time, and whether alike."""
        kept.seek(0)
        common: Json = json.loads(kept.readline())["common"]
        number = 0
        alike = PLAN not in common
        with contextlib.suppress(_Unwanted), database.transaction():
            if acting:
                database.run(administration.act_for(owner=owner))
            database.run(jobs.note_submission(owner=owner, key=key, cluster=cluster))
            for line in kept:
                answer = json.loads(line)
                if "own" in answer:
                    # only the first call makes the cluster
                    part = common if number == 0 else None
                    database.run(jobs.submit_ads(common=part, procs=answer["own"], cluster=cluster))
                    number += len(answer["own"])
                    alike = alike and not any(answer["own"])
                elif "files" in answer and not dry_run:
                    database.run(file_calls.add_job_files(cluster=cluster, files=answer["files"]))
                elif "secret" in answer:
                    database.run(file_calls.add_job_key(cluster=cluster, **answer["secret"]))
            (now,) = database.query("SELECT extract(epoch FROM now())::bigint AS at")
            if dry_run:
                raise _Unwanted
        return common, number, now["at"], alike

    def _source(self, account: Account) -> contents.Source:
        """Return a reader of chunks of the account's files, by its child; for use in a thread."""
        loop = asyncio.get_running_loop()

        def read(path: str, numbers: Sequence[int]) -> Iterator[bytes]:
            for n in numbers:
                asked = self._children.ask(account, {"do": "read", "path": path, "n": n}, READ_S)
                answer = asyncio.run_coroutine_threadsafe(asked, loop).result()
                yield answer["data"]

        return read

    async def _known(self, cluster: int, as_owner: str | None) -> Json:
        """Return the answer for a cluster that was made before."""
        columns = "SELECT ad, defaults, totalsubmitprocs, qdate FROM fetchwork"
        rows = await self._database.query(
            f"""
            ({columns}.jobs WHERE clusterid = %s ORDER BY procid LIMIT 1)
            UNION ALL
            ({columns}.history WHERE clusterid = %s ORDER BY procid LIMIT 1)
            """,
            [cluster, cluster],
            acting_for=as_owner,
        )
        common: Json = {}
        number = 1
        if rows:
            common = {**(rows[0]["defaults"] or {}), **rows[0]["ad"], "QDate": rows[0]["qdate"]}
            number = rows[0]["totalsubmitprocs"]
        of_queue = {"ClusterId": cluster, "TotalSubmitProcs": number, "MyType": "Job"}
        return {"cluster": cluster, "count": number, "common": common | of_queue}


class _Acting:
    """A database whose calls have one account's rights, each in a transaction of its own or the caller's."""

    def __init__(self, database: Database, owner: str | None) -> None:
        self._database = database
        self._owner = owner
        self._within = False

    def run(self, call: Call[T]) -> T:
        with self.transaction():
            return self._database.run(call)

    def carry(self, call: Call[T]) -> T:
        with self.transaction():
            return self._database.carry(call)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        if self._within:
            yield
            return
        with self._database.transaction():
            if self._owner is not None:
                self._database.run(administration.act_for(owner=self._owner))
            self._within = True
            try:
                yield
            finally:
                self._within = False


def _answer(cluster: int, number: int, common: Json, now: int) -> Json:
    """Return the answer for a cluster that was made at the time ``now``."""
    common = dict(common)
    if (plan := common.pop(PLAN, None)) is not None:
        number = plan["jobs"]
    state = JobStatus.HELD if common.get("JobStatus") == JobStatus.HELD else JobStatus.IDLE
    of_queue = {
        "ClusterId": cluster,
        "QDate": now,
        "JobStatus": int(state),
        "EnteredCurrentStatus": now,
        "TotalSubmitProcs": number,
        "MyType": "Job",
    }
    return {"cluster": cluster, "count": number, "common": common | of_queue, "late": plan is not None}


_FIELDS: dict[str, tuple[type, ...]] = {
    "key": (str,),
    "description": (str, list),
    "cwd": (str,),
    "env": (dict,),
    "umask": (int,),
    "count": (int,),
    "itemdata": (list, type(None)),
    "queue": (str, type(None)),
    "extra": (dict,),
    "dry_run": (bool,),
}


def _checked(request: Json, name: str) -> Json:
    """Return the fields of a submission; raises SubmitError if one is missing or has a wrong type."""
    request.setdefault("dry_run", False)
    for field, types in _FIELDS.items():
        if not isinstance(request.get(field), types):
            raise SubmitError(f"the request to submit has no proper '{field}'")
    if not all(
        isinstance(k, str) and isinstance(v, str) and k and not set(k) & {"=", "\0"} and "\0" not in v
        for k, v in request["env"].items()
    ):
        raise SubmitError("the request to submit has no proper 'env'")
    if not request["cwd"].startswith("/") or "\0" in request["cwd"]:
        raise SubmitError("the request to submit has no proper 'cwd'")
    checked = {field: request[field] for field in _FIELDS}
    checked["umask"] &= 0o777
    checked["extra"] = {**request["extra"], ATTRIBUTE: name}
    return checked
