"""Every page and every path of the API, requested by a person without rights to others' jobs."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from tests.page.conftest import Serve
from tests.security.roles import SECRET
from tests.support.direct_queue import DirectQueue

HEADER = "X-User"
#: reading requests by path: the request, and whether only the owner may see its secrets
READS: Mapping[str, tuple[str, bool]] = {
    "/": ("/", False),
    "/charts": ("/charts", False),
    "/held": ("/held", True),
    "/actions": ("/actions", True),
    "/clusters/{cluster}": ("/clusters/1", False),
    "/jobs/act": ("/jobs/act?action=hold&job=1.2", False),
    "/queues/{name}": ("/queues/default?change=pause", False),
    "/batches": ("/batches?owner=alice&name=batch-alice", False),
    "/find": ("/find?text=batch-alice", False),
    "/hour": ("/hour", False),
    "/jobs": ("/jobs", True),
    "/jobs/{job}": ("/jobs/1.1", True),
    "/jobs/{job}/why": ("/jobs/1.2/why", True),
    "/jobs/{job}/output": ("/jobs/1.1/output", True),
    "/history": ("/history", True),
    "/slots": ("/slots", False),
    "/hosts/{name}": ("/hosts/h1", False),
    "/hosts/{name}/hour": ("/hosts/h1/hour", False),
    "/queues": ("/queues", False),
    "/groups": ("/groups?name=physics&change=remove", False),
    "/submitters": ("/submitters", False),
    "/api/v1/openapi.json": ("/api/v1/openapi.json", False),
    "/api/v1/jobs": ("/api/v1/jobs", True),
    "/api/v1/jobs/{job}": ("/api/v1/jobs/1.0", True),
    "/api/v1/jobs/{job}/analysis": ("/api/v1/jobs/1.2/analysis", True),
    "/api/v1/history": ("/api/v1/history", True),
    "/api/v1/runs": ("/api/v1/runs", True),
    "/api/v1/events": ("/api/v1/events?after=e0.0", True),
    "/api/v1/totals": ("/api/v1/totals?by=owner", False),
    "/api/v1/demand": ("/api/v1/demand", False),
    "/api/v1/slots": ("/api/v1/slots", False),
    "/api/v1/hosts": ("/api/v1/hosts", False),
    "/api/v1/queues": ("/api/v1/queues", False),
    "/api/v1/submitters": ("/api/v1/submitters", False),
    "/api/v1/limits": ("/api/v1/limits", False),
    "/api/v1/groups": ("/api/v1/groups", False),
}
#: announces that a change happened among visible jobs, no more; files are public; test_dags tries DAGs,
#: test_invitations the pages of administrators
OTHERS = {
    "/live", "/static", "/healthz", "/readyz", "/clusters/{cluster}/dag", "/invitations",
    "/invitations/change",
}  # fmt: skip
#: changing requests by method and path, about alice's jobs
CHANGES: Mapping[tuple[str, str], list[tuple[str, Any]]] = {
    ("POST", "/jobs/act"): [
        ("/jobs/act", {"action": "hold", "job": "1.2", "confirmed": "yes"}),
        ("/jobs/act", {"action": "remove", "every": "yes", "constraint": "", "confirmed": "yes"}),
        ("/jobs/act", {"action": "vacate", "job": "1.1", "confirmed": "yes"}),
        ("/jobs/act", {"action": "remove", "every": "yes", "constraint": 'Owner == "alice"'}),
    ],
    ("POST", "/queues/{name}"): [
        (f"/queues/default?{change}", {"change": change, "confirmed": "yes"})
        for change in ("pause", "drain", "resume", "open")
    ],
    ("POST", "/groups"): [
        ("/groups", {"change": "set", "name": name, "quota": "9", "unit": "quota", "confirmed": "yes"})
        for name in ("physics", "physics.atlas", "new")
    ]
    + [("/groups", {"change": "remove", "name": "physics", "confirmed": "yes"})],
    ("PUT", "/api/v1/groups/{name}"): [
        ("/api/v1/groups/physics", {"quota": 9}),
        ("/api/v1/groups/physics.atlas", {"accept_surplus": True}),
        ("/api/v1/groups/new", {"dynamic_quota": 0.5}),
    ],
    ("DELETE", "/api/v1/groups/{name}"): [("/api/v1/groups/physics", None)],
    ("POST", "/invitations"): [("/invitations", {"names": "*", "uses": "1", "hours": "1"})],
    ("POST", "/invitations/change"): [
        ("/invitations/change", {"change": change, "name": "h1", "confirmed": "yes"})
        for change in ("revoke", "admit", "end")
    ],
    ("POST", "/api/v1/jobs"): [
        ("/api/v1/jobs", {"ad": {"Cmd": "/bin/true", "Owner": "alice"}}),
        ("/api/v1/jobs", {"ad": {"Cmd": "/bin/true"}, "jobs": [{"Owner": "alice"}]}),
    ],
    ("PATCH", "/api/v1/jobs/{job}"): [
        ("/api/v1/jobs/1.2", {"JobPrio": 9}),
        ("/api/v1/jobs/1", {"Args": "other"}),
    ],
    ("POST", "/api/v1/actions"): [
        ("/api/v1/actions", {"action": "hold", "jobs": ["1.2"]}),
        ("/api/v1/actions", {"action": "remove", "constraint": "true"}),
        ("/api/v1/actions", {"action": "vacate", "jobs": ["1.1"]}),
    ],
}


def paths(app: Starlette) -> set[tuple[str, str]]:
    """Methods and paths of all that the service answers."""
    found = set()
    for route in app.routes:
        if isinstance(route, Mount):
            inner = [each for each in route.routes if isinstance(each, Route)]
            found |= {(method, route.path + each.path) for each in inner for method in each.methods or ()}
            if not inner:
                found.add(("GET", route.path))
        elif isinstance(route, Route):
            found |= {(method, route.path) for method in route.methods or ()}
    return {(method, path) for method, path in found if method != "HEAD"}


@pytest.fixture
def theirs(serve: Serve, busy: DirectQueue) -> TestClient:
    """A service for every person, on a queue with alice's secrets in every possible place."""
    busy.act("hold", "1.2", reason=SECRET)
    for group in ("physics", "physics.atlas"):
        busy.call("set_group", name=group, changes={"quota": 3})
    served = serve(write=True, header=HEADER)
    served.get("/jobs/1.1/output", headers={HEADER: "alice"})
    ((run_id, token),) = busy.rows("SELECT run_id, token FROM fetchwork.output_watch")
    busy.call(
        "ship_output",
        **{"run_id": run_id, "token": token, "stderr_at": None, "stderr": None},
        stdout_at=0,
        stdout=SECRET.encode(),
    )
    busy.connection.execute(
        "UPDATE fetchwork.run_history SET report = report || jsonb_build_object('Secret', %s::text)", [SECRET]
    )
    return served


def test_every_path_is_tried_here(theirs: TestClient) -> None:
    app = theirs.app
    assert isinstance(app, Starlette)
    tried = {("GET", path) for path in (*READS, *OTHERS)} | set(CHANGES)
    assert paths(app) == tried


def test_nothing_of_others_is_shown(theirs: TestClient) -> None:
    for path in READS:
        shown_to_its_owner_alone(theirs, path)


def shown_to_its_owner_alone(theirs: TestClient, path: str) -> None:
    """A path shows alice her own data, and strangers nothing of it."""
    asked, is_alices = READS[path]
    own = theirs.get(asked, headers={HEADER: "alice"})
    assert own.status_code == 200
    told = re.sub(r"&#34;|&quot;", '"', own.text)
    assert (SECRET in told) == is_alices, own.text
    for stranger in ("carol", "nobody"):
        answer = theirs.get(asked, headers={HEADER: stranger})
        hidden = "{job}" in path or path in ("/clusters/{cluster}", "/batches", "/find")
        assert answer.status_code == (404 if hidden else 200), answer.text
        assert SECRET not in answer.text
        if path != "/api/v1/openapi.json":
            # nor that there are jobs
            assert not re.search(r'/jobs/[12]\.[012]"|"ClusterId"', answer.text), answer.text


def state(busy: DirectQueue) -> list[Any]:
    """All that a person could change."""
    return [
        busy.rows(f"SELECT * FROM fetchwork.{table} ORDER BY 1, 2")
        for table in (
            "job",
            "job_history",
            "cluster",
            "run",
            "queue",
            "event",
            "invitation",
            "host_identity",
            "accounting_group",
        )
    ]


def form_key(page: TestClient, person: str) -> str:
    """The form key of a person who has jobs."""
    text = page.get("/jobs", headers={HEADER: person}).text
    (key,) = set(re.findall(r'name="form_key" value="([0-9a-f]+)"', text))
    return str(key)


def requests(page: TestClient, person: str, key: str, **more: str) -> Iterator[tuple[int, str]]:
    """Status and text of the answers to all changes; ``more``: other fields of forms."""
    headers = {HEADER: person}
    for (method, path), asked in CHANGES.items():
        for address, given in asked:
            if path.startswith("/api"):
                answer = page.request(
                    method, address, headers=headers, **({} if given is None else {"json": given})
                )
            else:
                form = {**given, "form_key": key, **more}
                answer = page.request(method, address, headers=headers, data=form)
            yield answer.status_code, answer.text


@pytest.mark.parametrize("person", ["carol", "bob"])
def test_nothing_of_others_is_changed(theirs: TestClient, busy: DirectQueue, person: str) -> None:
    made = theirs.post("/api/v1/jobs", json={"ad": {"Cmd": "/bin/true"}}, headers={HEADER: person})
    assert made.status_code == 201, made.text
    key = form_key(theirs, person)
    # so that a request for all jobs has nothing else to do
    busy.act("remove", "2.1", "2.2", f"{made.json()['cluster']}.0")
    busy.act("remove_now", "2.1")
    before = state(busy)
    for status, text in requests(theirs, person, key):
        # refused, or its object does not exist
        if status < 300:
            nothing = r'Done: 0 jobs|<strong>0</strong>|"changed": ?0|"TotalSuccess": ?0'
            assert re.search(nothing, text), text
        else:
            assert status in (403, 404, 422), text
        assert state(busy) == before


def test_a_service_that_only_shows_refuses_every_change(serve: Serve, busy: DirectQueue) -> None:
    before = state(busy)
    shows = serve(header=HEADER)
    for status, text in requests(shows, "alice", form_key(shows, "alice"), confirmed="yes"):
        assert status == 403, text
    assert state(busy) == before
