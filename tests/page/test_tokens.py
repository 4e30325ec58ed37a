"""People sign in at the page and the API with tokens of their own."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from fetchwork.cli.token import cli
from fetchwork.db.calls.tokens import digest_of
from fetchwork.page import persontokens, questions
from fetchwork.page.acting import Person
from fetchwork.page.problem import Problem
from fetchwork.page.workers import Workers
from tests.page.conftest import TOKEN, Serve
from tests.page.test_rights import CHANGES, state
from tests.security.conftest import Root
from tests.security.roles import PASSWORD, SECRET

Tokens = Callable[..., str]


@pytest.fixture
def tokens(conninfo: str) -> Tokens:
    """Runs ``fetchwork token``; the answer of ``create`` is the token."""

    def run(*words: object) -> str:
        ended = CliRunner().invoke(cli, ["--dsn", conninfo, *map(str, words)], catch_exceptions=False)
        assert ended.exit_code == 0, ended.output
        # older versions of click don't keep stderr apart
        return ended.stdout.splitlines()[0] if words[0] == "create" else ended.stdout.strip()

    return run


@pytest.fixture
def at(busy: Root) -> str:
    """The connection string of a service that acts for people."""
    return busy.server.conninfo("kept", user="fw_point", password=PASSWORD)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_person_works_with_a_token_until_it_is_revoked(
    serve: Serve, busy: Root, at: str, tokens: Tokens
) -> None:
    page = serve(write=True, at=at)
    alice = bearer(tokens("create", "--owner", "alice", "--valid", "30d"))
    found = page.get("/api/v1/jobs", headers=alice).json()["jobs"]
    assert {ad["Owner"] for ad in found} == {"alice"}
    done = page.post("/api/v1/actions", headers=alice, json={"action": "hold", "jobs": ["1.2"]})
    assert done.json()["TotalSuccess"] == 1
    made = page.post("/api/v1/jobs", headers=alice, json={"ad": {"Cmd": "/bin/true"}})
    owner = "SELECT owner FROM fetchwork.job WHERE cluster_id = %s"
    assert busy.value(owner, made.json()["cluster"]) == "alice"
    noted = "SELECT role, person FROM fetchwork.actions WHERE action = 'hold'"
    assert busy.rows(noted) == [("fw_point", "alice")]
    (row,) = json.loads(tokens("list", "--json"))
    assert (row["owner"], row["state"], row["read_only"]) == ("alice", "valid", False)
    assert "is refused from now on" in tokens("revoke", row["number"])
    assert "had ended before" in tokens("revoke", row["number"])
    for path in ("/api/v1/jobs", "/", "/charts"):
        assert page.get(path, headers=alice).status_code == 401, path
    again = page.post("/api/v1/actions", headers=alice, json={"action": "release", "jobs": ["1.2"]})
    assert (again.status_code, busy.status("1.2")) == (401, 5)
    # the service's own token is beside it
    assert page.get("/api/v1/jobs").status_code == 200


def test_a_browser_keeps_the_token_of_a_link(serve: Serve, busy: Root, at: str, tokens: Tokens) -> None:
    browser = serve(write=True, at=at)
    del browser.headers["Authorization"]
    assert browser.get("/").status_code == 401
    assert browser.get("/", params={"token": "fetchwork_guessed"}).status_code == 401
    token = tokens("create", "--owner", "alice")
    answer = browser.get("/jobs", params={"token": token}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs")
    assert "SameSite=strict" in answer.headers["set-cookie"]
    text = browser.get("/jobs").text
    assert "1.2" in text and "batch-bob" not in text
    (key,) = set(re.findall(r'name="form_key" value="([0-9a-f]+)"', text))
    form = {"form_key": key, "action": "hold", "job": "1.2", "confirmed": "yes"}
    assert browser.post("/jobs/act", data={**form, "form_key": "0"}).status_code == 403
    assert "Done: 1 job" in browser.post("/jobs/act", data=form).text
    busy.connection.execute("UPDATE fetchwork.person_token SET valid_until = now()")
    assert browser.post("/jobs/act", data={**form, "action": "release"}).status_code == 401
    assert (browser.get("/jobs").status_code, busy.status("1.2")) == (401, 5)


async def test_what_is_under_way_ends_with_its_token(
    conninfo: str, busy: Root, at: str, tokens: Tokens
) -> None:
    """Streams and long actions ask for the person that signed in before."""
    digest = digest_of(tokens("create", "--owner", "alice"))
    person = Person("alice", "alice", may_write=True, token=digest)
    asked = Workers(at)
    try:
        found = await asked.ask(person, questions.page, of="jobs", constraint="", after=None, limit=9)
        assert {ad["Owner"] for ad in found.ads} == {"alice"}
        tokens("revoke", 1)
        held: dict[str, Any] = {"action": "hold", "jobs": ["1.2"], "constraint": None, "reason": None}
        with pytest.raises(Problem) as caught:
            await asked.ask(person, questions.overview)
        assert "was revoked" in caught.value.detail
        with pytest.raises(Problem) as caught:
            await asked.ask(person, questions.act, writes=True, slow=False, **held)
        assert "was revoked" in caught.value.detail
    finally:
        asked.close()
    assert busy.status("1.2") == 1


def changes(page: TestClient, token: str, form_key: str) -> list[tuple[int, str]]:
    """Status and text of the answers to all changes of alice's jobs."""
    answers = []
    for (method, path), asked in CHANGES.items():
        for address, given in asked:
            if path.startswith("/api"):
                answer = page.request(method, address, headers=bearer(token), json=given)
            else:
                form = {**given, "form_key": form_key, "confirmed": "yes"}
                answer = page.request(method, address, headers=bearer(token), data=form)
            answers.append((answer.status_code, answer.text))
    return answers


def form_key(page: TestClient, token: str) -> str:
    text = page.get("/jobs", headers=bearer(token)).text
    return next(iter(re.findall(r'name="form_key" value="([0-9a-f]+)"', text)), "")


def test_a_token_of_another_shows_and_changes_nothing(
    serve: Serve, busy: Root, at: str, tokens: Tokens
) -> None:
    page = serve(write=True, at=at)
    busy.act("remove", "2.1", "2.2")
    busy.act("remove_now", "2.1")
    bob = tokens("create", "--owner", "bob")
    for path in (
        "/",
        "/held",
        "/jobs",
        "/history",
        "/actions",
        "/api/v1/jobs",
        "/api/v1/history",
        "/api/v1/runs",
    ):
        answer = page.get(path, headers=bearer(bob))
        assert (answer.status_code, "alice" in answer.text) == (200, False), path
    for path in ("/jobs/1.1", "/jobs/1.2/why", "/jobs/1.1/output", "/clusters/1", "/api/v1/jobs/1.0"):
        assert page.get(path, headers=bearer(bob)).status_code == 404, path
    before = state(busy)
    for status, text in changes(page, bob, form_key(page, bob)):
        nothing = r'Done: 0 jobs|<strong>0</strong>|"changed": ?0|"TotalSuccess": ?0'
        assert status in (403, 404, 422) or re.search(nothing, text), text
    assert state(busy) == before


def test_a_read_only_token_is_refused_every_action(serve: Serve, busy: Root, at: str, tokens: Tokens) -> None:
    page = serve(write=True, at=at)
    alice = tokens("create", "--owner", "alice", "--read-only")
    assert SECRET in page.get("/api/v1/jobs", headers=bearer(alice)).text
    assert "read only" in page.get("/", headers=bearer(alice)).text
    before = state(busy)
    for status, text in changes(page, alice, form_key(page, alice)):
        assert status == 403, text
    assert state(busy) == before


def test_a_token_gives_no_rights_that_the_service_has_not(
    serve: Serve, conninfo: str, busy: Root, at: str, tokens: Tokens
) -> None:
    alice = bearer(tokens("create", "--owner", "alice"))
    shows = serve(at=at)
    hold = {"action": "hold", "jobs": ["1.2"]}
    assert shows.post("/api/v1/actions", headers=alice, json=hold).status_code == 403
    reader = serve(write=True, at=busy.server.conninfo("kept", user="fw_reader", password=PASSWORD))
    assert reader.get("/api/v1/jobs", headers=alice).status_code == 401
    assert busy.status("1.2") == 1


def test_behind_a_proxy_programs_have_tokens_too(serve: Serve, busy: Root, at: str, tokens: Tokens) -> None:
    page = serve(write=True, header="X-User", at=at)
    token = tokens("create", "--owner", "alice")
    assert page.get("/api/v1/jobs").status_code == 401
    owners = {ad["Owner"] for ad in page.get("/api/v1/jobs", headers=bearer(token)).json()["jobs"]}
    assert owners == {"alice"}
    # the proxy's own name for the person does not count beside it
    named = page.get("/api/v1/jobs", headers={**bearer(token), "X-User": "bob"}).json()["jobs"]
    assert {ad["Owner"] for ad in named} == {"alice"}
    page.cookies.set("fetchwork_token", token)
    assert page.get("/api/v1/jobs").status_code == 401


def test_guesses_are_refused_and_bounded_for_their_address_alone(
    serve: Serve, busy: Root, at: str, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = serve(at=at)
    for guess in ("fetchwork_", "fetchwork_" + "x" * 43, "fetchwork_" + "x" * 9999, "fetchwork_\x7f"):
        assert page.get("/api/v1/jobs", headers=bearer(guess)).status_code == 401
    monkeypatch.setattr(persontokens, "MOST_EACH", 0)
    assert page.get("/api/v1/jobs", headers=bearer("fetchwork_x")).status_code == 429
    # nor does it reach those with the service's token
    assert page.get("/api/v1/jobs", headers=bearer(TOKEN)).status_code == 200


def test_a_token_is_nowhere_in_the_database(conninfo: str, busy: Root, tokens: Tokens) -> None:
    token = tokens("create", "--owner", "alice")
    assert len(token) > 50
    assert token not in str(busy.rows("SELECT t::text FROM fetchwork.person_token AS t"))
    assert token not in str(busy.rows("SELECT a::text FROM fetchwork.action AS a"))
    assert token not in tokens("list")
