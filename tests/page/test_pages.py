"""The pages: their content, and the actions that they offer."""

import html
import re

import pytest
from starlette.testclient import TestClient

from fetchwork.classad.bindings import JobAction
from fetchwork.page import pages
from fetchwork.queue import Queue
from tests.page.conftest import TOKEN, Serve
from tests.support.direct_queue import DirectQueue
from tests.support.there import there

PAGES = ("/", "/jobs", "/history", "/slots", "/queues", "/submitters", "/charts", "/held")


def submit(queue: Queue, count: int, owner: str = "alice", **more: object) -> int:
    lines = "".join(f"{name} = {value}\n" for name, value in more.items())
    return queue.submit(f"executable = /bin/true\n{lines}", count=count, owner=owner).cluster()


def rows(text: str) -> list[str]:
    """The jobs in the table of a page."""
    return re.findall(r'<td><a href="/jobs/(\d+\.\d+)">', text)


def form_key(page: TestClient, path: str) -> str:
    found = there(re.search(r'name="form_key" value="([0-9a-f]+)"', page.get(path).text))
    return found[1]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_answers_with_an_empty_queue(page: TestClient, path: str) -> None:
    answer = page.get(path)
    assert answer.status_code == 200, answer.text
    assert "None" not in re.sub(r"<[^>]*>", "", answer.text)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_answers_with_jobs(page: TestClient, busy: DirectQueue, path: str) -> None:
    answer = page.get(path)
    assert answer.status_code == 200, answer.text
    assert "None" not in re.sub(r"<[^>]*>", "", answer.text)


def test_the_overview_counts_jobs(page: TestClient, queue: Queue) -> None:
    cluster = submit(queue, 5)
    queue.act(JobAction.Hold, f"{cluster}.0")
    text = page.get("/").text
    assert "<strong>4</strong> idle" in text
    assert "<strong>1</strong> held" in text


def test_the_overview_says_why_jobs_are_held(page: TestClient, queue: Queue) -> None:
    assert 'data-load="/held"' in page.get("/").text
    assert "No job is held." in page.get("/held").text
    first = submit(queue, 5)
    queue.act(JobAction.Hold, [f"{first}.0", f"{first}.1", f"{first}.2"], "<why>")
    queue.act(JobAction.Hold, f"{first}.3", "seldom")
    text = page.get("/held").text
    assert "<td>1, 0</td><td>&lt;why&gt;</td>" in text
    link = there(re.search(r'<a href="([^"]*)">4</a>', text))
    assert len(rows(page.get(html.unescape(link[1])).text)) == 4


def test_reasons_of_others_are_not_told(serve: Serve, busy: DirectQueue) -> None:
    theirs = serve(header="X-User")
    busy.act("hold", "2.2", reason="a secret of bob's")
    assert "secret" not in theirs.get("/held", headers={"X-User": "alice"}).text
    assert "secret" in theirs.get("/held", headers={"X-User": "bob"}).text


def test_output_of_a_running_job_is_shown_as_it_comes(serve: Serve, busy: DirectQueue) -> None:
    # a person who sees a job may watch it, even if no change is allowed
    theirs = serve(header="X-User")
    alice = {"X-User": "alice"}
    json = {**alice, "Accept": "application/json"}
    assert 'data-follow="/jobs/1.1/output"' in theirs.get("/jobs/1.1", headers=alice).text
    assert "data-follow" not in theirs.get("/jobs/1.2", headers=alice).text
    assert "Nothing has come" in theirs.get("/jobs/1.1/output", headers=alice).text
    ((run_id, token),) = busy.rows("SELECT run_id, token FROM fetchwork.output_watch")
    shipped = {"run_id": run_id, "token": token, "stderr_at": None, "stderr": None}
    busy.call("ship_output", **shipped, stdout_at=100, stdout="<b>grün\n".encode())
    assert '<pre tabindex="0">&lt;b&gt;grün\n</pre>' in theirs.get("/jobs/1.1/output", headers=alice).text
    answer = theirs.get("/jobs/1.1/output", headers=json).json()
    assert answer == {
        "run": run_id,
        "running": True,
        "problem": None,
        "stdout_at": 109,
        "stderr_at": None,
        "pieces": [[1, 100, "<b>grün\n"]],
    }
    busy.call("ship_output", **shipped, stdout_at=110, stdout=b"more")
    at = {"run": run_id, "stdout_at": 109, "stderr_at": ""}
    assert theirs.get("/jobs/1.1/output", params=at, headers=json).json()["pieces"] == [[1, 1, "more"]]
    assert theirs.get("/jobs/1.2/output", headers=json).json() is None
    assert "It does not run now." in theirs.get("/jobs/1.2/output", headers=alice).text
    assert theirs.get("/jobs/2.1/output", headers=json).status_code == 404
    assert theirs.get("/jobs/1.1/output?run=x", headers=json).status_code == 400


def test_the_charts_have_starts_ends_running_jobs_and_waits(
    page: TestClient, busy: DirectQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = page.get("/charts", params={"token": TOKEN}, follow_redirects=False)
    assert empty.status_code == 303
    # 1.0 waited 300 s and ended, 2.0 waited 100 s; both started two hours ago, and ended one hour ago
    for table in ("run_history", "job_history"):
        at = "ended_at" if table == "run_history" else "completed_at"
        start = "started_at" if table == "run_history" else "first_start_at"
        busy.connection.execute(
            f"UPDATE fetchwork.{table} SET {at} = now() - interval '1 h', {start} = now() - interval '2 h'"
        )
    busy.connection.execute(
        "UPDATE fetchwork.job_history"
        " SET q_date = first_start_at - make_interval(secs => 500 - 200 * cluster_id)"
    )
    monkeypatch.setattr(pages, "DAY_S", 0.0)
    text = page.get("/charts").text
    assert "4 starts" in text and "2 ends, 0 of these" in text
    assert "2 running now, 2 at most" in text
    assert "the median of each quarter: 00:01:40 at most; longest wait 00:05:00" in text
    drawn = re.findall(r'class="bar-(\w+)"[^>]*><title>[^:]*:[^:]*:[^:]*: (\d+|[0-9:]+) ([^<]*)', text)
    running = [int(value) for name, value, _ in drawn if name == "running"]
    # two from two hours ago, for an hour; then zero, then the two that run now
    assert 3 <= len(running) <= 6 and set(running) == {2}
    # the running jobs may have waited for a second
    assert next(value for name, value, _ in drawn if name == "wait_s") == "00:01:40"


def test_the_charts_do_not_show_others_jobs(serve: Serve, busy: DirectQueue) -> None:
    theirs = serve(header="X-User")
    text = theirs.get("/charts", headers={"X-User": "alice"}).text
    assert "2 starts" in text and "1 running now" in text


def test_jobs_are_shown_by_owner_state_and_constraint(page: TestClient, queue: Queue) -> None:
    first = submit(queue, 3)
    second = submit(queue, 2, "bob", priority=7)
    queue.act(JobAction.Hold, f"{first}.1")
    assert len(rows(page.get("/jobs").text)) == 5
    assert rows(page.get("/jobs?owner=bob").text) == [f"{second}.0", f"{second}.1"]
    assert rows(page.get("/jobs?state=held").text) == [f"{first}.1"]
    assert rows(page.get("/jobs", params={"constraint": "JobPrio > 5"}).text) == [
        f"{second}.0",
        f"{second}.1",
    ]
    assert rows(page.get("/jobs", params={"owner": "bob", "state": "held"}).text) == []
    assert "No job in the queue is like that." in page.get("/jobs?owner=carol").text


def test_a_page_of_jobs_leads_to_the_next(page: TestClient, queue: Queue) -> None:
    submit(queue, 120)
    seen: list[str] = []
    path: str | None = "/jobs?owner=alice"
    while path is not None:
        text = page.get(path).text
        seen += rows(text)
        more = re.search(r'<a href="([^"]*)" rel="next">', text)
        path = more[1].replace("&amp;", "&") if more else None
    assert seen == sorted(set(seen), key=lambda job: int(job.partition(".")[2]))
    assert len(seen) == 120


def test_what_only_htcondor_can_evaluate_is_found_in_stretches(
    page: TestClient, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(queue, 30)
    wanted = submit(queue, 1, "bob")
    constraint = 'regexp("^b.b$", Owner)'
    text = page.get("/jobs", params={"constraint": constraint}).text
    assert rows(text) == [f"{wanted}.0"]


def test_a_job_s_page_has_its_life(page: TestClient, busy: DirectQueue) -> None:
    ended = page.get("/jobs/1.0").text
    assert "Ended with exit code 0." in ended
    assert "Completed" in ended
    running = page.get("/jobs/1.1").text
    assert "Runs on slot00@h1." in running
    waiting = page.get("/jobs/1.2").text
    assert 'data-load="/jobs/1.2/why"' in waiting
    assert "<td>submitted</td>" in waiting
    assert page.get("/jobs/1.2/why").status_code == 200


def test_a_job_that_was_told_to_end_says_when_it_is_killed(page: TestClient, busy: DirectQueue) -> None:
    assert "is killed at" not in page.get("/jobs/1.1").text
    busy.act("remove", "1.1")
    busy.connection.execute("UPDATE fetchwork.run SET signalled_at = '2026-05-06 07:08:09Z'")
    assert "is killed at 2026-05-06 07:18:09 at the latest" in page.get("/jobs/1.1").text
    assert page.get("/api/v1/jobs/1.1").json()["ad"]["FetchWorkKillDate"] == 1778051889


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/jobs/77.0", 404, "neither in the queue nor in its history"),
        ("/jobs/x", 400, "is not a job id"),
        ("/jobs/7", 400, "is not a job"),
        ("/jobs?constraint=Owner+%3D%3D", 400, ""),
        ("/jobs?state=lost", 400, "allowed: idle, running, removed, held, suspended"),
        ("/jobs?after=x", 400, "allowed: what the page before gave"),
        ("/jobs?constraint=%00", 400, ""),
        ("/nowhere", 404, "GET /nowhere"),
    ],
)
def test_what_is_wrong_is_said(page: TestClient, path: str, status: int, detail: str) -> None:
    answer = page.get(path)
    assert answer.status_code == status
    assert 'role="alert"' in answer.text
    assert detail in answer.text


@pytest.mark.parametrize("path", ["/jobs", "/history", "/slots"])
def test_a_filter_that_is_wrong_stays_in_its_page(page: TestClient, path: str) -> None:
    answer = page.get(path, params={"constraint": "Owner == <"})
    assert answer.status_code == 400
    assert 'value="Owner == &lt;"' in answer.text
    assert '<a href="/queues">' in answer.text
    assert re.search('<p role="alert">[^<]+</p>', answer.text)


def test_what_people_write_is_shown_and_not_obeyed(page: TestClient, queue: Queue) -> None:
    cluster = submit(queue, 1, arguments='"<script>alert(1)</script>"')
    queue.act(JobAction.Hold, f"{cluster}.0", '<img src=x onerror="alert(1)">')
    for path in ("/jobs", f"/jobs/{cluster}.0", "/"):
        text = page.get(path).text
        assert "<script>alert" not in text
        assert "<img" not in text
    assert "&lt;img src=x" in page.get("/jobs").text
    assert "&lt;b&gt;" in page.get("/jobs", params={"owner": "<b>"}).text


# ---- changes


def test_ticked_jobs_are_acted_on_after_a_question(page: TestClient, queue: Queue) -> None:
    cluster = submit(queue, 3)
    form = {
        "form_key": form_key(page, "/jobs"),
        "action": "hold",
        "job": [f"{cluster}.0", f"{cluster}.2"],
        "constraint": "",
    }
    asked = page.post("/jobs/act", data=form)
    assert "Hold <strong>2</strong> jobs?" in asked.text
    assert not queue.query("JobStatus == 5")
    done = page.post("/jobs/act", data={**form, "confirmed": "yes", "reason": "for lunch"})
    assert "Done: 2 jobs." in done.text
    held = queue.query("JobStatus == 5", ["ProcId", "HoldReason"])
    assert [(ad["ProcId"], ad["HoldReason"]) for ad in held] == [(0, "for lunch"), (2, "for lunch")]


def test_all_that_a_filter_selects_is_counted_and_acted_on(page: TestClient, queue: Queue) -> None:
    submit(queue, 3)
    submit(queue, 200, "bob")
    form = {
        "form_key": form_key(page, "/jobs"),
        "action": "remove",
        "every": "yes",
        "constraint": 'Owner == "bob"',
    }
    assert "Remove <strong>200</strong> jobs?" in page.post("/jobs/act", data=form).text
    assert "Done: 200 jobs." in page.post("/jobs/act", data={**form, "confirmed": "yes"}).text
    assert {ad["Owner"] for ad in queue.query(projection=["Owner"])} == {"alice"}


def test_a_queue_is_paused_and_resumed(page: TestClient, queue: Queue) -> None:
    key = form_key(page, "/queues")
    page.post("/queues/default", data={"form_key": key, "change": "pause"})
    assert [ad["Paused"] for ad in queue.queues()] == [True]
    page.post("/queues/default", data={"form_key": key, "change": "resume"})
    assert [ad["Paused"] for ad in queue.queues()] == [False]
    answer = page.post("/queues/absent", data={"form_key": key, "change": "pause"})
    assert answer.status_code == 404


def test_a_form_of_another_site_changes_nothing(page: TestClient, queue: Queue) -> None:
    cluster = submit(queue, 1)
    form = {"action": "remove", "job": f"{cluster}.0", "confirmed": "yes"}
    key = form_key(page, "/jobs")
    refused = [
        page.post("/jobs/act", data=form),
        page.post("/jobs/act", data={**form, "form_key": "0" * 64}),
        page.post("/jobs/act", data={**form, "form_key": key}, headers={"Origin": "http://evil.example"}),
        page.post("/jobs/act", data={**form, "form_key": key}, headers={"Sec-Fetch-Site": "cross-site"}),
        page.post("/queues/default", data={"change": "pause"}),
    ]
    assert [answer.status_code for answer in refused] == [403] * 5
    assert len(queue.query()) == 1
    assert page.get("/jobs/act").status_code in (404, 405, 400)


def test_a_service_that_only_shows_changes_nothing(serve: Serve, queue: Queue) -> None:
    page = serve()
    cluster = submit(queue, 1)
    text = page.get("/jobs").text
    assert 'value="hold"' not in text
    assert "read only" in text
    form = {"action": "hold", "job": f"{cluster}.0", "confirmed": "yes", "form_key": form_key(page, "/jobs")}
    answer = page.post("/jobs/act", data=form)
    assert answer.status_code == 403
    assert not queue.query("JobStatus == 5")


# ---- who asks


def test_nobody_is_let_in_without_the_token(serve: Serve) -> None:
    page = serve()
    for path in (*PAGES, "/live", "/jobs/1.0", "/api/v1/jobs"):
        for headers in ({"Authorization": ""}, {"Authorization": "Bearer wrong"}):
            assert page.get(path, headers=headers).status_code == 401, path


def test_the_link_s_token_becomes_a_cookie(serve: Serve) -> None:
    page = serve()
    page.headers.pop("Authorization")
    answer = page.get(f"/?token={TOKEN}", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert page.get("/").status_code == 200


def test_each_person_sees_and_changes_only_what_the_database_lets_them(
    serve: Serve, busy: DirectQueue, postgres: object
) -> None:
    page = serve(write=True, header="X-User", admins=("root-of-pool",))
    alice, bob = {"X-User": "alice"}, {"X-User": "bob"}
    assert rows(page.get("/jobs", headers=alice).text) == ["1.1", "1.2"]
    assert rows(page.get("/jobs", headers=bob).text) == ["2.1", "2.2"]
    assert rows(page.get("/jobs", headers={"X-User": "root-of-pool"}).text) == ["1.1", "1.2", "2.1", "2.2"]
    assert page.get("/jobs/1.2", headers=bob).status_code == 404
    assert page.get("/jobs/1.0", headers=bob).status_code == 404
    assert "1.0" not in page.get("/history", headers=bob).text
    assert page.get("/jobs/1.2/why", headers=bob).status_code == 404
    text = page.get("/jobs", headers=bob).text
    found = there(re.search(r'name="form_key" value="([0-9a-f]+)"', text))
    form = {"form_key": found[1], "action": "remove", "job": "1.2", "confirmed": "yes"}
    assert "Done: 0 jobs." in page.post("/jobs/act", data=form, headers=bob).text
    refused = page.post("/queues/default", data={**form, "change": "pause"}, headers=bob)
    assert refused.status_code in (403, 422)
    assert not busy.value("SELECT paused FROM fetchwork.queues")
    assert busy.status("1.2") == 1
    # alice's session has another key
    assert page.post("/jobs/act", data={**form, "job": "1.2"}, headers=alice).status_code == 403
    assert busy.status("1.2") == 1


@pytest.mark.parametrize("name", ["", "root", "a b", "a'; DROP", "x" * 65])
def test_a_name_that_is_no_account_is_nobody(serve: Serve, busy: DirectQueue, name: str) -> None:
    page = serve(header="X-User")
    assert page.get("/jobs", headers={"X-User": name}).status_code in (401, 403, 422)


def test_only_a_trusted_proxy_names_people(serve: Serve, busy: DirectQueue) -> None:
    page = serve(header="X-User")
    assert page.get("/jobs").status_code == 401
    elsewhere = TestClient(page.app, client=("192.0.2.1", 1))
    assert elsewhere.get("/jobs", headers={"X-User": "alice"}).status_code == 401


def test_every_answer_keeps_other_sites_out(page: TestClient) -> None:
    for path in ("/", "/static/page.js", "/nowhere", "/api/v1/openapi.json"):
        headers = page.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_pages_hold_no_script_or_style_of_their_own(page: TestClient, busy: DirectQueue) -> None:
    for path in (*PAGES, "/jobs/1.0", "/jobs/1.2/why"):
        text = page.get(path).text
        assert not re.search(r"<style|style=|\son[a-z]+=|javascript:", text), path
        assert re.findall(r"<script[^>]*>", text) == ['<script src="/static/page.js" defer>']
        assert not re.search(r'(?:src|href)="(?:https?:)?//', text), path


def test_a_database_that_is_away_is_said(serve: Serve) -> None:
    page = serve(at="host=127.0.0.1 port=1 connect_timeout=2")
    answer = page.get("/")
    assert answer.status_code == 503
    assert 'role="alert"' in answer.text


def test_a_constraint_that_never_ends_ends_its_worker_and_nothing_else(
    serve: Serve, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = serve()
    queue.submit({"Cmd": "/bin/true", "Owner": "alice", "Args": "a" * 40 + "!"})
    with monkeypatch.context() as hasty:
        hasty.setattr("fetchwork.page.workers.READ_S", 1.0)
        answer = page.get("/jobs", params={"constraint": 'regexp("^(a|aa)+$", Args)'})
    assert answer.status_code in (200, 503)
    assert page.get("/jobs").status_code == 200
