"""Submitting for an account: the description is read by its child, the jobs go in as one transaction.

A client's request has a key. Where the client heard no answer it asks again with the same key, of this access
point or of the one that was started in its place: the transaction that makes the cluster notes the key, so
there is one cluster, and its submit events are in its logs before any of the answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncGenerator
from typing import IO

from fetchwork.accesspoint.children import Account, Children
from fetchwork.accesspoint.logs import LogKeeper
from fetchwork.client.wire import Json
from fetchwork.codes import JobStatus
from fetchwork.db import calls
from fetchwork.db.database import Database
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import JobStateConflict, SubmitError

#: seconds for a description, which may run programs
DESCRIBE_S = 150.0
#: submissions that are put into the database at once
MOST = 6
#: so much of a submission is kept in memory
IN_MEMORY = 4 * 1024 * 1024
#: the attribute of a job that says by which access point it was submitted
ATTRIBUTE = "FetchWorkAccessPoint"


class _Unwanted(Exception):
    """Rolls a trial back."""


class Submitting:
    """Makes clusters of submissions."""

    def __init__(
        self, conninfo: str, database: AsyncDatabase, children: Children, logs: LogKeeper, name: str
    ) -> None:
        self._conninfo = conninfo
        self._database = database
        self._children = children
        self._logs = logs
        self._name = name
        self._free: list[Database] = []
        self._turn = asyncio.Semaphore(MOST)
        #: submissions by owner
        self._under_way: dict[str, set[asyncio.Future[None]]] = {}

    def close(self) -> None:
        """Close the connections."""
        while self._free:
            self._free.pop().close()

    async def quiet(self, owner: str) -> None:
        """Return when the submissions of an owner that have begun by now have ended."""
        if under_way := set(self._under_way.get(owner, ())):
            await asyncio.wait(under_way)

    async def submit(self, account: Account, acting: bool, request: Json) -> Json:
        """The cluster's id, number of jobs and common ad, and what went wrong with its logs."""
        ended = asyncio.get_running_loop().create_future()
        self._under_way.setdefault(account.name, set()).add(ended)
        try:
            return await self._submit(account, acting, request)
        finally:
            ended.set_result(None)
            self._under_way[account.name].discard(ended)
            if not self._under_way[account.name]:
                del self._under_way[account.name]

    async def _submit(self, account: Account, acting: bool, request: Json) -> Json:
        checked = _checked(request, self._name)
        owner = account.name
        as_owner = owner if acting else None
        key, dry_run = checked.pop("key"), checked.pop("dry_run")
        await self._logs.ready()
        before = await self._database.run(calls.submitted_as(owner=owner, key=key), acting_for=as_owner)
        if before is None:
            with contextlib.ExitStack() as stack:
                kept = stack.enter_context(tempfile.SpooledTemporaryFile(IN_MEMORY))
                cluster = await self._database.run(calls.reserve_cluster(), acting_for=as_owner, again=False)
                answers = self._children.answers(
                    account, {"do": "describe", "cluster": cluster, "owner": owner, **checked}, DESCRIBE_S
                )
                await _keep(answers, kept)
                async with self._turn:
                    put = asyncio.to_thread(self._put, kept, cluster, owner, key, acting, dry_run)
                    # a client that goes away does not stop what was begun half-way
                    try:
                        answer = await asyncio.shield(asyncio.ensure_future(put))
                    except JobStateConflict:
                        # the same request, at the same time
                        before = await self._database.run(
                            calls.submitted_as(owner=owner, key=key), acting_for=as_owner
                        )
                        if before is None:
                            raise
        if dry_run:
            return {**answer, "problems": []}
        if before is not None:
            answer = await self._known(before, as_owner)
        problems = await self._logs.submitted(answer["cluster"], account, again=before is not None)
        return {**answer, "problems": problems}

    def _put(self, kept: IO[bytes], cluster: int, owner: str, key: str, acting: bool, dry_run: bool) -> Json:
        """Put what a child made of a submission into the queue; in a thread."""
        kept.seek(0)
        common: Json = json.loads(kept.readline())["common"]
        number = 0
        # several threads take and put back: one at a time by the interpreter's own lock
        database = self._free.pop() if self._free else Database(self._conninfo, timeout_s=300)
        try:
            with contextlib.suppress(_Unwanted), database.transaction():
                if acting:
                    database.run(calls.act_for(owner=owner))
                database.run(calls.note_submission(owner=owner, key=key, cluster=cluster))
                for line in kept:
                    own = json.loads(line)["own"]
                    # the first call makes the cluster
                    part = common if number == 0 else None
                    database.run(calls.submit_ads(common=part, procs=own, cluster=cluster))
                    number += len(own)
                (now,) = database.query("SELECT extract(epoch FROM now())::bigint AS at")
                if dry_run:
                    raise _Unwanted
        except BaseException:
            database.close()
            raise
        self._free.append(database)
        state = JobStatus.HELD if common.get("JobStatus") == JobStatus.HELD else JobStatus.IDLE
        of_queue = {
            "ClusterId": cluster,
            "QDate": now["at"],
            "JobStatus": int(state),
            "EnteredCurrentStatus": now["at"],
            "TotalSubmitProcs": number,
            "MyType": "Job",
        }
        return {"cluster": cluster, "count": number, "common": common | of_queue}

    async def _known(self, cluster: int, as_owner: str | None) -> Json:
        """The answer about a cluster that was made before."""
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


async def _keep(answers: AsyncGenerator[Json, None], kept: IO[bytes]) -> None:
    """Write a child's answers to a file, a line each, before any transaction begins: a child may be slow."""
    jobs = 0
    async with contextlib.aclosing(answers):
        async for answer in answers:
            if "end" not in answer:
                kept.write(json.dumps(answer).encode() + b"\n")
                jobs += len(answer.get("own", ()))
    if not jobs:
        raise SubmitError("nothing to submit: no jobs; allowed: one or more")


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
    """The fields of a submission; raises SubmitError for one that is missing or of another type."""
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
