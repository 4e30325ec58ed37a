"""The API's description (OpenAPI 3.1)."""

from __future__ import annotations

from fetchwork import __version__
from fetchwork.queue.views import Json

_AD: Json = {"$ref": "#/components/schemas/Ad"}
_CONSTRAINT = ("constraint", "A ClassAd expression; only ads for which it is true.", {"type": "string"})
_PROJECTION = (
    "projection",
    "Attributes, separated by commas; all where it is left out.",
    {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*(,[A-Za-z_][A-Za-z0-9_]*)*$"},
)
_LIMIT = ("limit", "At most so many.", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100})
_JOB: Json = {
    "name": "job",
    "in": "path",
    "required": True,
    "description": "Cluster and process: 42.0",
    "schema": {"type": "string", "pattern": "^[0-9]{1,9}\\.[0-9]{1,9}$"},
}
_COUNT: Json = {"type": "integer"}


def _object(properties: Json, required: list[str] | None = None, *, closed: bool = False) -> Json:
    """The schema of an object."""
    schema: Json = {"type": "object", "properties": properties}
    if required is None:
        required = list(properties)
    if required:
        schema["required"] = required
    if closed:
        schema["additionalProperties"] = False
    return schema


def _list_of(name: str, items: Json) -> Json:
    return _object({name: {"type": "array", "items": items}})


def _operation(
    summary: str,
    answer: Json,
    *,
    status: str = "200",
    query: tuple[tuple[str, str, Json], ...] = (),
    body: Json | None = None,
    stream: bool = False,
) -> Json:
    content: Json = {"application/json": {"schema": answer}}
    if stream:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    operation: Json = {
        "summary": summary,
        "responses": {
            status: {"description": "done", "content": content},
            "default": {
                "description": "a problem (RFC 9457)",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if query:
        operation["parameters"] = [
            {"name": name, "in": "query", "description": text, "schema": schema}
            for name, text, schema in query
        ]
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation


def _page_of(name: str) -> Json:
    """A page of a search, and how far that has come."""
    return _object(
        {
            name: {"type": "array", "items": _AD},
            "after": {
                "type": ["string", "null"],
                "description": "where the next page begins; null: there is no more",
            },
            "looked_at": {**_COUNT, "description": f"{name} that the search has looked at so far"},
            "about": {
                "type": ["integer", "null"],
                "description": "about how many there are to look at, where the time was over before the page"
                " was full; null: the page is full, or the last one",
            },
        }
    )


def _after(*digits: int) -> tuple[str, str, Json]:
    """The cursor of a view whose key has numbers of so many digits at most."""
    key = "\\.".join(f"[0-9]{{1,{most}}}" for most in digits)
    return (
        "after",
        "What the page before gave. A page may be short, or empty, and give one: a search that would take"
        " long answers with what it has.",
        {"type": "string", "pattern": f"^{key}(~[0-9]{{1,9}})?$"},
    )


def document() -> Json:
    """The whole description."""
    views = ("slots", "hosts", "queues", "submitters", "limits")
    number = {"type": "integer", "minimum": 1, "maximum": 100_000, "default": 1}
    event = _object({"cursor": {"type": "string"}, "at": {"type": "number"}})
    paths: Json = {
        "/jobs": {
            "get": _operation(
                "Jobs in the queue, a page at a time.",
                _page_of("jobs"),
                query=(_CONSTRAINT, _PROJECTION, _LIMIT, _after(9, 9)),
            ),
            "post": _operation(
                "Submit jobs as one cluster: all of them, or none.",
                _object({"cluster": _COUNT, "first_proc": _COUNT, "num_procs": _COUNT}),
                status="201",
                body=_object(
                    {
                        "ad": {**_AD, "description": "attributes that all jobs have"},
                        "jobs": {"type": "array", "items": _AD, "description": "one for each job"},
                        "count": {**number, "description": "so many jobs that are alike; without jobs"},
                    },
                    [],
                    closed=True,
                ),
            ),
        },
        "/jobs/{job}": {
            "parameters": [_JOB],
            "get": _operation(
                "A job, in the queue or in history.",
                _object(
                    {
                        "ad": _AD,
                        "in_queue": {"type": "boolean"},
                        "runs": {"type": "array", "items": _AD},
                        "events": {"type": "array", "items": event},
                        "output": {"type": ["object", "null"]},
                    }
                ),
            ),
            "patch": _operation(
                "Change attributes.",
                _object({"changed": _COUNT}),
                body={"type": "object", "minProperties": 1, "description": "attribute -> new value"},
            ),
        },
        "/jobs/{job}/analysis": {
            "parameters": [_JOB],
            "get": _operation("Why a job does not run.", {"type": "object"}),
        },
        "/actions": {
            "post": _operation(
                "Hold, release, remove or vacate jobs.",
                _object({"TotalSuccess": _COUNT, "TotalNotFound": _COUNT}),
                body=_object(
                    {
                        "action": {"enum": ["hold", "release", "remove", "vacate"]},
                        "jobs": {"type": "array", "items": {"type": "string"}},
                        "constraint": {"type": "string"},
                        "reason": {"type": "string"},
                    },
                    ["action"],
                    closed=True,
                ),
            )
        },
        "/history": {
            "get": _operation(
                "The jobs that left the queue, the last first, a page at a time.",
                _page_of("jobs"),
                query=(_CONSTRAINT, _PROJECTION, _LIMIT, _after(16, 9, 9)),
            )
        },
        "/runs": {
            "get": _operation(
                "Runs of jobs, the last first, a page at a time.",
                _page_of("runs"),
                query=(_CONSTRAINT, _PROJECTION, _LIMIT, _after(16)),
            )
        },
        "/events": {
            "get": _operation(
                "Events behind a cursor; a stream where text/event-stream is accepted.",
                _object({"events": {"type": "array", "items": event}, "cursor": {"type": "string"}}),
                query=(
                    (
                        "after",
                        "A cursor, or 'now'.",
                        {"type": "string", "pattern": "^(now|[0-9]{1,18}\\.[0-9]{1,18})$", "default": "now"},
                    ),
                    (
                        "job",
                        "Only events of this job or cluster.",
                        {"type": "string", "pattern": "^[0-9]{1,9}(\\.[0-9]{1,9})?$"},
                    ),
                    (
                        "wait_s",
                        "Seconds to wait for the first event.",
                        {"type": "number", "minimum": 0, "maximum": 60, "default": 0},
                    ),
                ),
                stream=True,
            )
        },
        "/totals": {
            "get": _operation(
                "Counts of jobs, from counters that are kept.",
                _list_of("totals", {"type": "object"}),
                query=(("by", "A line for each.", {"enum": ["owner", "autocluster", "queue"]}),),
            )
        },
        "/demand": {"get": _operation("What idle jobs ask for.", _list_of("demand", {"type": "object"}))},
        **{
            f"/{name}": {"get": _operation(f"All {name}.", _list_of(name, _AD), query=(_CONSTRAINT,))}
            for name in views
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fetchwork",
            "version": __version__,
            "description": "A job queue for HTCondor's fetch-work hooks.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Ad": {"type": "object", "description": "an ad in HTCondor's JSON form"},
                "Problem": _object(
                    {
                        "type": {"type": "string"},
                        "title": {"type": "string"},
                        "status": _COUNT,
                        "detail": {"type": "string"},
                    }
                ),
            },
        },
    }
