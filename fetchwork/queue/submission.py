"""Putting jobs into the queue from Python: descriptions and ads in any form, in calls of a bounded size."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fetchwork.classad.jsonform import from_json, to_json
from fetchwork.classad.values import ClassAd
from fetchwork.db.database import Database
from fetchwork.errors import SubmitError
from fetchwork.queue import descriptions as submit

Json = dict[str, Any]

# what one call of submit_cluster brings at most: the server parses it as one value
MAX_JOBS = 5000
MAX_BYTES = 4 * 1024 * 1024


class SubmitResult:
    """What became of a submission, with the methods of ``htcondor2.SubmitResult``."""

    def __init__(self, cluster: int, count: int, common: Json) -> None:
        self._cluster = cluster
        self._count = count
        self._common = common

    def cluster(self) -> int:
        """The cluster's id."""
        return self._cluster

    def clusterad(self) -> ClassAd:
        """What the ads of its jobs have in common."""
        return from_json(self._common)

    def first_proc(self) -> int:
        """The first job's ProcId."""
        return 0

    def num_procs(self) -> int:
        """The number of jobs."""
        return self._count

    def __int__(self) -> int:
        return self._cluster

    def __str__(self) -> str:
        return f"Submitted {self._count} jobs into cluster {self._cluster},0 :\n{self.clusterad()}"

    def __repr__(self) -> str:
        return f"SubmitResult(cluster={self._cluster}, first_proc=0, num_procs={self._count})"


def put(
    database: Database,
    what: Any,
    *,
    count: int = 0,
    itemdata: Iterable[str | Mapping[str, str]] | None = None,
    owner: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> SubmitResult:
    """Put a description or ads into the queue as one cluster: all of the jobs, or none.

    ``extra`` are attributes that every job gets.
    """
    with database.transaction():
        cluster = int(database.scalar("reserve_cluster"))
        jobs = prepared(what, cluster=cluster, count=count, itemdata=itemdata, owner=owner, extra=extra)
        put_in = 0
        for chunk in chunks(jobs.own):
            common = jobs.common if put_in == 0 else None
            database.call("submit_cluster", common=common, procs=chunk, cluster=cluster)
            put_in += len(chunk)
        if not put_in:
            raise SubmitError("nothing to submit: no jobs; allowed: one or more")
    return SubmitResult(cluster, put_in, jobs.common)


def prepared(
    what: Any,
    *,
    cluster: int,
    count: int = 0,
    itemdata: Iterable[str | Mapping[str, str]] | None = None,
    owner: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> submit.Jobs:
    """The jobs of a description (a ``Submit`` object, or its text) or of ads, ready to be put in."""
    if is_ad(what):
        what = [what]
    given: Json = dict(extra or {})
    if owner is not None:
        given["Owner"] = owner
    if isinstance(what, list | tuple):
        # given attributes replace an ad's own, in whatever spelling it has them
        names = {name.lower() for name in given}
        ads = [{k: v for k, v in as_json(ad).items() if k.lower() not in names} | given for ad in what]
        if not ads:
            raise SubmitError("nothing to submit: no jobs; allowed: one or more")
        return submit.from_ads(ads)
    text = what if isinstance(what, str) else description_text(what, count, itemdata)
    jobs = submit.from_description(text, cluster_id=cluster, owner=owner or getpass.getuser(), queue="1")
    names = {name.lower() for name in given}
    own = ({k: v for k, v in part.items() if k.lower() not in names} for part in jobs.own)
    return submit.Jobs({**jobs.common, **given}, own)


def is_ad(what: Any) -> bool:
    """Is it an ad rather than a description? Both are mappings."""
    return isinstance(what, ClassAd) or type(what) is dict


def as_json(ad: Any) -> Json:
    """An ad in JSON form, from an ad of HTCondor's bindings or from a dict that is in JSON form already."""
    return to_json(ad) if isinstance(ad, ClassAd) else dict(ad)


def description_text(
    description: Any, count: int = 0, itemdata: Iterable[str | Mapping[str, str]] | None = None
) -> str:
    """The text of a ``Submit`` object of HTCondor's bindings, with its queue statement."""
    lines = [f"{name} = {description[name]}" for name in description.keys()]  # noqa: SIM118 - v1 has no __iter__
    if itemdata is not None:
        return "\n".join([*lines, *_with_items(count, itemdata)])
    arguments = description.getQArgs()
    if not arguments.rstrip().endswith("("):
        return "\n".join(
            [*lines, f"queue {count or arguments}" if not arguments or count else f"queue {arguments}"]
        )
    items = description.itemdata() or []
    return "\n".join([*lines, *_with_items(count, items)])


def _with_items(count: int, itemdata: Iterable[str | Mapping[str, str]]) -> Iterator[str]:
    names: list[str] | None = None
    for item in itemdata:
        values = item
        if names is None:
            names = ["item"] if isinstance(item, str) else list(item)
            yield f"queue {count or ''} {','.join(names)} from ("
        if not isinstance(values, str):
            # the unit separator, because an item may hold commas and blanks
            values = "\x1f".join(str(values.get(name, "")).strip() for name in names)
        if "\n" in values or "\0" in values:
            raise ValueError("an item may not hold a line break or a NUL")
        yield values
    if names is None:
        raise ValueError("itemdata is empty: no jobs")
    yield ")"


def chunks(own: Iterable[Json]) -> Iterator[list[Json]]:
    """Cut the jobs' own parts into lists that are not too many and not too large."""
    chunk: list[Json] = []
    size = 0
    for part in own:
        length = len(json.dumps(part)) if part else 2
        if chunk and (len(chunk) >= MAX_JOBS or size + length > MAX_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(part)
        size += length
    if chunk:
        yield chunk
