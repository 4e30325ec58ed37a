"""Late clusters are held, released and removed by those who may change their jobs, and by no others."""

import json

import psycopg
import pytest

from tests.security.conftest import Root


def test_the_rest_of_a_late_cluster_is_its_owners(root: Root) -> None:
    for name in ("alice", "bob"):
        root.call("grant_owner", role=f"fw_{name}", owner=name)
    alice, bob = root.login("fw_alice"), root.login("fw_bob")
    plan = {"jobs": 9, "step": 9, "template": {}, "limit": None, "idle": 0}
    plan["marks"] = ["MarkOfProcess", "MarkOfStep", "MarkOfItemIndex"]
    ad = {"Cmd": "/bin/true", "Owner": "alice", "FetchWorkFactory": plan}
    submit = "SELECT fetchwork.submit_cluster(%s, ARRAY['{}'::jsonb])"
    with pytest.raises(psycopg.DatabaseError, match="may not submit as Owner"):
        bob.connection.execute(submit, [json.dumps(ad)])
    (cluster,) = alice.rows(submit, json.dumps(ad))[0]
    assert alice.value("SELECT clusterid FROM fetchwork.factories") == cluster
    assert bob.value("SELECT count(*) FROM fetchwork.factories") == 0
    for action in ("hold", "release", "remove"):
        with pytest.raises(psycopg.DatabaseError) as refusal:
            bob.act(action, str(cluster))
        assert refusal.value.sqlstate == "FWNOT"
        with pytest.raises(psycopg.DatabaseError) as refusal:
            bob.call(action, jobs=None, owner="alice")
        assert refusal.value.sqlstate == "FWDEN"
        assert bob.call(action, jobs=None, owner="bob")[0][action] == 0
    assert root.value("SELECT paused FROM fetchwork.factory") == 0
    assert alice.act("hold", str(cluster)) == 1
    assert root.value("SELECT paused FROM fetchwork.factory") == 1
    assert alice.act("remove", str(cluster)) == 1
    assert root.value("SELECT count(*) FROM fetchwork.factory") == 0
