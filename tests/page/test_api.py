"""The API: its answers, and its refusals."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb
from starlette.testclient import TestClient

from fetchwork.classad.bindings import JobAction
from fetchwork.queue import Queue
from tests.page.conftest import Serve
from tests.security.conftest import Root
from tests.security.roles import PASSWORD
from tests.support.direct_queue import DirectQueue

API = "/api/v1"
AD = {"Cmd": "/bin/true", "Owner": "alice", "RequestCpus": 1}


def get(page: TestClient, path: str, **params: str) -> Any:
    answer = page.get(f"{API}{path}", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def test_jobs_are_submitted_read_changed_and_removed(page: TestClient, queue: Queue) -> None:
    answer = page.post(f"{API}/jobs", json={"ad": AD, "count": 3})
    assert answer.status_code == 201, answer.text
    cluster = answer.json()["cluster"]
    assert answer.json() == {"cluster": cluster, "first_proc": 0, "num_procs": 3}
    assert page.get(answer.headers["location"]).json()["ad"]["Cmd"] == "/bin/true"
    assert page.patch(f"{API}/jobs/{cluster}.1", json={"JobPrio": 9}).json() == {"changed": 1}
    assert [ad["ProcId"] for ad in get(page, "/jobs", constraint="JobPrio == 9")["jobs"]] == [1]
    done = page.post(f"{API}/actions", json={"action": "remove", "constraint": "JobPrio == 9"})
    assert done.json()["TotalSuccess"] == 1
    done = page.post(f"{API}/actions", json={"action": "hold", "jobs": [f"{cluster}.0"], "reason": "why not"})
    assert done.json()["TotalSuccess"] == 1
    assert queue.query(f"ClusterId == {cluster} && JobStatus == 5")[0]["HoldReason"] == "why not"
    (gone,) = get(page, "/history")["jobs"]
    assert gone["ProcId"] == 1


def test_a_submission_with_a_known_idempotency_key_is_the_first_one(page: TestClient, queue: Queue) -> None:
    def post(key: str) -> Any:
        return page.post(f"{API}/jobs", json={"ad": AD, "count": 2}, headers={"Idempotency-Key": key})

    first = post("night")
    assert first.status_code == 201, first.text
    again = post("night")
    assert (again.status_code, again.json()) == (201, first.json())
    assert post("day").json()["cluster"] != first.json()["cluster"]
    assert len(queue.query()) == 4
    assert post("x" * 251).status_code == 400


def test_a_submission_s_traceparent_is_that_of_its_jobs(
    page: TestClient, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    # that of the page itself is no submitter's
    monkeypatch.setenv("TRACEPARENT", parent)

    def stored(**headers: str) -> object:
        answer = page.post(f"{API}/jobs", json={"ad": AD}, headers=headers)
        assert answer.status_code == 201, answer.text
        return queue.query(f"ClusterId == {answer.json()['cluster']}")[0].get("TraceParent")

    assert (stored(), stored(traceparent=parent), stored(traceparent="wrong")) == (None, parent, None)


def test_nobody_gets_a_file_of_the_server_s_machine_by_naming_it(
    page: TestClient, queue: Queue, tmp_path: Path
) -> None:
    (tmp_path / "of-the-server").write_text("secret")
    ad = AD | {"ShouldTransferFiles": "YES", "TransferExecutable": False}
    for named in (f"{tmp_path}/of-the-server", f"{tmp_path}/", "of-the-server"):
        body = {"ad": ad | {"Iwd": str(tmp_path), "TransferInput": named}}
        answer = page.post(f"{API}/jobs", json=body)
        assert answer.status_code == 422, answer.text
        assert "can't be read here: it is of another machine" in answer.text
    answer = page.post(f"{API}/jobs", json={"ad": ad | {"TransferInput": "https://h/a"}})
    assert answer.status_code == 201, answer.text


def test_jobs_with_attributes_of_their_own_are_one_cluster(page: TestClient, queue: Queue) -> None:
    body = {"ad": AD, "jobs": [{"Args": str(number)} for number in range(5)]}
    cluster = page.post(f"{API}/jobs", json=body).json()["cluster"]
    assert [ad["Args"] for ad in queue.query(f"ClusterId == {cluster}")] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("path", ["/jobs", "/history", "/runs"])
def test_a_cursor_is_of_the_form_that_the_description_gives(
    page: TestClient, busy: DirectQueue, path: str
) -> None:
    parameters = get(page, "/openapi.json")["paths"][path]["get"]["parameters"]
    (pattern,) = (one["schema"]["anyOf"][0]["pattern"] for one in parameters if one["name"] == "after")
    for job in busy.submit_many([{}] * 2):
        busy.act("remove", job)
    busy.submit_many([{}] * 2)
    after = get(page, path, limit="1")["after"]
    assert re.search(pattern, after), after
    assert get(page, path, limit="1", after=after)


def test_pages_of_jobs_follow_each_other(page: TestClient, queue: Queue) -> None:
    queue.submit("executable = /bin/true\n", count=25, owner="alice")
    seen, after = [], None
    while True:
        params = {"limit": "10", "projection": "ProcId", **({"after": after} if after else {})}
        answer = get(page, "/jobs", **params)
        seen += [ad["ProcId"] for ad in answer["jobs"]]
        after = answer["after"]
        if after is None:
            break
    assert seen == list(range(25))


def test_events_are_read_from_a_cursor(page: TestClient, queue: Queue) -> None:
    cursor = get(page, "/events")["cursor"]
    cluster = queue.submit("executable = /bin/true\n", count=2, owner="alice").cluster()
    queue.act(JobAction.Hold, f"{cluster}.0")
    # no agent runs here; the administrator's reader puts them into the stream
    assert len(list(queue.events(stop_after=0))) == 3
    answer = get(page, "/events", after=cursor)
    assert [event["EventTypeNumber"] for event in answer["events"]] == [0, 0, 12]
    assert get(page, "/events", after=answer["cursor"])["events"] == []
    of_job = get(page, "/events", after=cursor, job=f"{cluster}.1")
    assert [event["Proc"] for event in of_job["events"]] == [1]


def test_an_event_that_holds_an_ad_is_json(page: TestClient, root: DirectQueue, queue: Queue) -> None:
    resources = {"Cpus": 1, "Memory": 512}
    job = root.submit()
    run = root.claim()
    assert run is not None
    slot = {"name": "slot1@h1", "cpus": 1, "memory_mib": 512, "fetched_at": 1795225768}
    root.connection.execute("SELECT fetchwork.report_slots(%s, %s)", [root.host(), Jsonb([slot])])
    assert root.start(run, slot="slot1@h1") is None
    assert len(list(queue.events(stop_after=0))) == 2
    for events in (
        get(page, "/events", after="e0.0", job=job)["events"],
        get(page, f"/jobs/{job}")["events"],
    ):
        assert [event.get("ExecuteProps") for event in events] == [None, resources]


@pytest.mark.parametrize("name", ["slots", "hosts", "queues", "submitters", "limits", "totals", "demand"])
def test_the_pool_is_read(page: TestClient, busy: DirectQueue, name: str) -> None:
    answer = get(page, f"/{name}")
    assert isinstance(answer[name], list)
    json.dumps(answer)


def test_totals_are_numbers(page: TestClient, busy: DirectQueue) -> None:
    (line,) = get(page, "/totals")["totals"]
    assert line["jobs"] == 4
    assert {row["owner"]: row["jobs"] for row in get(page, "/totals", by="owner")["totals"]} == {
        "alice": 2,
        "bob": 2,
    }


BAD: list[tuple[str, str, Any, int]] = [
    ("GET", "/jobs?constraint=x+%3D%3D", None, 400),
    ("GET", "/jobs?limit=0", None, 400),
    ("GET", "/jobs?limit=x", None, 400),
    ("GET", "/jobs?limit=1001", None, 400),
    ("GET", "/jobs?after=7", None, 400),
    ("GET", "/jobs/99.0", None, 404),
    ("GET", "/jobs/x", None, 400),
    ("GET", "/jobs/99999999999.0", None, 400),
    ("GET", "/events?after=yesterday", None, 400),
    ("GET", "/events?wait_s=-1", None, 400),
    ("GET", "/events?job=x", None, 400),
    ("GET", "/totals?by=shoe", None, 400),
    ("GET", "/jobs?constrain=false", None, 400),
    ("GET", "/demand?limit=1", None, 400),
    ("PATCH", "/jobs/99.0?reason=x", {"JobPrio": 1}, 400),
    ("GET", "/nothing", None, 404),
    ("DELETE", "/jobs", None, 405),
    ("POST", "/jobs", {}, 400),
    ("POST", "/jobs", [], 400),
    ("POST", "/jobs", {"ad": []}, 400),
    ("POST", "/jobs", {"ad": AD, "count": 0}, 400),
    ("POST", "/jobs", {"ad": AD, "count": True}, 400),
    ("POST", "/jobs", {"ad": AD, "count": 10**9}, 400),
    ("POST", "/jobs", {"ad": AD, "jobs": [1]}, 400),
    ("POST", "/jobs", {"ad": AD, "other": 1}, 400),
    ("POST", "/jobs", {"ad": {"Cmd": "/bin/true", "Owner": "root"}}, 422),
    ("POST", "/actions", {"action": "eat", "jobs": ["1.0"]}, 400),
    ("POST", "/actions", {"action": "hold"}, 400),
    ("POST", "/actions", {"action": "hold", "jobs": ["1.0"], "constraint": "true"}, 400),
    ("POST", "/actions", {"action": "hold", "jobs": [1]}, 400),
    ("POST", "/actions", {"action": "hold", "constraint": ""}, 400),
    ("PATCH", "/jobs/99.0", {"JobPrio": 1}, 404),
    ("PATCH", "/jobs/99.0", {}, 400),
]


def test_who_meets_a_ceiling_is_refused_with_its_number(page: TestClient, root: DirectQueue) -> None:
    root.set("max_idle_per_submitter", 2)
    root.call("set_submitter", name="alice", changes={"max_autoclusters": 1})
    cluster = page.post(f"{API}/jobs", json={"ad": AD, "count": 2}).json()["cluster"]

    def refused(method: str, path: str, body: Any) -> str:
        answer = page.request(method, API + path, json=body)
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        return str(answer.json()["detail"])

    by = "an administrator may raise it)"
    assert refused("POST", "/jobs", {"ad": AD, "count": 1}) == (
        "submitter 'alice' would have 3 idle jobs in the queue; allowed: 2 (setting max_idle_per_submitter; "
        + by
    )
    assert refused("PATCH", f"/jobs/{cluster}.0", {"RequestCpus": 2}) == (
        "submitter 'alice' would have 2 autoclusters in the queue; allowed: 1 "
        "(max_autoclusters of this submitter; " + by
    )
    (submitter,) = get(page, "/submitters")["submitters"]
    assert submitter["MaxAutoclusters"] == 1


def test_groups_are_made_changed_and_removed(page: TestClient, root: DirectQueue) -> None:
    def put(name: str, **changes: Any) -> tuple[int, dict[str, Any]]:
        answer = page.put(f"{API}/groups/{name}", json=changes)
        return answer.status_code, answer.json()

    status, ad = put("physics", quota=10, accept_surplus=True, managers=[])
    assert (status, ad["ConfigQuota"], ad["AcceptSurplus"]) == (200, 10, True)
    assert put("physics.atlas", dynamic_quota=0.5)[0] == 200
    # a repeated request changes nothing
    status, ad = put("physics.ATLAS", dynamic_quota=0.5)
    assert (status, ad["Name"], ad["Parent"]) == (200, "physics.atlas", "physics")
    assert put("physics", max_idle=5)[1]["MaxIdle"] == 5
    assert "MaxIdle" not in put("physics", max_idle=None)[1]
    assert put("bio.new", quota=1)[0] == 404
    for wrong in ({}, {"quota": -1}, {"quota": "x"}, {"autoregroup": None}, {"quotas": 1}):
        assert put("physics", **wrong)[0] in (400, 422), wrong
    for number in ("Infinity", "NaN", "1e999"):
        text = f'{{"quota": {number}}}'
        headers = {"Content-Type": "application/json"}
        assert page.put(f"{API}/groups/physics", content=text, headers=headers).status_code == 400, number
    assert put("physics", max_idle=2**31)[0] == 400
    assert put("new", accept_surplus=True)[0] == 422
    assert [ad["Name"] for ad in get(page, "/groups")["groups"]] == ["<none>", "physics", "physics.atlas"]
    assert page.delete(f"{API}/groups/Physics").json() == {"removed": 2}
    assert page.delete(f"{API}/groups/physics").status_code == 404


def test_a_manager_sets_the_groups_below_alone(serve: Serve, busy: Root) -> None:
    busy.call("set_group", name="physics", changes={"quota": 10, "managers": ["fw_alice"]})
    page = serve(write=True, at=busy.server.conninfo("kept", user="fw_alice", password=PASSWORD))
    assert page.put(f"{API}/groups/physics.atlas", json={"quota": 2}).status_code == 200
    factor = page.put(f"{API}/groups/physics.atlas", json={"prio_factor": 2})
    assert factor.json()["detail"] == "only an administrator sets prio_factor of a group"
    for name in ("physics", "bio"):
        answer = page.put(f"{API}/groups/{name}", json={"quota": 11})
        assert answer.status_code == 422 and f"may not set group '{name}'" in answer.json()["detail"]
    assert page.delete(f"{API}/groups/physics").status_code == 422
    assert page.delete(f"{API}/groups/physics.atlas").json() == {"removed": 1}


def test_a_page_of_another_site_can_t_remove_a_group(page: TestClient, root: DirectQueue) -> None:
    root.call("set_group", name="physics", changes={"quota": 10})
    page.cookies.set("fetchwork_token", page.headers.pop("Authorization").partition(" ")[2])
    evil = {"Origin": "http://evil.example"}
    assert page.delete(f"{API}/groups/physics", headers=evil).status_code == 403
    assert page.delete(f"{API}/groups/physics").status_code == 200


@pytest.mark.parametrize(("method", "path", "body", "status"), BAD)
def test_what_is_wrong_is_a_problem(page: TestClient, method: str, path: str, body: Any, status: int) -> None:
    answer = page.request(method, API + path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]


def test_a_body_that_is_not_json_is_refused(page: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    for text in ("", "{", "[" * 5000, "\x00"):
        assert page.post(f"{API}/jobs", content=text, headers=headers).status_code == 400
    form = page.post(f"{API}/jobs", data={"ad": "x"})
    assert form.status_code == 415


def test_a_page_of_another_site_can_t_use_the_cookie(page: TestClient, queue: Queue) -> None:
    token = page.headers.pop("Authorization").partition(" ")[2]
    page.cookies.set("fetchwork_token", token)
    body = {"ad": AD}
    evil = {"Origin": "http://evil.example"}
    assert page.post(f"{API}/jobs", json=body, headers=evil).status_code == 403
    assert page.post(f"{API}/jobs", json=body).status_code == 201
    assert len(queue.query()) == 1


def test_a_service_that_only_shows_refuses_changes(serve: Serve, queue: Queue) -> None:
    page = serve()
    cluster = queue.submit("executable = /bin/true\n", owner="alice").cluster()
    changes = [
        page.post(f"{API}/jobs", json={"ad": AD}),
        page.patch(f"{API}/jobs/{cluster}.0", json={"JobPrio": 1}),
        page.post(f"{API}/actions", json={"action": "remove", "constraint": "true"}),
    ]
    assert [answer.status_code for answer in changes] == [403] * 3
    assert len(queue.query("JobPrio == 0")) == 1


def test_a_person_submits_as_himself_alone(serve: Serve, busy: DirectQueue) -> None:
    page = serve(write=True, header="X-User")
    bob = {"X-User": "bob"}
    ad = {"Cmd": "/bin/true"}
    cluster = page.post(f"{API}/jobs", json={"ad": ad}, headers=bob).json()["cluster"]
    assert busy.value("SELECT owner FROM fetchwork.jobs WHERE clusterid = %s", cluster) == "bob"
    for body in ({"ad": {**ad, "Owner": "alice"}}, {"ad": ad, "jobs": [{"Owner": "alice"}]}):
        answer = page.post(f"{API}/jobs", json=body, headers=bob)
        assert answer.status_code in (201, 403, 422), answer.text
    assert busy.value("SELECT count(*) FROM fetchwork.jobs WHERE owner = 'alice'") == 2


def test_the_description_says_what_each_path_takes_and_answers(page: TestClient) -> None:
    described = get(page, "/openapi.json")
    assert described["servers"] == [{"url": API}]
    parameters = {one["name"] for one in described["paths"]["/history"]["get"]["parameters"]}
    assert parameters == {"constraint", "projection", "limit", "after"}
    assert described["paths"]["/jobs"]["post"]["responses"].keys() == {"201", "default"}
    assert described["paths"]["/events"]["get"]["responses"]["200"]["content"].keys() == {
        "application/json",
        "text/event-stream",
    }
    assert described["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
