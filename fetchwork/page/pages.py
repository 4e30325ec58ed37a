"""The pages."""

from __future__ import annotations

import time
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from fetchwork.explain.judging import VERDICTS
from fetchwork.page import charts, questions
from fetchwork.page.acting import Person
from fetchwork.page.problem import Problem
from fetchwork.page.search import Page
from fetchwork.page.signin import SignIn
from fetchwork.page.workers import Workers
from fetchwork.queue.constraints.constraint import joined
from fetchwork.queue.reading.views import Json

#: jobs on a page
JOBS_A_PAGE = 50
#: seconds for which the numbers of the last day are cached
DAY_S = 60.0
#: bytes of a form
MAX_FORM = 1 << 20
#: the last positions of the script that follows a job's output
OUTPUT_POSITIONS = ("run", "stdout_at", "stderr_at")
STATES = {"idle": (1,), "running": (2, 6), "removed": (3,), "held": (5,), "suspended": (7,)}


class Pages:
    """Renders the pages of one database."""

    def __init__(self, workers: Workers, sign_in: SignIn, jinja: Environment, title: str) -> None:
        self._workers = workers
        self._sign_in = sign_in
        self._jinja = jinja
        self._title = title
        #: the last day, and the time when it was read
        self._days: dict[Person, tuple[float, list[Json]]] = {}

    def routes(self) -> list[Route]:
        """The paths of the pages."""
        return [
            Route("/", self.overview),
            Route("/charts", self.charts),
            Route("/held", self.held),
            Route("/jobs", self.jobs),
            Route("/jobs/act", self.act, methods=["POST"]),
            Route("/jobs/{job}", self.job),
            Route("/jobs/{job}/why", self.why),
            Route("/jobs/{job}/output", self.output),
            Route("/history", self.history),
            Route("/slots", self.slots),
            Route("/queues", self.queues),
            Route("/queues/{name}", self.change_queue, methods=["POST"]),
            Route("/submitters", self.submitters),
        ]

    def render(self, request: Request, template: str, status: int = 200, **values: object) -> Response:
        """A page for the person who asks."""
        person: Person = request.state.person
        text = self._jinja.get_template(template).render(
            title=self._title,
            person=person,
            form_key=self._sign_in.form_key(person),
            here=request.url.path,
            **values,
        )
        return HTMLResponse(text, status)

    async def overview(self, request: Request) -> Response:
        """Everything at a glance."""
        answer = await self._workers.ask(request.state.person, questions.overview)
        return self.render(request, "overview.html", **answer)

    async def charts(self, request: Request) -> Response:
        """Charts of the last day; a part of the overview that may take longer."""
        rows = await self._last_day(request.state.person)
        return self.render(request, "charts.html", rows=rows)

    async def held(self, request: Request) -> Response:
        """Why jobs are held; a part of the overview."""
        rows = await self._workers.ask(request.state.person, questions.held)
        many = sum(row["jobs"] for row in rows) >= questions.MANY_HELD
        return self.render(request, "held.html", rows=rows, many=questions.MANY_HELD if many else None)

    async def _last_day(self, person: Person) -> list[Json]:
        """The numbers of the last day; they are not computed anew for each page that shows them."""
        now = time.monotonic()
        self._days = {each: day for each, day in self._days.items() if now - day[0] < DAY_S}
        if person not in self._days:
            rows = await self._workers.ask(person, charts.last_day, slow=True)
            self._days[person] = (time.monotonic(), rows)
        return self._days[person][1]

    async def jobs(self, request: Request) -> Response:
        """The jobs in the queue, by a filter."""
        return await self._listing(request, "jobs", states=STATES)

    async def history(self, request: Request) -> Response:
        """The jobs that left the queue, the last first."""
        return await self._listing(request, "history")

    async def _listing(self, request: Request, of: str, **more: object) -> Response:
        constraint, found, problem = await self._search(request, of)
        return self.render(
            request,
            f"{of}.html",
            problem.status if problem else 200,
            problem=problem,
            found=found,
            constraint=constraint,
            given={"owner": "", "state": "", "constraint": "", "after": "", **request.query_params},
            more=_more(request, found.after),
            **more,
        )

    async def _search(self, request: Request, of: str) -> tuple[str, Page, Problem | None]:
        """The constraint of a filter, a page of ads, and the problem if the filter is wrong."""
        try:
            constraint = constraint_of(request)
            after = request.query_params.get("after")
            found = await self._workers.ask(
                request.state.person,
                questions.page,
                of=of,
                constraint=constraint,
                after=after,
                limit=JOBS_A_PAGE,
            )
        except Problem as problem:
            # the page keeps the text that was typed
            if problem.status != 400:
                raise
            return "", Page([], None, 0, None, False), problem
        return constraint, found, None

    async def job(self, request: Request) -> Response:
        """One job: its runs, its events, its ad, the end of its output."""
        job = request.path_params["job"]
        answer = await self._workers.ask(request.state.person, questions.job, job=job)
        return self.render(request, "job.html", job=job, **answer)

    async def why(self, request: Request) -> Response:
        """Why a job does not run; a part of its page that may take longer."""
        analysis = await self._workers.ask(
            request.state.person, questions.why, job=request.path_params["job"]
        )
        return self.render(request, "why.html", analysis=analysis, verdicts=VERDICTS)

    async def output(self, request: Request) -> Response:
        """A running job's output: a page with the output so far, and JSON for the script that goes on."""
        given = request.query_params
        try:
            run, stdout_at, stderr_at = (
                int(given[name]) if given.get(name) else None for name in OUTPUT_POSITIONS
            )
        except ValueError:
            raise Problem(400, "bad request", f"{', '.join(OUTPUT_POSITIONS)} are whole numbers") from None
        job = request.path_params["job"]
        answer = await self._workers.ask(
            request.state.person,
            questions.live_output,
            notes=True,
            job=job,
            run=run,
            stdout_at=stdout_at,
            stderr_at=stderr_at,
        )
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse(answer)
        return self.render(request, "output.html", job=job, output=answer)

    async def slots(self, request: Request) -> Response:
        """Slots and hosts."""
        constraint = request.query_params.get("constraint", "")
        person = request.state.person
        slots, problem = [], None
        try:
            slots = await self._workers.ask(person, questions.listed, of="slots", constraint=constraint)
        except Problem as wrong:
            if wrong.status != 400:
                raise
            problem = wrong
        hosts = await self._workers.ask(person, questions.listed, of="hosts")
        status = problem.status if problem else 200
        return self.render(
            request, "slots.html", status, problem=problem, slots=slots, hosts=hosts, constraint=constraint
        )

    async def queues(self, request: Request) -> Response:
        """The queues."""
        queues = await self._workers.ask(request.state.person, questions.listed, of="queues")
        limits = await self._workers.ask(request.state.person, questions.listed, of="limits")
        return self.render(request, "queues.html", queues=queues, limits=limits)

    async def submitters(self, request: Request) -> Response:
        """Submitters and their usage."""
        submitters = await self._workers.ask(request.state.person, questions.listed, of="submitters")
        return self.render(request, "submitters.html", submitters=submitters)

    # -- changes

    async def act(self, request: Request) -> Response:
        """Act on jobs: on the ticked ones, or on all that the filter selects.

        The first time it only shows their number, and asks.
        """
        person: Person = request.state.person
        form = await form_of(request)
        self._sign_in.check_form(request, person, form.get("form_key", [None])[0])
        (action,) = form.get("action", [""])[:1]
        if action not in questions.ACTIONS:
            raise Problem(
                400, "bad request", f"action is '{action}'; allowed: {', '.join(questions.ACTIONS)}"
            )
        jobs = form.get("job", [])
        every = form.get("every", [""])[0] == "yes"
        constraint = form.get("constraint", [""])[0].strip() or "true"
        if not jobs and not every:
            raise Problem(400, "bad request", "no job is ticked; tick jobs, or 'all that the filter selects'")
        spec = {"jobs": None, "constraint": constraint} if every else {"jobs": jobs, "constraint": None}
        if form.get("confirmed", [""])[0] != "yes":
            chosen = constraint if every else " || ".join(f"JobId == {job}" for job in jobs)
            if every:
                counts = await self._workers.ask(person, questions.count, constraint=constraint)
            else:
                counts = {"Jobs": len(jobs)}
            return self.render(
                request,
                "confirm.html",
                action=action,
                counts=counts,
                chosen=chosen,
                constraint=constraint,
                jobs=jobs,
                every=every,
                reason=form.get("reason", [""])[0],
            )
        done = await self._workers.ask(
            person,
            questions.act,
            writes=True,
            action=action,
            reason=form.get("reason", [""])[0].strip() or None,
            **spec,
        )
        return self.render(request, "done.html", action=action, done=done, constraint=constraint, every=every)

    async def change_queue(self, request: Request) -> Response:
        """Pause, resume, drain or open a queue."""
        person: Person = request.state.person
        form = await form_of(request)
        self._sign_in.check_form(request, person, form.get("form_key", [None])[0])
        changes = {
            "pause": {"paused": True},
            "resume": {"paused": False},
            "drain": {"draining": True},
            "open": {"draining": False},
        }
        change = changes.get(form.get("change", [""])[0])
        if change is None:
            raise Problem(400, "bad request", f"change is not one of {', '.join(changes)}")
        name = request.path_params["name"]
        await self._workers.ask(person, questions.set_queue, writes=True, name=name, changes=change)
        return RedirectResponse("/queues", 303)


def constraint_of(request: Request) -> str:
    """The filter of a request: a constraint, an owner and a state, all of which must hold."""
    given = request.query_params
    parts = []
    if owner := given.get("owner", "").strip():
        quoted = owner.replace("\\", "\\\\").replace('"', '\\"')
        parts.append(f'Owner == "{quoted}"')
    if state := given.get("state", ""):
        if state not in STATES:
            raise Problem(400, "bad request", f"state is '{state}'; allowed: {', '.join(STATES)}")
        parts.append(" || ".join(f"JobStatus == {status}" for status in STATES[state]))
    if constraint := given.get("constraint", "").strip():
        parts.append(constraint)
    return joined(parts) if len(parts) > 1 else "".join(parts)


async def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form; raises Problem if it is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise Problem(413, "too large", f"a form has at most {MAX_FORM} bytes")
    try:
        return parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=5000)
    except ValueError as error:
        raise Problem(400, "bad request", f"the form can't be read: {error}") from None


def _more(request: Request, after: str | None) -> str | None:
    """The link to the next page."""
    if after is None:
        return None
    given = {name: value for name, value in request.query_params.items() if name != "after"}
    return f"{request.url.path}?" + urlencode({**given, "after": after})
