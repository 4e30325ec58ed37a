"""Pages that change something: the question before an action, its result, and the list of past actions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
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
#: effects of the removal of a group
REMOVED_GROUP: Final = [
    "Groups below it that are removed too:",
    "Its jobs stay, and belong to the group above it.",
]
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
            Route("/groups", self.change_group, methods=["GET", "POST"]),
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

    async def change_group(self, request: Request) -> Response:
        """The settings of an accounting group or of a new one; set them, or remove it after a question."""
        person: Person = request.state.person
        form = await checked_form(request, self._sign_in)
        given = {field: values[0].strip() for field, values in form.items()}
        name, change = given.get("name", ""), given.get("change", "")
        if not name or name == "<none>":
            raise Problem(400, "bad request", "name is missing; allowed: the name of an accounting group")
        if given.get("confirmed") == "yes" and change == "set":
            changes = _group_changes(given)
            await self._workers.ask(person, questions.set_group, writes=True, name=name, changes=changes)
            return RedirectResponse("/queues", 303)
        if given.get("confirmed") == "yes" and change == "remove":
            await self._workers.ask(person, questions.remove_group, writes=True, name=name)
            return RedirectResponse("/queues", 303)
        groups = await self._workers.ask(person, questions.listed, of="groups")
        group = next((ad for ad in groups if ad["Name"].lower() == name.lower()), None)
        if change == "remove" and group is not None:
            below = sum(ad["Name"].lower().startswith(f"{name.lower()}.") for ad in groups)
            effects = [f"{effect} {below}." if "below" in effect else effect for effect in REMOVED_GROUP]
            return self._render(
                request, "change.html", subject=f"group {name}", name=name, change=change, effects=effects,
                action="/groups", back="/queues",
            )  # fmt: skip
        shown = _group_fields(group or {})
        return self._render(request, "accountinggroup.html", name=name, shown=shown, is_new=group is None)


def _group_fields(ad: Json) -> dict[str, str]:
    """The settings of an accounting group as the fields of its form have them."""
    dynamic = "DynamicQuota" in ad
    numbers = {
        "quota": ad.get("DynamicQuota" if dynamic else "ConfigQuota"),
        "prio_factor": ad.get("PriorityFactor"),
        "max_idle": ad.get("MaxIdle"),
        "max_autoclusters": ad.get("MaxAutoclusters"),
    }
    return {
        "unit": "dynamic_quota" if dynamic else "quota",
        "accept_surplus": "yes" if ad.get("AcceptSurplus") else "",
        "autoregroup": "yes" if ad.get("AutoRegroup") else "",
        **{field: "" if number is None else f"{number:.15g}" for field, number in numbers.items()},
    }


def _group_changes(given: Mapping[str, str]) -> Json:
    """The settings that a person has changed in the form, whose field ``shown`` has them as they were.

    A manager of a group above may set some, and may send others as they are.
    """
    try:
        shown = json.loads(given.get("shown", "{}"))
    except ValueError:
        shown = None
    if not isinstance(shown, dict):
        raise Problem(400, "bad request", "the form lacks what it showed; load it again")
    changed = {field for field in _group_fields({}) if given.get(field, "") != shown.get(field, "")}
    changes: Json = {
        field: given.get(field) == "yes" for field in changed & {"accept_surplus", "autoregroup"}
    }
    for field in changed & {"prio_factor", "max_idle", "max_autoclusters"}:
        changes[field] = _number(field, given.get(field, "")) if given.get(field) else None
    if changed & {"quota", "unit"}:
        unit = given.get("unit", "")
        if unit not in ("quota", "dynamic_quota"):
            raise Problem(400, "bad request", f"unit is '{unit}'; allowed: quota, dynamic_quota")
        changes[unit] = _number("quota", given.get("quota", ""))
    return changes


def _number(field: str, text: str) -> float:
    whole = field.startswith("max_")
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        number = -1
    # also of what is no number for JSON or the database
    if not 0 <= number < (1 << 31 if whole else math.inf):
        raise Problem(400, "bad request", f"{field} is '{text[:40]}'; allowed: a number from 0")
    return number


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
