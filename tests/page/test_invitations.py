"""Administrators invite hosts on the page, and end invitations and identities; other persons can't."""

import html
import re
from pathlib import Path

import psycopg
import pytest
from starlette.testclient import TestClient

from fetchwork.config.identity import InvitationText
from tests.page.conftest import Serve
from tests.page.test_pages import form_key
from tests.support.joining import join, run_host
from tests.support.there import there


def invited(page: TestClient, **form: str) -> str:
    """The line of a new invitation."""
    answer = page.post("/invitations", data={"form_key": form_key(page, "/invitations"), **form})
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return there(re.search(r"fetchwork-invitation:[\w-]+", answer.text))[0]


def change(page: TestClient, name: str, what: str) -> str:
    """Confirm the question of a change; the question."""
    asked = page.get("/invitations/change", params={"change": what, "name": name}).text
    form = {"form_key": form_key(page, "/invitations"), "change": what, "name": name, "confirmed": "yes"}
    answer = page.post("/invitations/change", data=form, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/invitations")
    return html.unescape(asked)


def test_a_host_joins_by_an_invitation_of_the_page_and_is_revoked_there(
    page: TestClient, conninfo: str, tmp_path: Path
) -> None:
    assert "No invitation was made." in page.get("/invitations").text
    line = invited(page, names="ep*", uses="2", hours="0.5")
    join(conninfo, line, tmp_path)
    text = page.get("/invitations").text
    assert "<td>ep1</td><td>valid</td>" in text
    assert "<td>1 of 2</td>" in text
    # shown once
    assert InvitationText.decode(line).password not in text
    assert "Revoke host ep1" in change(page, "ep1", "revoke")
    assert "<td>ep1</td><td>revoked</td>" in page.get("/invitations").text
    (number,) = re.findall(r'name="name" value="(\d+)"', text)
    assert f"End invitation {number}" in change(page, number, "end")
    assert "<td>ended</td>" in page.get("/invitations").text
    assert "ended" in run_host(conninfo, "invitations")


def test_an_access_point_is_invited_for_accounts(page: TestClient, conninfo: str) -> None:
    line = invited(page, owners="alice", address="db.example.org")
    text = InvitationText.decode(line)
    assert text.access_point
    assert text.server["host"] == "db.example.org"
    assert "<td>alice</td><td>0 of 1</td>" in page.get("/invitations").text


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"uses": "many"}, "is no number"),
        ({"uses": "0"}, "allowed: 1 to 100000"),
        ({"names": "a b"}, "no pattern of host names"),
        ({"owners": "a b"}, "no pattern of account names"),
    ],
)
def test_what_is_wrong_in_the_form_is_said(page: TestClient, form: dict[str, str], problem: str) -> None:
    answer = page.post("/invitations", data={"form_key": form_key(page, "/invitations"), **form})
    assert answer.status_code in (400, 422)
    assert problem in html.unescape(answer.text)


def test_what_is_not_there_is_not_changed(page: TestClient) -> None:
    key = form_key(page, "/invitations")
    for what, name in (("revoke", "absent"), ("admit", "absent"), ("end", "7"), ("end", "x")):
        form = {"form_key": key, "change": what, "name": name, "confirmed": "yes"}
        assert page.post("/invitations/change", data=form).status_code == 404, (what, name)
    assert page.get("/invitations/change?change=sell&name=x").status_code == 400


def test_only_administrators_see_invitations_and_make_them(
    serve: Serve, conninfo: str, connection: psycopg.Connection
) -> None:
    service = serve(write=True, header="X-User", secret="s", admins=("root",))
    proxy = {"X-Fetchwork-Proxy-Secret": "s"}
    alice, root = {**proxy, "X-User": "alice"}, {**proxy, "X-User": "root"}
    assert service.get("/invitations", headers=root).status_code == 200
    assert service.get("/invitations", headers=alice).status_code == 422
    asked = service.get("/queues/default?change=pause", headers=alice).text
    key = there(re.search(r'name="form_key" value="([0-9a-f]+)"', asked))[1]
    assert service.post("/invitations", headers=alice, data={"form_key": key}).status_code == 422
    form = {"form_key": key, "change": "revoke", "name": "ep1", "confirmed": "yes"}
    assert service.post("/invitations/change", headers=alice, data=form).status_code == 422
    # a service without --write makes none
    shows = serve()
    assert shows.get("/invitations").status_code == 200
    assert "<form" not in there(re.search(r"<main.*</main>", shows.get("/invitations").text, re.S))[0]
    assert shows.get("/invitations/change?change=end&name=1").status_code == 403
    assert connection.execute("SELECT count(*) FROM fetchwork.invitation").fetchall() == [(0,)]
