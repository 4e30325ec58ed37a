"""Operations by name: each answers in JSON, so that an access point can pass it on."""

import json
from typing import Any

import pytest

from fetchwork.credentials.keys import key_id
from fetchwork.queue.operations import STEPS, STREAMS
from tests.queue.conftest import Queue
from tests.support.sessions import session_of

OWNER = "alice"
#: the pool's key, to which credentials are sealed
KEY = bytes(32)
#: each operation's arguments; an operation that is not here has no test
ARGUMENTS: dict[str, dict[str, Any]] = {
    "act": {"action": "Hold", "spec": ["1.0", "9.9"]},
    "clusters": {"projection": ["ClusterId", "ProcId", "JobStatus"]},
    "change": {"action": "Hold", "spec": ["1.0", "1.0", "9.9"]},
    "change_jobs": {"action": "Release", "spec": "1.0"},
    "dag": {"cluster": 1},
    "delete_credential": {"owner": OWNER, "name": "box"},
    "edit": {"spec": "1.0", "changes": {"JobPrio": 3}},
    "ended": {"cluster": 1},
    "events": {"stop_after": 0},
    "first_idle": {"at_most": 5},
    "job_tables": {"projection": ["ClusterId", "ProcId", "JobStatus", "FetchWorkStatusAt"]},
    "known_slots": {"owner": OWNER, "autocluster": 1},
    "kept_output": {"cluster": 1, "proc": 0},
    "live_output": {"cluster": 1, "proc": 0},
    "logs": {"paths": ["/tmp/a.log"]},
    "progress": {"cluster": 1},
    "prospects": {"cluster": 1, "proc": 0},
    "put_credential": {"owner": OWNER, "name": "box", "key_id": key_id(KEY), "sealed": "AAAA"},
    "seen_by_slot": {"machine": "h1", "slot": "slot1@h1", "autoclusters": [1]},
    "set_submitter": {"name": OWNER, "changes": {"prio_factor": 2}},
    "set_group": {"name": "physics", "changes": {"quota": 2}},
    "remove_group": {"name": "physics"},
    "slots_named": {"name": "h1"},
    "standing": {"action": "Hold", "ids": ["1.0", "9.9"]},
    "view": {"name": "slots"},
}


@pytest.mark.parametrize("name", sorted([*STEPS, *STREAMS]))
def test_an_operation_answers_in_json(queue: Queue, name: str) -> None:
    queue.direct.submit_many([{}] * 2)
    queue.direct.call("publish_credential_key", public_key=KEY)
    queue.direct.call("set_group", name="physics", changes={"quota": 1})
    session = session_of(queue)
    arguments = ARGUMENTS.get(name, {})
    answer = list(session.items(name, **arguments)) if name in STREAMS else session.perform(name, **arguments)
    assert json.loads(json.dumps(answer)) == answer
