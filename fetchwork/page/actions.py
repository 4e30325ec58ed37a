"""Pages that change something: the question before an action, its result, and the list of past actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from fetchwork.page import questions
from fetchwork.page.acting import ActingSession, Person
from fetchwork.page.forms import form_of
from fetchwork.page.problem import Problem
from fetchwork.page.signin import SignIn
from fetchwork.page.workers import Workers
from fetchwork.queue.reading.views import Json, Row

#: actions of each source that the page shows
MOST = 200
#: action -> the jobs that it changes, by their states in a summary, and what becomes of them
EFFECTS: Final[dict[str, list[tuple[tuple[str, ...], str]]]] = {
    "hold": [
        (("Idle",), "held at once"),
        (("Running", "Suspended"), "ended by their hosts, and held"),
    ],
    "release": [(("Held",), "released, and wait for a slot again")],
    "remove": [
        (("Idle", "Held", "Completed"), "removed from the queue at once"),
        (("Running", "Suspended"), "ended by their hosts, and removed"),
    ],
    "vacate": [(("Running", "Suspended"), "ended by their hosts, and wait for a slot again")],
    "suspend": [(("Running",), "stopped by their hosts, and keep their slots")],
    "continue": [(("Suspended",), "let go on by their hosts")],
}
#: action -> the action that takes it back, and the constraint of the jobs that it changed since {at}
BACK: Final = {
    "hold": ("release", "JobStatus == 5 && HoldReasonCode == 1 && EnteredCurrentStatus >= {at}"),
    "release": ("hold", "JobStatus == 1 && EnteredCurrentStatus >= {at}"),
    "suspend": ("continue", "JobStatus == 7 && EnteredCurrentStatus >= {at}"),
}
_QUEUE_CHANGES: Final = {
    "pause": {"paused": True},
    "resume": {"paused": False},
    "drain": {"draining": True},
    "open": {"draining": False},
}
#: change of a queue -> what becomes of how many of its jobs
QUEUE_EFFECTS: Final = {
    "pause": ["Idle jobs that do not start any more: {IdleJobs}.", "Running jobs that go on: {RunningJobs}."],
    "resume": ["Idle jobs that may start again: {IdleJobs}."],
    "drain": [
        "New submissions to it are refused.",
        "Jobs in it that still run to their end: {IdleJobs} idle, {RunningJobs} running.",
    ],
    "open": ["It takes new submissions again."],
}
# each part is read backwards by its key
_LAST = """
SELECT a.*, extract(epoch FROM a.action_at)::float8 AS at
FROM (
    (
        SELECT a.* FROM fetchwork.actions AS a
        WHERE a.actionid IS NOT NULL AND a.owner IS NOT DISTINCT FROM coalesce(%s, a.owner)
        ORDER BY a.actionid DESC
        LIMIT %s
    )
    UNION ALL
    (
        SELECT a.* FROM fetchwork.actions AS a
        WHERE a.clusterid IS NOT NULL AND a.owner IS NOT DISTINCT FROM coalesce(%s, a.owner)
        ORDER BY a.clusterid DESC
        LIMIT %s
    )
) AS a
ORDER BY a.action_at DESC
LIMIT %s
"""


def last(session: ActingSession, *, owner: str | None) -> Sequence[Row]:
    """The last actions that the person may see, on jobs of one Owner or on everything."""
    return session.database.query(_LAST, [owner, MOST, owner, MOST, MOST])


def act(session: ActingSession, **given: object) -> Json:
    """As ``questions.act``, with the database's time before it."""
    (row,) = session.database.query("SELECT extract(epoch FROM now())::bigint AS at")
    done: Json = questions.act(session, **given)  # type: ignore[arg-type]
    return {**done, "at": row["at"]}


def effects(action: str, counts: Json) -> list[tuple[int, str]]:
    """The numbers of jobs that an action will change, and what becomes of them."""
    found = [(sum(counts.get(state, 0) for state in states), becomes) for states, becomes in EFFECTS[action]]
    return [(jobs, becomes) for jobs, becomes in found if jobs]


class Actions:
    """The changing pages of one database; ``render`` makes a page of a template."""

    def __init__(self, workers: Workers, sign_in: SignIn, render: Callable[..., Response]) -> None:
        self._workers = workers
        self._sign_in = sign_in
        self._render = render

    def routes(self) -> list[Route]:
        """The paths of these pages."""
        return [
            Route("/actions", self.actions),
            Route("/jobs/act", self.act, methods=["GET", "POST"]),
            Route("/queues/{name}", self.change_queue, methods=["GET", "POST"]),
        ]

    async def actions(self, request: Request) -> Response:
        """The last actions of people."""
        owner = request.query_params.get("owner") or None
        rows = await self._workers.ask(request.state.person, last, owner=owner)
        return self._render(request, "actions.html", rows=rows, owner=owner or "", most=MOST)

    async def act(self, request: Request) -> Response:
        """Act on jobs: on the ticked ones, or on all that the filter selects.

        The first time, and by a link, it only shows what will become of how many, and asks.
        """
        person: Person = request.state.person
        form = await checked_form(request, self._sign_in)
        (action,) = form.get("action", [""])[:1]
        if action not in questions.ACTIONS:
            raise Problem(
                400, "bad request", f"action is '{action}'; allowed: {', '.join(questions.ACTIONS)}"
            )
        jobs = form.get("job", [])
        every = form.get("every", [""])[0] == "yes"
        constraint = form.get("constraint", [""])[0].strip() or "true"
        reason = form.get("reason", [""])[0].strip()
        if not jobs and not every:
            raise Problem(400, "bad request", "no job is ticked; tick jobs, or 'all that the filter selects'")
        shown = {"action": action, "constraint": constraint, "jobs": jobs, "every": every, "reason": reason}
        if form.get("confirmed", [""])[0] != "yes":
            counts = await self._workers.ask(
                person, questions.count, constraint=constraint if every else questions.these(jobs)
            )
            return self._render(
                request, "confirm.html", counts=counts, effects=effects(action, counts), **shown
            )
        done = await self._workers.ask(
            person,
            act,
            writes=True,
            action=action,
            reason=reason or None,
            jobs=None if every else jobs,
            constraint=constraint if every else None,
        )
        back, changed = BACK.get(action, ("", ""))
        return self._render(
            request, "done.html", done=done, back=back, changed=changed.format(at=done["at"]), **shown
        )

    async def change_queue(self, request: Request) -> Response:
        """Pause, resume, drain or open a queue, after a question as for jobs."""
        person: Person = request.state.person
        form = await checked_form(request, self._sign_in)
        change = form.get("change", [""])[0]
        if change not in _QUEUE_CHANGES:
            raise Problem(400, "bad request", f"change is '{change}'; allowed: {', '.join(_QUEUE_CHANGES)}")
        name = request.path_params["name"]
        if form.get("confirmed", [""])[0] != "yes":
            queues = await self._workers.ask(person, questions.queues)
            queue = next((ad for ad in queues if ad["Name"] == name), None)
            if queue is None:
                raise Problem(404, "not found", f"there is no queue '{name}'")
            said = [effect.format(**queue) for effect in QUEUE_EFFECTS[change]]
            return self._render(
                request, "change.html", subject=f"queue {name}", name=name, change=change, effects=said,
                action=f"/queues/{quote(name, safe='')}", back="/queues",
            )  # fmt: skip
        changes = _QUEUE_CHANGES[change]
        await self._workers.ask(person, questions.set_queue, writes=True, name=name, changes=changes)
        return RedirectResponse("/queues", 303)


async def checked_form(request: Request, sign_in: SignIn) -> dict[str, list[str]]:
    """The fields of a form of this service, or of a link, which confirms nothing; raises Problem."""
    person: Person = request.state.person
    if request.method == "POST":
        form = await form_of(request)
        sign_in.check_form(request, person, form.get("form_key", [None])[0])
        return form
    if not person.may_write:
        raise Problem(403, "not allowed", "this service only shows: it was started without --write")
    given = request.query_params
    return {name: given.getlist(name) for name in given if name != "confirmed"}
