"""The service put together: paths, sign-in, headers, problems."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fetchwork import __version__
from fetchwork.db.schema import Readiness
from fetchwork.page.acting import Person
from fetchwork.page.api import Api
from fetchwork.page.live import Live
from fetchwork.page.pages import Pages
from fetchwork.page.persontokens import PersonTokens, is_person_token
from fetchwork.page.problem import Problem
from fetchwork.page.show import HERE, environment
from fetchwork.page.signin import COOKIE, SignIn
from fetchwork.page.workers import Workers

API: Final = "/api/v1"
#: for programs that watch the service, and tell nothing of the queue
PUBLIC: Final = {f"{API}/openapi.json", "/healthz", "/readyz"}

#: nothing from elsewhere, and no script or style within a page
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def application(conninfo: str, sign_in: SignIn, *, title: str = "fetchwork") -> Starlette:
    """The service of one database, as an ASGI application."""
    workers = Workers(conninfo)
    live = Live(workers)
    tokens = PersonTokens(conninfo, may_write=sign_in.may_write)
    ready = Readiness(conninfo)
    jinja = environment()
    pages = Pages(workers, sign_in, jinja, title)

    async def stream(request: Request) -> Response:
        return StreamingResponse(live.begin(request.state.person), media_type="text/event-stream")

    async def health(request: Request) -> Response:
        problem = await asyncio.to_thread(ready.problem) if request.url.path == "/readyz" else None
        if problem is not None:
            # the reason names server and role, and the asker has not signed in
            return PlainTextResponse("not ready: `fetchwork db status` says why\n", 503)
        return PlainTextResponse(f"ok: fetchwork {__version__}\n")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await live.close()
        await tokens.close()
        workers.close()

    problems = _Problems(jinja, title)
    handlers = {
        Problem: problems.of_problem,
        HTTPException: problems.of_status,
        Exception: problems.of_defect,
    }
    app = Starlette(
        routes=[
            Mount(API, Api(workers, sign_in).application(handlers)),
            Route("/live", stream),
            Route("/healthz", health),
            Route("/readyz", health),
            Mount("/static", StaticFiles(directory=HERE / "static")),
            *pages.routes(),
        ],
        exception_handlers=handlers,
        lifespan=lifespan,
    )
    app.add_middleware(_SignedIn, sign_in=sign_in, tokens=tokens, problems=problems)
    app.add_middleware(_Headers)
    return app


class _Headers:
    """Adds the headers of every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] += [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in given
                ]
            await send(message)

        await self._app(scope, receive, with_headers)


class _SignedIn:
    """Admits only known people; turns the token of a link into a cookie."""

    def __init__(self, app: ASGIApp, sign_in: SignIn, tokens: PersonTokens, problems: _Problems) -> None:
        self._app, self._sign_in, self._tokens, self._problems = app, sign_in, tokens, problems

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        public = scope["path"].startswith("/static/") or scope["path"] in PUBLIC
        token = request.query_params.get("token")
        if token is not None and self._sign_in.header is None and request.method == "GET":
            if self._sign_in.is_token(token) or await self._is_of_person(request, token):
                # removes the token from the address, which browsers remember and send along; "//host" would
                # be another site's
                answer: Response = RedirectResponse("/" + scope["path"].lstrip("/"), 303)
                answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            else:
                # an existing cookie stays: a link of another site signs no person out
                wrong = Problem(
                    401,
                    "not signed in",
                    "the link's token does not count here; it may be of an earlier start, over or revoked",
                )
                answer = await self._problems.of_problem(request, wrong)
            await answer(scope, receive, send)
            return
        if not public:
            try:
                scope.setdefault("state", {})["person"] = await self._person(request)
            except Problem as problem:
                answer = await self._problems.of_problem(request, problem)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _person(self, request: Request) -> Person:
        token = self._sign_in.person_token(request)
        if token is None:
            return self._sign_in.person(request)
        return await self._tokens.person(token, _address(request))

    async def _is_of_person(self, request: Request, token: str) -> bool:
        if not is_person_token(token):
            return False
        try:
            await self._tokens.person(token, _address(request))
        except Problem:
            return False
        return True


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


class _Problems:
    """Answers to errors: JSON to programs, a page to people."""

    def __init__(self, jinja: Environment, title: str) -> None:
        self._page = jinja.get_template("problem.html")
        self._title = title

    async def of_problem(self, request: Request, error: Exception) -> Response:
        """The answer to a problem."""
        assert isinstance(error, Problem)
        if request.url.path.startswith(API):
            return JSONResponse(error.to_json(), error.status, media_type="application/problem+json")
        return HTMLResponse(self._page.render(problem=error, title=self._title), error.status)

    async def of_status(self, request: Request, error: Exception) -> Response:
        """The answer to an unknown path or method."""
        assert isinstance(error, HTTPException)
        detail = f"{request.method} {request.url.path[:200]}"
        problem = Problem(error.status_code, error.detail.lower(), detail)
        answer = await self.of_problem(request, problem)
        answer.headers.update(error.headers or {})
        return answer

    async def of_defect(self, request: Request, error: Exception) -> Response:
        """The answer to a defect of this service; the log has the details."""
        return await self.of_problem(request, Problem(500, "failed", "this service failed; its log says how"))
