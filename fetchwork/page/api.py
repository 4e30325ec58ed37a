"""``/api/v1``: the queue as JSON, described by the schema that FastAPI makes of this module.

Ads are in HTCondor's JSON form (``condor_q -json``): an expression is a string ``/Expr(...)/``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Annotated, Any, Literal, Self, TypeAlias

from fastapi import Depends, FastAPI, Header, Path, Query
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Message

from fetchwork import __version__
from fetchwork.page import questions
from fetchwork.page.problem import Problem
from fetchwork.page.signin import SignIn, check_origin
from fetchwork.page.workers import Workers
from fetchwork.queue.reading.views import Json
from fetchwork.traceparent import VARIABLE

#: bytes of a request's body
MAX_BODY = 32 << 20
#: jobs of one submission
MAX_JOBS = 100_000
#: seconds between two reads for a stream of events, and the longest that a request waits for events
POLL_S = 0.5
MAX_WAIT_S = 60.0

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
Constraint: TypeAlias = Annotated[str, Query(description="a ClassAd expression that must be true")]
Projection: TypeAlias = Annotated[
    str, Query(description="attributes, separated by commas", pattern=f"^({_NAME}(,{_NAME})*)?$")
]
Most: TypeAlias = Annotated[int, Query(ge=1, le=1000)]
Job: TypeAlias = Annotated[str, Path(description="cluster and process: 42.0", pattern=r"^\d{1,9}\.\d{1,9}$")]
GroupName: TypeAlias = Annotated[
    str, Path(description="with dots between the names: physics.atlas", pattern=r"^[A-Za-z0-9_.-]{1,200}$")
]
JobOrCluster: TypeAlias = Annotated[str, Path(pattern=r"^\d{1,9}(\.\d{1,9})?$")]
After: TypeAlias = Annotated[
    str | None,
    Query(
        description="the 'after' of the page before; a page may be short, or empty, and have one",
        pattern=r"^\d{1,16}(\.\d{1,9}){0,2}(~\d{0,9})?$",
    ),
]


class _Page(BaseModel):
    after: Annotated[str | None, Field(description="the cursor of the next page; null at the end")]
    looked_at: Annotated[int, Field(description="ads that the search has looked at so far")]
    about: Annotated[
        int | None,
        Field(description="about how many there are to look at, where time ran out before the page was full"),
    ]


class Jobs(_Page):
    """A page of jobs."""

    jobs: list[Json]


class Runs(_Page):
    """A page of runs."""

    runs: list[Json]


class OneJob(BaseModel):
    """A job with its runs, its last events and the end of its output."""

    ad: Json
    in_queue: bool
    runs: list[Json]
    events: list[Json]
    output: Json | None


class Events(BaseModel):
    """Events, and the cursor to go on with."""

    events: list[Json]
    cursor: str


class Submitted(BaseModel):
    """A new cluster."""

    cluster: int
    first_proc: int
    num_procs: int


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Submission(_Body):
    """Jobs as ads: the attributes that all have, and either those of each or how many are alike."""

    ad: Json = {}
    jobs: Annotated[list[Json], Field(max_length=MAX_JOBS)] = []
    count: Annotated[int, Field(ge=1, le=MAX_JOBS)] = 1

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.jobs and not self.ad:
            raise ValueError("there is no ad")
        if self.jobs and "count" in self.model_fields_set:
            raise ValueError("count goes without jobs")
        return self


class Action(_Body):
    """An action on jobs that are named by their ids or by a constraint."""

    action: Literal["hold", "release", "remove", "vacate", "suspend", "continue"]
    jobs: list[str] | None = None
    constraint: str | None = None
    reason: str | None = None

    @model_validator(mode="after")
    def _selects(self) -> Self:
        if (self.jobs is None) == (self.constraint is None):
            raise ValueError("give either jobs or a constraint")
        return self


class Group(_Body):
    """Settings of an accounting group; those that are not given stay as they are."""

    quota: Annotated[float | None, Field(description="in weighted slots", allow_inf_nan=False)] = None
    dynamic_quota: Annotated[
        float | None,
        Field(description="a part, 0 to 1, of what quotas leave of the group above", allow_inf_nan=False),
    ] = None
    accept_surplus: bool | None = None
    autoregroup: bool | None = None
    prio_factor: Annotated[
        float | None, Field(description="null: the pool's default", allow_inf_nan=False)
    ] = None
    max_idle: Annotated[int | None, Field(description="null: no ceiling", ge=0, lt=2**31)] = None
    max_autoclusters: Annotated[int | None, Field(description="null: no ceiling", ge=0, lt=2**31)] = None
    managers: Annotated[
        list[str] | None, Field(description="database roles that may set the groups below it")
    ] = None

    @model_validator(mode="after")
    def _changes(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("there is nothing to set")
        for name in ("accept_surplus", "autoregroup", "managers"):
            if name in self.model_fields_set and getattr(self, name) is None:
                raise ValueError(f"{name} is null")
        return self


class _ProblemBody(BaseModel):
    type: str
    title: str
    status: int
    detail: str


class Api:
    """The API of one database."""

    def __init__(self, workers: Workers, sign_in: SignIn) -> None:
        self._workers = workers
        self._sign_in = sign_in

    def application(self, handlers: dict[Any, Any]) -> FastAPI:
        """The API as an application; ``handlers`` answer its exceptions."""
        app = FastAPI(
            title="fetchwork",
            version=__version__,
            description="A job queue for HTCondor's fetch-work hooks.",
            docs_url=None,
            redoc_url=None,
            exception_handlers={**handlers, RequestValidationError: _refuse},
            # of the description alone: sign-in is before this
            dependencies=[Depends(HTTPBearer(scheme_name="token", auto_error=False))],
            responses={
                "default": {
                    "description": "a problem (RFC 9457)",
                    "content": {"application/problem+json": {"schema": _ProblemBody.model_json_schema()}},
                }
            },
        )
        app.router.route_class = _route_class(self._sign_in)
        endpoints: list[tuple[str, str, Callable[..., Any]]] = [
            ("/jobs/{job}", "GET", self.job),
            ("/jobs/{job}", "PATCH", self.edit),
            ("/jobs/{job}/analysis", "GET", self.analysis),
            ("/actions", "POST", self.act),
            ("/groups/{name}", "PUT", self.set_group),
            ("/groups/{name}", "DELETE", self.remove_group),
            ("/totals", "GET", self.totals),
            ("/demand", "GET", self.demand),
            *((f"/{name}", "GET", self._listed(name)) for name in questions.VIEWS),
        ]
        for path, method, endpoint in endpoints:
            app.add_api_route(path, endpoint, methods=[method])
        for of, name, model in (("jobs", "jobs", Jobs), ("history", "jobs", Jobs), ("runs", "runs", Runs)):
            app.add_api_route(f"/{of}", self._long(of, name), response_model=model)
        app.add_api_route("/jobs", self.submit, methods=["POST"], status_code=201)
        stream: dict[int | str, Json] = {
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
        }
        app.add_api_route("/events", self.events, response_model=Events, responses=stream)
        return app

    def _long(self, of: str, name: str) -> Callable[..., Awaitable[Json]]:
        async def found(
            request: Request,
            constraint: Constraint = "",
            projection: Projection = "",
            limit: Most = 100,
            after: After = None,
        ) -> Json:
            page = await self._workers.ask(
                request.state.person,
                questions.page,
                of=of,
                constraint=constraint,
                after=after,
                limit=limit,
                projection=projection.split(",") if projection else [],
            )
            return {name: page.ads, "after": page.after, "looked_at": page.looked_at, "about": page.about}

        found.__name__ = of
        found.__doc__ = f"The {of}, a page at a time; {'the oldest' if of == 'jobs' else 'the last'} first."
        return found

    async def submit(
        self,
        request: Request,
        response: Response,
        body: Submission,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=250)] = None,
        traceparent: Annotated[str | None, Header(description="W3C Trace Context")] = None,
    ) -> Submitted:
        """Submit jobs as one cluster: all of them, or none.

        A submission that is repeated with the same Idempotency-Key submits nothing, and is answered with the
        first one's cluster. The jobs get the traceparent, unless it is malformed or the ad has one.
        """
        answer = await self._workers.ask(
            request.state.person,
            questions.submit,
            writes=True,
            common=body.ad,
            own=body.jobs or [{}] * body.count,
            key=idempotency_key,
            environment={} if traceparent is None else {VARIABLE: traceparent},
        )
        response.headers["Location"] = f"/api/v1/jobs/{answer['cluster']}.0"
        return Submitted(**answer)

    async def job(self, request: Request, job: Job) -> OneJob:
        """A job, in the queue or in history."""
        return OneJob(**await self._workers.ask(request.state.person, questions.job, job=job))

    async def edit(
        self, request: Request, job: JobOrCluster, changes: Annotated[Json, Field(min_length=1)]
    ) -> dict[Literal["changed"], int]:
        """Change attributes of a job or of a cluster's jobs: attribute -> new value."""
        number = await self._workers.ask(
            request.state.person, questions.edit, writes=True, job=job, changes=changes
        )
        return {"changed": number}

    async def analysis(self, request: Request, job: Job) -> Json:
        """Why a job does not run."""
        return await self._workers.ask(request.state.person, questions.why, job=job)

    async def act(self, request: Request, body: Action) -> dict[str, int]:
        """Hold, release, remove, vacate, suspend or continue jobs."""
        return await self._workers.ask(request.state.person, questions.act, writes=True, **body.model_dump())

    async def set_group(self, request: Request, name: GroupName, body: Group) -> Json:
        """Make an accounting group with a quota, or change one; its ad as in /groups."""
        changes = body.model_dump(exclude_unset=True)
        return await self._workers.ask(
            request.state.person, questions.set_group, writes=True, name=name, changes=changes
        )

    async def remove_group(self, request: Request, name: GroupName) -> dict[Literal["removed"], int]:
        """Remove an accounting group and those below it; their jobs belong to the group above."""
        number = await self._workers.ask(request.state.person, questions.remove_group, writes=True, name=name)
        return {"removed": number}

    async def events(
        self,
        request: Request,
        after: Annotated[
            str, Query(description="a cursor, or 'now'", pattern=r"^(now|e?\d{1,18}\.\d{1,18})$")
        ] = "now",
        job: Annotated[
            str | None,
            Query(description="only events of this job or cluster", pattern=r"^\d{1,9}(\.\d{1,9})?$"),
        ] = None,
        wait_s: Annotated[
            float, Query(description="seconds to wait for the first event", ge=0, le=MAX_WAIT_S)
        ] = 0.0,
    ) -> Events | Response:
        """Events behind a cursor: as a list, or as a stream where text/event-stream is accepted."""
        if "text/event-stream" in request.headers.get("accept", ""):
            after = request.headers.get("last-event-id", after)
            # a wrong cursor is told before the stream begins
            first = await self._workers.ask(request.state.person, questions.events, after=after, job=job)
            return StreamingResponse(self._stream(request, first, job), media_type="text/event-stream")
        end = asyncio.get_running_loop().time() + wait_s
        while True:
            answer = await self._workers.ask(request.state.person, questions.events, after=after, job=job)
            if answer["events"] or asyncio.get_running_loop().time() >= end:
                return Events(**answer)
            after = answer["cursor"]
            await asyncio.sleep(POLL_S)

    async def _stream(self, request: Request, answer: Json, job: str | None) -> AsyncIterator[str]:
        while not await request.is_disconnected():
            for event in answer["events"]:
                yield f"id: {event['cursor']}\nevent: job\ndata: {json.dumps(event)}\n\n"
            if not answer["events"]:
                yield ": still here\n\n"
            await asyncio.sleep(POLL_S)
            try:
                answer = await self._workers.ask(
                    request.state.person, questions.events, after=answer["cursor"], job=job
                )
            except Problem as problem:
                yield f"event: problem\ndata: {json.dumps(problem.to_json())}\n\n"
                return

    async def totals(
        self, request: Request, by: Literal["owner", "autocluster", "queue"] | None = None
    ) -> dict[Literal["totals"], list[dict[str, int | str | None]]]:
        """Counts of jobs, from counters that the database keeps."""
        return {"totals": await self._workers.ask(request.state.person, questions.totals, by=by)}

    async def demand(self, request: Request) -> dict[Literal["demand"], list[Json]]:
        """Requirements and resources that idle jobs ask for."""
        lines = await self._workers.ask(request.state.person, questions.demand)
        return {"demand": [dict(line) for line in lines]}

    def _listed(self, name: str) -> Callable[..., Awaitable[dict[str, list[Json]]]]:
        async def listed(request: Request, constraint: Constraint = "") -> dict[str, list[Json]]:
            ads = await self._workers.ask(
                request.state.person, questions.listed, of=name, constraint=constraint
            )
            return {name: ads}

        listed.__doc__ = f"All {name}."
        listed.__name__ = name
        return listed


def _route_class(sign_in: SignIn) -> type[APIRoute]:
    """Routes that refuse unknown parameters, other sites' pages, and bodies that are too large."""

    class Route(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()
            known = {parameter.alias for parameter in self.dependant.query_params}

            async def checked(request: Request) -> Response:
                for name in request.query_params:
                    if name not in known:
                        allowed = ", ".join(sorted(known)) or "none"
                        detail = f"parameter '{name[:40]}' is unknown; allowed: {allowed}"
                        raise Problem(400, "bad request", detail)
                if self.body_field is not None:
                    request = await _with_body(request, sign_in)
                elif request.method not in ("GET", "HEAD") and not sign_in.by_bearer(request):
                    check_origin(request)
                return await handle(request)

            return checked

    return Route


async def _with_body(request: Request, sign_in: SignIn) -> Request:
    """A request with its body; raises Problem if the request is not trusted or its body is too large."""
    if not sign_in.by_bearer(request):
        check_origin(request)
    content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != "application/json":
        # another site's form cannot send this type
        raise Problem(415, "wrong content type", f"'{content}': allowed is application/json")
    text = b""
    async for chunk in request.stream():
        text += chunk
        if len(text) > MAX_BODY:
            raise Problem(413, "too large", f"a request has at most {MAX_BODY} bytes")

    async def receive() -> Message:
        return {"type": "http.request", "body": text}

    return Request(request.scope, receive)


async def _refuse(request: Request, error: Exception) -> Response:
    """The answer to parameters or a body that the schema does not allow."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    parameter = ".".join(str(part) for part in first["loc"][1:])
    problem = Problem(400, "bad request", f"{parameter or first['loc'][0]}: {first['msg']}"[:500])
    return JSONResponse(problem.to_json(), 400, media_type="application/problem+json")
