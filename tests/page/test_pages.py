"""The pages: their content, and the actions that they offer."""

import html
import re

import pytest
from starlette.testclient import TestClient

from fetchwork import __version__
from fetchwork.classad.bindings import JobAction
from fetchwork.page import pages
from fetchwork.queue import Queue
from fetchwork.queue.reading.phases import phases
from tests.page.conftest import TOKEN, Serve
from tests.support.direct_queue import EXITED, DirectQueue
from tests.support.there import there

PAGES = (
    "/",
    "/jobs",
    "/history",
    "/slots",
    "/queues",
    "/submitters",
    "/charts",
    "/hour",
    "/held",
    "/actions",
    "/invitations",
)


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


def test_queues_are_shown_with_their_limits(page: TestClient, busy: DirectQueue) -> None:
    assert "Limits on starts" not in page.get("/queues").text
    busy.scalar("set_starts", scope="queue", name="default", starts=3, seconds=600)
    busy.submit(Owner="alice", ConcurrencyLimits="db", JobPrio=99)
    assert busy.claim("slot77@h1") is not None
    text = page.get("/queues").text
    assert "Concurrency limits" not in text
    line = r"<td>queue</td><td>default</td><td[^>]*>1</td><td[^>]*>3</td><td[^>]*>600(\.0)?</td>"
    assert re.search(line, text)
    busy.scalar("set_limit", name="db", maximum=5)
    text = page.get("/queues").text
    assert re.search(r"<td>db</td><td[^>]*>1(\.0)?</td><td[^>]*>5(\.0)?</td>", text)
    assert re.search(line, text)


def test_groups_are_shown_with_their_quotas(page: TestClient, busy: DirectQueue) -> None:
    assert "Accounting groups" not in page.get("/queues").text
    busy.call("set_group", name="physics", changes={"quota": 7, "accept_surplus": True})
    busy.submit(Owner="alice", AccountingGroup="physics.alice")
    cells = r"<td>physics</td><td[^>]*>7\.0</td><td[^>]*>0\.0</td><td[^>]*>1\.0</td><td>surplus</td>"
    assert re.search(cells, page.get("/queues").text)


def test_a_group_is_made_changed_and_removed_by_forms(page: TestClient, busy: DirectQueue) -> None:
    assert "There is no group" in page.get("/groups?name=physics").text
    send(page, "physics", quota="10", unit="quota", accept_surplus="yes")
    send(page, "physics.atlas", quota="0.5", unit="dynamic_quota")
    assert groups(busy) == {"physics": (10, None, True, None), "physics.atlas": (None, 0.5, False, None)}
    send(page, "physics.atlas", quota="2", unit="quota", max_idle="100")
    send(page, "physics", accept_surplus="")
    assert groups(busy) == {"physics": (10, None, False, None), "physics.atlas": (2, None, False, 100)}
    text = page.get("/groups?name=physics&change=remove").text
    assert "Groups below it that are removed too: 1." in text
    send(page, "physics", change="remove")
    assert groups(busy) == {}


def test_a_form_of_a_group_sets_only_what_the_person_changed(page: TestClient, busy: DirectQueue) -> None:
    busy.call("set_group", name="bio", changes={"quota": 5, "prio_factor": 20})
    form = fields(page, "bio")
    # another administrator sets something meanwhile
    busy.call("set_group", name="bio", changes={"quota": 6})
    answer = page.post("/groups", data={**form, "accept_surplus": "yes"}, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    assert groups(busy) == {"bio": (6, None, True, None)}
    assert busy.value("SELECT priorityfactor FROM fetchwork.groups WHERE name = 'bio'") == 20


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("physics", {"quota": ""}),
        ("physics", {"quota": "many"}),
        ("physics", {"quota": "-1"}),
        ("physics", {"quota": "inf"}),
        ("physics", {"quota": "nan"}),
        ("physics", {"quota": "2", "max_idle": "9999999999"}),
        ("physics", {"quota": "2", "unit": "slots"}),
        ("physics", {"quota": "2", "max_idle": "1.5"}),
        ("physics", {"quota": "2", "shown": "["}),
        ("no such", {"quota": "2"}),
        ("<none>", {"quota": "2"}),
        ("above.below", {"quota": "2"}),
    ],
)
def test_a_wrong_form_of_a_group_is_refused(
    page: TestClient, busy: DirectQueue, name: str, wrong: dict[str, str]
) -> None:
    form = {**fields(page, "physics"), "name": name, "unit": "quota", **wrong}
    answer = page.post("/groups", data=form)
    assert answer.status_code in (400, 404, 422), answer.text
    assert groups(busy) == {}


def fields(page: TestClient, name: str) -> dict[str, str]:
    """The fields of the form of a group, as a browser sends them."""
    text = page.get(f"/groups?name={name}").text
    form = {"change": "set"}
    for tag in re.findall(r"<input [^>]*>", text):
        field = there(re.search(r'name="(\w+)"', tag))[1]
        value = re.search(r'value="([^"]*)"', tag)
        if 'type="checkbox"' not in tag or " checked" in tag:
            form[field] = html.unescape(value[1]) if value else ""
    form["unit"] = "dynamic_quota" if "selected" in text else "quota"
    return form


def send(page: TestClient, name: str, **changed: str) -> None:
    """Send the form of a group with some fields changed."""
    answer = page.post("/groups", data={**fields(page, name), **changed}, follow_redirects=False)
    assert (answer.status_code, answer.headers.get("location")) == (303, "/queues"), answer.text


def groups(busy: DirectQueue) -> dict[str, tuple[object, ...]]:
    """The settings of groups by name."""
    rows = busy.rows(
        "SELECT name, configquota, dynamicquota, acceptsurplus, maxidle FROM fetchwork.groups"
        " WHERE name <> '<none>'"
    )
    return {str(name): settings for name, *rest in rows for settings in [tuple(rest)]}


def test_counts_of_owners_and_queues_lead_to_their_jobs(page: TestClient, busy: DirectQueue) -> None:
    text = page.get("/").text
    links = [html.unescape(link) for link in re.findall(r'class="number"><a href="([^"]*)">1</a>', text)]
    assert [rows(page.get(link).text) for link in links] == [["1.2"], ["1.1"], ["2.2"], ["2.1"]]
    both = re.findall(r'class="number"><a href="([^"]*)">2</a>', text)
    assert rows(page.get(html.unescape(both[0])).text) == ["1.2", "2.2"]


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
    monkeypatch.setattr(pages, "CHARTS_S", 0.0)
    text = page.get("/charts?range=day").text
    assert "4 starts" in text and "2 by their jobs&#39; own end" in text and "0 otherwise" in text
    assert "2 running now, 2 at most" in text
    assert "median, 1.7 min at most" in text and "90 % wait less, 5 min at most" in text
    values = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in re.findall(r"<tr>.*?</tr>", text)[1:]]
    assert len(values) == 96
    # two from two hours ago, for an hour; then zero, then the two that run now
    running = [int(row[3]) for row in values]
    assert sum(running) in (2 * 5, 2 * 4) and running[-1] == 2 and set(running) == {0, 2}
    # each scale begins at zero and has a round top
    scales = re.findall(r'class="scale"[^>]*><span>([^<]*)</span><span>([^<]*)</span><span>0</span>', text)
    assert scales == [("2", "1"), ("2", "1"), ("2", "1"), ("2", "1"), ("5 min", "2.5 min")]
    assert "2 idle now, 2 at most" in text


def test_the_charts_are_of_a_queue_or_an_owner(
    page: TestClient, busy: DirectQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "CHARTS_S", 0.0)
    whole = page.get("/charts?range=hour").text
    assert page.get("/charts?range=hour&queue=default").text.count("4 starts") == whole.count("4 starts") == 1
    assert "No job ran in this time" in page.get("/charts?range=hour&queue=other").text
    assert "2 starts" in page.get("/charts?range=hour&owner=alice&queue=default").text
    of_host = page.get("/charts?range=day&host=h1").text
    assert "4 starts" in of_host and "2 running now" in of_host and "Idle" not in of_host
    assert '<a href="/hosts/h1">h1</a>' in of_host
    assert "No job ran in this time" in page.get("/charts?range=hour&host=other").text
    assert "/?range=day&amp;host=h1#charts" in page.get("/hosts/h1").text
    # a range keeps the queue, and its name leads to its jobs
    text = page.get("/?range=hour&queue=default").text
    assert "queue=default" in there(re.search(r'data-load="(/charts[^"]*)"', text))[1]
    part = page.get("/charts?range=hour&queue=default").text
    assert "/?owner=&amp;queue=default&amp;host=&amp;range=day#charts" in part
    assert "/jobs?constraint=FetchWorkQueue+%3D%3D+%22default%22" in part
    hour = page.get("/hour").text
    assert "Ends by queue" in hour and "/?range=hour&amp;queue=default#charts" in hour


def test_the_range_of_the_charts_is_that_of_the_pool_s_age(page: TestClient, busy: DirectQueue) -> None:
    def shown(path: str) -> str:
        return there(re.search(r'aria-current="true">([^<]*)</a>', page.get(path).text))[1]

    assert shown("/charts") == "hour"
    for span in ("6 hours", "day", "week"):
        assert shown(f"/charts?range={span}") == span
    busy.connection.execute(
        "UPDATE fetchwork.run_history"
        " SET ended_at = now() - interval '2 h', started_at = now() - interval '3 h'"
    )
    # the answer of before is kept for a while, to each person and filter
    assert shown("/charts?owner=alice") == "6 hours"
    assert page.get("/charts?range=year").status_code == 400
    assert "2 starts" in page.get("/charts?range=day&owner=alice").text


def test_failures_of_the_last_hour_are_shown_by_reason_and_host(page: TestClient, busy: DirectQueue) -> None:
    assert "No run failed." in page.get("/hour").text
    for cluster, reason, report in ((1, "exit", {**EXITED, "ExitCode": 3}), (2, "evict", {})):
        ((run_id, token),) = busy.rows(
            f"SELECT run_id, token FROM fetchwork.run WHERE cluster_id = {cluster}"
        )
        busy.call("finish", run_id=run_id, token=token, hook_reason=reason, report=report)
    text = page.get("/hour").text
    assert "ended with exit code 3" in text and '<a href="/jobs/1.1">1.1</a>' in text
    assert "<td>could not start" in text and '<a href="/jobs/2.1">2.1</a>' in text
    assert '<td><a href="/hosts/h1">h1</a></td><td class="number">2</td>' in text
    assert 'href="/?range=hour&amp;owner=alice#charts"' in text


def test_the_charts_do_not_show_others_jobs(serve: Serve, busy: DirectQueue) -> None:
    theirs = serve(header="X-User")
    text = theirs.get("/charts", headers={"X-User": "alice"}).text
    assert "2 starts" in text and "1 running now" in text
    ((run_id, token),) = busy.rows(
        "SELECT r.run_id, r.token FROM fetchwork.run AS r"
        " JOIN fetchwork.job AS j USING (cluster_id, proc_id) WHERE j.owner = 'bob'"
    )
    busy.call("finish", run_id=run_id, token=token, hook_reason="exit", report={**EXITED, "ExitCode": 77})
    assert "exit code 77" in theirs.get("/hour", headers={"X-User": "bob"}).text
    hour = theirs.get("/hour", headers={"X-User": "alice"}).text
    assert "bob" not in hour and "exit code 77" not in hour
    assert "No job ran" in theirs.get("/charts?owner=bob", headers={"X-User": "alice"}).text


def test_the_map_shows_a_running_slot_busy_and_a_silent_host(page: TestClient, busy: DirectQueue) -> None:
    # the ad of the last fetch is of before the run
    busy.connection.execute(
        "INSERT INTO fetchwork.slot (host_id, name, state, activity, cpus)"
        " SELECT r.host_id, r.slot, 'Claimed', 'Idle', 4 FROM fetchwork.run AS r"
    )
    busy.connection.execute(
        "INSERT INTO fetchwork.slot (host_id, name, state, activity, cpus, gpus)"
        " SELECT host_id, 'slot9@h1', 'Unclaimed', 'Idle', 1, 2 FROM fetchwork.host WHERE name = 'h1'"
    )
    text = page.get("/slots").text
    assert 'aria-label="2 busy, 1 unclaimed"' in text
    assert '<path class="slot-busy" d="M1 1h38v12h-38zM51 1h38v12h-38z"/>' in text
    assert '<path class="slot-gpus" d="M43 7h4"/>' in text
    assert '<td class="number">4</td>' in text and 'class="bad"' not in text
    busy.connection.execute("UPDATE fetchwork.host SET lease_until = now() - interval '1 s'")
    assert 'class="bad"' in page.get("/slots").text


def test_a_host_has_a_page_of_its_slots_runs_and_alerts(serve: Serve, busy: DirectQueue) -> None:
    busy.connection.execute(
        "INSERT INTO fetchwork.slot (host_id, name, state, activity, cpus)"
        " SELECT r.host_id, r.slot, 'Claimed', 'Idle', 4 FROM fetchwork.run AS r"
    )
    theirs = serve(header="X-User")
    alice = {"X-User": "alice"}
    assert 'href="/hosts/h1"' in theirs.get("/slots", headers=alice).text
    text = theirs.get("/hosts/h1", headers=alice).text
    assert 'aria-label="2 busy"' in text and 'role="alert"' not in text
    # of the slots' table and of the runs; those of others are not shown
    assert set(rows(text)) == {"1.1"} and len(rows(text)) == 2
    hour = theirs.get("/hosts/h1/hour", headers=alice).text
    assert rows(hour) == ["1.0"] and "1 run ended, 0 of them failed." in hour and "exit code 0" in hour
    busy.connection.execute("UPDATE fetchwork.host SET lease_until = now() - interval '1 s'")
    assert "Alerts: silent." in theirs.get("/hosts/h1", headers=alice).text
    busy.copy_identity()
    text = theirs.get("/hosts/h1", headers=alice).text
    assert "Alerts: silent, its identity was found on two machines." in text
    assert theirs.get("/hosts/h9", headers=alice).status_code == 404
    assert "no host" in theirs.get('/hosts/h9"%20||%20true', headers=alice).text


def test_a_large_pool_is_a_bar_for_each_host(
    page: TestClient, busy: DirectQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy.connection.execute(
        "INSERT INTO fetchwork.slot (host_id, name, state, activity, cpus)"
        " SELECT h.host_id, 'free' || n || '@' || h.name, 'Unclaimed', 'Idle', 3"
        " FROM fetchwork.host AS h CROSS JOIN generate_series(1, 1000) AS n"
    )
    busy.connection.execute(
        "INSERT INTO fetchwork.slot (host_id, name, state, activity, cpus)"
        " SELECT h.host_id, 'drained' || n || '@' || h.name, 'Drained', 'Retiring', 1"
        " FROM fetchwork.host AS h CROSS JOIN generate_series(1, 1001) AS n"
    )
    text = page.get("/slots").text
    assert '<ul class="map dense">' in text and 'id="slots"' not in text
    assert 'aria-label="1001 drained, 1000 unclaimed"' in text
    assert '<path class="slot-unclaimed" d="M60 1h180v12h-180z"/>' in text
    few = page.get('/slots?constraint=Name=="free7@h1"').text
    assert 'id="slots"' in few and "the first" not in few
    everything = page.get("/slots?constraint=Cpus>0").text
    assert "These are the first 1,000 slots" in everything
    assert 'aria-label="1000 drained"' in everything


def test_many_hosts_are_grouped_by_their_names(page: TestClient, queue: Queue, busy: DirectQueue) -> None:
    assert "<summary><strong>" not in page.get("/slots").text
    busy.connection.execute(
        "INSERT INTO fetchwork.host (name, agent_version, lease_until, seen_at)"
        " SELECT kind || n || '.site', '1', now() + interval '1 h', now()"
        " FROM generate_series(1, 20) AS n, (VALUES ('gpu'), ('node')) AS k (kind);"
        "INSERT INTO fetchwork.slot (host_id, name, state, activity, cpus)"
        " SELECT h.host_id, 'slot' || n || '@' || h.name, 'Unclaimed', 'Idle', 1"
        " FROM fetchwork.host AS h CROSS JOIN generate_series(1, 2) AS n WHERE h.name LIKE '%.site';"
        "UPDATE fetchwork.host SET lease_until = now() - interval '1 s' WHERE name = 'gpu7.site'"
    )
    text = page.get("/slots").text
    groups = re.findall(r'<details class="group" data-group="[^"]*"( open)?><summary>(.*?)</summary>', text)
    said = [(opened, re.sub(r"<[^>]*>", "", summary).strip()) for opened, summary in groups]
    assert (" open", "gpu*.site 20 hosts, 40 slots, 1 with alerts") in said
    assert ("", "node*.site 20 hosts, 40 slots") in said
    assert 'aria-label="40 unclaimed"' in text and text.count('<li class="bad">') >= 1


def test_names_are_in_the_order_of_their_numbers(page: TestClient, busy: DirectQueue) -> None:
    busy.connection.execute(
        "INSERT INTO fetchwork.slot (host_id, name, state, activity, cpus)"
        " SELECT h.host_id, 'part' || n || '@h1', 'Unclaimed', 'Idle', 1"
        " FROM fetchwork.host AS h CROSS JOIN generate_series(1, 11) AS n WHERE h.name = 'h1'"
    )
    numbers = [str(n) for n in range(1, 12)]
    for path, order in (("/slots", 1), ("/hosts/h1?slots-sort=Slot", 1), ("/slots?slots-sort=-Slot", -1)):
        assert re.findall("<td>part([0-9]+)@h1</td>", page.get(path).text) == numbers[::order]


def test_a_late_cluster_shows_its_jobs_that_are_not_made_yet(
    serve: Serve, busy: DirectQueue, queue: Queue
) -> None:
    theirs = serve(header="X-User")
    text = "executable = /bin/true\nmax_materialize = 3\nmax_idle = 2\nqueue 1200\n"
    cluster = queue.submit(text, owner="alice").cluster()
    page = f"/clusters/{cluster}"
    told = theirs.get(page, headers={"X-User": "alice"}).text
    for words in (
        "1,200 jobs in all", "2 materialized", "1,198 left", "as others start or end",
        "At most 3 are in the queue at once.", "At most 2 of them don't run.",
    ):  # fmt: skip
        assert words in html.unescape(told), words
    busy.act("hold", str(cluster))
    assert "Paused: the cluster is held" in theirs.get(page, headers={"X-User": "alice"}).text
    assert theirs.get(page, headers={"X-User": "bob"}).status_code == 404
    assert "Late" not in theirs.get("/clusters/1", headers={"X-User": "alice"}).text


def test_a_late_cluster_without_a_job_has_a_page(page: TestClient, queue: Queue) -> None:
    cluster = queue.submit("executable = /bin/true\nmax_idle = 0\nqueue 5\n", owner="alice").cluster()
    assert queue.query(f"ClusterId == {cluster}") == []
    text = page.get(f"/clusters/{cluster}").text
    assert "0 materialized" in text and "5 left" in text


def test_a_cluster_shows_its_progress_run_times_and_ends(page: TestClient, busy: DirectQueue) -> None:
    busy.connection.execute(
        "UPDATE fetchwork.job_history SET exit_code = 3, wall_s = 100 WHERE cluster_id = 1"
    )
    busy.connection.execute(
        "UPDATE fetchwork.run_history SET report = report || '{\"ExitCode\": 3}' WHERE cluster_id = 1"
    )
    text = page.get("/clusters/1").text
    assert 'aria-label="1 completed, 1 running, 1 idle"' in text
    assert "exit code 3" in text and "00:01:40" in text
    failed = text.partition('id="failed"')[2].partition("</section>")[0]
    assert rows(failed) == ["1.0"]
    bars = there(re.search(r"by run time, from 0 s to 1.7 min: ([0-9, ]*)", text))[1]
    assert sum(map(int, bars.split(", "))) == 1
    link = there(re.search(r'<a href="([^"]*)">1</a>', text.partition('id="exits"')[2]))[1]
    assert rows(page.get(html.unescape(link)).text) == ["1.0"]
    batch = page.get("/batches?owner=alice&name=batch-alice").text
    assert 'aria-label="1 completed, 1 running, 1 idle"' in batch and "exit code 3" in batch
    assert page.get("/clusters/77").status_code == 404
    assert page.get("/clusters/x").status_code == 400
    assert page.get("/batches?owner=bob&name=batch-alice").status_code == 404


def test_the_box_finds_what_is_typed(page: TestClient, busy: DirectQueue) -> None:
    for text, address in {
        "1.2": "/jobs/1.2",
        "1": "/clusters/1",
        "alice": "/jobs?owner=alice",
        "batch-bob": "/batches?owner=bob&name=batch-bob",
        "h1": "/hosts/h1",
        "JobPrio > 0": "/jobs?constraint=JobPrio+%3E+0",
        "": "/jobs",
    }.items():
        answer = page.get("/find", params={"text": text}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, address)
    assert page.get("/find?text=nothing").status_code == 404


def test_an_action_says_what_it_will_do_and_leads_on(page: TestClient, busy: DirectQueue) -> None:
    form = {"form_key": form_key(page, "/jobs"), "action": "hold", "every": "yes", "constraint": ""}
    asked = page.post("/jobs/act", data={**form, "constraint": 'Owner == "alice"'}).text
    assert "<strong>2</strong> jobs?" in asked
    assert "1 is held at once." in asked and "1 is ended by their hosts, and held." in asked
    ticked = {"form_key": form["form_key"], "action": "release", "job": ["1.1", "1.2"]}
    assert "2 are left as they are" in page.post("/jobs/act", data=ticked).text
    done = page.post(
        "/jobs/act", data={**form, "constraint": 'Owner == "alice"', "confirmed": "yes", "reason": "x"}
    ).text
    assert "Done: 2 jobs." in done and "Release them again" in done
    constraint = there(re.search(r'name="constraint" value="([^"]*)"', done))[1]
    back = {**form, "action": "release", "constraint": html.unescape(constraint), "confirmed": "yes"}
    assert "Done: 2 jobs." in page.post("/jobs/act", data=back).text
    actions = page.get("/actions?owner=alice").text
    found = re.findall(r"<tr>(<td class=.moment.*?)</tr>", actions)
    words = [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", row)) for row in found]
    assert len(words) == 3 and " release alice 2 " in words[0] and " hold alice 2 1.1, 1.2 x " in words[1]
    assert " submit alice 3 1 " in words[2]


def test_a_job_s_life_is_one_line_of_its_states(page: TestClient, busy: DirectQueue) -> None:
    ((run_id, token),) = busy.rows("SELECT run_id, token FROM fetchwork.run WHERE cluster_id = 1")
    busy.call("finish", run_id=run_id, token=token, hook_reason="evict", report={})
    busy.act("hold", "1.1", reason="to look at it")
    busy.act("release", "1.1", reason="looked at")
    busy.call("sequence_events")
    text = page.get("/jobs/1.1").text
    words = [
        re.sub(r"<[^>]*>", " ", row).strip()
        for row in re.findall(r"<tr>(<td><span class=.key.*?)</tr>", text)
    ]
    states = [row.split()[0] for row in words]
    assert states[0] == "idle" and states[-3:] == ["running", "held", "idle"], states
    assert "could not start" in words[-3] and "slot" in words[-3]
    assert words[-2].endswith("to look at it") and words[-1].endswith("looked at")
    label = there(re.search(r'<svg class="life"[^>]*aria-label="([^"]*)"', text))[1]
    assert [part.split()[0] for part in label.split(", ")] == states
    widths = [
        float(found) for found in re.findall(r'<rect class="phase-[a-z]+"[^>]* width="([0-9.]+)"', text)
    ]
    assert len(widths) == len(states) and 999 < sum(widths) < 1001 and min(widths) > 0
    ended = page.get("/jobs/1.0").text
    assert "exit code 0" in ended and 'class="key phase-completed"' in ended


@pytest.mark.parametrize(("status", "state"), [(3, "removed"), (4, "completed"), (5, "held")])
def test_a_life_whose_events_are_gone_has_its_last_state(status: int, state: str) -> None:
    ad = {"QDate": 100, "JobStatus": status, "EnteredCurrentStatus": 300, "HoldReason": "why"}
    idle, last = phases(ad, [], [])
    assert (idle.state, idle.begin, idle.end) == ("idle", 100, 300)
    assert (last.state, last.begin, last.how) == (state, 300, "why" if state == "held" else "")


def test_a_job_s_usage_is_shown_beside_its_request(page: TestClient, busy: DirectQueue) -> None:
    assert "<meter" not in page.get("/jobs/1.2").text
    busy.connection.execute(
        "UPDATE fetchwork.job_history SET facts = facts || '{\"MemoryUsage\": 96}',"
        " ad = ad || '{\"RequestMemory\": 128}', wall_s = 100, user_cpu_s = 50 WHERE cluster_id = 1"
    )
    text = page.get("/jobs/1.0").text
    assert '<td class="number">96 MiB</td><td class="number">128 MiB</td>' in text and "75 %" in text
    assert '<td class="number">0.50 </td>' in text


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
    assert "<small>2026-05-06 07:18:09</small> at the latest" in page.get("/jobs/1.1").text
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
    submit(queue, 3)
    asked = page.get("/queues/default?change=pause&confirmed=yes").text
    assert "do not start any more: 3." in asked and "Running jobs that go on: 0." in asked
    key = there(re.search(r'name="form_key" value="([0-9a-f]+)"', asked))[1]
    assert "do not start" in page.post("/queues/default", data={"form_key": key, "change": "pause"}).text
    assert [ad["Paused"] for ad in queue.queues()] == [False]
    for change, paused in (("pause", True), ("resume", False)):
        page.post("/queues/default", data={"form_key": key, "change": change, "confirmed": "yes"})
        assert [ad["Paused"] for ad in queue.queues()] == [paused]
    for form in ({}, {"confirmed": "yes"}):
        data = {"form_key": key, "change": "pause", **form}
        assert page.post("/queues/absent", data=data).status_code == 404
    assert page.get("/queues/default?change=sell").status_code == 400


def test_a_link_leads_to_an_action_s_question_and_does_nothing(serve: Serve, queue: Queue) -> None:
    cluster = submit(queue, 2)
    link = f"/jobs/act?action=hold&job={cluster}.0&confirmed=yes&reason=why"
    asked = serve(write=True).get(link).text
    assert "Hold <strong>1</strong> job?" in asked and 'name="reason" value="why"' in asked
    assert not queue.query("JobStatus == 5")
    assert serve().get(link).status_code == 403
    assert serve().get("/queues/default?change=pause").status_code == 403


def heads(text: str) -> dict[str, str]:
    """The links of the headings that sort."""
    found = re.findall(r'<a class="sort" href="([^"]*)">([^<]*)', text)
    return {head: html.unescape(link) for link, head in found}


def test_jobs_are_sorted_by_any_column_and_keep_the_filter(
    page: TestClient, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = submit(queue, 1, priority=2)
    second = submit(queue, 60, priority=7, request_memory=1000)
    third = submit(queue, 1, priority=5, request_memory=3000)
    submit(queue, 1, "bob", priority=1)
    text = page.get("/jobs?owner=alice").text
    assert "aria-sort" not in text
    by_prio = heads(text)["Prio"]
    text = page.get(by_prio).text
    assert rows(text)[:3] == [f"{first}.0", f"{third}.0", f"{second}.0"] and len(rows(text)) == 50
    assert '<th scope="col" class="number" aria-sort="ascending">' in text
    more = html.unescape(there(re.search(r'<a href="([^"]*)" rel="next">', text))[1])
    assert len(rows(page.get(more).text)) == 12
    text = page.get(heads(text)["Prio"]).text
    assert 'aria-sort="descending"' in text and rows(text)[0] == f"{second}.0"
    # the filter's form keeps the order
    assert '<input type="hidden" name="sort" value="-Prio">' in text
    # newest first, and an attribute that the person names
    assert rows(page.get("/jobs?sort=-Job&owner=alice").text)[:2] == [f"{third}.0", f"{second}.59"]
    text = page.get("/jobs?column=Job&column=RequestMemory&sort=-RequestMemory&owner=alice").text
    assert rows(text)[:2] == [f"{third}.0", f"{second}.0"] and "<td>3000</td>" in text
    assert page.get("/jobs?sort=Nothing").status_code == 400
    assert page.get("/jobs?sort=Job&after=x").status_code == 400
    # too many: in their own order, page by page
    monkeypatch.setattr(pages, "MOST_SORTED", 10)
    text = page.get("/jobs?sort=-Prio").text
    assert rows(text)[0] == f"{first}.0" and "can't be sorted" in text


def test_columns_are_chosen_and_kept(page: TestClient, busy: DirectQueue) -> None:
    text = page.get("/jobs?column=Job&column=Batch&column=JobStatus+ShouldTransferFiles").text
    assert list(heads(text)) == ["Job", "Batch", "JobStatus", "ShouldTransferFiles"]
    assert "<td>batch-alice</td>" in text and "<td>IF_NEEDED</td>" in text
    assert 'name="column" value="Batch" checked>' in text and 'value="JobStatus ShouldTransferFiles"' in text
    assert all("column=Batch" in link for link in heads(text).values())
    # of an empty form, the usual ones
    assert list(heads(page.get("/jobs?column=").text)) == list(heads(page.get("/jobs").text))
    for wrong in ("/jobs?column=a;b", "/queues?column=Other"):
        assert page.get(wrong).status_code == 400


@pytest.mark.parametrize(
    ("path", "prefix", "column", "cells"),
    [
        ("/history", "", "Owner", ["alice", "bob"]),
        ("/slots", "hosts-", "Host", ["h1", "h2"]),
        ("/slots", "slots-", "Slot", ["slot1@h1", "slot1@h2"]),
        ("/", "owners-", "Owner", ["alice", "bob"]),
        ("/submitters", "", "Submitter", ["alice", "bob"]),
        ("/queues", "", "Queue", ["default", "other"]),
        ("/hosts/h1", "runs-", "Owner", ["alice", "bob"]),
    ],
)
def test_each_table_is_sorted_by_its_headings(
    page: TestClient, busy: DirectQueue, path: str, prefix: str, column: str, cells: list[str]
) -> None:
    busy.connection.execute("SELECT fetchwork.set_queue('other', '{}')")
    busy.connection.execute(
        "INSERT INTO fetchwork.host (name) VALUES ('h2');"
        "INSERT INTO fetchwork.slot (host_id, name, state, activity, cpus)"
        " SELECT h.host_id, 'slot1@' || h.name, 'Unclaimed', 'Idle', 1 FROM fetchwork.host AS h"
    )
    for sign, expected in (("", cells), ("-", cells[::-1])):
        text = page.get(f"{path}?{prefix}sort={sign}{column}").text
        (table,) = re.findall(r"<table>(?:(?!</table>).)*aria-sort=.*?</table>", text, re.S)
        places = [
            re.search(rf">{re.escape(cell)}(@[^<]*)?<", table.partition("<tbody>")[2]) for cell in expected
        ]
        assert all(places), table
        assert there(places[0]).start() < there(places[1]).start()


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


def test_health_is_told_without_sign_in(serve: Serve) -> None:
    stranger = TestClient(serve().app)
    ok = f"ok: fetchwork {__version__}\n"
    assert [stranger.get(path).text for path in ("/healthz", "/readyz")] == [ok, ok]
    away = TestClient(serve(at="host=127.0.0.1 port=1 user=secret connect_timeout=2").app)
    assert away.get("/healthz").status_code == 200
    answer = away.get("/readyz")
    assert (answer.status_code, "secret" in answer.text) == (503, False)


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
