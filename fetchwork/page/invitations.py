"""Hosts that joined, and the invitations by which they do: for administrators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from fetchwork.config.identity import InvitationText, new_password, server_for_hosts, verifier_of
from fetchwork.db.calls import hosts
from fetchwork.page.acting import ActingSession, Person
from fetchwork.page.actions import checked_form
from fetchwork.page.problem import Problem
from fetchwork.page.signin import SignIn
from fetchwork.page.workers import Workers
from fetchwork.queue.reading.views import Json

#: change -> what becomes of the host or the invitation
EFFECTS: Final = {
    "revoke": [
        "The database refuses it from now on.",
        "Its jobs run again elsewhere when its lease is over.",
    ],
    "admit": ["Its present password holds for another term, and it gets jobs again."],
    "end": ["No further host joins by this invitation.", "The hosts that joined by it stay."],
}


def listing(session: ActingSession) -> Json:
    """The identities and invitations; raises InsufficientPrivilege if the person is no administrator."""
    identities = session.database.run(hosts.identities())
    invitations = session.database.run(hosts.invitations())
    return {
        "identities": [asdict(one) for one in identities],
        "invitations": [asdict(one) for one in invitations],
    }


def invite(
    session: ActingSession, *, names: str, uses: int, hours: float, owners: str | None, address: str | None
) -> Json:
    """Make an invitation; return its number, its ``line``, which is a secret, and whether hosts verify."""
    settings = session.database.settings()
    authority = settings.get("sslrootcert")
    certificate = Path(authority).read_text(encoding="utf-8") if authority not in (None, "system") else None
    server = server_for_hosts(settings, address, verified=certificate is not None)
    password = new_password()
    call = hosts.invite_host(
        verifier=verifier_of(password), hosts=names, uses=uses, valid_s=3600 * hours, owners=owners
    )
    with session.writing():
        made = session.database.run(call)
    server.update(dbname=made.database, user=made.role)
    text = InvitationText(server, password, ["default"], owners is not None, certificate)
    return {"number": made.number, "line": text.encode(), "verified": certificate is not None}


def change(session: ActingSession, *, what: str, name: str) -> None:
    """Revoke or admit a host, or end an invitation."""
    with session.writing():
        if what == "revoke":
            done = session.database.run(hosts.revoke_host(host=name)) is not None
        elif what == "admit":
            done = session.database.run(hosts.admit_host(host=name))
        else:
            number = int(name) if name.isdecimal() else 0
            done = session.database.run(hosts.uninvite(number=number))
    if not done:
        raise Problem(404, "not found", f"there is no '{name}' of which this could be done")


class Invitations:
    """The pages of invitations; ``render`` makes a page of a template."""

    def __init__(self, workers: Workers, sign_in: SignIn, render: Callable[..., Response]) -> None:
        self._workers = workers
        self._sign_in = sign_in
        self._render = render

    def routes(self) -> list[Route]:
        """The paths of these pages."""
        return [
            Route("/invitations", self.invitations, methods=["GET", "POST"]),
            Route("/invitations/change", self.change, methods=["GET", "POST"]),
        ]

    async def invitations(self, request: Request) -> Response:
        """Identities and invitations; after a form of this page also the invitation that it made."""
        person: Person = request.state.person
        made = None
        if request.method == "POST":
            form = await checked_form(request, self._sign_in)
            given = {name: form.get(name, [""])[0].strip() for name in ("names", "owners", "address")}
            try:
                uses, hours = int(form.get("uses", ["1"])[0]), float(form.get("hours", ["1"])[0])
            except ValueError:
                raise Problem(400, "bad request", "the number of hosts or of hours is no number") from None
            made = await self._workers.ask(
                person, invite, writes=True, names=given["names"] or "*", uses=uses, hours=hours,
                owners=given["owners"] or None, address=given["address"] or None,
            )  # fmt: skip
        found = await self._workers.ask(person, listing)
        answer = self._render(request, "invitations.html", made=made, **found)
        # a secret may stand in it
        answer.headers["Cache-Control"] = "no-store"
        return answer

    async def change(self, request: Request) -> Response:
        """Revoke or admit a host, or end an invitation, after a question."""
        form = await checked_form(request, self._sign_in)
        what, name = form.get("change", [""])[0], form.get("name", [""])[0]
        if what not in EFFECTS:
            raise Problem(400, "bad request", f"change is '{what}'; allowed: {', '.join(EFFECTS)}")
        if form.get("confirmed", [""])[0] != "yes":
            subject = f"invitation {name}" if what == "end" else f"host {name}"
            return self._render(
                request, "change.html", subject=subject, name=name, change=what, effects=EFFECTS[what],
                action="/invitations/change", back="/invitations",
            )  # fmt: skip
        await self._workers.ask(request.state.person, change, writes=True, what=what, name=name)
        return RedirectResponse("/invitations", 303)
