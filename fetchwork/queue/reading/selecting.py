"""Selects jobs: constraints compiled for a view, and job specs in the form of HTCondor's bindings."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from fetchwork.errors import ClassAdError
from fetchwork.queue.ask import Ask, Memory, Steps
from fetchwork.queue.constraints.constraint import Constraint, compile_constraint, names_in, text_of
from fetchwork.queue.constraints.source import Form, Source
from fetchwork.queue.reading.views import View

if TYPE_CHECKING:
    from fetchwork.classad.values import ExprTree

#: an id ('42.0', or '42' for a cluster), a cluster's number, a list of ids, or a constraint
JobSpec: TypeAlias = "str | int | ExprTree | Iterable[str]"
#: a ClassAd expression, or its text; None and '' select everything
ConstraintSpec: TypeAlias = "str | ExprTree | bool | None"

#: late clusters; as a cluster's ad of a schedd, theirs have neither ProcId nor JobStatus
FACTORIES = View(
    "fetchwork.factories",
    "Job",
    {
        "ClusterId": "integer",
        "Owner": "string",
        "QDate": "integer",
        "TotalSubmitProcs": "integer",
        "JobMaterializeLimit": "integer",
        "JobMaterializeMaxIdle": "integer",
        "JobMaterializeNextProcId": "integer",
        "JobMaterializeNextRow": "integer",
        "JobMaterializePaused": "integer",
        "JobMaterializePauseReason": "string",
        "JobFactoryItemCount": "integer",
        "JobFactoryStepSize": "integer",
        "JobsPresent": "integer",
        "JobsIdle": "integer",
        "JobsRunning": "integer",
        "JobsHeld": "integer",
    },
    order=("clusterid",),
)

_ID = re.compile(r"\s*(\d{1,10})(?:\.(\d{1,10}))?\s*", re.ASCII)
#: the largest number of a cluster, and of a job in it
MAX_ID = 2**31 - 1
_NO_IDS = "a list of jobs holds ids such as '42.0', or '42' for a whole cluster"


def parse_id(text: str) -> tuple[int, int | None] | None:
    """Cluster and process of a job id ('42.0'), cluster and None of a cluster id ('42'); else None."""
    match = _ID.fullmatch(text)
    if match is None or any(int(number) > MAX_ID for number in match.groups() if number):
        return None
    return int(match[1]), int(match[2]) if match[2] else None


def id_of(text: str) -> tuple[int, int | None]:
    """As ``parse_id``; raises ValueError for a text that is not a job id."""
    if (job := parse_id(text)) is None:
        raise ValueError(f"{text!r} is not a job id; allowed: '42.0', or '42' for a whole cluster")
    return job


def constraint_of(spec: JobSpec) -> str:
    """The constraint that a job spec stands for; raises ValueError if it is empty."""
    if isinstance(spec, bool):
        raise TypeError("a job spec is a list of ids, an id, a cluster number or a constraint")
    if isinstance(spec, int):
        return f"ClusterId == {spec}"
    if isinstance(spec, str):
        if not spec.strip():
            raise ClassAdError("the constraint is empty; 'true' means all jobs")
        return _id_constraint(spec) or spec
    from fetchwork.classad.values import ExprTree, format_expr

    if isinstance(spec, ExprTree):
        return format_expr(spec)
    items = list(spec)
    if not all(isinstance(item, str) for item in items):
        raise TypeError(_NO_IDS)
    parts = [_id_constraint(item) for item in items]
    if not parts or None in parts:
        raise ValueError(_NO_IDS)
    return " || ".join(part for part in parts if part)


def _id_constraint(text: str) -> str | None:
    if (job := parse_id(text)) is None:
        return None
    cluster, proc = job
    return f"(ClusterId == {cluster})" if proc is None else f"(ClusterId == {cluster} && ProcId == {proc})"


def ids_of(spec: JobSpec) -> list[str] | None:
    """The ids of a spec that consists of ids only; else None."""
    if isinstance(spec, int) and not isinstance(spec, bool):
        return [str(spec)]
    items = [spec] if isinstance(spec, str) else spec if isinstance(spec, list | tuple) else None
    if items is None:
        return None
    ids = [item.strip() for item in items if isinstance(item, str) and _id_constraint(item)]
    return ids if len(ids) == len(items) else None


def as_spec(spec: JobSpec) -> str | int | list[str]:
    """A job spec as JSON: an expression as text, ids as a list."""
    if isinstance(spec, str | int) and not isinstance(spec, bool):
        return spec
    ids = ids_of(spec)
    return ids if ids is not None else constraint_of(spec)


def as_ids(spec: JobSpec) -> list[str]:
    """Jobs given by id, as JSON; raises ValueError for anything that is no id."""
    items = spec if isinstance(spec, list | tuple | set | frozenset) else [spec]
    return [
        f"{cluster}" if proc is None else f"{cluster}.{proc}" for cluster, proc in map(id_of, map(str, items))
    ]


def names_of(projection: Sequence[str]) -> list[str]:
    """A projection as a list of names; an item may hold several ('ClusterId,ProcId'), as for a schedd.

    Raises TypeError for a string, which would be a sequence of letters, and for any other item.
    """
    if isinstance(projection, str) or not all(isinstance(item, str) for item in projection):
        raise TypeError("a projection is a list of attribute names")
    return [name for item in projection for name in re.split(r"[,\s]+", item) if name]


def compiled(view: View, constraint: ConstraintSpec, memory: Memory) -> Steps[Constraint]:
    """A constraint compiled for one view; None and '' select everything."""
    text = text_of(constraint)
    names = names_in(text)
    forms: dict[str, Form] = {}
    if any(name.lower() in names for name in view.compositions):
        rows = yield Ask("SELECT current_database() AS name")
        forms = view.forms(rows[0]["name"])
    named = names.union(name.lower() for key in names for _, name in forms.get(key, ()))
    owners = None
    if "owner" in view.columns() and "owner" in named:
        rows = yield Ask("SELECT owner FROM fetchwork.owners")
        owners = [row["owner"] for row in rows]
    source = yield from source_of(view, names, memory)
    return compile_constraint(text, dataclasses.replace(source, owners=owners, forms=forms))


def source_of(view: View, names: Collection[str], memory: Memory) -> Steps[Source]:
    """The source of the attributes that constraints with these names refer to."""
    columns = view.columns()
    if not set(names) <= columns.keys() and not memory.spellings:
        rows = yield Ask("SELECT key, name FROM fetchwork.attribute")
        memory.spellings = {row["key"]: row["name"] for row in rows}
    return Source(columns, view.inner, memory.spellings, layers=view.layers)
