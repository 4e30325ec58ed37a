"""The pages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from urllib.parse import urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from fetchwork.dag import drawing
from fetchwork.explain.judging import VERDICTS
from fetchwork.page import charts, clusters, dags, machines, questions, timeline
from fetchwork.page.acting import Person
from fetchwork.page.actions import Actions
from fetchwork.page.forms import STATES, constraint_of
from fetchwork.page.invitations import Invitations
from fetchwork.page.problem import Problem
from fetchwork.page.search import Page
from fetchwork.page.signin import SignIn
from fetchwork.page.tables import Table
from fetchwork.page.workers import Workers
from fetchwork.queue.reading.views import Json

#: jobs on a page
JOBS_A_PAGE = 50
#: jobs that are sorted by any of their attributes; more keep their own order
MOST_SORTED = 1000
#: seconds for which charts are cached
CHARTS_S = 20.0
#: the parameters of charts
_CHARTED = ("range", "owner", "queue", "host")
#: the last positions of the script that follows a job's output
OUTPUT_POSITIONS = ("run", "stdout_at", "stderr_at")


class Pages:
    """Renders the pages of one database."""

    def __init__(self, workers: Workers, sign_in: SignIn, jinja: Environment, title: str) -> None:
        self._workers = workers
        self._sign_in = sign_in
        self._jinja = jinja
        self._title = title
        self._actions = Actions(workers, sign_in, self.render)
        self._invitations = Invitations(workers, sign_in, self.render)
        #: charts by person, range and owner, and the time when they were read
        self._charts: dict[tuple[Person | str | None, ...], tuple[float, Json]] = {}

    def routes(self) -> list[Route]:
        """The paths of the pages."""
        return [
            *self._actions.routes(),
            *self._invitations.routes(),
            Route("/", self.overview),
            Route("/charts", self.charts),
            Route("/hour", self.hour),
            Route("/held", self.held),
            Route("/find", self.find),
            Route("/clusters/{cluster}", self.cluster),
            Route("/clusters/{cluster}/dag", self.dag),
            Route("/batches", self.batch),
            Route("/jobs", self.jobs),
            Route("/jobs/{job}", self.job),
            Route("/jobs/{job}/why", self.why),
            Route("/jobs/{job}/output", self.output),
            Route("/history", self.history),
            Route("/slots", self.slots),
            Route("/hosts/{name}", self.host),
            Route("/hosts/{name}/hour", self.host_hour),
            Route("/queues", self.queues),
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
        given = {name: text for name in _CHARTED if (text := request.query_params.get(name))}
        charts_at = "/charts" + ("?" + urlencode(given) if given else "")
        tables = {of: Table(request, of, f"{of}-") for of in ("owners", "queues")}
        return self.render(request, "overview.html", charts_at=charts_at, tables=tables, **answer)

    async def charts(self, request: Request) -> Response:
        """Charts of a range; a part of the overview that may take longer."""
        asked = {name: request.query_params.get(name) or None for name in _CHARTED}
        answer = await self._read_charts(request.state.person, asked)
        return self.render(request, "charts.html", ranges=charts.RANGES, **answer)

    async def hour(self, request: Request) -> Response:
        """The last hour by owner, and its failures; a part of the overview."""
        answer = await self._workers.ask(request.state.person, charts.last_hour, slow=True)
        now = int(time.time()) // 300 * 300
        return self.render(request, "hour.html", steps=range(now - 11 * 300, now + 1, 300), **answer)

    async def held(self, request: Request) -> Response:
        """Why jobs are held; a part of the overview."""
        rows = await self._workers.ask(request.state.person, questions.held)
        many = sum(row["jobs"] for row in rows) >= questions.MANY_HELD
        return self.render(request, "held.html", rows=rows, many=questions.MANY_HELD if many else None)

    async def _read_charts(self, person: Person, asked: Mapping[str, str | None]) -> Json:
        """The charts; they are not computed anew for each page that shows them."""
        now = time.monotonic()
        self._charts = {each: kept for each, kept in self._charts.items() if now - kept[0] < CHARTS_S}
        key = person, *asked.values()
        if key not in self._charts:
            span, owner, queue, host = asked.values()
            answer = await self._workers.ask(
                person, charts.charts, slow=True, span=span, owner=owner, queue=queue, host=host
            )
            self._charts[key] = (time.monotonic(), answer)
        return self._charts[key][1]

    async def jobs(self, request: Request) -> Response:
        """The jobs in the queue, by a filter."""
        return await self._listing(request, "jobs", states=STATES)

    async def history(self, request: Request) -> Response:
        """The jobs that left the queue, the last first."""
        return await self._listing(request, "history")

    async def _listing(self, request: Request, of: str, **more: object) -> Response:
        table = Table(request, of)
        constraint, found, problem = await self._search(request, of, table)
        return self.render(
            request,
            f"{of}.html",
            problem.status if problem else 200,
            problem=problem,
            found=found,
            constraint=constraint,
            given={"owner": "", "state": "", "constraint": "", "after": "", **request.query_params},
            more=_more(request, found.after),
            table=table,
            most_sorted=MOST_SORTED,
            **more,
        )

    async def _search(self, request: Request, of: str, table: Table) -> tuple[str, Page, Problem | None]:
        """The constraint of a filter, a page of ads, and the problem if the filter is wrong."""
        try:
            constraint = constraint_of(request)
            after = request.query_params.get("after")
            if table.sorted_by is None:
                found = await self._workers.ask(
                    request.state.person,
                    questions.page,
                    of=of,
                    constraint=constraint,
                    after=after,
                    limit=JOBS_A_PAGE,
                )
            else:
                found = await self._workers.ask(
                    request.state.person,
                    questions.sorted_page,
                    of=of,
                    constraint=constraint,
                    column=table.sorted_by,
                    down=table.down,
                    most=MOST_SORTED,
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
        """One job: its life as a line, its ad, the end of its output."""
        job = request.path_params["job"]
        answer = await self._workers.ask(request.state.person, timeline.life, job=job)
        return self.render(request, "job.html", job=job, **answer)

    async def cluster(self, request: Request) -> Response:
        """One cluster: its progress, run times and ends."""
        cluster = request.path_params["cluster"]
        answer = await self._workers.ask(request.state.person, clusters.cluster, cluster=cluster)
        return self.render(
            request, "cluster.html", name=f"Cluster {cluster}", most=clusters.MOST_JOBS, **answer
        )

    async def dag(self, request: Request) -> Response:
        """One DAG: its graph, with the states of its nodes."""
        cluster = request.path_params["cluster"]
        answer = await self._workers.ask(request.state.person, dags.dag, cluster=cluster)
        return self.render(
            request,
            "dag.html",
            name=f"DAG {cluster}",
            box_width=drawing.WIDTH,
            box_height=drawing.HEIGHT,
            **answer,
        )

    async def batch(self, request: Request) -> Response:
        """One batch, as a cluster."""
        owner, name = (request.query_params.get(key, "") for key in ("owner", "name"))
        answer = await self._workers.ask(request.state.person, clusters.batch, owner=owner, name=name)
        return self.render(
            request, "cluster.html", name=f"Batch {name}", most=clusters.MOST_JOBS, dag=None, **answer
        )

    async def find(self, request: Request) -> Response:
        """Leads from the search box to the page of what was typed."""
        text = request.query_params.get("text", "").strip()
        address = await self._workers.ask(request.state.person, clusters.find, text=text) if text else "/jobs"
        return RedirectResponse(address, 303)

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
        """The map of the pool, and its slots."""
        constraint = request.query_params.get("constraint", "")
        found: Json = {"hosts": [], "slots": [], "most_hosts": 0}
        problem = None
        try:
            found = await self._workers.ask(request.state.person, machines.pool, constraint=constraint)
        except Problem as wrong:
            if wrong.status != 400:
                raise
            problem = wrong
        status = problem.status if problem else 200
        tables = {of: Table(request, of, f"{of}-") for of in ("hosts", "slots")}
        return self.render(
            request, "slots.html", status, problem=problem, constraint=constraint, tables=tables, **found
        )

    async def host(self, request: Request) -> Response:
        """One host: its alerts, slots and runs."""
        name = request.path_params["name"]
        answer = await self._workers.ask(request.state.person, machines.host, name=name)
        tables = {of: Table(request, of, f"{of}-") for of in ("runs", "slots")}
        return self.render(request, "host.html", name=name, tables=tables, **answer)

    async def host_hour(self, request: Request) -> Response:
        """A host's ended runs; a part of its page that may take longer."""
        name = request.path_params["name"]
        answer = await self._workers.ask(request.state.person, machines.host_hour, name=name, slow=True)
        return self.render(request, "hosthour.html", name=name, **answer)

    async def queues(self, request: Request) -> Response:
        """The queues."""
        queues = await self._workers.ask(request.state.person, questions.queues)
        limits = await self._workers.ask(request.state.person, questions.listed, of="limits")
        starts = [ad for ad in limits if "MaxStarts" in ad]
        groups = await self._workers.ask(request.state.person, questions.listed, of="groups")
        return self.render(
            request,
            "queues.html",
            queues=queues,
            limits=[ad for ad in limits if "MaxStarts" not in ad],
            starts=starts,
            groups=groups,
            table=Table(request, "queues"),
        )

    async def submitters(self, request: Request) -> Response:
        """Submitters and their usage."""
        submitters = await self._workers.ask(request.state.person, questions.listed, of="submitters")
        return self.render(
            request, "submitters.html", submitters=submitters, table=Table(request, "submitters")
        )


def _more(request: Request, after: str | None) -> str | None:
    """The link to the next page."""
    if after is None:
        return None
    given = [item for item in request.query_params.multi_items() if item[0] != "after"]
    return f"{request.url.path}?" + urlencode([*given, ("after", after)])
