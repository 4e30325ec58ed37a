"""The commands for credentials: to add, list and delete them, and to change the key they are sealed to."""

import json
from pathlib import Path

from fetchwork.credentials.keys import KeyFile
from fetchwork.credentials.secret import decode
from tests.direct_queue import DirectQueue
from tests.queue.test_commands import Run


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
    # another key: what is stored is sealed anew
    fetchwork("db", "credential-key", "new", str(key))
    assert "1 stored credentials were sealed anew" in fetchwork("db", "credential-key", "use", str(key)).out
    (row,) = slots.rows("SELECT sealed, key_id FROM fetchwork.credential")
    assert decode(KeyFile(key).open(*row), "alice", "box_h").content == b"opaque"
    fetchwork("credential", "rm", "box", "--handle", "h", "--owner", "alice")
    assert json.loads(fetchwork("credential", "list", "--json").out) == []
    assert "is not stored" in fetchwork("credential", "rm", "box", "--owner", "alice").err


def test_a_file_for_refresh_that_is_none_is_refused_without_its_content(
    fetchwork: Run, slots: DirectQueue, tmp_path: Path
) -> None:
    file = tmp_path / "refresh"
    file.write_text('{"refresh_token": "s3cret", "x": 1}')
    refused = fetchwork("credential", "add", "--refresh", "box", str(file), "--owner", "alice")
    assert "allowed: a JSON object with token_url" in refused.err
    assert "s3cret" not in refused.err
