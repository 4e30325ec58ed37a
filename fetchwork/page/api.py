"""``/api/v1``: the queue as JSON. What the paths take and answer is written in ``openapi``.

Ads are in HTCondor's JSON form (``condor_q -json``): an expression is a string ``/Expr(...)/``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Never

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fetchwork.page import questions
from fetchwork.page.openapi import document
from fetchwork.page.problem import Problem
from fetchwork.page.signin import SignIn, check_origin
from fetchwork.page.workers import Workers
from fetchwork.queue.views import Json, Row

#: bytes of a request's body
MAX_BODY = 32 << 20
MAX_LIMIT = 1000
#: jobs of one submission
MAX_JOBS = 100_000
#: seconds between two looks of a stream of events, and the longest that a request waits for events
POLL_S = 0.5
MAX_WAIT_S = 60.0
TOTALS = ("owner", "autocluster", "queue")


class Api:
    """The API of one database."""

    def __init__(self, workers: Workers, sign_in: SignIn) -> None:
        self._workers = workers
        self._sign_in = sign_in

    def routes(self) -> list[Route]:
        """The paths of the API."""
        return [
            Route("/openapi.json", self.openapi),
            Route("/jobs", self.jobs, methods=["GET"]),
            Route("/jobs", self.submit, methods=["POST"]),
            Route("/jobs/{job}", self.job, methods=["GET"]),
            Route("/jobs/{job}", self.edit, methods=["PATCH"]),
            Route("/jobs/{job}/analysis", self.analysis),
            Route("/actions", self.act, methods=["POST"]),
            Route("/history", self.history),
            Route("/runs", self.runs),
            Route("/events", self.events),
            Route("/totals", self.totals),
            Route("/demand", self.demand),
            *(Route(f"/{name}", self._listed(name)) for name in questions.VIEWS),
        ]

    async def openapi(self, request: Request) -> Response:
        """This API, described."""
        return JSONResponse(document())

    async def jobs(self, request: Request) -> Response:
        """Jobs in the queue, by constraint, a page at a time."""
        return await self._page(request, "jobs", "jobs")

    async def submit(self, request: Request) -> Response:
        """Submit jobs, given as ads."""
        body = await self._body(request, {"ad": dict, "jobs": list, "count": int})
        jobs = body.get("jobs", [])
        if not all(isinstance(each, dict) for each in jobs):
            _refuse("jobs is not a list of objects")
        count = body.get("count", 1)
        if isinstance(count, bool) or not 1 <= count <= MAX_JOBS or ("count" in body and jobs):
            _refuse(f"count is a whole number from 1 to {MAX_JOBS}, without jobs")
        if len(jobs) > MAX_JOBS:
            _refuse(f"there are more than {MAX_JOBS} jobs")
        if not jobs and not body.get("ad"):
            _refuse("there is no ad")
        answer = await self._workers.ask(
            request.state.person,
            questions.submit,
            writes=True,
            common=body.get("ad", {}),
            own=jobs or [{}] * count,
        )
        return JSONResponse(answer, 201, headers={"Location": f"/api/v1/jobs/{answer['cluster']}.0"})

    async def job(self, request: Request) -> Response:
        """One job, with its runs and its events."""
        job = request.path_params["job"]
        return JSONResponse(await self._workers.ask(request.state.person, questions.job, job=job))

    async def edit(self, request: Request) -> Response:
        """Change attributes of a job or of a cluster's jobs."""
        changes = await self._body(request)
        if not changes:
            _refuse("the object is empty")
        number = await self._workers.ask(
            request.state.person,
            questions.edit,
            writes=True,
            job=request.path_params["job"],
            changes=changes,
        )
        return JSONResponse({"changed": number})

    async def analysis(self, request: Request) -> Response:
        """Why a job does not run."""
        job = request.path_params["job"]
        return JSONResponse(await self._workers.ask(request.state.person, questions.why, job=job))

    async def act(self, request: Request) -> Response:
        """Hold, release, remove or vacate jobs."""
        body = await self._body(request, {"action": str, "jobs": list, "constraint": str, "reason": str})
        action, jobs, constraint = body.get("action"), body.get("jobs"), body.get("constraint")
        if action not in questions.ACTIONS:
            _refuse(f"action is not one of {', '.join(questions.ACTIONS)}")
        if (jobs is None) == (constraint is None):
            _refuse("give either jobs or a constraint")
        if jobs is not None and not all(isinstance(job, str) for job in jobs):
            _refuse("jobs is not a list of ids such as '42.0'")
        done = await self._workers.ask(
            request.state.person,
            questions.act,
            writes=True,
            action=action,
            jobs=jobs,
            constraint=constraint,
            reason=body.get("reason"),
        )
        return JSONResponse(done)

    async def history(self, request: Request) -> Response:
        """The jobs that left the queue, by constraint, the last first, a page at a time."""
        return await self._page(request, "history", "jobs")

    async def runs(self, request: Request) -> Response:
        """Runs, by constraint, the last first, a page at a time."""
        return await self._page(request, "runs", "runs")

    async def _page(self, request: Request, of: str, name: str) -> Response:
        page = await self._workers.ask(
            request.state.person,
            questions.page,
            of=of,
            constraint=request.query_params.get("constraint", ""),
            after=request.query_params.get("after"),
            limit=_limit(request),
            projection=_names(request),
        )
        return JSONResponse(
            {name: page.ads, "after": page.after, "looked_at": page.looked_at, "about": page.about}
        )

    async def events(self, request: Request) -> Response:
        """Events behind a cursor: as a list, or as a stream where the client accepts one."""
        given = request.query_params
        after = given.get("after", "now")
        job = given.get("job")
        if "text/event-stream" in request.headers.get("accept", ""):
            after = request.headers.get("last-event-id", after)
            # a wrong cursor is told before the stream begins
            first = await self._workers.ask(request.state.person, questions.events, after=after, job=job)
            return StreamingResponse(self._stream(request, first, job), media_type="text/event-stream")
        wait_s = _number(given.get("wait_s", "0"), "wait_s", MAX_WAIT_S)
        end = asyncio.get_running_loop().time() + wait_s
        while True:
            answer = await self._workers.ask(request.state.person, questions.events, after=after, job=job)
            if answer["events"] or asyncio.get_running_loop().time() >= end:
                return JSONResponse(answer)
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

    async def totals(self, request: Request) -> Response:
        """Counts of jobs."""
        by = request.query_params.get("by")
        if by is not None and by not in TOTALS:
            _refuse(f"by is not one of {', '.join(TOTALS)}")
        return JSONResponse(
            {"totals": _plain(await self._workers.ask(request.state.person, questions.totals, by=by))}
        )

    async def demand(self, request: Request) -> Response:
        """What idle jobs ask for."""
        return JSONResponse({"demand": await self._workers.ask(request.state.person, questions.demand)})

    def _listed(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def listed(request: Request) -> Response:
            ads = await self._workers.ask(
                request.state.person,
                questions.listed,
                of=name,
                constraint=request.query_params.get("constraint", ""),
            )
            return JSONResponse({name: ads})

        return listed

    async def _body(self, request: Request, fields: Mapping[str, type] | None = None) -> Json:
        """The JSON object of a request, of which ``fields`` are allowed; raises Problem."""
        if not self._sign_in.by_bearer(request):
            check_origin(request)
        content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content != "application/json":
            # a form of another site can't say so
            raise Problem(415, "wrong content type", f"'{content}': allowed is application/json")
        text = b""
        async for chunk in request.stream():
            text += chunk
            if len(text) > MAX_BODY:
                raise Problem(413, "too large", f"a request has at most {MAX_BODY} bytes")
        try:
            body = json.loads(text)
        except (ValueError, RecursionError) as error:
            _refuse(f"the body is not JSON: {error}")
        if not isinstance(body, dict):
            _refuse("the body is not a JSON object")
        for name, value in body.items():
            if fields is None:
                continue
            if name not in fields:
                _refuse(f"field '{name[:40]}' is unknown; allowed: {', '.join(fields)}")
            if not isinstance(value, fields[name]):
                _refuse(f"{name} is no {_JSON_NAMES[fields[name]]}")
        return body


_JSON_NAMES = {dict: "object", list: "array", int: "whole number", str: "string"}


def _plain(rows: Sequence[Row]) -> list[Json]:
    """Rows whose sums are numbers that JSON has."""
    return [
        {
            name: value if value is None or isinstance(value, str) else int(value)
            for name, value in row.items()
        }
        for row in rows
    ]


def _refuse(detail: str) -> Never:
    raise Problem(400, "bad request", detail)


def _number(text: str, name: str, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        _refuse(f"{name} is '{text[:20]}'; allowed: a number from 0 to {most:g}")
    return number


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", "100")
    if not (text.isascii() and text.isdigit() and len(text) < 8 and 1 <= int(text) <= MAX_LIMIT):
        _refuse(f"limit is '{text[:20]}'; allowed: a whole number from 1 to {MAX_LIMIT}")
    return int(text)


def _names(request: Request) -> list[str]:
    return [name.strip() for name in request.query_params.get("projection", "").split(",") if name.strip()]
