"""The commands for credentials: to add, list and delete them, and to change the key they are sealed to."""

import json
from pathlib import Path

from fetchwork.credentials.keys import KeyFile
from fetchwork.credentials.secret import decode
from tests.queue.conftest import Run
from tests.support.direct_queue import DirectQueue


def test_a_credential_is_added_listed_and_deleted(fetchwork: Run, slots: DirectQueue, tmp_path: Path) -> None:
    token, key = tmp_path / "token", tmp_path / "key"
    token.write_text("opaque")
    refused = fetchwork("credential", "add", "box", str(token), "--owner", "alice")
    assert "takes no credentials" in refused.err
    assert fetchwork("db", "credential-key", "new", str(key)).out.endswith(f"is in {key}\n")
    assert "now sealed to key" in fetchwork("db", "credential-key", "use", str(key)).out
    fetchwork("credential", "add", "box", str(token), "--owner", "alice", "--handle", "h")
    (ad,) = json.loads(fetchwork("credential", "list", "--json").out)
    assert (ad["Owner"], ad["Name"], ad["Renewable"]) == ("alice", "box_h", False)
    assert "opaque" not in json.dumps(ad)
    expiry = ("credential", "show-expiry", "box", "--handle", "h", "--owner", "alice")
    assert fetchwork(*expiry)[:2] == (1, "unknown\n")
    # another key: stored credentials are sealed anew
    fetchwork("db", "credential-key", "new", str(key))
    assert "1 stored credentials were sealed anew" in fetchwork("db", "credential-key", "use", str(key)).out
    (row,) = slots.rows("SELECT sealed, key_id FROM fetchwork.credential")
    assert decode(KeyFile(key).open(*row), "alice", "box_h").content == b"opaque"
    fetchwork("credential", "rm", "box", "--handle", "h", "--owner", "alice")
    assert json.loads(fetchwork("credential", "list", "--json").out) == []
    assert "is not stored" in fetchwork("credential", "rm", "box", "--owner", "alice").err


def test_what_does_not_open_keeps_no_others_credential_from_a_new_key(
    fetchwork: Run, slots: DirectQueue, tmp_path: Path
) -> None:
    """Any owner may store any bytes as if they were sealed."""
    token, key = tmp_path / "token", tmp_path / "key"
    token.write_text("opaque")
    fetchwork("db", "credential-key", "new", str(key))
    fetchwork("db", "credential-key", "use", str(key))
    slots.call(
        "put_credential", owner="alice", name="a", key_id=KeyFile(key).key_ids()[-1], sealed=b"no seal"
    )
    fetchwork("credential", "add", "box", str(token), "--owner", "bob")
    fetchwork("db", "credential-key", "new", str(key))
    used = fetchwork("db", "credential-key", "use", str(key))
    assert used.status == 1
    assert "1 stored credentials were sealed anew" in used.out
    assert "to be added again: a of alice" in used.out
    assert "nothing is sealed to another key" not in used.out
    (row,) = slots.rows("SELECT sealed, key_id FROM fetchwork.credential WHERE owner = 'bob'")
    assert row[1] == KeyFile(key).key_ids()[-1]
    slots.call("delete_credential", owner="alice", name="a")
    assert "nothing is sealed to another key" in fetchwork("db", "credential-key", "use", str(key)).out


def test_a_file_for_refresh_that_is_none_is_refused_without_its_content(
    fetchwork: Run, slots: DirectQueue, tmp_path: Path
) -> None:
    file = tmp_path / "refresh"
    file.write_text('{"refresh_token": "s3cret", "x": 1}')
    refused = fetchwork("credential", "add", "--refresh", "box", str(file), "--owner", "alice")
    assert "allowed: a JSON object with token_url" in refused.err
    assert "s3cret" not in refused.err
